//! This pod among others, as whoever asks it sees that.
//!
//! | file | what it owns |
//! |---|---|
//! | `pod` | [`pod::Cluster`]: this pod among others |
//! | `links` | connections between pods, which prove to each other that they are some |
//! | `headers` | what pods and callers say about positions and forwarding |
//! | `position` | positions as headers have them |
//! | `route` | which pod does something about a filter |
//! | `forward` | has another pod do it |
//! | `commands` | commands of the Redis protocol that are forwarded, and what works on them |
//! | `readiness` | what `/readyz` says of the cluster |
//! | `status` | how the cluster is, for people |

pub mod commands;
pub mod forward;
pub mod headers;
pub mod links;
pub mod pod;
pub mod position;
pub(crate) mod readiness;
pub mod route;
pub mod status;
