//! Commands that are passed on to another pod, and what comes of them.

use super::position::LanePosition;
use crate::engine::EngineError;
use crate::http::headers::PASSED_ON_BY;
use crate::http::middleware::principal::Principal;
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

/// The pods that have passed something on, the first one first.
#[derive(Clone, Debug, Default)]
pub(crate) struct PassedOnBy(Vec<HeaderValue>);

impl PassedOnBy {
    pub(super) fn of(headers: &HeaderMap) -> PassedOnBy {
        PassedOnBy(headers.get_all(PASSED_ON_BY).iter().cloned().collect())
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &HeaderValue> {
        self.0.iter()
    }

    /// Whether it goes on to another pod: the first time, and once more where the
    /// lane was handed over meanwhile, but not back.
    pub(super) fn may_go_on(&self, to: &str) -> bool {
        match self.0.as_slice() {
            [] => true,
            [by] => by.as_bytes() != to.as_bytes(),
            _ => false,
        }
    }
}

/// What goes with commands that are passed on.
#[derive(Clone)]
pub(crate) struct PassedHead {
    /// The API key of the client, as it was shown.
    pub(crate) token: Option<Arc<str>>,
    /// The version of the replies.
    pub(crate) version: u8,
    /// Whether questions are about all that was acknowledged before.
    pub(crate) is_strong: bool,
    /// What questions are to take into account.
    pub(crate) positions: Vec<LanePosition>,
    /// Who has passed them on.
    pub(crate) passed_on_by: PassedOnBy,
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

/// What a worker came to: its replies, and where the lanes stand that it may have
/// changed.
pub(crate) type Worked = (Vec<u8>, Vec<LanePosition>);

/// Works on commands that another pod has passed on.
pub(crate) trait CommandWorker: Send + Sync {
    /// Works on them.
    fn work(
        &self,
        caller: Principal,
        head: PassedHead,
        commands: Bytes,
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
