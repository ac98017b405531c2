//! Commands that are passed on to another pod, and what comes of them.

use super::position::LanePosition;
use crate::access::keys::ApiKey;
use crate::engine::EngineError;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// Commands that are passed on.
pub(crate) struct PassedCommands {
    /// One behind the other, each an array of words.
    pub(crate) bytes: Bytes,
    /// The version of the replies.
    pub(crate) version: u8,
    /// Whether questions are about all that was acknowledged before.
    pub(crate) is_strong: bool,
    /// Until when the caller waits.
    pub(crate) until: Instant,
}

/// What came of them.
pub(crate) struct PassedReplies {
    /// One behind the other, as many as there were commands.
    pub(crate) bytes: Bytes,
    /// Where the lanes stand that were changed.
    pub(crate) positions: Vec<LanePosition>,
}

/// What a worker came to: its replies, and the lanes that it may have changed.
pub(crate) type Worked = (Vec<u8>, BTreeSet<u32>);

/// Works on commands that another pod has passed on.
pub(crate) trait CommandWorker: Send + Sync {
    /// Works on them for the caller with this key, if keys are asked for.
    fn work(
        &self,
        key: Option<Arc<ApiKey>>,
        commands: PassedCommands,
    ) -> Pin<Box<dyn Future<Output = Worked> + Send + '_>>;
}

/// Why commands that were passed on have no replies.
pub(crate) enum NotPassed {
    /// As the engine would say it.
    Engine(EngineError),
    /// The other pod refuses them as a whole; nothing was done.
    Refused {
        /// Whether it may take them a little later.
        may_pass: bool,
        /// What it said.
        detail: String,
    },
}
