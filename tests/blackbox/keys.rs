//! API keys as those who run the server meet them: a command, a file, a flag.

use crate::server::{Sent as _, Server, add_key, cuckood, free_port, refused_start, serve_command};
use reqwest::StatusCode;
use serde_json::json;
use std::fs;
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
            &["add", "two", "--scope=read", "--prefix=a/b"],
            "start of a filter's key",
        ),
        (&["remove", "two"], "no key named two"),
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
