//! The seam: an ordered map of bytes in columns, with atomic batches and
//! snapshots. A store that keeps bytes implements [`KeyValueStore`]; what the
//! keys and values mean is known above it alone.
//!
//! # Contract
//!
//! - A batch is atomic, and its changes are applied in their order: after a
//!   crash either all of it is there or nothing.
//! - Batches become durable in the order in which their writes returned: a
//!   crash keeps a prefix of them.
//! - When a write returns an error, it is unknown whether the batch is there.
//! - Bytes that do not match the store's own checksums are an error that names
//!   what was read; they are never returned as data.

use super::disk::DiskSpace;
use super::error::Result;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A set of keys that is ordered and kept apart from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Column {
    /// What concerns the data directory as a whole.
    Info,
    /// Filter name -> filter number.
    Names,
    /// Filter number -> name and description.
    Filters,
    /// Page -> image.
    Pages,
    /// Sequence -> redo record.
    Log,
    /// Pages that can't be reached any more.
    Reclaim,
    /// What ends when, by time.
    Due,
    /// Side records that commits make.
    SideRecords,
}

impl Column {
    /// All of them.
    pub const ALL: [Column; 8] = [
        Column::Info,
        Column::Names,
        Column::Filters,
        Column::Pages,
        Column::Log,
        Column::Reclaim,
        Column::Due,
        Column::SideRecords,
    ];

    /// Its name on disk.
    pub fn name(self) -> &'static str {
        match self {
            Column::Info => "default",
            Column::Names => "names",
            Column::Filters => "filters",
            Column::Pages => "pages",
            Column::Log => "log",
            Column::Reclaim => "reclaim",
            Column::Due => "due",
            Column::SideRecords => "notes",
        }
    }
}

/// Keys from the first, included, to the last, excluded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key.
    pub from: Vec<u8>,
    /// The key behind the last.
    pub to: Vec<u8>,
}

impl KeyRange {
    /// Those from one key up to another.
    pub fn new(from: impl Into<Vec<u8>>, to: impl Into<Vec<u8>>) -> KeyRange {
        let (from, to) = (from.into(), to.into());
        KeyRange { from, to }
    }
}

/// One change of a [`WriteBatch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key has this value.
    Put(Column, Vec<u8>, Vec<u8>),
    /// The key has no value.
    Delete(Column, Vec<u8>),
    /// No key of the range has a value.
    DeleteRange(Column, KeyRange),
}

/// Changes that become visible and durable together, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteBatch {
    /// The changes.
    pub changes: Vec<Change>,
}

impl WriteBatch {
    /// Appends a [`Change::Put`].
    pub fn put(&mut self, column: Column, key: &[u8], value: Vec<u8>) {
        self.changes.push(Change::Put(column, key.to_vec(), value));
    }

    /// Appends a [`Change::Delete`].
    pub fn delete(&mut self, column: Column, key: &[u8]) {
        self.changes.push(Change::Delete(column, key.to_vec()));
    }

    /// Appends a [`Change::DeleteRange`].
    pub fn delete_range(&mut self, column: Column, keys: KeyRange) {
        self.changes.push(Change::DeleteRange(column, keys));
    }
}

/// When a batch is forced to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As [`WalSync`] says.
    Configured,
    /// Before the write returns, whatever [`WalSync`] says.
    Forced,
    /// With the next batch that is: only its place in the order counts.
    Ordered,
}

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

/// What a scan does to the memory that keeps blocks for other reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// What is read is kept there.
    Keep,
    /// For reading much once: nothing is displaced. So many bytes are read from the disk
    /// at once, 0: block by block.
    Bypass(usize),
}

/// Is shown values by the index of their keys.
pub type EachValue<'a> = &'a mut dyn FnMut(usize, Option<&[u8]>) -> Result;

/// Is shown entries, key and value, until it breaks.
pub type EachEntry<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>>;

/// Reads entries: those of now, or those of a snapshot.
pub trait Reader {
    /// Reads the values of distinct keys in one batch, and calls `each` once
    /// for every index of `keys`, in order. Fastest with sorted keys.
    ///
    /// # Errors
    /// Those of the disk, and those of `each`, which end the call.
    fn get_many(&self, column: Column, keys: &[&[u8]], each: EachValue<'_>) -> Result;

    /// Visits the entries of a range in the order of their keys.
    ///
    /// # Errors
    /// Those of the disk, and those of `each`, which end the call.
    fn scan(
        &self,
        column: Column,
        keys: &KeyRange,
        caching: Caching,
        each: EachEntry<'_>,
    ) -> Result;
}

/// A store of bytes. Every method may block on I/O.
pub trait KeyValueStore: Reader + Send + Sync + 'static {
    /// Writes all of a batch, with at most one forced write to the disk.
    ///
    /// # Errors
    /// The batch may or may not be there.
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result;

    /// Reads all that is stored of a column, also what is deleted and whose room was not
    /// given back yet: that is read when it is given back, and a store ends where it can't
    /// be. Tells `read` how many bytes came, until it breaks.
    ///
    /// # Errors
    /// Unreadable bytes.
    fn read_through(
        &self,
        _column: Column,
        _read: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result {
        // Where nothing deleted is stored, a scan reads all.
        Ok(())
    }

    /// Everything as of now, for as long as it lives; writes go on meanwhile.
    fn snapshot(&self) -> Box<dyn Reader + '_>;

    /// Makes a copy of everything, as of now, without holding up writes for
    /// longer than it takes to link files. Batches whose writes returned
    /// before are in it.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`](super::StoreError::Unsupported) where there are no files, or the disk
    /// refused; nothing of the copy is left then.
    fn freeze(&self) -> Result<Box<dyn FrozenStore>>;

    /// Forces everything written so far to the disk.
    ///
    /// # Errors
    /// The disk refused.
    fn sync(&self) -> Result;

    /// Bytes that a range takes on disk and in write buffers, an estimate.
    ///
    /// # Errors
    /// Unreadable bytes.
    fn approximate_bytes(&self, column: Column, keys: &KeyRange) -> Result<u64>;

    /// Gives the disk space of deleted entries of a range back now, where it is
    /// left for later otherwise. May take a while.
    ///
    /// # Errors
    /// The space comes back later, if at all.
    fn compact_range(&self, column: Column, keys: &KeyRange) -> Result;

    /// How the store and its disk are, now. May try a write that changes
    /// nothing.
    fn condition(&self) -> Condition;

    /// Gauges for `/metrics`; empty where there is nothing to say.
    fn gauges(&self) -> Vec<Gauge>;
}

/// A gauge of the storage engine: name without the prefix `cuckood_`, help,
/// value.
pub type Gauge = (&'static str, &'static str, f64);

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

    /// Opens all of it as a store that can only be read. Close it before this
    /// is dropped.
    ///
    /// # Errors
    /// It can't be read.
    fn open_store(&self) -> Result<Arc<dyn KeyValueStore>>;
}

/// A file of a [`FrozenStore`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrozenFile {
    /// Its name: no path, nothing but ASCII.
    pub name: String,
    /// How large it is.
    pub bytes: u64,
}
