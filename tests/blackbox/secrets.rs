//! What may be in no log line: items, keys of filters, API keys, keys of
//! retries. The audit log alone says which filter an act concerned. A server that
//! logs all that it can is asked everything there is to ask, rightly and wrongly,
//! with words that occur nowhere else.

use crate::ports::free_port;
use crate::resp;
use crate::server::{Sent as _, Server, add_key, without_audited_filter};
use reqwest::Method;
use reqwest::blocking::{RequestBuilder, Response};
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

/// Words that no log line may hold, in any form in which they are sent.
const ITEM: &str = "zqitemzq";
const ITEM_BASE64: &str = "enFpdGVtenE=";
const ITEM_ENCODED: &str = "%7aqitemzq";
const FILTER: &str = "zqfilterzq";
const OTHER_FILTER: &str = "zqfilterzq-other";
const RETRY: &str = "zqretryzq";
const IMPORT: &str = "zqimportzq";
const STRANGER: &str = "cuckood_zqstrangerzq";

struct Client<'a> {
    server: &'a Server,
    key: &'a str,
}

impl Client<'_> {
    fn request(&self, method: &Method, path: &str) -> RequestBuilder {
        let url = self.server.url(path);
        let request = self.server.client().request(method.clone(), url);
        request.bearer_auth(self.key)
    }

    fn send(&self, method: &Method, path: &str, media_type: &str, body: &str) -> Response {
        let request = self.request(method, path);
        let request = request.header("content-type", media_type);
        request.body(body.to_owned()).sent().unwrap()
    }

    fn json(&self, method: &Method, path: &str, body: &Value) -> Response {
        self.send(method, path, "application/json", &body.to_string())
    }
}

/// Asks for everything once as it should be done.
fn ask_rightly(client: &Client) {
    let on = |rest: &str| format!("/filters/{FILTER}{rest}");
    let (get, put, post) = (Method::GET, Method::PUT, Method::POST);
    let created = client.json(
        &put,
        &on(""),
        &json!({"capacity": 1000, "error_rate": 0.01}),
    );
    assert_eq!(created.status(), 201);
    for _ in 0..2 {
        let add = client.request(&post, &on("/items"));
        let add = add.header("idempotency-key", RETRY);
        let added = add.json(&json!({"items": [ITEM, 17]})).sent().unwrap();
        assert_eq!(added.status(), 200);
    }
    let base64 = json!({"items": [ITEM_BASE64], "encoding": "base64"});
    let elsewhere = json!({"items": [ITEM], "create": {"ttl_seconds": 3600}});
    let other = format!("/filters/{OTHER_FILTER}/items");
    let lookup = json!({"items": [ITEM], "prefix": FILTER});
    let lookups = json!({"items": [ITEM], "filters": [FILTER, "zqfilterzq-none"]});
    for (path, body) in [
        (on("/items"), &base64),
        (other, &elsewhere),
        (on("/exists"), &json!({"items": [ITEM]})),
        (on("/count"), &json!({"items": [ITEM]})),
        (on("/items/delete"), &json!({"items": [ITEM]})),
        ("/lookup".to_owned(), &lookup),
        ("/lookup".to_owned(), &lookups),
    ] {
        assert_eq!(client.json(&post, &path, body).status(), 200, "{path}");
    }
    let lines = format!("{ITEM}\n{ITEM}-2\n");
    for rest in ["/items", "/exists", "/items/delete"] {
        assert_eq!(
            client.send(&post, &on(rest), "text/plain", &lines).status(),
            200
        );
    }
    let import = on(&format!("/import?import_id={IMPORT}"));
    let answer = client.send(
        &post,
        &import,
        "application/x-ndjson",
        &format!("\"{ITEM}\"\n{{\n"),
    );
    assert_eq!(answer.status(), 200);
    for path in [
        on(""),
        on(&format!("/exists?item={ITEM_ENCODED}")),
        on(&format!("/count?item={ITEM}")),
        on(&format!("/imports/{IMPORT}")),
        format!("/filters?prefix={FILTER}"),
        "/metrics".to_owned(),
        "/openapi.json".to_owned(),
    ] {
        assert_eq!(
            client.request(&get, &path).sent().unwrap().status(),
            200,
            "{path}"
        );
    }
    let dump = client.request(&get, &on("/dump")).sent().unwrap();
    let dump = dump.bytes().unwrap();
    let restore = client.request(&put, &format!("/filters/{FILTER}-3/dump"));
    let restore = restore.header("content-type", "application/octet-stream");
    assert_eq!(restore.body(dump).sent().unwrap().status(), 201);
    let patch = client.json(&Method::PATCH, &on(""), &json!({"ttl_seconds": 7200}));
    assert_eq!(patch.status(), 200);
    let backup = client.request(&post, "/admin/backups").sent().unwrap();
    assert_eq!(backup.status(), 202);
    let gone = client.request(&Method::DELETE, &format!("/filters/{FILTER}-3"));
    assert_eq!(gone.sent().unwrap().status(), 204);
}

/// Asks for what is refused, each in its own way.
fn ask_wrongly(client: &Client) {
    let on = |rest: &str| format!("/filters/{FILTER}{rest}");
    let (get, put, post) = (Method::GET, Method::PUT, Method::POST);
    let long = ITEM.repeat(10_000);
    for (method, path, media_type, body) in [
        (
            &post,
            on("/items"),
            "application/json",
            format!("{{\"items\": [\"{ITEM}\""),
        ),
        (
            &post,
            on("/items"),
            "application/json",
            format!("{{\"{ITEM}\": 1}}"),
        ),
        (
            &post,
            on("/items"),
            "application/json",
            format!("{{\"items\": [{{\"{ITEM}\": 1}}]}}"),
        ),
        (
            &post,
            on("/items"),
            "application/json",
            format!("{{\"items\": [\"{long}\"]}}"),
        ),
        (&post, on("/items"), ITEM, ITEM.to_owned()),
        (
            &post,
            on("/items?encoding=zqitemzq"),
            "text/plain",
            ITEM.to_owned(),
        ),
        (
            &post,
            on("/items?zqitemzq=1"),
            "text/plain",
            ITEM.to_owned(),
        ),
        (
            &post,
            on("/items?encoding=base64"),
            "text/plain",
            format!("{ITEM}!"),
        ),
        (&post, on("-none/items"), "text/plain", ITEM.to_owned()),
        (&post, on("/zqitemzq"), "text/plain", ITEM.to_owned()),
        (&post, on("%zz/items"), "text/plain", ITEM.to_owned()),
        (&post, on("%2Fx/items"), "text/plain", ITEM.to_owned()),
        (&post, on("/import"), "text/plain", ITEM.to_owned()),
        (
            &put,
            on(""),
            "application/json",
            "{\"capacity\": 5}".to_owned(),
        ),
        (
            &put,
            on(""),
            "application/json",
            format!("{{\"layout\": \"{ITEM}\"}}"),
        ),
        (
            &put,
            on("-4/dump"),
            "application/octet-stream",
            ITEM.to_owned(),
        ),
        (
            &get,
            on(&format!("/exists?item={ITEM}&item={ITEM}")),
            "text/plain",
            String::new(),
        ),
        (
            &get,
            on(&format!("/exists?item={}", ITEM.repeat(700))),
            "text/plain",
            String::new(),
        ),
        (&get, format!("/{ITEM}"), "text/plain", String::new()),
        (
            &get,
            format!("/filters?cursor=%20{ITEM}"),
            "text/plain",
            String::new(),
        ),
        (&Method::DELETE, on("/items"), "text/plain", ITEM.to_owned()),
    ] {
        let answer = client.send(method, &path, media_type, &body);
        assert!(
            answer.status().is_client_error(),
            "{method} {path}: {answer:?}"
        );
    }
    let reused = client
        .request(&post, &on("/items"))
        .header("idempotency-key", RETRY);
    let reused = reused.json(&json!({"items": [ITEM, 18]})).sent().unwrap();
    assert_eq!(reused.status(), 422);
    let stranger = Client {
        server: client.server,
        key: STRANGER,
    };
    let refused = stranger.request(&get, &on("")).sent().unwrap();
    assert_eq!(refused.status(), 401);
    // What is no HTTP at all.
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", client.server.port())).unwrap();
    stream
        .write_all(format!("{ITEM} {FILTER}\r\n\r\n").as_bytes())
        .unwrap();
}

/// Asks for everything that is described, whatever it makes of it: also what
/// was described after this was written.
fn ask_everything(client: &Client) {
    let document: Value = client
        .request(&Method::GET, "/openapi.json")
        .sent()
        .unwrap()
        .json()
        .unwrap();
    let body = json!({"items": [ITEM], "filters": [FILTER]});
    let mut asked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let path = path.replace("{key}", FILTER).replace("{id}", IMPORT);
        for method in item.as_object().unwrap().keys() {
            let method = method.to_uppercase().parse().unwrap();
            let query = format!("{path}?item={ITEM}&import_id={IMPORT}");
            client.json(&method, &path, &body);
            client.json(&method, &query, &body);
            asked += 1;
        }
    }
    assert!(asked > 20, "{asked}");
}

/// Sends by the Redis protocol what is about items and filters, rightly and
/// wrongly.
fn tell_redis(port: u16, key: &str) {
    let mut client = resp::Client::connect((Ipv4Addr::LOCALHOST, port).into());
    let filter = format!("{FILTER}-redis");
    for line in [
        format!("CF.ADD {filter} {ITEM}"),
        format!("AUTH {STRANGER}"),
        format!("AUTH {key}"),
        format!("CF.ADD {filter} {ITEM}"),
        format!("CF.INSERT {filter} CAPACITY 1000 ITEMS {ITEM} {ITEM}"),
        format!("CF.MEXISTS {filter} {ITEM}"),
        format!("CF.DEL {filter} {ITEM}"),
        format!("CF.ADD {filter}"),
        format!("CF.ADD {filter} {}", ITEM.repeat(10_000)),
        format!("CF.INSERT {filter} {ITEM} ITEMS {ITEM}"),
        format!("{ITEM} {filter}"),
        format!("CLIENT {ITEM}"),
        format!("CF.LOADCHUNK {filter} 1 {ITEM}"),
        format!("CF.LOADCHUNK {filter}-none 7 {ITEM}"),
        "MULTI".to_owned(),
        format!("CF.ADD {filter} {ITEM}"),
        format!("CF.ADD {OTHER_FILTER} {ITEM}"),
        "EXEC".to_owned(),
        format!("EXPIRE {filter} {ITEM}"),
        format!("EXPIRE {filter} 60 {ITEM}"),
        format!("EXPIRE {filter} 60"),
        format!("PERSIST {filter}"),
        format!("DEL {filter} {filter}-none"),
    ] {
        assert!(!client.tell(&line).is_empty(), "{line}");
    }
    // What is no command at all.
    client.send(format!("*{ITEM}\r\n").as_bytes());
    client.reply();
}

/// The words of the storage engine, which has a log of its own.
fn engine_log(data: &Path) -> String {
    let files = std::fs::read_dir(data).unwrap();
    let logs = files.map(|file| file.unwrap().path()).filter(|path| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("LOG")
    });
    let text: String = logs
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    assert!(
        text.contains("RocksDB"),
        "there is no log of the storage engine"
    );
    text
}

#[track_caller]
fn assert_silent(log: &str, key: &str) {
    assert!(log.lines().count() > 10, "it logs hardly anything:\n{log}");
    let audited = log.lines().filter(|line| line.contains("delete_filter"));
    assert!(audited.count() > 1, "it has no audit log");
    let log: String = log
        .lines()
        .map(|line| without_audited_filter(line) + "\n")
        .collect();
    // Of the API key the part behind its mark, and its digest.
    let secret = key.strip_prefix("cuckood_").unwrap();
    let words = [
        "zqitem",
        "zqfilter",
        "zqretry",
        "zqimport",
        "zqstranger",
        ITEM_BASE64,
    ];
    for word in words.iter().chain([&secret]) {
        let line = log
            .lines()
            .find(|line| line.to_lowercase().contains(&word.to_lowercase()));
        assert!(line.is_none(), "a log line holds {word}: {line:?}");
    }
}

#[test]
fn no_log_line_holds_an_item_or_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    let key = add_key(&file, "admin", &["--scope=admin"]);
    let prefixed = add_key(&file, "narrow", &["--scope=admin", "--prefix=zqfilterzq-o"]);
    let digests = std::fs::read_to_string(&file).unwrap();
    let digests: Value = serde_json::from_str(&digests).unwrap();
    let digest = digests["keys"][0]["sha256"].as_str().unwrap();
    let (data, backups) = (folder.path().join("data"), folder.path().join("backups"));
    for format in ["json", "human"] {
        let redis = free_port();
        let flags = [
            format!("--redis-listen=127.0.0.1:{redis}"),
            format!("--keys-file={}", file.display()),
            format!("--backup-dir={}", backups.display()),
            // The most that can be asked for.
            "--log=trace".to_owned(),
            format!("--log-format={format}"),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let _ = std::fs::remove_dir_all(&data);
        let server = Server::start(&data, &flags);
        let client = Client {
            server: &server,
            key: &key,
        };
        ask_rightly(&client);
        ask_wrongly(&client);
        ask_everything(&client);
        tell_redis(redis, &key);
        let narrow = Client {
            server: &server,
            key: &prefixed,
        };
        let refused = narrow.request(&Method::GET, &format!("/filters/{FILTER}"));
        assert_eq!(refused.sent().unwrap().status(), 403);
        let before = server.log();
        server.kill();
        // What a start after a crash says.
        let server = Server::start(&data, &flags);
        let after = server.log();
        server.stop();
        for log in [&before, &after] {
            assert!(!log.contains(digest), "a log line holds a digest");
        }
        assert_silent(&format!("{before}{after}{}", engine_log(&data)), &key);
        assert!(before.contains("filter_forbidden") && before.contains("narrow"));
        let by_redis = before
            .lines()
            .filter(|line| line.contains("ERR Unsupported option"));
        assert_eq!(by_redis.count(), 1, "there is no line of a command");
    }
}
