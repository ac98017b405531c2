//! Lanes that several pods have: every commit of a lane goes through a log that
//! all of them read, and every pod applies every record in the same order.
//!
//! Consensus, the log's storage and its copies are the log's: NATS JetStream.
//! Here is what makes a replicated state machine of it: what a record says of
//! itself, when one may be applied, and what became of one whose answer was
//! lost.
//!
//! | file | what it owns |
//! |---|---|
//! | `record.rs` | the bytes of a record; a lane's position |
//! | `commit_log.rs` | [`CommitLog`]: what is asked of a log, and what it promises |
//! | `replica/` | [`Replica`]: the rules, as a state machine without I/O |
//! | `lease.rs` | [`LeaseKeeper`]: when a lease is taken, renewed and lost |
//! | `leaders.rs` | [`Leaders`]: who leads each lane, as far as this pod knows |
//! | `level.rs` | [`LevelKeeper`]: which feature level records are written at |
//! | `trimming.rs` | how far a log may be trimmed |
//! | `driver.rs` | [`Driver`]: does what a replica says, over a log |
//! | `jetstream/` | the log in NATS JetStream, and the leases |
//! | `lane/` | an engine's lane over a log: what the log has settled is what the engine applies |
//! | `membership/` | what a pod is of its cluster, and whether its data and the log go together |
//! | `member/` | [`Member`]: an engine in a cluster, and what its lanes are told from outside |
//! | `tests/` | a log that drops, delays, repeats, rewinds; pods that crash; what must hold |
//!
//! A commit is opaque bytes here. Nothing assumes that a pod has every lane, or
//! that all lanes are in one log.

#[cfg(test)]
#[path = "../../engine/tests/checked/mod.rs"]
mod checked;
pub mod commit_log;
pub mod driver;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz_targets;
pub mod jetstream;
mod lane;
pub mod leaders;
pub mod lease;
pub mod level;
mod member;
mod membership;
#[cfg(test)]
#[path = "../../pages/tests/memory/mod.rs"]
mod memory;
pub mod record;
pub mod replica;
#[cfg(test)]
mod tests;
pub mod trimming;

use cuckood_access::mac;
use cuckood_pages::store;
use {cuckood_engine as engine, cuckood_metrics as metrics};
#[cfg(test)]
use {
    cuckood_filter::{chain, cuckoo},
    cuckood_pages::page,
};

pub use crate::engine::{Halt, HistoryHash, Position, Term};
pub use commit_log::{Answer, Append, CommitLog, Found, LogError, MessageId, Stored};
pub use driver::{Apply, Driver, Report};
pub use lane::MeasuredLog;
pub use leaders::{Leader, Leaders};
pub use lease::{Duty, KeptLane, LeaseKeeper, Renewal};
pub use level::LevelKeeper;
pub use member::Member;
pub use membership::{JoinError, Membership, PodPosition, Unfit};
pub use record::{FIRST_EPOCH, LaneIdentity, Record, RecordError, Writer};
pub use replica::{Attempt, Effect, Event, Levels, Plan, PlanNumber, PlanOutcome, Replica};
