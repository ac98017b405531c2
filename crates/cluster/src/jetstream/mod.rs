//! The commit log in NATS JetStream: a stream for an epoch of a cluster, in it
//! a subject for each lane.
//!
//! | file | what it owns |
//! |---|---|
//! | `connect.rs` | the connection, and what a broker must be |
//! | `stream.rs` | how the stream is set up: made once, compared at each start |
//! | `founding.rs` | founds a cluster; whether stream and bucket are still as they were made |
//! | `name.rs` | what it is called |
//! | `sync.rs` | whether every broker forces what it acknowledges to its disk |
//! | `log.rs` | [`JetStreamLog`]: appends, looks, trims |
//! | `cursor.rs` | reads a lane's records in order |
//! | `bucket.rs` | what pods tell each other: a key-value bucket |
//! | `seal.rs` | [`Seals`]: who wrote what is there |
//! | `epochs.rs` | which epoch is the current one, and how another begins |
//! | `kept.rs` | how far each lane is, outside of the log |
//! | `leases.rs` | who leads a lane |
//! | `keeping.rs` | keeps the lease of a lane, and spreads lanes over pods |
//! | `pods.rs` | the pods, as they announce themselves |
//! | `time.rs` | what time it is for the brokers |
//! | `error.rs` | what people are told when a start fails |

mod bucket;
mod connect;
mod cursor;
mod epochs;
mod error;
mod founding;
mod keeping;
mod kept;
mod leases;
mod log;
mod name;
mod pods;
mod seal;
mod stream;
mod sync;
mod time;

pub use connect::{Brokers, Connection, connect};
pub use epochs::{Epoch, NUMBERS_BETWEEN, NewEpoch, current_epoch, is_of_epoch};
pub use error::JetStreamError;
pub use founding::{check_settings, found, give_up_founding};
pub use keeping::LeaseKeeping;
pub use kept::{Kept, KeptPositions};
pub use leases::{Holder, Lease, LeaseWatch, Leases};
pub use log::{JetStreamLog, Patience};
pub use name::ClusterName;
pub use pods::{ANNOUNCE_EVERY, Announced, Announcements, PodState};
pub use seal::Seals;
pub use stream::{Founding, open};
pub use sync::check_sync;
pub use time::brokers_time;
