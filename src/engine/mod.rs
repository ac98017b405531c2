//! Many filters by name: what may change when, and what readers see of it.
//!
//! Questions are answered from the pages as they are published, on the caller's
//! own thread; changes go through the lane of the filter, which commits many at
//! once. Pages live in a bounded cache, come from the store when they are needed
//! and go back to it in checkpoints; after a crash the log is replayed.
//!
//! # Map
//! State is below, operations are above; nothing imports upward.
//!
//! | room or file | owns |
//! |---|---|
//! | `open` | opening an engine and stopping it: what it is made of, its threads |
//! | `ops/` | everything that callers may ask |
//! | `tasks/` | what goes on in the background |
//! | `state` | what all handles share, and finding a filter by its name |
//! | `lane/` | the single writers: commands, plans, commits |
//! | `idempotency/` | what commits record so that a request counts once |
//! | `recovery`, [`check`] | replaying the log; reading a data directory to its end |
//! | `apply` | what a redo record says about a page, for recovery and followers |
//! | `measured_log` | a commit log whose appends are counted |
//! | `membership`, `following` | what an engine is in a cluster, and where its lanes stand; what reads the commit log for them |
//! | `dump/` | filters as streams of bytes |
//! | `stored/` | all pages as of one moment, with the log applied |
//! | `rows`, `row_refusal` | rows and conditions as they are given, and why a filter can't have one |
//! | `reader` | asking a filter beside its lane |
//! | `pages/` | pages in memory: cache, loader, checkpoints |
//! | `filters` | the open filters, each as of its last commit |
//! | `listing` | the list of all filters, a page at a time |
//! | `quota`, `disk`, `compactions` | what bounds changes: bytes and filters, the disk, compactions |
//! | `caller`, `answer`, `batch`, `match_bits`, `name`, `error` | whom it works for; what is taken and answered |
//! | `cold`, `store_work` | reading pages that are not resident; threads and memory for what waits for the disk |
//! | `claims` | who goes on with filters that are taken in through a commit log |
//! | `clock`, `ttl`, `threads` | time and threads |
//!
//! # Bounds
//! The cache has F frames. At most F/4 pages are dirty when a commit begins,
//! commands that wait pin at most F/4, and the drains of all lanes together
//! touch at most F/4. So there always is a frame that is none of these, or
//! becomes so by a checkpoint or the end of a drain, neither of which waits
//! for a frame: nothing can deadlock.

mod answer;
mod apply;
mod barriers;
mod batch;
mod caller;
pub mod check;
mod claims;
mod clock;
mod cold;
mod compactions;
mod disk;
mod dump;
mod error;
mod filters;
mod following;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_targets;
mod idempotency;
mod lane;
mod listing;
mod match_bits;
mod measured_log;
mod membership;
mod name;
mod open;
mod ops;
mod pages;
mod quota;
mod reader;
mod recovery;
mod row_refusal;
mod rows;
mod state;
mod store_work;
mod stored;
mod tasks;
mod threads;
mod ttl;

pub use crate::chain::paged::values::ValueCopies;
pub use crate::chain::plan::ReplaceResult;
pub use crate::chain::rows::RowCodec;
pub use answer::{
    AddMode, AddOptions, AddResult, Created, Ends, EpochInfo, FilterInfo, FilterPage,
    FilterPreview, FilterSummary, FullReason, GrowthInfo, LookupAnswer, LookupFilters, LookupMode,
    NewFilter, SubFilterInfo,
};
pub use batch::ItemBatch;
pub use caller::Caller;
pub use clock::{Clock, ClockState};
pub use compactions::{Compaction, CompactionState};
pub use disk::Health;
pub use dump::error::RestoreError;
pub use dump::format as dump_format;
pub use dump::format::{Digest, DumpError};
pub use dump::scandump;
pub use dump::stage::{ForeignIntake, Intake, StagedFilter};
pub use dump::write::DumpSink;
pub(crate) use error::allowed_values;
pub use error::{EngineError, Holds, Overload};
pub use idempotency::guard::{ANSWER_KEPT_FOR, Answered, IdempotencyKey};
pub use idempotency::progress::{BAD_LINES_KEPT, BadLine, ImportProgress};
pub use lane::command::{ItemOp, ItemResult, ItemStep};
pub use match_bits::MatchBitSet;
pub use measured_log::MeasuredLog;
pub use membership::{JoinError, LaneState, Membership, PodPosition, Unfit};
pub use name::{FilterName, InvalidName, MAX_NAME_LENGTH};
pub use open::{EngineOptions, MAX_LANES};
pub use ops::dumps::{Adopted, Replace};
pub use ops::imports::{
    Import, ImportId, ImportLines, ImportState, MAX_IMPORT_ID_LENGTH, MAX_ITEMS_AT_ONCE,
    PROGRESS_KEPT_FOR,
};
pub use ops::names::Chosen;
pub use ops::slots::{MAX_SLOT_BYTES, SlotView, Slots};
pub use ops::values::{
    Entries, EntryValues, Listed, MAX_LISTED_BYTES, MAX_LISTED_VALUES, Replacements,
};
pub use row_refusal::{RowPlace, RowRefusal, ValueField};
pub use rows::{EntryCodec, Rows, Where};
pub use state::Engine;
pub use state::Pace;
pub use tasks::scrub::ScrubOptions;
pub use tasks::survey::MAX_NAMED_FILTERS;
pub use ttl::MAX_TTL_SECONDS;
// Part of `EngineError` and `Health`, so that their readers need not know the
// store.
pub use crate::store::disk::{DiskReserve, DiskShort};
pub use crate::store::{StoreError, Writes};
