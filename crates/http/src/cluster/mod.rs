//! What HTTP does in a cluster: changes go to the pod that leads the lane of their
//! filter, and questions may ask for a state that is new enough.
//!
//! | file | what it owns |
//! |---|---|
//! | `answer` | where a request is answered, and what it waits for before |
//! | `forward` | forwards a request to another pod, and its answer back |
//! | `commands` | commands of the Redis protocol that another pod has forwarded |
//! | `internal` | what pods ask of each other |
//!
//! A change is forwarded once, or twice where its lane was handed over meanwhile: the
//! pod that gets it then does it, or refuses. Where it says that it leads no more, the
//! first pod looks again who does; so the handing over of a lane refuses nobody. Both pods check what the caller may do:
//! the request goes on with its API key.

pub(super) mod answer;
pub(super) mod commands;
pub(super) mod forward;
pub(super) mod internal;

pub use internal::SNAPSHOT;
