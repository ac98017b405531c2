//! Why the engine did not do what it was asked.

use super::disk::Refusal;
use super::name::FilterName;
use super::row_refusal::{RowRefusal, ValueField};
use super::shared::Halt;
use crate::chain::params::{Attributes, FilterParams, ParamsError};
use crate::chain::union::UnionError;
use crate::codes::Code;
use crate::share::UsedUp;
use crate::store::StoreError;
use crate::store::disk::DiskShort;
use std::sync::Arc;

/// What is at its bound. Each passes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Overload {
    /// The lane has to settle a commit of unknown outcome first.
    #[error("an earlier commit failed and the store does not accept writes yet")]
    CommitIndeterminate,
    /// Checkpoints fail while log or dirty pages are at their bound.
    #[error("pages can't be written to the store, and memory for more is used up")]
    Checkpoints,
    /// Counters beside pages that commands keep in memory.
    #[error("counters of hot items take all the memory that they may")]
    Counters,
    /// The items in front of a lane.
    #[error("too many items wait to be written")]
    QueuedItems,
    /// The commands in front of a lane.
    #[error("too many commands wait to be written")]
    QueuedCommands,
    /// The open filters.
    #[error("too many filters are in use at the same time")]
    OpenFilters,
    /// The compactions that run.
    #[error("too many filters are being compacted")]
    Compactions,
    /// The storage engine stopped taking changes.
    #[error("the storage engine refuses changes after an error")]
    StorageRefuses,
    /// A write to the disk is under way for long.
    #[error("the disk has not answered a write for seconds")]
    DiskHangs,
    /// The threads, or the memory, for reads of the disk.
    #[error("too many requests wait for the disk, which has not answered for seconds")]
    Disk,
    /// Commits overtake a look into a filter's slots again and again.
    #[error("the filter changes faster than it can be looked into")]
    FilterChanges,
    /// Filters are replaced while a lookup asks them, again and again.
    #[error("filters are replaced faster than they can be looked up in")]
    FiltersReplaced,
}

/// How to need less room for stored answers.
const KEPT_FOR: &str = "An answer is kept for 24 hours unless the request says in how many seconds it may still be sent again (Idempotency-Key-Lifetime); send requests that may be applied twice without a key";

/// What comes of asking the engine.
pub(crate) type Result<T = (), E = EngineError> = std::result::Result<T, E>;

/// Why the engine did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// There is no filter of this name.
    #[error("the filter {name} does not exist")]
    NotFound {
        /// The name.
        name: FilterName,
    },
    /// The parameters break limits.
    #[error("{}", refused(.0))]
    InvalidParams(Vec<ParamsError>),
    /// The filter and another can't become one.
    #[error("the filter {with} can't be merged: {why}")]
    NotMerged {
        /// The other.
        with: FilterName,
        /// Why not.
        why: UnionError,
    },
    /// A merge takes more memory than all of them may.
    #[error(
        "the merge takes {bytes} bytes of memory, and a quarter of --max-buffered-bytes is less; start the server with --max-buffered-bytes={}MiB or more, or merge dumps of the filters (cuckood merge)",
        .bytes.saturating_mul(4).div_ceil(1 << 20)
    )]
    MergeTooLarge {
        /// Bytes that it takes.
        bytes: u64,
    },
    /// The filter's items have values, or rows, and none was given; or the other way
    /// round.
    #[error("{}", instead(holds))]
    NotForThisFilter {
        /// What the filter holds.
        holds: Holds,
    },
    /// The filter's items have no rows, and it was asked for some.
    #[error(
        "the items of the filter have no attributes (it was created without attributes): leave where out"
    )]
    NoAttributes,
    /// A row, or a condition, is none in this filter.
    #[error(transparent)]
    RowRefused(Box<RowRefusal>),
    /// The filter's items expire, and one was to be deleted.
    #[error(
        "the items of the filter expire by themselves (it was created with window_seconds) and can't be deleted: an entry may be that of several items"
    )]
    ItemsExpire,
    /// The filter's items do not expire, and it was asked when one was seen.
    #[error(
        "the items of the filter {filter} do not expire (it was created without window_seconds): leave within_seconds out, or ask filters with a window alone"
    )]
    NoWindow {
        /// The filter.
        filter: FilterName,
    },
    /// It was asked for longer than the filter's window.
    #[error(
        "within_seconds is {within_seconds}, allowed is 1 to {window_seconds}, the window of the filter {filter}"
    )]
    BeyondWindow {
        /// The filter.
        filter: FilterName,
        /// Seconds that were asked for.
        within_seconds: u64,
        /// Seconds of the window.
        window_seconds: u32,
    },
    /// A value does not fit.
    #[error("value {value} does not fit in {value_bits} bits ({})", allowed_values(*value_bits))]
    ValueTooLarge {
        /// Its position among those given.
        position: usize,
        /// Which value of the entry.
        field: ValueField,
        /// The value.
        value: u32,
        /// Bits of the filter's values.
        value_bits: u8,
    },
    /// The values of the items are too many for one answer.
    #[error(
        "the items have more than {bound} values together, the bound of one answer: ask for fewer items at once"
    )]
    TooManyValues {
        /// Values that an answer may have.
        bound: usize,
    },
    /// A batch touches more pages than a request may hold in memory.
    #[error("the batch touches {needed} pages, {bound} are allowed: send fewer items at once")]
    TooManyPages {
        /// Pages it touches.
        needed: usize,
        /// Pages it may touch.
        bound: usize,
    },
    /// An API key has its share of what callers can hold for a while.
    #[error("{}", over_share(what, used_up))]
    OverShare {
        /// Of what.
        what: &'static str,
        /// What is used up.
        used_up: UsedUp,
    },
    /// An API key has as much as it may of what stays until it is deleted.
    #[error(
        "the API key has {held} of {most} {what} that it may have ({flag}), and this would be more; delete some of its filters"
    )]
    OverKeyQuota {
        /// Of what.
        what: &'static str,
        /// The flag that bounds it.
        flag: &'static str,
        /// How much it has.
        held: u64,
        /// How much it may have.
        most: u64,
    },
    /// A change looks into too many sub-filters for too many items.
    #[error(
        "the change takes {items} times {sub_filters} probes (its items times the sub-filters of the filter), {bound} are allowed: send at most {} items at once, or create a filter with a larger capacity", bound / sub_filters.max(&1)
    )]
    TooManyChangeProbes {
        /// Its items.
        items: usize,
        /// Sub-filters of the filter.
        sub_filters: usize,
        /// Probes it may take.
        bound: usize,
    },
    /// A command changes too many words and counters of a filter for one commit.
    #[error(
        "the first {items} items of the request change more than {bound} words and counters of the filter, the bound of one commit: send fewer items at once"
    )]
    TooManyWords {
        /// Items that change so many.
        items: usize,
        /// Words and counters that it may change.
        bound: usize,
    },
    /// An API key has its share of what is kept for hours.
    #[error(
        "the API key has {held} {what}, and this would be more than its share of {bound} (--key-share); nothing was changed. Try again later"
    )]
    OverKeptShare {
        /// Of what.
        what: &'static str,
        /// How much it has.
        held: u64,
        /// How much there may be in all.
        bound: u64,
    },
    /// An API key has its share of stored answers.
    #[error(
        "the API key has {held} bytes of stored answers for retries, and this would be more than its share of {bound} (--max-idempotency-bytes, --key-share); its first one ends in {first_ends_in} seconds. Nothing was changed. {}",
        KEPT_FOR
    )]
    RetriesOverShare {
        /// Bytes that it has.
        held: u64,
        /// Bytes that there may be in all.
        bound: u64,
        /// Seconds after which its first answer has ended.
        first_ends_in: u64,
    },
    /// There are as many filters as there may be.
    #[error(
        "there are {bound} filters, the bound of the server (--max-filters); delete unused filters"
    )]
    TooManyFiltersInAll {
        /// How many there may be.
        bound: u64,
    },
    /// All filters together would take more bytes than they may.
    #[error(
        "the filter needs {needed} bytes, all filters together take {used} of {bound} allowed: create a smaller filter, delete filters, or start the server with a larger --max-total-bytes"
    )]
    OverQuota {
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that are taken.
        used: u64,
        /// Bytes that may be.
        bound: u64,
    },
    /// The disk is too full for changes.
    #[error(transparent)]
    DiskShort(#[from] DiskShort),
    /// A lookup asks more filters than it may.
    #[error(
        "the lookup asks more than {bound} filters: name fewer filters, use a longer prefix, or start the server with a larger --max-lookup-filters"
    )]
    TooManyFilters {
        /// Filters it may ask.
        bound: usize,
    },
    /// A question asks more sub-filters about more items than it may.
    #[error(
        "the question takes at least {probes} probes (its items times the sub-filters that they are looked for in), {bound} are allowed: send fewer items at once, ask fewer filters, or start the server with a larger --max-probes"
    )]
    TooManyProbes {
        /// Probes it takes, or more.
        probes: usize,
        /// Probes it may take.
        bound: usize,
    },
    /// Something is at its bound; try again later.
    #[error("the server is overloaded ({0}); try again in a moment")]
    Overloaded(#[from] Overload),
    /// A request with this key is on its way; its answer will be kept.
    #[error(
        "a request with this Idempotency-Key is in progress, or its outcome is not known yet; send it again in a moment"
    )]
    RetryInFlight,
    /// The key was used for another request.
    #[error(
        "this Idempotency-Key was used for another request to the same path, whose answer is still kept; send the same request as then, or use a new key"
    )]
    RetryConflict,
    /// The request was done, to a filter that is gone.
    #[error(
        "the first request with this Idempotency-Key was done for a filter of this name that has since been deleted or replaced, or has expired; nothing was changed now. To do it for the filter that has the name now, send it with a new key"
    )]
    RetryFilterGone,
    /// No more answers can be kept.
    #[error(
        "the stored answers for retries have reached their bound of {bound} bytes (--max-idempotency-bytes), {lasting} of them for answers that are kept for more than ten more minutes; the first one ends in {first_ends_in} seconds. Nothing was changed. {}",
        KEPT_FOR
    )]
    RetriesFull {
        /// Bytes that may be kept.
        bound: u64,
        /// Bytes of answers that are kept for ten more minutes and longer.
        lasting: u64,
        /// Seconds after which the first answer has ended.
        first_ends_in: u64,
    },
    /// The filter is being compacted already.
    #[error(
        "a compaction of the filter is running; GET /filters/{{key}}/compaction reports its progress"
    )]
    CompactionRunning,
    /// The filter was not compacted.
    #[error(
        "the filter was not compacted since the server started; POST /filters/{{key}}/compact starts a compaction"
    )]
    CompactionNotFound,
    /// Another request for this import is being worked on.
    #[error(
        "another request of this import is running; wait until it ends, or use another import_id for this stream"
    )]
    ImportRunning,
    /// Nothing is known of this import.
    #[error(
        "the import has committed nothing, or its last commit is more than a week old; start with its first line"
    )]
    ImportNotFound,
    /// No more imports can be begun.
    #[error(
        "the stored progress of imports has reached its bound (--max-imports); it is kept for a week. Try again later, or import more lines under fewer names"
    )]
    ImportsFull,
    /// This pod does not plan the changes of the filter.
    #[error(
        "no pod that can be reached leads the lane of the filter at the moment; nothing was changed. Try again in a moment"
    )]
    NotLeading,
    /// The commit log has not said in time whether it has a commit.
    #[error("the commit log did not answer in time, so the change may be committed or not")]
    LogSilent,
    /// The commit log does not answer; nothing was changed.
    #[error("the commit log does not answer; nothing was changed. Try again in a moment")]
    LogUnavailable,
    /// This pod has not applied in time what the caller wants to see.
    #[error(
        "this pod has not applied the position that was asked for in time; try again, or ask another pod"
    )]
    Behind,
    /// The lane of the filter stands still for good.
    #[error(
        "changes to the filter have stopped, because {}; nothing was changed. The server's log says what to do", .0.in_short()
    )]
    LaneHalted(Arc<Halt>),
    /// A commit is larger than a record of the commit log.
    #[error(
        "the change takes {bytes} bytes, {bound} are allowed in a cluster: send fewer items at once"
    )]
    TooLargeForLog {
        /// Its bytes.
        bytes: usize,
        /// Bytes that it may have.
        bound: usize,
    },
    /// The caller's deadline passed; nothing was changed.
    #[error(
        "the request was not done before its deadline, and nothing was changed; send it again, with less work or a later deadline (over HTTP the header Prefer: wait=SECONDS, up to the server's --request-timeout-seconds)"
    )]
    DeadlineExceeded,
    /// The caller's deadline passed while the commit was on its way to the disk.
    #[error(
        "the deadline passed while the change was being written, so the change may be committed or not"
    )]
    OutcomeLate,
    /// The server is stopping.
    #[error("{}", Code::Draining.sentence())]
    Stopping,
    /// A commit failed; whether it took place shows after the next one.
    #[error("{}", commit_failed(.0))]
    OutcomeUnknown(#[source] Arc<StoreError>),
    /// The store could not be read; nothing was changed.
    #[error("{}", storage_failed(.0))]
    Store(#[source] Arc<StoreError>),
}

impl EngineError {
    /// The kind of error that it is, in every protocol.
    pub fn code(&self) -> Code {
        match self {
            EngineError::NotFound { .. } => Code::FilterNotFound,
            EngineError::InvalidParams(_)
            | EngineError::ValueTooLarge { .. }
            | EngineError::RowRefused(_)
            | EngineError::BeyondWindow { .. } => Code::InvalidFields,
            EngineError::NotMerged { why, .. } => match why {
                UnionError::Full(_) => Code::FilterTooLarge,
                UnionError::Damaged(_) | UnionError::Contents => Code::StorageFailed,
                _ => Code::NotSiblings,
            },
            EngineError::NotForThisFilter { .. }
            | EngineError::ItemsExpire
            | EngineError::NoAttributes
            | EngineError::NoWindow { .. } => Code::NotForThisFilter,
            EngineError::OverShare { used_up, .. } => bound_reached(*used_up),
            EngineError::RetriesOverShare { .. } => Code::OverShare,
            EngineError::OverKeyQuota { .. } | EngineError::OverKeptShare { .. } => {
                Code::OverKeyQuota
            }
            EngineError::TooManyPages { .. } => Code::TooManyPages,
            EngineError::TooManyChangeProbes { .. }
            | EngineError::TooManyProbes { .. }
            | EngineError::TooManyValues { .. }
            | EngineError::TooManyWords { .. }
            | EngineError::MergeTooLarge { .. }
            | EngineError::TooLargeForLog { .. } => Code::TooCostly,
            EngineError::OverQuota { .. } => Code::OverQuota,
            EngineError::TooManyFiltersInAll { .. } => Code::TooManyFilters,
            EngineError::DiskShort(_) => Code::DiskReserve,
            EngineError::TooManyFilters { .. } => Code::LookupTooLarge,
            EngineError::Overloaded(_) => Code::Overloaded,
            EngineError::CompactionRunning => Code::CompactionRunning,
            EngineError::CompactionNotFound => Code::CompactionNotFound,
            EngineError::ImportNotFound => Code::ImportNotFound,
            EngineError::ImportRunning => Code::ImportRunning,
            EngineError::ImportsFull => Code::ImportsFull,
            EngineError::RetryInFlight => Code::IdempotencyInFlight,
            EngineError::RetryConflict => Code::IdempotencyKeyReused,
            EngineError::RetryFilterGone => Code::IdempotencyFilterGone,
            EngineError::RetriesFull { .. } => Code::IdempotencyFull,
            EngineError::DeadlineExceeded => Code::DeadlineExceeded,
            EngineError::OutcomeLate => Code::OutcomeUnknown,
            EngineError::LogSilent => Code::OutcomePending,
            EngineError::LogUnavailable => Code::LogUnavailable,
            EngineError::Behind => Code::PositionNotReached,
            EngineError::NotLeading => Code::NotLeading,
            EngineError::LaneHalted(_) => Code::LaneStopped,
            EngineError::Stopping => Code::Draining,
            EngineError::OutcomeUnknown(error) | EngineError::Store(error)
                if error.is_disk_full() =>
            {
                Code::DiskFull
            }
            EngineError::OutcomeUnknown(_) => Code::OutcomeUnknown,
            EngineError::Store(_) => Code::StorageFailed,
        }
    }

    /// Whether the change may be done, or still be done: its commit had begun.
    /// With every other error nothing was changed.
    pub fn may_be_done(&self) -> bool {
        matches!(
            self,
            EngineError::OutcomeUnknown(_) | EngineError::OutcomeLate | EngineError::LogSilent
        )
    }

    /// Why a filter does not become one with that one.
    pub(super) fn not_merged(with: &FilterName) -> impl FnOnce(UnionError) -> EngineError {
        let with = with.clone();
        |why| EngineError::NotMerged { with, why }
    }

    /// Whether a change was refused because of what the filter is, or because there
    /// is none.
    pub(super) fn is_of_the_filter(&self) -> bool {
        matches!(
            self,
            EngineError::NotFound { .. }
                | EngineError::NotMerged { .. }
                | EngineError::NotForThisFilter { .. }
                | EngineError::NoAttributes
                | EngineError::RowRefused(_)
                | EngineError::ItemsExpire
                | EngineError::ValueTooLarge { .. }
                | EngineError::CompactionRunning
        )
    }
}

impl From<Refusal> for EngineError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Short(short) => short.into(),
            Refusal::Refused => Overload::StorageRefuses.into(),
            Refusal::Hangs => Overload::DiskHangs.into(),
        }
    }
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        EngineError::Store(Arc::new(error))
    }
}

/// Refuses a filter whose pages could not be numbered.
pub(super) fn too_many_pages_to_number(params: &FilterParams) -> EngineError {
    EngineError::InvalidParams(vec![ParamsError {
        field: "capacity",
        given: params.capacity().to_string(),
        allowed: "what fits on 4294967296 pages".to_owned(),
    }])
}

fn refused(errors: &[ParamsError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}

fn commit_failed(error: &StoreError) -> &'static str {
    match error.is_disk_full() {
        true => {
            "the disk filled up during the commit, so the change may be committed or not; free space on the disk of the data"
        }
        false => "the storage failed during the commit, so the change may be committed or not",
    }
}

fn storage_failed(error: &StoreError) -> &'static str {
    match error.is_disk_full() {
        true => {
            "the disk is full; nothing was changed. Free space on the disk of the data and try again"
        }
        false => "the storage could not be read; nothing was changed. The server's log says why",
    }
}

/// What a filter holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Items alone.
    Items,
    /// Items with values of so many bits.
    Values(u8),
    /// Items with rows of these attributes.
    Rows(Attributes),
}

impl Holds {
    /// What a filter of these parameters holds.
    pub(super) fn of(params: &FilterParams) -> Holds {
        match (params.attributes(), params.plain_value_bits()) {
            (Some(attributes), _) => Holds::Rows(attributes.clone()),
            (None, Some(bits)) => Holds::Values(bits),
            (None, None) => Holds::Items,
        }
    }
}

/// What the filter takes instead.
fn instead(holds: &Holds) -> String {
    match holds {
        Holds::Items => "the filter has no values (it was created without value_bits or attributes): send the items alone, to /items".to_owned(),
        Holds::Values(bits) => format!(
            "the items of the filter have values of {bits} bits: send entries, each an item and a value, to /values"
        ),
        Holds::Rows(attributes) => {
            let names = attributes.names();
            let columns = names.replace(", ", ",");
            format!(
                "the items of the filter have attributes ({names}): send entries, each an item and its attributes, to /values; with lines, name their columns by attributes={columns} in the query string"
            )
        }
    }
}

/// The values of so many bits.
pub fn allowed_values(value_bits: u8) -> String {
    format!("0 to {}", (1u64 << value_bits) - 1)
}

/// The kind of error that a bound is which was reached.
pub fn bound_reached(used_up: UsedUp) -> Code {
    match used_up {
        UsedUp::All { .. } => Code::Overloaded,
        UsedUp::Share { .. } | UsedUp::Most { .. } => Code::OverShare,
    }
}

fn over_share(what: &str, used_up: &UsedUp) -> String {
    match used_up {
        UsedUp::All { bound } => {
            format!("there are {bound} {what}, the bound of the server; try again in a moment")
        }
        UsedUp::Share { held, bound } => format!(
            "the API key has {held} {what}, and this would be more than its share of {bound} (--key-share); wait for some of them"
        ),
        UsedUp::Most { held, most } => {
            format!(
                "the API key has {held} of {most} {what} that it may have; wait for some of them"
            )
        }
    }
}
