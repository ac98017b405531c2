//! `cuckood import-redis` against a small server that speaks enough of Redis'
//! protocol to hand out what RedisBloom was recorded to say, and against a cuckood that
//! is the Redis, with keys and TLS.

use crate::pki::Authority;
use crate::ports::free_port;
use crate::server::{Server, add_key, cuckood};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

fn recording(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/redisbloom")
        .join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Serves recordings as keys until the test ends; returns the address.
fn redis(recordings: Vec<(&'static str, Value)>) -> String {
    serve(move |stream| answer(stream, &recordings))
}

/// Answers each connection so until the test ends; returns the address.
fn serve(answer: impl Fn(&TcpStream) -> std::io::Result<()> + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let answer = answer.clone();
            // The client hangs up whenever it likes.
            thread::spawn(move || drop(answer(&stream)));
        }
    });
    format!("redis://{address}")
}

fn answer(stream: &TcpStream, recordings: &[(&str, Value)]) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    while let Some(words) = command(&mut reader)? {
        let key = words.get(1).cloned().unwrap_or_default();
        let found = recordings.iter().find(|(name, _)| *name == key);
        let reply = match (words[0].to_uppercase().as_str(), found) {
            ("CF.INFO" | "CF.SCANDUMP", None) => b"-ERR not found\r\n".to_vec(),
            ("CF.INFO", Some((_, recording))) => {
                let info = recording["info"].as_object().unwrap();
                let mut reply = format!("*{}\r\n", 2 * info.len());
                for (field, number) in info {
                    reply += &format!("+{field}\r\n:{number}\r\n");
                }
                reply.into_bytes()
            }
            ("CF.SCANDUMP", Some((_, recording))) => {
                let chunks = recording["scandump"].as_array().unwrap();
                let asked: i64 = words[2].parse().unwrap();
                let at = match asked {
                    0 => 0,
                    _ => {
                        1 + chunks
                            .iter()
                            .position(|chunk| chunk["iterator"] == asked)
                            .unwrap()
                    }
                };
                match chunks.get(at) {
                    None => b"*2\r\n:0\r\n$-1\r\n".to_vec(),
                    Some(chunk) => {
                        let data = chunk["data_base64"].as_str().unwrap();
                        let data = BASE64_STANDARD.decode(data).unwrap();
                        let iterator = chunk["iterator"].as_i64().unwrap();
                        let head = format!("*2\r\n:{iterator}\r\n${}\r\n", data.len());
                        [head.as_bytes(), &data, b"\r\n"].concat()
                    }
                }
            }
            // What clients say of themselves when they connect.
            _ => b"+OK\r\n".to_vec(),
        };
        writer.write_all(&reply)?;
    }
    Ok(())
}

/// Reads an array of strings.
fn command(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Vec<String>>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let count: usize = line.trim()[1..].parse().unwrap();
    let mut words = Vec::new();
    for _ in 0..count {
        line.clear();
        reader.read_line(&mut line)?;
        let length: usize = line.trim()[1..].parse().unwrap();
        let mut word = vec![0; length + 2];
        reader.read_exact(&mut word)?;
        words.push(String::from_utf8(word[..length].to_vec()).unwrap());
    }
    Ok(Some(words))
}

fn import(server: &Server, redis: &str, key: &str, filter: &str, more: &[&str]) -> Output {
    cuckood()
        .args(["import-redis", "--url", redis, "--key", key])
        .args(["--server", &server.url(""), "--filter", filter])
        .args(more)
        .output()
        .unwrap()
}

#[test]
fn a_filter_comes_over_from_a_running_redis() {
    let names = ["with_deletes", "expanded_by_two", "empty_default"];
    let recordings: Vec<(&str, Value)> = names
        .iter()
        .map(|name| (*name, recording(&format!("{name}.json"))))
        .collect();
    let redis = redis(recordings.clone());
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    for (name, recording) in &recordings[..2] {
        let imported = import(&server, &redis, name, name, &[]);
        let said = String::from_utf8_lossy(&imported.stderr);
        assert!(imported.status.success(), "{said}");
        assert_eq!(
            server.items(name),
            recording["info"]["Number of items inserted"]
        );
        let probes: Vec<String> = serde_json::from_value(recording["probe"].clone()).unwrap();
        let exists: Vec<bool> = serde_json::from_value(recording["exists"].clone()).unwrap();
        let found = server.post_lines(&format!("/filters/{name}/exists"), &probes);
        let exists: Vec<String> = exists.iter().map(bool::to_string).collect();
        assert_eq!(found.unwrap(), exists);
    }
    let refused = |key: &str, filter: &str, words: &str| {
        let refused = import(&server, &redis, key, filter, &[]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(words), "{said}");
    };
    refused("with_deletes", "with_deletes", "--replace");
    refused("empty_default", "new", "is empty");
    refused("missing", "new", "there is no missing in database 0");
    let replaced = import(
        &server,
        &redis,
        "expanded_by_two",
        "with_deletes",
        &["--replace"],
    );
    assert!(replaced.status.success());
    assert_eq!(server.items("with_deletes"), 3000);
    server.stop();
}

#[test]
fn errors_say_what_to_do() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let said = |redis: &str, filter: &str| {
        let refused = import(&server, redis, "k", filter, &[]);
        assert_eq!(refused.status.code(), Some(1));
        String::from_utf8(refused.stderr).unwrap()
    };
    let replies = |reply: &'static str| {
        serve(move |stream| {
            let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
            while let Some(words) = command(&mut reader)? {
                let is_info = words[0].eq_ignore_ascii_case("CF.INFO");
                writer.write_all(if is_info {
                    reply.as_bytes()
                } else {
                    &b"+OK\r\n"[..]
                })?;
            }
            Ok(())
        })
    };
    for (reply, words) in [
        (
            "-ERR unknown command 'CF.INFO', with args beginning with: 'k' \r\n",
            "has no RedisBloom",
        ),
        ("-ERR not found\r\n", "there is no k in database 0"),
        (
            "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
            "cuckoo filter",
        ),
        (
            "-NOAUTH Authentication required.\r\n",
            "CUCKOOD_REDIS_PASSWORD",
        ),
        ("-LOADING Redis is loading\r\n", "is loading"),
    ] {
        let redis = replies(reply);
        let said = said(&redis, "new");
        assert!(said.contains(words), "{said}");
        let with_port = redis.trim_start_matches("redis://");
        assert!(said.contains(with_port), "{said}");
    }
    let http = serve(|mut stream| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let silent = serve(|_| Ok(()));
    for (redis, words) in [
        (http.as_str(), "is this a Redis server"),
        (&silent, "is this a Redis server"),
        ("127.0.0.1:6379", "redis://USER@127.0.0.1:6379/0"),
        (
            "redis://:a-password@127.0.0.1/x",
            "redis://USER@127.0.0.1:6379/0",
        ),
    ] {
        let said = said(redis, "new");
        assert!(said.contains(words), "{said}");
        assert!(!said.contains("a-password"), "{said}");
    }
    // Nobody listens there, and nobody is asked.
    let nobody = format!("redis://127.0.0.1:{}", free_port());
    let said = said(&nobody, "a key");
    assert!(said.contains("key") && !said.contains("redis at"), "{said}");
    server.stop();
}

#[test]
fn a_password_and_tls_are_shown_to_redis() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let files = authority.server();
    let keys = folder.path().join("keys.json");
    let key = add_key(&keys, "root", &["--scope=admin"]);
    let port = free_port();
    let flags = [
        format!("--redis-listen=127.0.0.1:{port}"),
        format!("--keys-file={}", keys.display()),
        format!("--tls-cert={}", files.certificate.display()),
        format!("--tls-key={}", files.key.display()),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let redis = Server::spawn(free_port(), &folder.path().join("redis"), &flags);
    let server = Server::start(&folder.path().join("data"), &[]);
    let import = |variable: &str, value: &str, key: &str| {
        let mut command = cuckood();
        command
            .args(["import-redis", "--key", key, "--filter", "f"])
            .args(["--url", &format!("rediss://localhost:{port}")])
            .args(["--server", &server.url("")])
            .env(variable, value)
            .env("SSL_CERT_FILE", authority.path("ca.pem"));
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), said)
    };
    let begun = Instant::now();
    while !import("CUCKOOD_REDIS_PASSWORD", &key, "k")
        .1
        .contains("there is no k")
    {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", redis.log());
        thread::sleep(Duration::from_millis(50));
    }
    let file = folder.path().join("password");
    std::fs::write(&file, format!("{key}\n")).unwrap();
    let file = file.display().to_string();
    for (variable, value) in [
        ("CUCKOOD_REDIS_PASSWORD", &key),
        ("CUCKOOD_REDIS_PASSWORD_FILE", &file),
    ] {
        let (_, said) = import(variable, value, "k");
        assert!(said.contains("there is no k in database 0"), "{said}");
    }
    for (variable, value) in [("CUCKOOD_REDIS_PASSWORD", "wrong"), ("UNUSED", "")] {
        let (is_done, said) = import(variable, value, "k");
        assert!(
            !is_done && said.contains("CUCKOOD_REDIS_PASSWORD"),
            "{said}"
        );
    }
    server.stop();
    redis.stop();
}
