//! What a transaction keeps until it is done.

use crate::protocol::pipeline::KeptCommands;
use crate::server::admission::budget::Held;
use std::time::Instant;

/// What is kept.
pub(super) struct Transaction {
    pub(super) since: Instant,
    pub(super) commands: KeptCommands,
    /// Memory for them.
    pub(super) held: Option<Held>,
    pub(super) is_refused: bool,
}

impl Transaction {
    /// Begins now, with nothing.
    pub(super) fn begin() -> Transaction {
        Transaction {
            since: Instant::now(),
            commands: KeptCommands::default(),
            held: None,
            is_refused: false,
        }
    }

    /// A command of it was refused, or what its key allows has changed: nothing
    /// of it may be done, and nothing is kept any more.
    pub(super) fn refuse(&mut self) {
        *self = Transaction {
            since: self.since,
            is_refused: true,
            ..Transaction::begin()
        };
    }
}
