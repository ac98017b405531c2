//! Lanes that several engines have: where each stands in what orders its commits.
//!
//! | file | what it owns |
//! |---|---|
//! | `position` | [`Position`]: the newest commit that was applied, and the hash of all before |
//! | `halt` | [`Halt`]: why a lane stands still for good |
//! | `place` | [`LaneState`], [`LanePlace`]: where a lane stands, for those outside of it |
//!
//! What orders the commits is a `LaneOrder`: see `lane/ordering`.

pub(super) mod halt;
pub(super) mod place;
pub(super) mod position;

pub use halt::Halt;
pub use place::{LanePlace, LaneState, Term};
pub use position::{HistoryHash, Position};
