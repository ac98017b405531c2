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
    let begun = ask(server, Method::POST, &["admin", "backups"], LONG).await;
    let Backup { id, .. } = server.understood(&begun.map_err(elsewhere)?)?;
    let path = ["admin", "backups", &id, "status"];
    let mut unanswered = 0;
    loop {
        match ask(server, Method::GET, &path, SHORT).await {
            Ok(answer) => {
                unanswered = 0;
                let backup: Backup = server.understood(&answer)?;
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

/// What a port has to do with it that does not know the path.
fn elsewhere(mut error: RemoteError) -> RemoteError {
    if let RemoteError::Refused { code, detail, .. } = &mut error
        && code.as_str() == "unknown_route"
    {
        *detail = "/admin is served only at the address of --admin-listen".to_owned();
    }
    error
}

#[derive(Deserialize)]
struct Backup {
    id: String,
    state: String,
    bytes: u64,
    failure: Option<String>,
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
mod tests;
