//! Whether each route and each command has its dearest form, and each form all that a
//! caller may give.

use crate::form::{Form, Round, command};
use crate::ports::free_port;
use crate::prepared::World;
use crate::resp::Client;
use crate::server::Server;
use crate::{commands, routes};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

/// What each request has, and what a server in no cluster refuses.
const EVERYWHERE: [&str; 3] = ["prefer", "cuckood-consistency", "cuckood-min-position"];

/// Fields of a filter that exclude others, and cost nothing by themselves.
const OF_A_SHAPE: &str = "/preview";

fn document() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// All that the forms of each door send, as text in lower case.
fn sent(forms: &[Form]) -> BTreeMap<&str, String> {
    let world = World::tiny();
    let mut all: BTreeMap<&str, String> = BTreeMap::new();
    for form in forms {
        let text = all.entry(form.door).or_default();
        for round in form.rounds(&world) {
            match round {
                Round::Redis(bytes) => text.push_str(&String::from_utf8_lossy(&bytes)),
                Round::Http(requests) => {
                    for it in requests {
                        text.push_str(&format!("{} {:?} ", it.path, it.headers));
                        text.push_str(&String::from_utf8_lossy(&it.body));
                    }
                }
            }
        }
    }
    for text in all.values_mut() {
        *text = text.to_lowercase();
    }
    all
}

/// The schema that is meant.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(to) => document.pointer(to.trim_start_matches('#')).unwrap(),
        None => schema,
    }
}

#[test]
fn each_route_has_its_dearest_form() {
    let (document, forms) = (document(), routes::forms());
    let sent = sent(&forms);
    let mut missing = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let door = format!("{} {path}", method.to_uppercase());
            let Some(text) = sent.get(door.as_str()) else {
                missing.push(door);
                continue;
            };
            let parameters = operation["parameters"].as_array();
            let given = parameters
                .into_iter()
                .flatten()
                .map(|it| resolved(&document, it))
                .filter(|it| it["in"] != "path")
                .map(|it| it["name"].as_str().unwrap().to_lowercase());
            let mut wanted: Vec<String> = given.collect();
            let contents = operation["requestBody"]["content"].as_object();
            for (media_type, content) in contents.into_iter().flatten() {
                wanted.push(media_type.clone());
                // What comes in lines may be long, and comes compressed, too.
                if media_type == "text/plain" {
                    wanted.push("content-encoding".to_owned());
                }
                let schema = resolved(&document, &content["schema"]);
                let fields = schema["properties"].as_object().into_iter().flatten();
                if !path.ends_with("{key}") && path != OF_A_SHAPE {
                    wanted.extend(fields.map(|(name, _)| format!("\"{name}\"")));
                }
            }
            wanted.retain(|it| !EVERYWHERE.contains(&it.as_str()) && !text.contains(it));
            missing.extend(wanted.iter().map(|it| format!("{door}: {it}")));
        }
    }
    assert!(
        missing.is_empty(),
        "not in tests/dearest/routes.rs: {missing:#?}"
    );
}

#[test]
fn each_command_has_its_dearest_form() {
    let data = tempfile::tempdir().unwrap();
    let port = free_port();
    let _server = Server::start(data.path(), &[&format!("--redis-listen=127.0.0.1:{port}")]);
    let mut client = Client::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let mut words_of = |asked: &[&str]| -> Vec<String> {
        client.send(&command(asked));
        let reply = String::from_utf8(client.reply()).unwrap();
        let is_word = |line: &&str| !line.starts_with(['*', '$', '%', '~', ':']);
        let words = reply.lines().filter(is_word);
        words.map(str::to_owned).collect()
    };
    let forms = commands::forms();
    let sent = sent(&forms);
    let mut missing = Vec::new();
    let names = words_of(&["COMMAND", "LIST"]);
    assert!(names.len() > 50, "{names:?}");
    for name in &names {
        let Some(text) = sent.get(name.as_str()) else {
            missing.push(name.clone());
            continue;
        };
        let docs = words_of(&["COMMAND", "DOCS", name]);
        let tokens = docs.windows(2).filter(|it| it[0] == "token");
        let wanted = tokens.map(|it| it[1].as_str()).chain([name.as_str()]);
        let is_missing = |word: &&str| !text.contains(&format!("\r\n{}\r\n", word.to_lowercase()));
        missing.extend(wanted.filter(is_missing).map(|it| format!("{name}: {it}")));
    }
    assert!(
        missing.is_empty(),
        "not in tests/dearest/commands.rs: {missing:#?}"
    );
    for door in sent.keys() {
        assert!(
            names.iter().any(|name| name == door),
            "{door} is no command"
        );
    }
}
