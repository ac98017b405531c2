//! What HTTP does in a cluster: changes go to the pod that leads the lane of their
//! filter, and questions may ask for a state that is new enough.
//!
//! | file | what it owns |
//! |---|---|
//! | `pod` | [`Cluster`]: this pod among others, as HTTP knows it |
//! | `answer` | where a request is answered, and what it waits for before |
//! | `link` | connections between pods, which prove to each other that they are some |
//! | `pass` | passes a request on to another pod, and its answer back |
//! | `commands` | sends commands of the Redis protocol to another pod, and takes in those of others |
//! | `passed` | such commands and their replies, and what works on them ([`passed::CommandWorker`]) |
//! | `internal` | what pods ask of each other |
//! | `position` | positions as headers have them |
//! | `readiness` | what `/readyz` says of the cluster |
//! | `status` | how the cluster is, for people |
//!
//! A change is passed on once, or twice where its lane was handed over meanwhile: the
//! pod that gets it then does it, or refuses. Both pods check what the caller may do:
//! the request goes on with its API key.

pub(super) mod answer;
pub(super) mod commands;
pub(super) mod internal;
pub(super) mod link;
pub(super) mod pass;
pub(super) mod passed;
pub(super) mod pod;
pub(super) mod position;
mod readiness;
pub(super) mod status;

pub use internal::SNAPSHOT;
pub use link::Links;
pub use pod::Cluster;
pub use readiness::Staleness;
pub use status::ClusterStatus;
