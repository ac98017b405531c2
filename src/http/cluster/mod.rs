//! What HTTP does in a cluster: changes go to the pod that leads the lane of their
//! filter, and questions may ask for a state that is new enough.
//!
//! | file | what it owns |
//! |---|---|
//! | `pod` | [`Cluster`]: this pod among others, as HTTP knows it |
//! | `answer` | where a request is answered, and what it waits for before |
//! | `pass` | passes a request on to another pod, and its answer back |
//! | `position` | positions as headers have them |
//! | `readiness` | what `/readyz` says of the cluster |
//!
//! A change is passed on once: the pod that gets it does it, or refuses. Who may
//! do what is found out by both pods: the request goes on with its API key.

pub(super) mod answer;
pub(super) mod pass;
pub(super) mod pod;
mod position;
mod readiness;

pub use pod::Cluster;
pub use readiness::Staleness;
