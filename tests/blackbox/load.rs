//! `cuckood load`, against servers and connections that break.

use crate::ports::free_port;
use crate::server::{Sent as _, Server, cuckood};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const LINES: u64 = 400_000;

fn numbers(lines: u64) -> String {
    let mut text = String::new();
    for line in 0..lines {
        writeln!(text, "code-{line}").unwrap();
    }
    text
}

fn load(port: u16, arguments: &[&str]) -> Command {
    let mut command = cuckood();
    command
        .args(["load", "--filter", "f", "--server"])
        .arg(format!("http://127.0.0.1:{port}"))
        .args(arguments);
    command
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn loaded(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let (out, err) = said(&output);
    assert!(output.status.success(), "{out}{err}");
    let announced = err
        .strip_prefix("cuckood: server http://127.0.0.1:")
        .unwrap();
    let (port, rest) = announced.split_once('\n').unwrap();
    assert!(port.parse::<u16>().is_ok(), "{err}");
    assert!(
        rest.is_empty() || rest.contains("; trying again for up to "),
        "elsewhere than on a terminal there is no more: {err}"
    );
    out
}

fn piped(command: &mut Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn lines_in(server: &Server, import: &str) -> u64 {
    let path = server.url(&format!("/filters/f/imports/{import}"));
    let answer = server.client().get(path).sent().unwrap();
    let progress: serde_json::Value = answer.json().unwrap();
    progress["committed_lines"].as_u64().unwrap_or(0)
}

#[test]
fn files_are_loaded_once_however_often_they_are_given() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    server.create_filter("f", &json!({"capacity": 100_000}));
    let (plain, packed) = (folder.path().join("plain"), folder.path().join("packed.gz"));
    std::fs::write(&plain, "a\r\nb\n\nc").unwrap();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(numbers(50_000).as_bytes()).unwrap();
    std::fs::write(&packed, gzip.finish().unwrap()).unwrap();
    for _ in 0..2 {
        let files = [&plain, &packed].map(|path| path.to_str().unwrap());
        let out = loaded(piped(&mut load(server.port(), &files)));
        assert!(
            out.contains("4 lines: 3 added, 0 already there, 0 full, 1 blank, 0 bad"),
            "{out}"
        );
        assert!(out.contains("50000 lines: 50000 added"), "{out}");
        assert_eq!(server.items("f"), 50_003);
    }
}

#[test]
fn an_import_id_of_a_longer_list_is_refused_for_a_shorter_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    server.create_filter("f", &json!({"capacity": 1_000}));
    let list = folder.path().join("list");
    let load = |lines: &str| {
        std::fs::write(&list, lines).unwrap();
        let arguments = ["--import-id", "daily", list.to_str().unwrap()];
        load(server.port(), &arguments).output().unwrap()
    };
    assert!(load("a\nb\nc").status.success());
    for shorter in ["d\n", ""] {
        let output = load(shorter);
        assert_eq!(output.status.code(), Some(1));
        let (_, err) = said(&output);
        let lines = shorter.len() / 2;
        let wanted = format!("list has {lines} lines, and 3 are committed under the --import-id");
        assert!(err.contains(&wanted), "{err}");
    }
    // As long or longer, it is the same one.
    assert!(load("a\nb\nc").status.success());
    assert!(load("a\nb\nc\nd\n").status.success());
    assert_eq!(server.items("f"), 4);
}

#[test]
fn rows_are_loaded_in_the_order_of_the_attributes_or_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    let attributes = json!([
        {"name": "plan", "values": ["free", "pro"]},
        {"name": "tag", "hash_bits": 12},
    ]);
    server.create_filter("f", &json!({"capacity": 1_000, "attributes": attributes}));
    let (lines, json) = (folder.path().join("lines"), folder.path().join("json"));
    std::fs::write(&lines, "ada\tpro\tDE\nbob\tgold\tFR\neve\tfree\n").unwrap();
    let entry = json!({"item": "bob", "attributes": {"plan": "free", "tag": "FR"}});
    std::fs::write(&json, format!("{entry}\n")).unwrap();
    let given = lines.to_str().unwrap();
    let output = load(server.port(), &[given]).output().unwrap();
    let (out, err) = said(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        out.contains("3 lines: 1 added") && out.contains("2 bad"),
        "{out}"
    );
    for line in [
        "line 2 is skipped: unknown_value",
        "line 3 is skipped: not_an_entry",
    ] {
        assert!(err.contains(line), "{line}: {err}");
    }
    let arguments = ["--ndjson", json.to_str().unwrap()];
    let out = loaded(piped(&mut load(server.port(), &arguments)));
    assert!(out.contains("1 lines: 1 added"), "{out}");
    for (item, plan) in [("ada", "pro"), ("bob", "free")] {
        let condition = json!({"plan": [plan]}).to_string();
        let url = server.url("/filters/f/exists");
        let question = [("item", item), ("where", condition.as_str())];
        let answer = server.client().get(url).query(&question).sent().unwrap();
        let answer: serde_json::Value = answer.json().unwrap();
        assert_eq!(answer, json!({"exists": true}), "{item}");
    }
}

#[test]
fn what_is_left_out_is_named_and_the_exit_code_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    server.create_filter("f", &json!({"capacity": 1_000}));
    let mut child = piped(&mut load(
        server.port(),
        &["--ndjson", "--only-if-absent", "-"],
    ));
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(b"\"a\"\n17\n[1]\n\"a\"\nnonsense\n")
        .unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let (out, err) = said(&output);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        out.contains("5 lines: 2 added, 1 already there, 0 full, 0 blank, 2 bad"),
        "{out}"
    );
    for line in [
        "line 3 is skipped: not_an_item",
        "line 5 is skipped: not_json",
        "2 lines",
    ] {
        assert!(err.contains(line), "{line}: {err}");
    }

    let lists = tempfile::tempdir().unwrap();
    let utf_16 = lists.path().join("utf-16");
    std::fs::write(&utf_16, b"\xff\xfea\0\n\0").unwrap();
    for (arguments, expected) in [
        (&["/nowhere/at/all"][..], "can't be read"),
        (
            &[utf_16.to_str().unwrap()],
            "utf-16 can't be read: the list is UTF-16: convert it to UTF-8\n",
        ),
        (&["--import-id", "a/b", "/dev/null"], "import_id"),
        (
            &["--import-id", "a", "/dev/null", "/dev/null"],
            "one by one",
        ),
    ] {
        let output = load(server.port(), arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let (_, err) = said(&output);
        assert!(err.contains(expected), "{err}");
    }
    let server_gone = server.port();
    server.stop();
    let file = folder.path().join("x");
    std::fs::write(&file, "x\n").unwrap();
    let file = file.to_str().unwrap();
    let output = load(server_gone, &["--patience-seconds", "1", file])
        .output()
        .unwrap();
    let (_, err) = said(&output);
    assert!(
        err.contains("stopped after 1 s") && err.contains("0 lines are committed"),
        "{err}"
    );
}

#[test]
fn a_load_goes_on_when_the_server_is_killed_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (data, port) = (folder.path().join("data"), free_port());
    let mut server = Server::start_on(port, &data, &[]);
    server.create_filter("f", &json!({"capacity": 2 * LINES}));
    // From a pipe, which can't be read twice.
    let mut child = piped(&mut load(port, &["--import-id", "i", "-"]));
    let mut input = child.stdin.take().unwrap();
    let feeder = thread::spawn(move || input.write_all(numbers(LINES).as_bytes()));
    for kill in 1..=3 {
        while lines_in(&server, "i") < kill * LINES / 8 {
            thread::sleep(Duration::from_millis(1));
        }
        server.kill();
        server = Server::start_on(port, &data, &[]);
    }
    let out = loaded(child);
    feeder.join().unwrap().unwrap();
    assert!(
        out.contains(&format!("{LINES} lines: {LINES} added")),
        "{out}"
    );
    assert_eq!(server.items("f"), LINES);
    server.kill();
    let server = Server::start_on(port, &data, &[]);
    assert_eq!(server.items("f"), LINES);
}

/// What was committed of it is not added a second time by who goes on as it says.
#[test]
fn a_load_that_breaks_off_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    server.create_filter("f", &json!({"capacity": LINES}));
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(numbers(100_000).as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let file = folder.path().join("cut.gz");
    std::fs::write(&file, &gzip[..gzip.len() / 2]).unwrap();
    let file = file.to_str().unwrap();
    let id = |output: &Output| {
        let (_, err) = said(output);
        let (_, id) = err.split_once("--import-id ").unwrap();
        id.split([' ', ',']).next().unwrap().to_owned()
    };
    let cut = id(&load(server.port(), &[file]).output().unwrap());
    std::fs::write(file, &gzip).unwrap();
    let again = ["--import-id", &cut, file];
    loaded(piped(&mut load(server.port(), &again)));
    assert_eq!(server.items("f"), 100_000);

    let mut child = piped(&mut load(server.port(), &["-"]));
    let text = numbers(200_000);
    let rest = text.get(text.find("code-100000\n").unwrap()..).unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&rest.as_bytes()[..rest.len() / 2]).unwrap();
    while server.items("f") == 100_000 {
        thread::sleep(Duration::from_millis(10));
    }
    let interrupted = Command::new("kill")
        // Not SIGINT: what runs in the background of a shell ignores that.
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(interrupted.unwrap().success());
    let interrupted = id(&child.wait_with_output().unwrap());
    drop(input);
    let mut child = piped(&mut load(
        server.port(),
        &["--import-id", &interrupted, "-"],
    ));
    let mut input = child.stdin.take().unwrap();
    input.write_all(rest.as_bytes()).unwrap();
    drop(input);
    let out = loaded(child);
    assert!(out.contains("of these lines by an earlier run"), "{out}");
    assert_eq!(server.items("f"), 200_000);
}

#[test]
fn a_load_whose_input_pauses_is_whole_meanwhile_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(
        &folder.path().join("data"),
        &["--body-idle-timeout-seconds=15"],
    );
    server.create_filter("f", &json!({"capacity": 1_000_000}));
    let mut child = piped(&mut load(server.port(), &["--import-id", "i", "-"]));
    let mut input = child.stdin.take().unwrap();
    let text = numbers(100_000);
    let (first, rest) = text.split_at(text.len() / 2);
    input.write_all(first.as_bytes()).unwrap();
    let state = || {
        let path = server.url("/filters/f/imports/i");
        let progress: serde_json::Value = server.client().get(path).sent().unwrap().json().unwrap();
        progress["state"].as_str().unwrap_or_default().to_owned()
    };
    while state() != "complete" {
        thread::sleep(Duration::from_millis(20));
    }
    assert!(server.items("f") > 10_000);
    input.write_all(rest.as_bytes()).unwrap();
    drop(input);
    let out = loaded(child);
    assert!(out.contains("100000 lines: 100000 added"), "{out}");
    assert_eq!(server.items("f"), 100_000);
}

#[test]
fn a_load_that_is_killed_is_taken_up_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    server.create_filter("f", &json!({"capacity": 2 * LINES}));
    let file = folder.path().join("codes");
    std::fs::write(&file, numbers(LINES)).unwrap();
    let command = || load(server.port(), &[file.to_str().unwrap()]);
    for kill in 1..=3 {
        let mut child = piped(&mut command());
        while server.items("f") < kill * LINES / 8 {
            thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let out = loaded(piped(&mut command()));
    assert!(
        out.contains(&format!("{LINES} lines: {LINES} added")),
        "{out}"
    );
    assert_eq!(server.items("f"), LINES);
}

#[test]
fn a_load_goes_on_when_connections_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"), &[]);
    server.create_filter("f", &json!({"capacity": 2 * LINES}));
    let cuts = Arc::new(AtomicUsize::new(0));
    let port = cutting_proxy(server.port(), 1_500_000, Arc::clone(&cuts));
    let file = folder.path().join("codes");
    std::fs::write(&file, numbers(LINES)).unwrap();
    let out = loaded(piped(&mut load(port, &[file.to_str().unwrap()])));
    assert!(
        out.contains(&format!("{LINES} lines: {LINES} added")),
        "{out}"
    );
    assert_eq!(server.items("f"), LINES);
    let cuts = cuts.load(Ordering::SeqCst);
    assert!(cuts >= 2, "{cuts} connections were cut");
}

/// Passes connections on to a port, and cuts each after so many bytes of
/// requests.
fn cutting_proxy(to: u16, bytes: usize, cuts: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, cuts) = (client.unwrap(), Arc::clone(&cuts));
            thread::spawn(move || {
                let server = TcpStream::connect(("127.0.0.1", to)).unwrap();
                let (mut answers, mut back) =
                    (server.try_clone().unwrap(), client.try_clone().unwrap());
                let backwards = thread::spawn(move || io::copy(&mut answers, &mut back));
                let sent = io::copy(&mut (&client).take(bytes as u64), &mut &server);
                if sent.is_ok_and(|sent| sent == bytes as u64) {
                    cuts.fetch_add(1, Ordering::SeqCst);
                }
                for stream in [&client, &server] {
                    // Either side may have gone first.
                    let _ = stream.shutdown(Shutdown::Both);
                }
                let _ = backwards.join();
            });
        }
    });
    port
}

#[test]
fn an_address_that_is_none_is_refused() {
    for url in ["non sense", "ftp://127.0.0.1:1", "file:///etc"] {
        let output = cuckood()
            .args(["load", "--filter", "f", "--server", url])
            .arg(Path::new("/dev/null"))
            .output()
            .unwrap();
        let (_, err) = said(&output);
        assert!(err.contains("http://127.0.0.1:8080"), "{err}");
    }
}
