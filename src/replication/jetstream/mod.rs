//! The commit log in NATS JetStream: a stream for an epoch of a cluster, in it
//! a subject for each lane.
//!
//! | file | what it owns |
//! |---|---|
//! | `connect.rs` | the connection, and what a broker must be |
//! | `stream.rs` | how the stream is set up: made once, compared at each start |
//! | `sync.rs` | whether every broker forces what it acknowledges to its disk |
//! | `log.rs` | [`JetStreamLog`]: appends, looks, trims |
//! | `cursor.rs` | reads a lane's records in order |
//! | `leases.rs` | who leads a lane, in a key-value bucket |
//! | `keeping.rs` | keeps the lease of a lane, and spreads lanes over pods |
//! | `pods.rs` | the pods, as they announce themselves |
//! | `error.rs` | what people are told when a start fails |

mod connect;
mod cursor;
mod error;
mod keeping;
mod leases;
mod log;
mod pods;
mod stream;
mod sync;

pub use connect::{Brokers, Connection, connect};
pub use error::JetStreamError;
pub use keeping::LeaseKeeping;
pub use leases::{Holder, Lease, Leases};
pub use log::{JetStreamLog, Patience};
pub use pods::{ANNOUNCE_EVERY, Announcements, PodState};
pub use stream::{ClusterName, Founding, found, give_up_founding, open};
pub use sync::check_sync;
