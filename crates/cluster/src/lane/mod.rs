//! A lane of an engine over a commit log: what the log has settled is what the engine
//! applies.
//!
//! | file | what it owns |
//! |---|---|
//! | `ordering.rs` | [`ReplicatedOrder`]: has the log order what the lane plans |
//! | `inbox.rs` | [`Inbox`]: what happened to the log, until the lane's thread hears of it |
//! | `following.rs` | reads what other pods have committed, beside the lane |
//! | `measured_log.rs` | [`MeasuredLog`]: a log whose appends are counted and timed |

mod following;
mod inbox;
mod measured_log;
mod ordering;

pub(super) use inbox::Inbox;
pub use measured_log::MeasuredLog;
pub(super) use ordering::ReplicatedOrder;
