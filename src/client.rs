//! What the program asks of a server that runs elsewhere: whether it is alive,
//! and for a backup. One request per connection, without the weight of an HTTP
//! client, for health checks and scheduled jobs in images that hold nothing
//! but this program. Knows the API, nothing of what is behind it.

use serde::Deserialize;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::thread::sleep;
use std::time::Duration;

/// How long a connection may take, and an answer about health.
const SHORT: Duration = Duration::from_secs(3);
/// How long the beginning of a backup may take: what is in memory may be
/// written out first.
const LONG: Duration = Duration::from_secs(120);
/// Pause between questions about a backup.
const PAUSE: Duration = Duration::from_secs(1);
/// Questions in a row that may stay without an answer: a server that is busy,
/// or a network that forgets a packet.
const MAX_UNANSWERED: u32 = 30;
/// Longest answer that is read.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Why there is no good answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers there.
    #[error("{server} does not answer: {source}")]
    Unreachable {
        /// Who was asked.
        server: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The answer is no.
    #[error("{server} answers {status}: {detail}")]
    Refused {
        /// Who was asked.
        server: String,
        /// HTTP status.
        status: u16,
        /// The server's own words.
        detail: String,
    },
    /// What came back is not what such a server says.
    #[error("{server} does not answer as a cuckood does")]
    NotUnderstood {
        /// Who was asked.
        server: String,
    },
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

/// Asks the server that listens there whether it is alive. One that listens on
/// all addresses is asked on this machine's own.
///
/// # Errors
/// It does not answer, or not with 200.
pub fn is_alive(listen: SocketAddr) -> Result<(), ClientError> {
    let address = match listen {
        SocketAddr::V4(it) if it.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, it.port()).into(),
        SocketAddr::V6(it) if it.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, it.port()).into(),
        other => other,
    };
    ask(&address.to_string(), "GET", "/livez", SHORT)?;
    Ok(())
}

/// Asks for a backup and waits until it is complete. `server` is a name or
/// address with a port.
///
/// # Errors
/// The server makes no backups, is making one already, or this one failed; or
/// it is gone.
pub fn back_up(server: &str) -> Result<CompleteBackup, ClientError> {
    let begun = ask(server, "POST", "/admin/backups", LONG)?;
    let id = backup_in(server, &begun)?.id;
    let path = format!("/admin/backups/{id}/status");
    let mut unanswered = 0;
    loop {
        match ask(server, "GET", &path, SHORT) {
            Ok(answer) => {
                unanswered = 0;
                let backup = backup_in(server, &answer)?;
                match backup.state.as_str() {
                    "complete" => {
                        return Ok(CompleteBackup {
                            id,
                            bytes: backup.bytes,
                        });
                    }
                    "failed" => {
                        return Err(ClientError::BackupFailed {
                            id,
                            reason: backup.failure.unwrap_or_default(),
                        });
                    }
                    _ => {}
                }
            }
            Err(ClientError::Unreachable { .. }) if unanswered < MAX_UNANSWERED => unanswered += 1,
            Err(error) => return Err(error),
        }
        sleep(PAUSE);
    }
}

#[derive(Deserialize)]
struct Backup {
    id: String,
    state: String,
    bytes: u64,
    failure: Option<String>,
}

#[derive(Deserialize)]
struct Problem {
    detail: String,
}

fn backup_in(server: &str, body: &str) -> Result<Backup, ClientError> {
    serde_json::from_str(body).map_err(|_| ClientError::NotUnderstood {
        server: server.to_owned(),
    })
}

/// Sends one request and returns the body of a good answer.
fn ask(server: &str, method: &str, path: &str, patience: Duration) -> Result<String, ClientError> {
    let text =
        exchange(server, method, path, patience).map_err(|source| ClientError::Unreachable {
            server: server.to_owned(),
            source,
        })?;
    let parts = text.split_once("\r\n\r\n").and_then(|(head, body)| {
        let mut words = head.split(' ');
        let version = words.next()?;
        let status: u16 = words.next()?.parse().ok()?;
        version.starts_with("HTTP/1.").then_some((status, body))
    });
    match parts {
        Some((200..=299, body)) => Ok(body.to_owned()),
        Some((status, body)) => Err(ClientError::Refused {
            server: server.to_owned(),
            status,
            detail: serde_json::from_str(body).map_or_else(
                |_| "it does not say why".to_owned(),
                |it: Problem| it.detail,
            ),
        }),
        None => Err(ClientError::NotUnderstood {
            server: server.to_owned(),
        }),
    }
}

fn exchange(server: &str, method: &str, path: &str, patience: Duration) -> io::Result<String> {
    let mut stream = connect(server)?;
    stream.set_write_timeout(Some(SHORT))?;
    stream.set_read_timeout(Some(patience))?;
    // HTTP/1.0: the answer comes in one piece and ends with the connection.
    let length = if method == "POST" {
        "content-length: 0\r\n"
    } else {
        ""
    };
    stream.write_all(
        format!("{method} {path} HTTP/1.0\r\nhost: {server}\r\n{length}\r\n").as_bytes(),
    )?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Connects to the first address of that name that answers.
fn connect(server: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in server.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, SHORT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// Answers one connection after another with these, and returns the first
    /// lines that were asked.
    fn server_that_says(answers: Vec<String>) -> (String, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
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
        (address, asked)
    }

    fn answer(status: &str, body: &str) -> String {
        format!("HTTP/1.0 {status}\r\ncontent-type: application/json\r\n\r\n{body}")
    }

    fn backup(state: &str, failure: &str) -> String {
        format!(
            r#"{{"id": "20310203T000000Z", "state": "{state}", "bytes": 9, "failure": {failure}}}"#
        )
    }

    #[test]
    fn a_backup_is_waited_for() {
        let (server, asked) = server_that_says(vec![
            answer("202 Accepted", &backup("writing", "null")),
            answer("200 OK", &backup("verifying", "null")),
            answer("200 OK", &backup("complete", "null")),
        ]);
        let complete = back_up(&server).unwrap();
        assert_eq!(
            (complete.id.as_str(), complete.bytes),
            ("20310203T000000Z", 9)
        );
        let status = "GET /admin/backups/20310203T000000Z/status HTTP/1.0";
        assert_eq!(
            asked.join().unwrap(),
            ["POST /admin/backups HTTP/1.0", status, status]
        );
    }

    #[test]
    fn a_backup_that_fails_is_an_error_with_the_servers_words() {
        let (server, _) = server_that_says(vec![
            answer("202 Accepted", &backup("writing", "null")),
            answer("200 OK", &backup("failed", r#""the disk is full""#)),
        ]);
        let error = back_up(&server).unwrap_err().to_string();
        assert_eq!(error, "backup 20310203T000000Z failed: the disk is full");
    }

    #[test]
    fn a_refusal_is_an_error_with_the_servers_words() {
        let problem = r#"{"status": 403, "detail": "there is no --backup-dir"}"#;
        let (server, _) = server_that_says(vec![answer("403 Forbidden", problem)]);
        let error = back_up(&server).unwrap_err().to_string();
        assert!(
            error.contains("answers 403: there is no --backup-dir"),
            "{error}"
        );
    }

    #[test]
    fn a_server_that_is_something_else_is_not_understood() {
        for said in [
            "",
            "220 mail.example.com ready\r\n",
            "HTTP/1.0 200 OK\r\n\r\nhello",
        ] {
            let (server, _) = server_that_says(vec![said.to_owned()]);
            let error = back_up(&server).unwrap_err();
            assert!(
                matches!(error, ClientError::NotUnderstood { .. }),
                "{said:?}: {error}"
            );
        }
    }

    #[test]
    fn nobody_there_is_an_error_that_names_the_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let error = is_alive(address).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{address} does not answer")),
            "{error}"
        );
    }
}
