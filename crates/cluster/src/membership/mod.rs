//! What a pod is of a cluster, and whether its data and the cluster's log go together.
//!
//! | file | what it owns |
//! |---|---|
//! | `part.rs` | [`Membership`]: what an engine is given to be a part of a cluster |
//! | `start.rs` | [`LaneStart`]: from where a lane goes on, and why it may not ([`JoinError`]) |
//! | `elsewhere.rs` | what other pods have applied, held against what this one has |
//! | `past.rs` | [`PodPosition`]: whether one pod's state may take the place of another's |

mod elsewhere;
mod part;
mod past;
mod start;

pub use part::Membership;
pub use past::{PodPosition, Unfit};
pub use start::JoinError;
pub(super) use start::LaneStart;
