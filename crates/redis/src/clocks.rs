//! What a connection waits for beside its client: clocks, and the end of the
//! caller's API key.

use super::service::RedisOptions;
use crate::access::keys::ApiKey;
use crate::server::{Limits, ServerOptions};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a connection waits for its client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    /// For a handshake of TLS, and for the client to say who it is.
    pub(super) first: Duration,
    /// Between two commands; `None`: for ever.
    pub(super) between: Option<Duration>,
    /// Within a command.
    pub(super) within: Duration,
    /// For a whole command, and for a transaction.
    pub(super) whole: Duration,
    /// For a client that reads nothing.
    write: Duration,
    /// Bytes a second that it must read beyond that; 0: any.
    write_rate: u64,
}

impl Clocks {
    pub(super) fn of(server: &ServerOptions, options: &RedisOptions, limits: &Limits) -> Clocks {
        Clocks {
            first: server.header_timeout,
            between: (!options.idle_timeout.is_zero()).then_some(options.idle_timeout),
            within: limits.body_idle_timeout,
            whole: limits.body_timeout,
            write: server.write_timeout,
            write_rate: server.min_read_rate,
        }
    }

    /// For so many bytes of replies.
    pub(super) fn write_of(&self, bytes: usize) -> Duration {
        let beyond = (bytes as u64).checked_div(self.write_rate);
        self.write + beyond.map_or(Duration::ZERO, Duration::from_secs)
    }
}

/// Waits for the end of a key, from one reading to the next: to begin anew each
/// time would cost as much as a small command.
pub(super) struct KeyWatch {
    key: Arc<ApiKey>,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl KeyWatch {
    /// Has it be this key that is waited for.
    pub(super) fn follow(watch: &mut Option<KeyWatch>, key: Option<&Arc<ApiKey>>) {
        let watched = watch.as_ref().map(|watch| Arc::as_ptr(&watch.key));
        if watched == key.map(Arc::as_ptr) {
            return;
        }
        *watch = key.map(|key| {
            let (key, waited) = (Arc::clone(key), Arc::clone(key));
            let ended = Box::pin(async move {
                waited.ended().await;
            });
            KeyWatch { key, ended }
        });
    }

    /// Waits until it is over with the key; for ever, if there is none.
    pub(super) async fn ended(watch: &mut Option<KeyWatch>) {
        match watch {
            Some(of_key) => of_key.ended.as_mut().await,
            None => pending().await,
        }
        // It must not be asked again.
        *watch = None;
    }
}
