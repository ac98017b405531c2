//! The end of all connections when the server stops.

use crate::options::ServerOptions;
use tokio::sync::watch;
use tokio::time::timeout;

/// Tells connections that the server stops, and knows which are open.
pub struct Drain(watch::Sender<bool>);

/// What a connection, or who accepts them, is told by; the connection counts as open
/// as long as it has this.
#[derive(Clone)]
pub struct Draining(watch::Receiver<bool>);

impl Drain {
    /// Of a server that does not stop yet.
    pub fn new() -> (Drain, Draining) {
        let (sender, receiver) = watch::channel(false);
        (Drain(sender), Draining(receiver))
    }

    /// Tells all of them.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Waits until all connections are closed, for as long as the server may; how
    /// many are not.
    pub async fn finish(&self, options: &ServerOptions) -> usize {
        match timeout(options.drain_timeout, self.0.closed()).await {
            Ok(()) => 0,
            Err(_) => self.0.receiver_count(),
        }
    }
}

impl Draining {
    /// Waits until the server stops.
    pub async fn begun(&mut self) {
        // An error means that the sender is gone, and with it the server.
        let _ = self.0.wait_for(|&begun| begun).await;
    }

    /// Whether it does.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }
}
