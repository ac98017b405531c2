//! What a transaction keeps until it is done, and what it may keep.

use crate::commands::items::ItemVerb;
use crate::commands::table::Verb;
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

/// Whether a command is done at once within a transaction.
pub(super) fn acts_at_once(verb: Verb) -> bool {
    matches!(
        verb,
        Verb::Exec | Verb::Discard | Verb::Multi | Verb::Watch | Verb::Reset | Verb::Quit
    )
}

/// Whether a command may be part of a transaction.
pub(super) fn may_be_queued(verb: Verb) -> bool {
    ItemVerb::of(verb).is_some()
        || matches!(
            verb,
            Verb::CfReserve
                | Verb::CfInfo
                | Verb::CfDebug
                | Verb::BfReserve
                | Verb::BfInfo
                | Verb::BfCard
                | Verb::Ping
                | Verb::Echo
                | Verb::Exists
                | Verb::Type
                | Verb::Ttl
                | Verb::PTtl
                | Verb::Expire
                | Verb::PExpire
                | Verb::ExpireAt
                | Verb::PExpireAt
                | Verb::Persist
                | Verb::Del
                | Verb::Unlink
        )
}
