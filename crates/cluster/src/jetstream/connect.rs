//! The connection to the brokers.

use super::error::{JetStreamError, Result, remember};
use crate::record::MAX_RECORD_BYTES;
use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};
use std::path::PathBuf;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;

/// What the headers of a record take at most.
const HEADER_ROOM_BYTES: usize = 1 << 10;

/// How long a broker may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a silent connection is tried; it counts as lost after two tries.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// Where the brokers are, and what they want to see.
#[derive(Clone, Debug, Default)]
pub struct Brokers {
    /// Their addresses, `nats://host:port` or `tls://host:port`.
    pub servers: Vec<String>,
    /// A file with credentials, as `nsc` writes them, or a line `name: password`.
    pub credentials_file: Option<PathBuf>,
    /// What the subjects begin with to which brokers answer; otherwise that of all
    /// clients.
    pub inbox: Option<String>,
    /// A file with the certificates that the brokers' are signed with, PEM;
    /// otherwise those of the system.
    pub ca_file: Option<PathBuf>,
}

/// A connection to the brokers; it goes on to another of them whenever one is
/// gone. Clones are the same connection.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(super) client: Client,
    pub(super) context: Context,
}

/// Says once for the process how TLS is done; an application that said so before
/// is left alone.
pub(super) fn choose_cryptography() {
    let _ = ring::default_provider().install_default();
}

/// Connects to one of the brokers.
///
/// # Errors
/// None of them can be used.
pub async fn connect(brokers: &Brokers) -> Result<Connection> {
    choose_cryptography();
    let unreachable = |source| JetStreamError::Unreachable {
        servers: brokers.servers.join(", "),
        source,
    };
    let mut options = ConnectOptions::new()
        .name("cuckood")
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .event_callback(|event| async move { remember(event) });
    if let Some(file) = &brokers.credentials_file {
        let text = std::fs::read_to_string(file);
        let with_file = text.and_then(|text| match named_user(&text) {
            Some((name, password)) => Ok(options.user_and_password(name, password)),
            None => options.credentials(&text),
        });
        options = with_file.map_err(|error| unreachable(error.into()))?;
    }
    if let Some(inbox) = &brokers.inbox {
        options = options.custom_inbox_prefix(inbox);
    }
    if let Some(file) = &brokers.ca_file {
        options = options.add_root_certificates(file.clone());
    }
    let connected = options.connect(brokers.servers.as_slice()).await;
    let client = connected.map_err(|error| unreachable(error.into()))?;
    let found = client.server_info().max_payload;
    let needed = MAX_RECORD_BYTES + HEADER_ROOM_BYTES;
    match found < needed {
        true => Err(JetStreamError::PayloadTooSmall { found, needed }),
        false => Ok(Connection {
            context: jetstream::new(client.clone()),
            client,
        }),
    }
}

/// The user that a file of one line `name: password` names; `None`: it is another file.
fn named_user(text: &str) -> Option<(String, String)> {
    let lines = text.lines().map(str::trim);
    let mut lines = lines.filter(|it| !it.is_empty() && !it.starts_with('#'));
    let (line, None) = (lines.next()?, lines.next()) else {
        return None;
    };
    let (name, password) = line.split_once(':')?;
    let password = password.trim().trim_matches('"');
    Some((name.trim().to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_user_and_a_password() {
        let pods = Some(("pods".to_owned(), "p1:2".to_owned()));
        for text in ["pods: p1:2\n", "# of brokers\npods: \"p1:2\"", "pods:p1:2"] {
            assert_eq!(named_user(text), pods, "{text}");
        }
        let of_nsc = "-----BEGIN NATS USER JWT-----\neyJ0\n------END NATS USER JWT------\n";
        for other in [of_nsc, "", "pods", "pods: 1\nfounder: 2"] {
            assert_eq!(named_user(other), None, "{other}");
        }
    }
}
