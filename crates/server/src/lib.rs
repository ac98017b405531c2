//! What every protocol stands on: listeners and their connections, TLS, what
//! requests may hold and for how long, who asks, and what all of them share.
//!
//! | file | what it owns |
//! |---|---|
//! | `app` | what all requests share: the engine once it is open, backups, keys, the cluster |
//! | `arriving` | what arrives, for work that may block |
//! | `options` | how connections are bounded, and how a stop goes |
//! | `listen` | how many connections there may be, TLS, their clocks, polls and drain |
//! | `admission` | what requests may hold at the same time, and how long work is paced |
//! | `principal` | who asks, as far as the API key tells |
//! | `refusal` | why something was refused, whatever protocol it came by |
//! | `used_up` | what requests can use up, and what is said of it |
//! | `cluster` | in a cluster: connections to other pods, what is forwarded, positions, readiness |

pub mod admission;
pub mod app;
pub mod arriving;
pub mod cluster;
pub mod listen;
pub mod options;
pub mod principal;
pub mod refusal;
pub mod used_up;

use {
    cuckood_access as access, cuckood_backup as backup, cuckood_codes as codes,
    cuckood_engine as engine, cuckood_metrics as metrics, cuckood_share as share,
};

pub use admission::limits::{Limits, MAX_REQUEST_TIMEOUT};
pub use app::{Access, App, HostPolicy};
pub use cluster::links::Links;
pub use cluster::pod::Cluster;
pub use cluster::readiness::Staleness;
pub use cluster::status::ClusterStatus;
pub use listen::role::{ListenerRole, Transport};
pub use listen::tls::{ClientCertPolicy, Tls, TlsError, TlsFiles};
pub use options::{CONNECTIONS_PART, ServerOptions};
pub use refusal::Refusal;
pub use used_up::{Exhausted, Scarce};
