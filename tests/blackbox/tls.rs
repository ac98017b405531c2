//! TLS as those who run the server meet it: files, flags, and the program's own
//! clients.

use crate::pki::Authority;
use crate::ports::free_port;
use crate::server::{Server, add_key, cuckood, refused_start, serve_command};
use cuckood::client::remote::{Credentials, Remote, Secret};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode};
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

/// A server with TLS, keys and a listener for operations.
struct Secured {
    server: Server,
    authority: Authority,
    folder: TempDir,
    key: String,
    operations: u16,
}

impl Secured {
    /// Starts one and waits until its own health check says that it is there.
    fn start(more: &[&str]) -> Secured {
        let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
        let files = authority.server();
        let keys = folder.path().join("keys.json");
        let key = add_key(&keys, "admin", &["--scope=admin"]);
        let (port, operations) = (free_port(), free_port());
        let flags = [
            format!("--tls-cert={}", files.certificate.display()),
            format!("--tls-key={}", files.key.display()),
            format!("--keys-file={}", keys.display()),
            format!("--admin-listen=127.0.0.1:{operations}"),
            format!("--backup-dir={}", folder.path().join("backups").display()),
        ];
        let flags: Vec<&str> = flags
            .iter()
            .map(String::as_str)
            .chain(more.iter().copied())
            .collect();
        let secured = Secured {
            server: Server::spawn(port, &folder.path().join("data"), &flags),
            authority,
            folder,
            key,
            operations,
        };
        let deadline = Instant::now() + PATIENCE;
        while !secured.is_healthy(true) {
            assert!(Instant::now() < deadline, "{}", secured.server.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        let ready = || {
            let answer = secured.send(Method::GET, &["readyz"]);
            answer == Some(StatusCode::OK)
        };
        while !ready() {
            assert!(Instant::now() < deadline, "{}", secured.server.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        secured
    }

    /// Where those who run the server ask it, which needs no certificate.
    fn send(&self, method: Method, path: &[&str]) -> Option<StatusCode> {
        let url = format!("https://localhost:{}", self.operations);
        send(&url, &self.credentials(), method, path)
    }

    /// What the image's health check says, which knows the server's variables.
    fn is_healthy(&self, by_operations: bool) -> bool {
        let mut command = cuckood();
        command.arg("healthcheck");
        command.env(
            "CUCKOOD_LISTEN",
            format!("127.0.0.1:{}", self.server.port()),
        );
        command.env("CUCKOOD_TLS_CERT", self.authority.path("server.pem"));
        if by_operations {
            command.env(
                "CUCKOOD_ADMIN_LISTEN",
                format!("127.0.0.1:{}", self.operations),
            );
        }
        command.output().unwrap().status.success()
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.server.port())
    }

    fn credentials(&self) -> Credentials {
        Credentials {
            api_key: Some(Secret(self.key.clone())),
            ..self.authority.believer()
        }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

fn send(url: &str, credentials: &Credentials, method: Method, path: &[&str]) -> Option<StatusCode> {
    let remote = Remote::new(url, credentials).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let request = remote
        .request(method, path)
        .header(CONTENT_TYPE, "application/json")
        .body("{}");
    let sending = remote.send(request);
    runtime.block_on(sending).ok().map(|answer| answer.status)
}

fn ready(output: &Output) -> &Output {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

#[test]
fn the_programs_own_clients_speak_tls_and_have_keys() {
    let secured = Secured::start(&[]);
    let created = send(
        &secured.url(),
        &secured.credentials(),
        Method::PUT,
        &["filters", "f"],
    );
    assert_eq!(created, Some(StatusCode::CREATED));
    let key = secured.file("key", &format!("{}\n", secured.key));
    let items = secured.file("items", "a\nb\nc\n");
    let load = |more: &[&str]| {
        let mut command = cuckood();
        command
            .args(["load", "--server", &secured.url(), "--filter", "f"])
            .args(more);
        command.args(["--patience-seconds=1"]).arg(&items);
        command.output().unwrap()
    };
    let (key, ca) = (key.display().to_string(), secured.authority.path("ca.pem"));
    let ca = ca.display().to_string();
    let loaded = load(&["--api-key-file", &key, "--ca-file", &ca]);
    let said = String::from_utf8(ready(&loaded).stdout.clone()).unwrap();
    assert!(said.contains("3 added"), "{said}");
    for (wrong, why) in [
        (load(&["--ca-file", &ca]), "401"),
        (load(&["--api-key=cuckood_no", "--ca-file", &ca]), "401"),
        (load(&["--api-key-file", &key]), "certificate"),
    ] {
        let said = String::from_utf8(wrong.stderr).unwrap();
        assert!(!wrong.status.success() && said.contains(why), "{said}");
    }
    let mut backup = cuckood();
    backup.args(["backup", "--server"]);
    backup.arg(format!("https://localhost:{}", secured.operations));
    backup
        .env("CUCKOOD_API_KEY", &secured.key)
        .env("CUCKOOD_CA_FILE", &ca);
    let done = backup.output().unwrap();
    let said = String::from_utf8(ready(&done).stdout.clone()).unwrap();
    assert!(said.contains("is complete"), "{said}");
    secured.server.stop();
}

#[test]
fn certificates_that_change_are_noticed() {
    let secured = Secured::start(&[]);
    let asked =
        |credentials: &Credentials| send(&secured.url(), credentials, Method::GET, &["livez"]);
    assert_eq!(asked(&secured.credentials()), Some(StatusCode::OK));
    let new = Authority::new();
    let files = new.server();
    fs::copy(files.certificate, secured.authority.path("server.pem")).unwrap();
    fs::copy(files.key, secured.authority.path("server.key")).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while asked(&new.believer()).is_none() {
        assert!(Instant::now() < deadline, "{}", secured.server.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(asked(&secured.credentials()), None);
    secured.server.stop();
}

#[test]
fn callers_need_certificates_and_those_who_look_after_the_server_do_not() {
    let callers = Authority::new();
    callers.sign("any");
    let flag = format!("--tls-client-ca={}", callers.path("ca.pem").display());
    let secured = Secured::start(&[&flag]);
    assert!(
        !secured.is_healthy(false),
        "it was let in without a certificate"
    );
    let mut with = callers.client(&secured.authority.path("ca.pem"));
    with.api_key = Some(Secret(secured.key.clone()));
    let get =
        |credentials: &Credentials| send(&secured.url(), credentials, Method::GET, &["filters"]);
    assert_eq!(get(&with), Some(StatusCode::OK));
    assert_eq!(get(&secured.credentials()), None);
    let scraped = secured.send(Method::GET, &["metrics"]);
    assert_eq!(scraped, Some(StatusCode::OK));
    secured.server.stop();
}

#[test]
fn certificates_that_can_not_be_used_end_the_start_with_one_line() {
    let (authority, data) = (Authority::new(), tempfile::tempdir().unwrap());
    let files = authority.server();
    authority.sign("other");
    let flags = [
        format!("--tls-cert={}", files.certificate.display()),
        format!("--tls-key={}", authority.path("other.key").display()),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let output = refused_start(&mut serve_command(free_port(), data.path(), &flags));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.lines().count() == 1 && said.contains("can't be used with its key"),
        "{said}"
    );
    let alone = refused_start(&mut serve_command(free_port(), data.path(), &flags[..1]));
    assert_eq!(alone.status.code(), Some(2));
}
