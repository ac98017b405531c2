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
//! | `shared/`, `sharing`, `barriers` | lanes that other engines have, too: where they stand, and what makes sure that an answer is not of the past |
//! | `dump/` | filters as streams of bytes |
//! | `dump_memory` | what dumps hold in memory of the log |
//! | `rows`, `row_refusal` | rows and conditions as they are given, and why a filter can't have one |
//! | `reader` | asking a filter beside its lane |
//! | `filters` | the open filters, each as of its last commit |
//! | `listing` | the list of all filters, a page at a time |
//! | `history` | what filters were like within the last day |
//! | `quota`, `compactions` | what bounds changes: bytes and filters, compactions |
//! | `caller`, `answer`, `batch`, `match_bits`, `name`, `error` | whom it works for; what is taken and answered |
//! | `cold`, `store_work` | reading pages that are not resident; threads and memory for what waits for the disk |
//! | `claims` | who goes on with filters that are taken in through a commit log |
//! | `clock`, `ttl`, `threads` | time and threads |
//!
//! # Bounds
//! The cache has F frames. At most F/4 pages are dirty when a commit begins,
//! commands that wait pin at most F/4, and the group commits of all lanes together
//! touch at most F/4. So there always is a frame that is none of these, or
//! becomes so by a checkpoint or the end of a group commit, neither of which waits
//! for a frame: nothing can deadlock.

mod answer;
mod barriers;
mod batch;
mod caller;
pub mod check;
mod claims;
mod clock;
mod cold;
mod compactions;
mod dump;
mod dump_memory;
mod error;
mod filters;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz_targets;
mod history;
mod idempotency;
mod lane;
mod listing;
mod match_bits;
#[cfg(any(test, fuzzing))]
#[path = "../../pages/tests/memory/mod.rs"]
mod memory;
mod name;
mod open;
mod ops;
mod quota;
#[cfg(test)]
mod random;
mod reader;
mod recovery;
mod row_refusal;
mod rows;
mod shared;
mod sharing;
mod slot;
mod state;
mod store_work;
mod tasks;
mod threads;
mod ttl;

use cuckood_filter::{chain, cuckoo};
use cuckood_pages::{disk, logged, page, resident as pages, store, stored};
use {cuckood_codes as codes, cuckood_metrics as metrics, cuckood_share as share};

pub use answer::{
    AddMode, AddOptions, AddResult, Created, EpochInfo, FilterInfo, FilterPage, FilterPreview,
    FilterSummary, FullReason, GrowthInfo, LookupAnswer, LookupFilters, LookupMode, NewFilter,
    SubFilterInfo,
};
pub use batch::ItemBatch;
pub use caller::Caller;
pub use clock::{Clock, ClockState, TimeElsewhere};
pub use compactions::{Compaction, CompactionState};
pub use cuckood_filter::chain::meta::FilterVersion;
pub use cuckood_filter::chain::paged::values::ValueCopies;
pub use cuckood_filter::chain::plan::ReplaceResult;
pub use cuckood_filter::chain::rows::RowCodec;
pub use cuckood_pages::disk::Health;
pub use dump::error::{DumpError, RestoreError};
pub use dump::scandump;
pub use dump::stage::{ForeignIntake, Intake, StagedFilter};
pub use dump::write::{DumpSink, Wanted};

pub use error::{EngineError, Holds, Overload, allowed_values, bound_reached};
pub use history::Sample;
pub use idempotency::guard::{ANSWER_KEPT_FOR, Answered, IdempotencyKey};
pub use idempotency::progress::{BAD_LINES_KEPT, BadLine, ImportProgress};
pub use lane::command::{ItemOp, ItemResult, ItemStep};
pub use lane::commit::AfterCommit;
pub use lane::ordering::{LaneHandle, LaneOrder, NotOrdered, Settled, SharedLane, Unordered};
pub use match_bits::MatchBitSet;
pub use name::{FilterName, InvalidName, MAX_NAME_LENGTH};
pub use open::{EngineOptions, MAX_LANES, SharedLanes};
pub use ops::dumps::{Adopted, Replace};
pub use ops::imports::{
    Import, ImportId, ImportLines, ImportPage, ImportState, MAX_IMPORT_ID_LENGTH,
    MAX_ITEMS_AT_ONCE, PROGRESS_KEPT_FOR,
};
pub use ops::names::Chosen;
pub use ops::slots::{MAX_SLOT_BYTES, SlotView, Slots};
pub use ops::values::{
    Entries, EntryValues, Listed, MAX_LISTED_BYTES, MAX_LISTED_VALUES, Replacements,
};
pub use row_refusal::{RowPlace, RowRefusal, ValueField};
pub use rows::{EntryCodec, Rows, Where};
pub use shared::{Halt, HistoryHash, LanePlace, LaneState, Position, Term};
pub use slot::{lane_of, slot_of};
pub use state::Engine;
pub use state::Pace;
pub use tasks::scrub::ScrubOptions;
pub use tasks::survey::MAX_NAMED_FILTERS;
pub use ttl::MAX_TTL_SECONDS;
// Part of `EngineError` and `Health`, so that their readers need not know the
// store.
pub use cuckood_pages::store::disk::{DiskReserve, DiskShort};
pub use cuckood_pages::store::{StoreError, Writes};
