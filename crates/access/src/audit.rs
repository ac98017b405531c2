//! The log of who did what: one line for each act that ends or replaces a filter,
//! for each operator's act, and for each change of the keys themselves. What is
//! said in it of requests, `http` says.
//!
//! It holds names of API keys, of filters and of backups; never an item, and
//! never a key.

use super::error::AccessError;
use super::grant::KeyName;
use super::keys::KeyChanges;
pub use super::refusals::TARGET;
use parking_lot::Mutex;

/// Most names of keys in a line; how many there are is said besides.
const MAX_NAMES: usize = 20;

/// What became of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditOutcome {
    /// It was done.
    Done,
    /// It was done before; its answer was sent again.
    Replayed,
    /// It was refused, and nothing was changed.
    Refused,
    /// The server failed, and nothing was changed.
    Failed,
    /// It may have been done or not.
    Unknown,
}

impl AuditOutcome {
    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            AuditOutcome::Done => "done",
            AuditOutcome::Replayed => "replayed",
            AuditOutcome::Refused => "refused",
            AuditOutcome::Failed => "failed",
            AuditOutcome::Unknown => "unknown",
        }
    }
}

/// Writes a line each time that a keys file was read again, and one, not one for
/// each attempt, when it can't be used.
#[derive(Default)]
pub struct ReloadAudit {
    /// Why it can't be used now.
    failure: Mutex<Option<String>>,
}

impl ReloadAudit {
    /// Logs what came of reading the file again; `keys`: how many there are now.
    pub fn log(&self, reloaded: &Result<KeyChanges, AccessError>, keys: usize) {
        let mut failure = self.failure.lock();
        match reloaded {
            Ok(changes) => {
                *failure = None;
                tracing::info!(
                    target: TARGET,
                    action = "reload_keys",
                    outcome = AuditOutcome::Done.name(),
                    keys,
                    added = changes.added.len(),
                    added_names = names(&changes.added),
                    removed = changes.removed.len(),
                    removed_names = names(&changes.removed),
                    changed = changes.changed.len(),
                    changed_names = names(&changes.changed),
                    "keys file"
                );
            }
            Err(error) => {
                let reason = error.to_string();
                if failure.as_ref() == Some(&reason) {
                    return;
                }
                tracing::info!(
                    target: TARGET,
                    action = "reload_keys",
                    outcome = AuditOutcome::Refused.name(),
                    keys,
                    reason,
                    "keys file"
                );
                *failure = Some(reason);
            }
        }
    }
}

fn names(keys: &[KeyName]) -> String {
    let names: Vec<&str> = keys.iter().take(MAX_NAMES).map(KeyName::as_str).collect();
    names.join(" ")
}
