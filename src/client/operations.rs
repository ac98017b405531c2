//! The commands `healthcheck` and `backup`: whether a server is alive, and a
//! backup of it. For health checks and scheduled jobs in images that hold
//! nothing but this program. Knows the API, nothing of what is behind it.

use super::remote::{Remote, RemoteError};
use reqwest::Method;
use reqwest::header::CONTENT_LENGTH;
use serde::Deserialize;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::time::sleep;

/// How long an answer about health or about a backup's state may take.
const SHORT: Duration = Duration::from_secs(3);
/// How long the beginning of a backup may take: what is in memory may be
/// written out first.
const LONG: Duration = Duration::from_secs(120);
/// Pause between questions about a backup.
const PAUSE: Duration = Duration::from_secs(1);
/// Questions in a row that may stay without an answer: a server that is busy,
/// or a network that forgets a packet.
const MAX_UNANSWERED: u32 = 30;

/// Why there is no good answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no answer, or it is no.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The backup came to nothing.
    #[error("backup {id} failed: {reason}")]
    BackupFailed {
        /// Its name.
        id: String,
        /// The server's own words.
        reason: String,
    },
}

/// A backup that is complete.
#[derive(Debug, PartialEq, Eq)]
pub struct CompleteBackup {
    /// Its name.
    pub id: String,
    /// Bytes of its archive.
    pub bytes: u64,
}

/// Where a server on this machine is asked: one that listens on all addresses
/// at this machine's own.
pub fn own_address(listen: SocketAddr) -> SocketAddr {
    match listen {
        SocketAddr::V4(it) if it.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, it.port()).into(),
        SocketAddr::V6(it) if it.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, it.port()).into(),
        other => other,
    }
}

/// Asks a server whether it is alive.
///
/// # Errors
/// It does not answer, or not with 200.
pub async fn is_alive(server: &Remote) -> Result<(), ClientError> {
    ask(server, Method::GET, &["livez"], SHORT).await?;
    Ok(())
}

/// Asks for a backup and waits until it is complete.
///
/// # Errors
/// The server makes no backups, is making one already, or this one failed; or
/// it is gone.
pub async fn back_up(server: &Remote) -> Result<CompleteBackup, ClientError> {
    let begun = ask(server, Method::POST, &["admin", "backups"], LONG).await?;
    let id = backup_in(server, &begun)?.id;
    let path = ["admin", "backups", &id, "status"];
    let mut unanswered = 0;
    loop {
        match ask(server, Method::GET, &path, SHORT).await {
            Ok(answer) => {
                unanswered = 0;
                let backup = backup_in(server, &answer)?;
                let (bytes, reason) = (backup.bytes, backup.failure.unwrap_or_default());
                match backup.state.as_str() {
                    "complete" => return Ok(CompleteBackup { id, bytes }),
                    "failed" => return Err(ClientError::BackupFailed { id, reason }),
                    _ => {}
                }
            }
            Err(RemoteError::Unreachable { .. }) if unanswered < MAX_UNANSWERED => {
                unanswered += 1;
            }
            Err(error) => return Err(error.into()),
        }
        sleep(PAUSE).await;
    }
}

#[derive(Deserialize)]
struct Backup {
    id: String,
    state: String,
    bytes: u64,
    failure: Option<String>,
}

fn backup_in(server: &Remote, body: &[u8]) -> Result<Backup, ClientError> {
    serde_json::from_slice(body).map_err(|_| server.not_understood().into())
}

async fn ask(
    server: &Remote,
    method: Method,
    path: &[&str],
    timeout: Duration,
) -> Result<Vec<u8>, RemoteError> {
    let mut request = server.request(method.clone(), path).timeout(timeout);
    if method == Method::POST {
        // What is between may want a length, which an empty body lacks.
        request = request.header(CONTENT_LENGTH, 0);
    }
    server.ask(request).await
}

#[cfg(test)]
mod tests {
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
        format!(
            r#"{{"id": "20310203T000000Z", "state": "{state}", "bytes": 9, "failure": {failure}}}"#
        )
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
                matches!(
                    error,
                    ClientError::Remote(RemoteError::NotUnderstood { .. })
                ),
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
}
