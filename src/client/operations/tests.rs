use super::*;
use crate::client::remote::Credentials;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

/// Answers one connection after another with these, and returns the first
/// lines that were asked.
fn server_that_says(answers: Vec<String>) -> (Remote, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = Remote::new(&format!("http://{address}"), &Credentials::default()).unwrap();
    let asked = thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            let request = String::from_utf8(request).unwrap();
            asked.push(request.lines().next().unwrap().to_owned());
            stream.write_all(answer.as_bytes()).unwrap();
        }
        asked
    });
    (server, asked)
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.0 {status}\r\ncontent-type: application/json\r\n\r\n{body}")
}

fn backup(state: &str, failure: &str) -> String {
    format!(r#"{{"id": "20310203T000000Z", "state": "{state}", "bytes": 9, "failure": {failure}}}"#)
}

#[tokio::test]
async fn a_backup_is_waited_for() {
    let (server, asked) = server_that_says(vec![
        answer("202 Accepted", &backup("writing", "null")),
        answer("200 OK", &backup("verifying", "null")),
        answer("200 OK", &backup("complete", "null")),
    ]);
    let complete = back_up(&server).await.unwrap();
    assert_eq!(
        (complete.id.as_str(), complete.bytes),
        ("20310203T000000Z", 9)
    );
    let status = "GET /admin/backups/20310203T000000Z/status HTTP/1.1";
    assert_eq!(
        asked.join().unwrap(),
        ["POST /admin/backups HTTP/1.1", status, status]
    );
}

#[tokio::test]
async fn a_backup_that_fails_is_an_error_with_the_servers_words() {
    let (server, _) = server_that_says(vec![
        answer("202 Accepted", &backup("writing", "null")),
        answer("200 OK", &backup("failed", r#""the disk is full""#)),
    ]);
    let error = back_up(&server).await.unwrap_err().to_string();
    assert_eq!(error, "backup 20310203T000000Z failed: the disk is full");
}

#[tokio::test]
async fn another_port_than_that_of_operators_says_so() {
    let problem = r#"{"status": 404, "code": "unknown_route", "detail": "no such path"}"#;
    let (server, _) = server_that_says(vec![answer("404 Not Found", problem)]);
    let error = back_up(&server).await.unwrap_err().to_string();
    assert!(
        error.contains("answers 404: /admin is served only at the address of --admin-listen"),
        "{error}"
    );
}

#[tokio::test]
async fn a_refusal_is_an_error_with_the_servers_words() {
    let problem = r#"{"status": 403, "detail": "there is no --backup-dir"}"#;
    let (server, _) = server_that_says(vec![answer("403 Forbidden", problem)]);
    let error = back_up(&server).await.unwrap_err().to_string();
    assert!(
        error.contains("answers 403: there is no --backup-dir"),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_is_something_else_is_not_understood() {
    for said in [
        "",
        "220 mail.example.com ready\r\n",
        "HTTP/1.0 200 OK\r\n\r\nhello",
    ] {
        let (server, _) = server_that_says(vec![said.to_owned()]);
        let error = back_up(&server).await.unwrap_err();
        assert!(
            matches!(error, ClientError::Remote(RemoteError::NotUnderstood(_))),
            "{said:?}: {error}"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_that_names_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = Remote::on_this_machine(&format!("http://{address}")).unwrap();
    let error = is_alive(&server).await.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{address} does not answer")),
        "{error}"
    );
}
