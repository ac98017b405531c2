//! The connection to the brokers.

use super::error::JetStreamError;
use crate::replication::record::MAX_RECORD_BYTES;
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
    /// A file with credentials, as `nsc` writes them.
    pub credentials_file: Option<PathBuf>,
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
pub async fn connect(brokers: &Brokers) -> Result<Connection, JetStreamError> {
    choose_cryptography();
    let unreachable = |source| JetStreamError::Unreachable {
        servers: brokers.servers.join(", "),
        source,
    };
    let mut options = ConnectOptions::new()
        .name("cuckood")
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL);
    if let Some(file) = &brokers.credentials_file {
        let with_file = options.credentials_file(file).await;
        options = with_file.map_err(|error| unreachable(error.into()))?;
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
