//! What a lane does in one go, in units of cost: see
//! [`Planner::spent`](crate::chain::plan::Planner::spent).

/// A slice: what a flow gets in a row.
pub(crate) const SLICE_UNITS: u64 = 16_384;

/// What a command of a group commit may cost; others have slices of their own. Half a
/// slice more, so that what takes little more is planned at once.
pub(super) const COMMAND_UNITS: u64 = SLICE_UNITS + SLICE_UNITS / 2;

/// What the commands of a group commit cost after which it takes no further one.
pub(super) const GROUP_UNITS: u64 = 4 * SLICE_UNITS;

/// What a word or counter costs when a plan of several slices is encoded: its place in the
/// record. Others have it charged with their plan.
pub(super) const ENCODED_WORD: u64 = 1;

/// Words and counters of it that are encoded in one turn.
pub(super) const ENCODED_AT_ONCE: usize = (SLICE_UNITS / ENCODED_WORD) as usize;

/// What a word or counter costs when that plan is committed: its bytes, and its publication.
pub(super) const COMMITTED_WORD: u64 = 1;

/// What a command costs beside its plan.
pub(super) const UNITS_PER_COMMAND: u64 = 64;

/// What a command costs that has a commit of its own: two whole turns. Others wait for its
/// write, which takes as long as that on a disk, and several times that where brokers
/// keep the log.
pub(super) const UNITS_ALONE: u64 = 2 * SLICE_UNITS;
