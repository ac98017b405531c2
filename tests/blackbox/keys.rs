//! API keys as those who run the server meet them: a command, a file, a flag.

use crate::ports::free_port;
use crate::server::{Sent as _, Server, add_key, cuckood, refused_start, serve_command};
use reqwest::StatusCode;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for a server to notice that a file changed.
const PATIENCE: Duration = Duration::from_secs(20);

fn keys(file: &Path, words: &[&str]) -> (bool, String) {
    let mut command = cuckood();
    command.arg("keys").args(words).arg("--keys-file").arg(file);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr.clone()].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

fn serving(file: &Path) -> (Server, TempDir) {
    let data = tempfile::tempdir().unwrap();
    let flag = format!("--keys-file={}", file.display());
    (Server::start(data.path(), &[&flag]), data)
}

fn status(server: &Server, key: &str) -> StatusCode {
    let request = server.client().get(server.url("/filters")).bearer_auth(key);
    request.sent().unwrap().status()
}

#[track_caller]
fn comes_to(server: &Server, key: &str, wanted: StatusCode) {
    let deadline = Instant::now() + PATIENCE;
    while status(server, key) != wanted {
        assert!(Instant::now() < deadline, "{wanted} does not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn metric(server: &Server, key: &str, name: &str) -> String {
    let request = server.client().get(server.url("/metrics")).bearer_auth(key);
    let text = request.sent().unwrap().text().unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.unwrap().trim().to_owned()
}

fn in_folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    (folder, file)
}

#[test]
fn keys_are_made_listed_and_removed_while_the_server_runs() {
    let (_folder, file) = in_folder();
    let admin = add_key(&file, "admin", &["--scope=admin"]);
    let (server, _data) = serving(&file);
    assert_eq!(status(&server, &admin), StatusCode::OK);
    let shop = add_key(&file, "shop", &["--scope=write", "--prefix=shop:"]);
    comes_to(&server, &shop, StatusCode::OK);
    let create = |filter: &str| {
        let url = server.url(&format!("/filters/{filter}"));
        let request = server.client().put(url).bearer_auth(&shop);
        request.json(&json!({})).sent().unwrap().status()
    };
    assert_eq!(create("shop:a"), StatusCode::CREATED);
    assert_eq!(create("b"), StatusCode::FORBIDDEN);

    let (done, listed) = keys(&file, &["list"]);
    assert!(
        done && listed.contains("shop") && listed.contains("shop:"),
        "{listed}"
    );
    assert!(
        !listed.contains(&shop) && !listed.contains("cuckood_"),
        "{listed}"
    );
    assert!(keys(&file, &["remove", "shop"]).0);
    comes_to(&server, &shop, StatusCode::UNAUTHORIZED);
    assert_eq!(metric(&server, &admin, "cuckood_api_keys"), "1");
    server.stop();
}

/// The longest that a stream may go on after its key was removed from the file, on a
/// machine that does nothing else, and on any. The server looks at the file twice a
/// second, and streams are told as soon as it was read again: the rest is what the
/// machine takes for it.
fn ends_within() -> Duration {
    match std::env::var_os("CUCKOOD_TEST_QUIET") {
        Some(_) => Duration::from_secs(2),
        None => Duration::from_secs(10),
    }
}

/// An import whose body does not end.
fn import(server: &Server, key: &str, id: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let head = format!(
        "POST /filters/f/import?import_id={id} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n5\r\ncode\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn a_stream_ends_within_two_seconds_after_its_key_was_removed() {
    let (_folder, file) = in_folder();
    let admin = add_key(&file, "admin", &["--scope=admin"]);
    let (server, _data) = serving(&file);
    let put = server.client().put(server.url("/filters/f"));
    let made = put.bearer_auth(&admin).json(&json!({})).sent().unwrap();
    assert_eq!(made.status(), StatusCode::CREATED);
    let key = add_key(&file, "guest", &["--scope=write"]);
    comes_to(&server, &key, StatusCode::OK);
    let mut stream = import(&server, &key, "guest");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It goes on until then.
    std::thread::sleep(Duration::from_millis(300));
    assert!(keys(&file, &["remove", "guest"]).0);
    let removed = Instant::now();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    let took = removed.elapsed();
    assert!(answer.contains("api_key_revoked"), "{answer}");
    assert!(took < ends_within(), "the stream ended only after {took:?}");
    println!("the stream ended {took:?} after its key was removed");
    server.stop();
}

/// A dump that is larger than what sockets hold, of which only the head is read.
fn dump(server: &Server, key: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
    socket.connect(&address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let head = format!(
        "GET /filters/f/dump HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    stream
}

/// Reads to the end; how many bytes came, and whether they end as a whole dump does.
fn rest(mut stream: TcpStream) -> (usize, bool) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    // One that is cut off may be reset, too.
    let _ = stream.read_to_end(&mut bytes);
    (bytes.len(), bytes.ends_with(b"CUCKEND1"))
}

#[test]
fn a_dump_ends_within_two_seconds_after_its_key_was_removed() {
    let (_folder, file) = in_folder();
    let admin = add_key(&file, "admin", &["--scope=admin"]);
    let (server, _data) = serving(&file);
    let server = server.with_key(&admin);
    server.create_filter("f", &json!({"capacity": 2_000_000, "fingerprint_bits": 32}));
    for first in (0..1_000_000).step_by(200_000) {
        let items: Vec<String> = (first..first + 200_000).map(|n| n.to_string()).collect();
        server.post_lines("/filters/f/items", &items).unwrap();
    }
    let guest = add_key(&file, "guest", &["--scope=read", "--export"]);
    comes_to(&server, &guest, StatusCode::OK);
    let [goes_on, ends] = [&admin, &guest].map(|key| dump(&server, key));
    assert!(keys(&file, &["remove", "guest"]).0);
    // Nothing is read until it must have ended: what had not would come then.
    std::thread::sleep(ends_within());
    let ((came, is_whole), (whole, goes_on)) = (rest(ends), rest(goes_on));
    assert!(!is_whole && came < whole, "{came} of {whole} bytes");
    assert!(goes_on, "another key's dump");
    println!("{came} of {whole} bytes came");
    server.stop();
}

#[test]
fn a_key_has_a_description_and_an_expiry_if_it_is_given_them() {
    let (_folder, file) = in_folder();
    let admin = add_key(&file, "admin", &["--scope=admin"]);
    let (server, _data) = serving(&file);
    let more = [
        "--scope=read",
        "--description=for the night job",
        "--expires-in=4s",
    ];
    let guest = add_key(&file, "guest", &more);
    let later = ["--scope=read", "--expires-at=2099-01-31T00:00:00Z"];
    add_key(&file, "later", &later);
    comes_to(&server, &guest, StatusCode::OK);
    let (_, listed) = keys(&file, &["list"]);
    for said in ["for the night job", "2099-01-31T00:00:00Z", "EXPIRES"] {
        assert!(listed.contains(said), "{listed}");
    }
    comes_to(&server, &guest, StatusCode::UNAUTHORIZED);
    let request = server.client().get(server.url("/filters"));
    let refused = request.bearer_auth(&guest).sent().unwrap();
    assert!(refused.text().unwrap().contains("api_key_expired"));
    assert_eq!(status(&server, &admin), StatusCode::OK);
    server.stop();
}

#[test]
fn a_broken_file_keeps_the_keys_that_were_there_and_raises_an_alarm() {
    let (_folder, file) = in_folder();
    let key = add_key(&file, "one", &["--scope=read"]);
    let whole = fs::read(&file).unwrap();
    let (server, _data) = serving(&file);
    let failing = "cuckood_reload_failing{what=\"keys\"}";
    assert_eq!(metric(&server, &key, failing), "0");
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while metric(&server, &key, failing) != "1" {
        assert!(Instant::now() < deadline, "it is not noticed");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(server.log().contains("is invalid"), "{}", server.log());
    fs::write(&file, &whole).unwrap();
    let two = add_key(&file, "two", &["--scope=read"]);
    comes_to(&server, &two, StatusCode::OK);
    assert_eq!(metric(&server, &key, failing), "0");
    server.stop();
}

/// The lines of the audit log about the keys, without what tells the time.
fn reloads(server: &Server) -> Vec<Value> {
    let lines = server.log();
    let lines = lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    lines
        .filter(|line: &Value| line["target"] == "audit" && line["action"] == "reload_keys")
        .collect()
}

#[test]
fn lines_that_are_not_wanted_leave_their_place_to_the_audit_log() {
    let data = tempfile::tempdir().unwrap();
    let flags = ["--log-level=error", "--log-format=json"];
    let server = Server::start(data.path(), &flags);
    // Each is refused, and would have a line beside that of the audit log.
    for _ in 0..150 {
        let answer = server.client().delete(server.url("/filters/missing"));
        assert_eq!(answer.sent().unwrap().status(), StatusCode::NOT_FOUND);
    }
    let log = server.log();
    let audited = log
        .lines()
        .filter(|line| line.contains(r#""outcome":"refused""#));
    assert_eq!(audited.count(), 150, "{log}");
    server.stop();
}

#[test]
fn each_change_of_the_keys_has_one_line_in_the_audit_log() {
    let (_folder, file) = in_folder();
    let admin = add_key(&file, "admin", &["--scope=admin"]);
    let data = tempfile::tempdir().unwrap();
    let flag = format!("--keys-file={}", file.display());
    // It is written whatever else is not.
    let server = Server::start(data.path(), &[&flag, "--log=error", "--log-format=json"]);
    let reloaded = |count: usize| {
        let deadline = Instant::now() + PATIENCE;
        while reloads(&server).len() < count {
            assert!(Instant::now() < deadline, "{:?}", server.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        // It is looked at more often than changed.
        std::thread::sleep(Duration::from_millis(1200));
        let lines = reloads(&server);
        assert_eq!(lines.len(), count, "{lines:?}");
        lines.last().unwrap().clone()
    };
    add_key(&file, "guest", &["--scope=read"]);
    let line = reloaded(1);
    assert_eq!(
        [
            &line["outcome"],
            &line["added_names"],
            &line["removed_names"]
        ],
        ["done", "guest", ""]
    );
    assert_eq!(line["keys"], 2);
    assert!(keys(&file, &["remove", "guest"]).0);
    let line = reloaded(2);
    assert_eq!(line["removed_names"], "guest");
    let whole = fs::read(&file).unwrap();
    // At once: a file that is half written would be one more.
    let exchange = |content: &[u8]| {
        let new = file.with_extension("new");
        fs::write(&new, content).unwrap();
        fs::rename(&new, &file).unwrap();
    };
    exchange(b"{");
    let line = reloaded(3);
    assert_eq!(
        [&line["outcome"], &line["keys"]],
        [&json!("refused"), &json!(1)]
    );
    assert!(line["reason"].as_str().unwrap().contains("is invalid"));
    exchange(&whole);
    assert_eq!(reloaded(4)["outcome"], "done");
    assert_eq!(status(&server, &admin), StatusCode::OK);
    server.stop();
}

#[test]
fn a_secret_that_kubernetes_exchanges_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("..1")).unwrap();
    fs::create_dir(path("..2")).unwrap();
    let one = add_key(&path("..1/keys.json"), "one", &["--scope=read"]);
    let two = add_key(&path("..2/keys.json"), "two", &["--scope=read"]);
    symlink("..1", path("..data")).unwrap();
    symlink("..data/keys.json", path("keys.json")).unwrap();
    let (server, _data) = serving(&path("keys.json"));
    assert_eq!(status(&server, &one), StatusCode::OK);
    symlink("..2", path("..tmp")).unwrap();
    fs::rename(path("..tmp"), path("..data")).unwrap();
    comes_to(&server, &two, StatusCode::OK);
    assert_eq!(status(&server, &one), StatusCode::UNAUTHORIZED);
    server.stop();
}

#[test]
fn mistakes_with_keys_are_told() {
    let (_folder, file) = in_folder();
    add_key(&file, "one", &["--scope=read"]);
    for (words, said) in [
        (
            &["add", "one", "--scope=read"][..],
            "a key named one exists",
        ),
        (&["add", "two", "--scope=root"], "read, write or admin"),
        (&["add", "a b", "--scope=read"], "name of a key"),
        (&["add", "two"], "--scope"),
        (
            &["add", "two", "--scope=read", "--prefix=a b"],
            "start of a filter's key",
        ),
        (&["remove", "two"], "no key named two"),
        (
            &[
                "add",
                "two",
                "--scope=read",
                "--expires-at=2001-01-01T00:00:00Z",
            ],
            "expired already",
        ),
        (
            &["add", "two", "--scope=read", "--expires-at=soon"],
            "RFC 3339",
        ),
        (
            &["add", "two", "--scope=read", "--expires-in=99999y"],
            "9999",
        ),
        (
            &["add", "two", "--scope=read", "--description="],
            "one line",
        ),
    ] {
        let (done, text) = keys(&file, words);
        assert!(!done && text.contains(said), "{words:?}: {text}");
    }
}

#[test]
fn a_server_that_nobody_could_use_does_not_start() {
    let (folder, file) = in_folder();
    let flag = format!("--keys-file={}", file.display());
    let refused = |said: &str| {
        let data = folder.path().join("data");
        let output = refused_start(&mut serve_command(free_port(), &data, &[&flag]));
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(said) && text.lines().count() == 1, "{text}");
    };
    refused("can't be read");
    add_key(&file, "one", &["--scope=read"]);
    assert!(keys(&file, &["remove", "one"]).0);
    refused("cuckood keys add");
    fs::write(&file, "{}").unwrap();
    refused("is invalid");
}

#[test]
fn in_the_image_one_line_says_that_there_are_no_keys() {
    let data = tempfile::tempdir().unwrap();
    let mut command = cuckood();
    command.arg("serve").env("CUCKOOD_DATA_DIR", data.path());
    // As the image sets it.
    let output = refused_start(command.env("CUCKOOD_LISTEN", "0.0.0.0:8080"));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains("no API keys") && text.contains("--keys-file"),
        "{text}"
    );
}
