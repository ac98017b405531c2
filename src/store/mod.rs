//! The storage seam: page ids and bytes, never buckets.
//!
//! A [`PageStore`] keeps three things: the descriptions of the filters, the
//! images of their pages, and the redo log that says how the pages changed
//! since their images were written. It does not interpret any of them. What
//! each key and value looks like on disk is in `docs/format.md`.
//!
//! Two implementations ship, [`rocks::RocksStore`] and [`memory::MemoryStore`];
//! both pass the one suite in `contract.rs`. [`metered::MeteredStore`] wraps
//! either and counts.
//!
//! # Contract
//!
//! - [`PageStore::commit`] is atomic: after a crash either all of it is there
//!   or nothing. When it returns `Ok`, it survives whatever the configured
//!   [`WalSync`] promises. When it returns `Err`, the outcome is unknown until
//!   the same sequence has been committed again.
//! - Commits and checkpoints become durable in the order in which they
//!   returned: a crash keeps a prefix. So a checkpoint that truncates the log
//!   can never survive without the page images that made the truncation right.
//! - A page that was never written reads as absent.
//! - Nothing is reordered across `commit` calls with increasing sequences;
//!   `replay` visits records in ascending sequence.
//! - Corrupt or newer bytes are an error that names what was read; they are
//!   never returned as data.

#[cfg(test)]
mod contract;
pub mod disk;
pub mod format;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_targets;
pub mod memory;
pub mod metered;
pub mod redo;
pub mod rocks;
mod varint;
mod writes;

use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use disk::DiskSpace;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// When a commit is forced to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalSync {
    /// Before it is answered. Survives a power cut.
    Always,
    /// In the background, every so many milliseconds. Survives a crash of the
    /// process at once, a power cut after the interval.
    Interval(std::time::Duration),
    /// When the operating system likes. Survives a crash of the process.
    Never,
}

/// One atomic unit of change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Number of the commit; a record already stored under it is replaced.
    pub sequence: Sequence,
    /// Redo record as [`redo`] encodes it. Empty: the record stored under the
    /// sequence, if any, is removed.
    pub redo: Vec<u8>,
    /// Changes to filters, applied in order.
    pub filters: Vec<FilterChange>,
    /// Changes to side records, applied in order.
    pub side_records: Vec<SideRecordChange>,
}

/// Names a side record: a small value beside the filters that a commit writes
/// together with what it is about, and that ends by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SideRecordKey {
    /// What a request was answered, should it be sent again.
    Retry([u8; 32]),
    /// How far an import into a filter came.
    Import {
        /// The filter's number.
        filter: FilterId,
        /// The import's name, up to 100 bytes.
        import: String,
    },
}

/// What is noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideRecord {
    /// Milliseconds since 1970 from which on it means nothing.
    pub ends_at_ms: u64,
    /// Opaque here.
    pub payload: Vec<u8>,
}

/// A change to one side record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideRecordChange {
    /// Which.
    pub key: SideRecordKey,
    /// What was noted under the key before, exactly.
    pub before: Option<SideRecord>,
    /// What is noted now; `None`: nothing any more.
    pub after: Option<SideRecord>,
}

/// How much is noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideRecordTotals {
    /// Bytes of the side records about requests; see [`SideRecord::stored_bytes`].
    pub retry_bytes: u64,
    /// Side records about imports.
    pub imports: u64,
}

impl SideRecord {
    /// Bytes that a side record of so many takes in the store, with its key, its
    /// place on the list of what ends, and what surrounds them.
    pub fn stored_bytes(payload_bytes: usize) -> u64 {
        payload_bytes as u64 + SIDE_RECORD_OVERHEAD_BYTES
    }
}

/// Two keys of 33 and 42 bytes, two envelopes, an end, and the storage
/// engine's own share.
const SIDE_RECORD_OVERHEAD_BYTES: u64 = 128;

/// A change to one filter's description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterChange {
    /// A filter that was not there before.
    Create {
        /// Its number.
        id: FilterId,
        /// Its name; the key users gave.
        name: String,
        /// Its description, opaque here.
        meta: Vec<u8>,
    },
    /// A new description of a filter that is there.
    Update {
        /// Its number.
        id: FilterId,
        /// Its whole description.
        meta: Vec<u8>,
        /// Sub-filters that the description names no more; their pages are
        /// put on the reclaim list.
        dropped: Vec<Ordinal>,
    },
    /// The filter is gone: its name is free, its pages are put on the reclaim
    /// list. Costs the same for a page and for a million.
    Remove {
        /// Its number.
        id: FilterId,
        /// Its name.
        name: String,
    },
    /// Undoes whatever a commit of unknown outcome did to this filter: the
    /// name leads to it, it has this description, and nothing of it is on the
    /// reclaim list.
    Restore {
        /// Its number.
        id: FilterId,
        /// Its name.
        name: String,
        /// Its whole description.
        meta: Vec<u8>,
    },
    /// The filter ends at another moment, or never; it is on the list of what
    /// ends accordingly. A removed filter must be told to end never, too.
    Expire {
        /// Its number.
        id: FilterId,
        /// When it was to end before.
        before: Option<Expiry>,
        /// When it is to end now.
        after: Option<Expiry>,
    },
}

/// When a filter ends, and how that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// Milliseconds since 1970 from which on the filter is gone.
    pub at_ms: u64,
    /// Seconds from the request to that moment, as asked for.
    pub ttl_seconds: u64,
}

/// An entry of the list of what ends when.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A filter.
    Filter {
        /// Milliseconds since 1970.
        at_ms: u64,
        /// Its number.
        id: FilterId,
    },
    /// A side record.
    SideRecord {
        /// Milliseconds since 1970.
        at_ms: u64,
        /// Which.
        key: SideRecordKey,
    },
}

/// Pages that nobody can reach any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Garbage {
    /// All pages of a removed filter.
    Filter(FilterId),
    /// All pages of a dropped sub-filter.
    SubFilter(FilterId, Ordinal),
}

/// A filter as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFilter {
    /// Its number.
    pub id: FilterId,
    /// Its name.
    pub name: String,
    /// Its description, opaque here.
    pub meta: Vec<u8>,
    /// When it ends, if ever. Until somebody removes it, it is there.
    pub expiry: Option<Expiry>,
}

/// Is shown redo records one by one; an error ends the visit.
pub type EachRecord<'a> = &'a mut dyn FnMut(Sequence, &[u8]) -> Result<(), StoreError>;

/// Where pages, descriptions and the redo log are kept. See the module docs
/// for the contract. Every method may block on I/O.
pub trait PageStore: Send + Sync + 'static {
    /// Writes one commit. One write, at most one forced write to the disk.
    ///
    /// # Errors
    /// The outcome is unknown; commit the same sequence again.
    fn commit(&self, commit: &Commit) -> Result<(), StoreError>;

    /// Reads the images of `ids`, which are sorted and distinct, in one batch,
    /// and calls `each` once for every index of `ids`, in order, with the
    /// page's bytes (zeros at the end may be missing) or `None` if it was
    /// never written.
    ///
    /// # Errors
    /// Corrupt bytes name the page. What `each` saw before is right.
    fn read_pages(
        &self,
        ids: &[PageId],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError>;

    /// Writes page images, then removes every redo record below
    /// `truncate_before`; atomically.
    ///
    /// # Errors
    /// The images may or may not be there; the records still are.
    fn checkpoint(
        &self,
        images: &[(PageId, Vec<u8>)],
        truncate_before: Sequence,
    ) -> Result<(), StoreError>;

    /// Visits every redo record from the oldest to the newest.
    ///
    /// # Errors
    /// A corrupt record names its sequence. An error of `each` ends the visit.
    fn replay(&self, each: EachRecord<'_>) -> Result<(), StoreError>;

    /// Finds a filter by its name.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    fn filter_by_name(&self, name: &str) -> Result<Option<StoredFilter>, StoreError>;

    /// Finds a filter by its number.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    fn filter_by_id(&self, id: FilterId) -> Result<Option<StoredFilter>, StoreError>;

    /// Lists up to `limit` filters whose names start with `prefix` and are
    /// greater than `after`, in byte order of the names.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    fn list_filters(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredFilter>, StoreError>;

    /// Reserves `count` filter numbers that were never handed out before and
    /// never will be again, and returns the first. Durable when it returns.
    ///
    /// # Errors
    /// The numbers may be lost, never handed out twice.
    fn reserve_filter_ids(&self, count: u64) -> Result<FilterId, StoreError>;

    /// What waits on the reclaim list, in ascending order.
    ///
    /// # Errors
    /// Unreadable bytes.
    fn garbage(&self) -> Result<Vec<Garbage>, StoreError>;

    /// Removes the pages of one entry and the entry, atomically. The caller
    /// has seen to it that no checkpoint writes to them any more.
    ///
    /// # Errors
    /// The entry is still there.
    fn reclaim(&self, garbage: Garbage) -> Result<(), StoreError>;

    /// The first `limit` entries of the list of what ends from one moment to
    /// another, both included, by time.
    ///
    /// # Errors
    /// Unreadable bytes.
    fn due(&self, from_ms: u64, until_ms: u64, limit: usize) -> Result<Vec<Due>, StoreError>;

    /// Takes an entry off that list which belongs to nothing any more.
    ///
    /// # Errors
    /// The entry is still there.
    fn forget_due(&self, due: &Due) -> Result<(), StoreError>;

    /// What is noted under a key, whether it has ended or not.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    fn side_record(&self, key: &SideRecordKey) -> Result<Option<SideRecord>, StoreError>;

    /// Removes a side record that has ended, beside all commits. The caller has seen
    /// to it that none writes under the key.
    ///
    /// # Errors
    /// The side record is still there.
    fn forget_side_record(
        &self,
        key: &SideRecordKey,
        record: &SideRecord,
    ) -> Result<(), StoreError>;

    /// How much is noted; reads all of it.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    fn side_record_totals(&self) -> Result<SideRecordTotals, StoreError>;

    /// Bytes that the filter's page images take on disk and in write buffers,
    /// an estimate.
    ///
    /// # Errors
    /// Unreadable bytes.
    fn approximate_page_bytes(&self, id: FilterId) -> Result<u64, StoreError>;

    /// Forces everything written so far to the disk; called on a clean stop
    /// and by the interval of [`WalSync::Interval`].
    ///
    /// # Errors
    /// The disk refused.
    fn sync(&self) -> Result<(), StoreError>;

    /// Puts the pages of a filter that has no name yet on the reclaim list,
    /// before the first of them is written: should nobody name it by
    /// [`FilterChange::Restore`], they are removed after the next start.
    ///
    /// # Errors
    /// The pages may or may not be on the list.
    fn stage(&self, id: FilterId) -> Result<(), StoreError>;

    /// Shows everything as of one moment between two commits, for as long as
    /// `work` takes; commits go on meanwhile.
    ///
    /// # Errors
    /// Those of `work`.
    fn at_one_moment(
        &self,
        work: &mut dyn FnMut(&dyn StoreView) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Makes a copy of everything, as of one moment between two commits,
    /// without holding them up for longer than it takes to link files.
    /// Commits that returned before are in it.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`] where there are no files, or the disk
    /// refused; nothing of the copy is left then.
    fn freeze(&self) -> Result<Box<dyn FrozenStore>, StoreError>;

    /// Gives the room of pages that were reclaimed back to the disk now, where
    /// it is left for later otherwise: for a disk that is short of it. May
    /// take a while.
    ///
    /// # Errors
    /// The room comes back later, if at all.
    fn compact_range(&self, garbage: Garbage) -> Result<(), StoreError>;

    /// How the store and its disk are, now. May try a write that changes
    /// nothing.
    fn condition(&self) -> Condition;

    /// Gauges of the storage engine for `/metrics`, as (name without the
    /// prefix `cuckood_`, help, value); empty where there is nothing to say.
    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)>;
}

/// How a store and its disk are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// The disk; `None` where there is none, or it does not tell.
    pub disk: Option<DiskSpace>,
    /// Whether the storage engine takes changes.
    pub writes: Writes,
}

/// Whether a storage engine takes changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// It does.
    #[default]
    Taken,
    /// They wait until it has caught up.
    Stalled,
    /// It refuses them after an error.
    Refused {
        /// What it says.
        reason: String,
        /// Whether the disk was full.
        is_disk_full: bool,
    },
}

/// A store as it was at one moment.
pub trait StoreView {
    /// Finds a filter by its name.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    fn filter_by_name(&self, name: &str) -> Result<Option<StoredFilter>, StoreError>;

    /// Visits the images of a sub-filter's pages, from `from` up to the page
    /// `end` of it, excluded, in ascending order; pages that were never
    /// written are passed over, and zeros at the end of an image may be
    /// missing.
    ///
    /// # Errors
    /// Corrupt bytes name the page. An error of `each` ends the visit.
    fn pages(&self, from: PageId, end: PageIndex, each: EachPage<'_>) -> Result<(), StoreError>;

    /// Visits every redo record from the oldest to the newest.
    ///
    /// # Errors
    /// A corrupt record names its sequence. An error of `each` ends the visit.
    fn replay(&self, each: EachRecord<'_>) -> Result<(), StoreError>;
}

/// Is shown page images one by one, until it says that it is enough.
pub type EachPage<'a> = &'a mut dyn FnMut(PageIndex, &[u8]) -> Result<ControlFlow<()>, StoreError>;

/// A copy of a store as a number of files, which stay as they are while the
/// store goes on. A directory of exactly these files is a data directory.
/// Dropping it removes them.
pub trait FrozenStore: Send + Sync {
    /// The files, by name.
    fn files(&self) -> &[FrozenFile];

    /// Opens one of the files.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, file: &FrozenFile) -> std::io::Result<Box<dyn std::io::Read + Send>>;
}

/// A file of a [`FrozenStore`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrozenFile {
    /// Its name: no path, nothing but ASCII.
    pub name: String,
    /// How large it is.
    pub bytes: u64,
}

/// What can go wrong below the seam.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the data directory open.
    #[error(
        "data directory {path} is in use by another process: stop it, or choose another --data-dir"
    )]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The data directory can't be created or written.
    #[error(
        "data directory {path} can't be used: {reason}; check that it exists and that this user may write to it"
    )]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The bytes were written by a newer program.
    #[error(
        "{what} has format version {found}, this program reads up to {supported}: start a newer cuckood"
    )]
    NewerFormat {
        /// What was read.
        what: String,
        /// Version found.
        found: u32,
        /// Newest version understood.
        supported: u32,
    },
    /// The bytes do not match their checksum or make no sense.
    #[error("{what} is corrupt: {reason}")]
    Corrupt {
        /// What was read: names filter and page where there is one.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// This kind of store can't do it.
    #[error("this store keeps nothing on a disk and can't be {what}")]
    Unsupported {
        /// What was wanted, as a participle.
        what: &'static str,
    },
    /// The disk is full.
    #[error("the disk is full: {reason} (while {doing})")]
    NoSpace {
        /// What was being done.
        doing: &'static str,
        /// What the storage engine said.
        reason: String,
    },
    /// The storage engine or the disk refused.
    #[error("storage failed while {doing}: {reason}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the storage engine said.
        reason: String,
    },
}
