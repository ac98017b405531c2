//! Connections for which there is no place: each is told so before it is closed, as
//! far as that costs little.

use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

/// Longest time for one, a handshake of TLS included.
pub const LONGEST: Duration = Duration::from_secs(1);

/// Bytes that are read on behind the last answer of a connection: closing on what is
/// unread would take the answer away from its client.
const LATE_BYTES: u64 = 1 << 20;

/// One of them, which takes a place among those that are told at the same time.
pub struct Turned(pub(super) OwnedSemaphorePermit);

impl Turned {
    /// Does this for as long as it may take.
    pub async fn within(self, telling: impl Future<Output = ()>) {
        let Turned(_one) = self;
        // Who takes longer is told nothing.
        let _ = timeout(LONGEST, telling).await;
    }
}

/// The last words on a connection, as far as its client still listens.
pub async fn say_last(mut stream: impl AsyncRead + AsyncWrite + Unpin, words: &[u8]) {
    // The client may be gone: then they are of no use.
    let _ = stream.write_all(words).await;
    let _ = stream.shutdown().await;
    let _ = tokio::io::copy(&mut stream.take(LATE_BYTES), &mut tokio::io::sink()).await;
}
