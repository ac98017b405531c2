//! What people are told when a start fails.

use async_nats::{Event, ServerError};
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// What the broker's client said.
pub(super) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What comes of asking the brokers.
pub(crate) type Result<T, E = JetStreamError> = std::result::Result<T, E>;

/// Why a cluster's log can't be used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum JetStreamError {
    /// No broker answers, or none lets this pod in.
    #[error(
        "no broker of {servers} can be used: {source}; check --log, and --log-credentials if the brokers ask for them"
    )]
    Unreachable {
        /// Where it was tried.
        servers: String,
        /// What the client said.
        source: Cause,
    },
    /// A record would not go through.
    #[error(
        "the broker takes messages of up to {found} bytes, a record with its headers needs {needed}: set `max_payload` in the broker's configuration to 1MB, its default"
    )]
    PayloadTooSmall {
        /// What it takes.
        found: usize,
        /// What is needed.
        needed: usize,
    },
    /// Not a name that a subject can have.
    #[error("{name:?} is no name of a cluster: use 1 to 32 characters of `A-Z a-z 0-9 _ -`")]
    BadName {
        /// What was given.
        name: String,
    },
    /// The number of lanes makes no sense.
    #[error("a cluster has 1 to 256 lanes, not {lanes}")]
    BadLanes {
        /// What was given.
        lanes: u32,
    },
    /// There is no such cluster.
    #[error(
        "there is no stream {stream}: found the cluster once with `cuckood cluster found`. If it was founded, these are the wrong brokers, or they have lost its log: then begin a new epoch with `cuckood cluster new-epoch`"
    )]
    NoStream {
        /// What the stream would be called.
        stream: String,
    },
    /// What pods tell each other is gone.
    #[error(
        "there is no bucket {bucket}: the brokers have lost what pods tell each other. Begin a new epoch with `cuckood cluster new-epoch`, which makes it anew, but not with --dry-run: that can name the data directory of a pod that does not run"
    )]
    NoBucket {
        /// What the bucket would be called.
        bucket: String,
    },
    /// The epoch of the stream is over, and it is not known which one came next.
    #[error(
        "stream {stream} is sealed: its epoch is over, and the brokers do not have the key of the one that came next. Begin a new epoch from a pod that lacks nothing that was acknowledged: `cuckood cluster new-epoch`"
    )]
    Sealed {
        /// What it is called.
        stream: String,
    },
    /// What the bucket says of the epoch makes no sense.
    #[error(
        "key epoch of bucket {bucket} is {reason}: somebody changed it. Begin a new epoch from a pod that lacks nothing that was acknowledged: `cuckood cluster new-epoch`"
    )]
    BadEpoch {
        /// The bucket.
        bucket: String,
        /// What is wrong.
        reason: String,
    },
    /// The new epoch was begun by somebody else meanwhile.
    #[error(
        "somebody else has begun an epoch of the cluster at the same time, so this one was given up: look at `cuckood cluster status`"
    )]
    EpochOvertaken,
    /// A later epoch has more than an epoch begins with.
    #[error(
        "stream {stream} has changes: the brokers lost which epoch is current. Name a pod of epoch {epoch}, or remove that stream if its changes are to be given up"
    )]
    EpochInUse {
        /// What the stream is called.
        stream: String,
        /// The epoch that it is of.
        epoch: u64,
    },
    /// There is one already.
    #[error("the cluster is founded: stream {stream} is there. Start pods with `cuckood serve`")]
    Founded {
        /// What the stream is called.
        stream: String,
    },
    /// The stream is set up in a way in which records could be lost.
    #[error(
        "stream {stream} has {field} {found}, it needs {needed}: somebody changed it. Set it back, for instance with `nats stream edit {stream}`"
    )]
    Stream {
        /// What it is called.
        stream: String,
        /// The setting, as the broker calls it.
        field: &'static str,
        /// How it is.
        found: String,
        /// How it must be.
        needed: String,
    },
    /// A broker acknowledges what is not on its disk.
    #[error(
        "broker {server} does not force what it acknowledges to its disk: a power cut would lose changes. Set `sync_interval: always` in the `jetstream` section of its configuration, or accept the loss with --log-unsafe"
    )]
    NotSynced {
        /// Its name.
        server: String,
    },
    /// Whether one does could not be seen.
    #[error(
        "whether broker {server} forces what it acknowledges to its disk could not be seen: {reason}. Name the monitoring addresses of all brokers with --log-monitor, or accept the risk with --log-unsafe"
    )]
    SyncUnseen {
        /// Its name or its address.
        server: String,
        /// Why.
        reason: String,
    },
    /// Another pod has the same address.
    #[error(
        "another pod of the cluster runs at {address}: give each pod an address of its own with --advertise"
    )]
    AddressTaken {
        /// The address.
        address: String,
    },
    /// The broker refused or did not answer.
    #[error("the broker failed while {doing}: {source}")]
    Broker {
        /// What was being done.
        doing: &'static str,
        /// What the client said.
        source: Cause,
    },
}

/// What a broker has forbidden this process last: whoever asked gets no answer to that.
static FORBIDDEN: Mutex<Option<(Instant, String)>> = Mutex::new(None);

/// For how long that is said: what was begun meanwhile is not waited for longer.
const FORBIDDEN_FOR: Duration = Duration::from_secs(60);

/// Remembers what a broker has forbidden.
pub(super) fn remember(event: Event) {
    if let Event::ServerError(ServerError::Other(said)) = event
        && said.starts_with("Permissions Violation")
    {
        *FORBIDDEN.lock() = Some((Instant::now(), said));
    }
}

/// What the client said, and what it does not know.
fn explained(cause: Cause) -> Cause {
    let said = cause.to_string();
    if said.contains("not supported in non-clustered mode") {
        return format!("{said}; with one broker: --copies 1").into();
    }
    match &*FORBIDDEN.lock() {
        Some((when, why)) if said.contains("timed out") && when.elapsed() < FORBIDDEN_FOR => {
            format!("{said}; a moment ago the brokers refused: {why}").into()
        }
        _ => cause,
    }
}

impl JetStreamError {
    /// For `map_err`: what was being done when the client failed.
    pub(super) fn while_doing<E>(doing: &'static str) -> impl FnOnce(E) -> JetStreamError
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        move |source| JetStreamError::Broker {
            doing,
            source: explained(source.into()),
        }
    }
}
