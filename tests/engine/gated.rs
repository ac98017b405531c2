//! A store whose operations can be held up or made to fail, so that tests
//! drive an interleaving by hand.

use crate::memory::MemoryStore;
use cuckood::store::kv::{
    Caching, Change, Column, Durability, EachEntry, EachValue, Gauge, KeyRange, Reader, WriteBatch,
};
use cuckood::store::{Condition, FrozenFile, FrozenStore, KeyValueStore, StoreError};
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A place in a store operation where it can be held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// The commit is durable, the engine does not know yet.
    CommitDone,
    /// Page images were copied, nothing is written yet.
    CheckpointStart,
    /// Pages were read, nobody has seen them yet.
    ReadDone,
    /// A filter's name was looked up in a snapshot, its description is not
    /// read yet.
    FilterRead,
    /// An answer that is kept, or what an import records, is about to be read.
    SideRecordRead,
    /// A frozen file was opened, nothing of it is read yet.
    FrozenOpen,
    /// A frozen copy is asked for, nothing of it is made yet.
    Freeze,
}

/// What goes wrong with commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    Nothing,
    /// Refused, nothing is written.
    Before,
    /// Written, and reported as failed.
    After,
}

/// The filters whose reads of pages are held up; a key begins with its filter's.
enum Held {
    All,
    /// That of the first read.
    First,
    One([u8; 8]),
}

struct State {
    closed: Option<Point>,
    /// How many callers are held up at the same time; later ones pass.
    most_held: usize,
    /// Whose reads of pages are held up, if not all are.
    filter: Held,
    held: usize,
    /// How often those who were held have been released.
    releases: usize,
    failing: Failing,
    checkpoints_fail: bool,
    disk_full: bool,
    condition: Condition,
    frozen_bytes: Option<u64>,
    /// Bytes of the images of the largest slice that was written.
    largest_slice: usize,
}

#[derive(Clone)]
pub(crate) struct GatedStore {
    inner: Arc<dyn KeyValueStore>,
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl GatedStore {
    pub(crate) fn new(inner: Arc<dyn KeyValueStore>) -> Self {
        let state = State {
            closed: None,
            most_held: 0,
            filter: Held::All,
            held: 0,
            releases: 0,
            failing: Failing::Nothing,
            checkpoints_fail: false,
            disk_full: false,
            condition: Condition::default(),
            frozen_bytes: None,
            largest_slice: 0,
        };
        GatedStore {
            inner,
            shared: Arc::new((Mutex::new(state), Condvar::new())),
        }
    }

    /// Holds up the first who comes to the point; the others pass.
    pub(crate) fn hold_first(&self, point: Point) {
        self.hold(point, 1);
    }

    /// Holds up the first so many who come to the point; the others pass.
    pub(crate) fn hold(&self, point: Point, most: usize) {
        let mut state = self.shared.0.lock().unwrap();
        state.closed = Some(point);
        state.most_held = most;
        state.filter = Held::All;
    }

    /// Holds up the first so many reads of pages, but of one filter alone: the one
    /// that is read first.
    pub(crate) fn hold_reads_of_one_filter(&self, most: usize) {
        self.hold(Point::ReadDone, most);
        self.shared.0.lock().unwrap().filter = Held::First;
    }

    /// Releases the caller that is held, and holds up the next one at the same point.
    pub(crate) fn hold_next(&self) {
        let mut state = self.shared.0.lock().unwrap();
        state.held = 0;
        state.releases += 1;
        self.shared.1.notify_all();
    }

    /// Releases the callers that are held.
    pub(crate) fn open(&self) {
        let mut state = self.shared.0.lock().unwrap();
        state.closed = None;
        state.held = 0;
        state.releases += 1;
        self.shared.1.notify_all();
    }

    /// How many callers are held.
    pub(crate) fn held(&self) -> usize {
        self.shared.0.lock().unwrap().held
    }

    /// Blocks until somebody is held up.
    pub(crate) fn await_arrival(&self) {
        let (state, changed) = &*self.shared;
        let mut state = state.lock().unwrap();
        while state.held == 0 {
            let (next, timeout) = changed
                .wait_timeout(state, Duration::from_secs(20))
                .unwrap();
            state = next;
            assert!(!timeout.timed_out(), "nobody came to the gate");
        }
    }

    /// Waits, and lets others run, until somebody is held up.
    pub(crate) async fn arrival(&self) {
        let gate = self.clone();
        let arrived = tokio::task::spawn_blocking(move || gate.await_arrival());
        arrived.await.unwrap();
    }

    pub(crate) fn fail_commits(&self, failing: Failing) {
        self.shared.0.lock().unwrap().failing = failing;
    }

    pub(crate) fn fail_checkpoints(&self, fail: bool) {
        self.shared.0.lock().unwrap().checkpoints_fail = fail;
    }

    /// What fails says from now on that the disk is full, and so does a page
    /// that is staged.
    pub(crate) fn fill_disk(&self, full: bool) {
        let mut state = self.shared.0.lock().unwrap();
        state.disk_full = full;
        state.checkpoints_fail = full;
        state.failing = match full {
            true => Failing::Before,
            false => Failing::Nothing,
        };
    }

    pub(crate) fn set_condition(&self, condition: Condition) {
        self.shared.0.lock().unwrap().condition = condition;
    }

    /// Freezes to one file of so many zeros from now on.
    pub(crate) fn freeze_to(&self, bytes: u64) {
        self.shared.0.lock().unwrap().frozen_bytes = Some(bytes);
    }

    /// Bytes of the images of the largest slice of a checkpoint so far.
    pub(crate) fn largest_slice(&self) -> usize {
        self.shared.0.lock().unwrap().largest_slice
    }

    fn pass(&self, point: Point) {
        self.pass_with(point, [0; 8]);
    }

    fn pass_with(&self, point: Point, filter: [u8; 8]) {
        let (state, changed) = &*self.shared;
        let mut state = state.lock().unwrap();
        if state.closed != Some(point) || state.held == state.most_held {
            return;
        }
        match state.filter {
            Held::All => {}
            Held::First => state.filter = Held::One(filter),
            Held::One(held) if held == filter => {}
            Held::One(_) => return,
        }
        state.held += 1;
        changed.notify_all();
        let releases = state.releases;
        while state.releases == releases {
            state = changed.wait(state).unwrap();
        }
    }

    /// What is read passes the gate before it is seen.
    fn get_through(
        &self,
        inner: &dyn Reader,
        column: Column,
        keys: &[&[u8]],
        each: EachValue<'_>,
    ) -> Result<(), StoreError> {
        if column == Column::SideRecords {
            self.pass(Point::SideRecordRead);
        }
        let mut values = Vec::new();
        inner.get_many(column, keys, &mut |_, value| {
            values.push(value.map(<[u8]>::to_vec));
            Ok(())
        })?;
        match column {
            Column::Pages => {
                let filter = keys.first().and_then(|key| key.first_chunk());
                self.pass_with(Point::ReadDone, filter.copied().unwrap_or_default());
            }
            Column::Names => self.pass(Point::FilterRead),
            _ => {}
        }
        let mut values = values.iter().enumerate();
        values.try_for_each(|(index, value)| each(index, value.as_deref()))
    }

    fn failure(&self) -> StoreError {
        let (doing, source) = ("being tested", "the test says so".into());
        match self.shared.0.lock().unwrap().disk_full {
            true => StoreError::NoSpace { doing, source },
            false => StoreError::Io { doing, source },
        }
    }
}

/// Whether a batch is a slice of a checkpoint: images, or a shorter log.
fn is_checkpoint(batch: &WriteBatch) -> bool {
    batch.changes.iter().any(|change| {
        matches!(
            change,
            Change::Put(Column::Pages, ..) | Change::DeleteRange(Column::Log, _)
        )
    })
}

fn image_bytes(batch: &WriteBatch) -> usize {
    let bytes = |change: &Change| match change {
        Change::Put(Column::Pages, _, image) => image.len(),
        _ => 0,
    };
    batch.changes.iter().map(bytes).sum()
}

impl Reader for GatedStore {
    fn get_many(
        &self,
        column: Column,
        keys: &[&[u8]],
        each: EachValue<'_>,
    ) -> Result<(), StoreError> {
        self.get_through(&*self.inner, column, keys, each)
    }

    fn scan(
        &self,
        column: Column,
        keys: &KeyRange,
        caching: Caching,
        each: EachEntry<'_>,
    ) -> Result<(), StoreError> {
        self.inner.scan(column, keys, caching, each)
    }
}

struct GatedSnapshot<'a> {
    inner: Box<dyn Reader + 'a>,
    gate: &'a GatedStore,
}

impl Reader for GatedSnapshot<'_> {
    fn get_many(
        &self,
        column: Column,
        keys: &[&[u8]],
        each: EachValue<'_>,
    ) -> Result<(), StoreError> {
        self.gate.get_through(&*self.inner, column, keys, each)
    }

    fn scan(
        &self,
        column: Column,
        keys: &KeyRange,
        caching: Caching,
        each: EachEntry<'_>,
    ) -> Result<(), StoreError> {
        self.inner.scan(column, keys, caching, each)
    }
}

impl KeyValueStore for GatedStore {
    /// A commit is told by its durability, a slice of a checkpoint by what it
    /// changes.
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        if durability == Durability::Configured {
            let failing = self.shared.0.lock().unwrap().failing;
            if failing == Failing::Before {
                return Err(self.failure());
            }
            self.inner.write(batch, durability)?;
            if failing == Failing::After {
                return Err(self.failure());
            }
            self.pass(Point::CommitDone);
            return Ok(());
        }
        if is_checkpoint(&batch) {
            self.pass(Point::CheckpointStart);
            if self.shared.0.lock().unwrap().checkpoints_fail {
                return Err(self.failure());
            }
            let mut state = self.shared.0.lock().unwrap();
            state.largest_slice = state.largest_slice.max(image_bytes(&batch));
        }
        self.inner.write(batch, durability)
    }

    fn snapshot(&self) -> Box<dyn Reader + '_> {
        Box::new(GatedSnapshot {
            inner: self.inner.snapshot(),
            gate: self,
        })
    }

    fn freeze(&self) -> Result<Box<dyn FrozenStore>, StoreError> {
        self.pass(Point::Freeze);
        let frozen_bytes = self.shared.0.lock().unwrap().frozen_bytes;
        match frozen_bytes {
            None => self.inner.freeze(),
            Some(bytes) => Ok(Box::new(Zeros {
                files: vec![FrozenFile {
                    name: "zeros".to_owned(),
                    bytes,
                }],
                gate: self.clone(),
            })),
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn approximate_bytes(&self, column: Column, keys: &KeyRange) -> Result<u64, StoreError> {
        self.inner.approximate_bytes(column, keys)
    }

    fn compact_range(&self, column: Column, keys: &KeyRange) -> Result<(), StoreError> {
        self.inner.compact_range(column, keys)
    }

    fn condition(&self) -> Condition {
        self.shared.0.lock().unwrap().condition.clone()
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.inner.gauges()
    }
}

/// A frozen store of nothing but zeros.
struct Zeros {
    files: Vec<FrozenFile>,
    gate: GatedStore,
}

impl FrozenStore for Zeros {
    fn files(&self) -> &[FrozenFile] {
        &self.files
    }

    fn open(&self, file: &FrozenFile) -> std::io::Result<Box<dyn Read + Send>> {
        self.gate.pass(Point::FrozenOpen);
        Ok(Box::new(std::io::repeat(0).take(file.bytes)))
    }

    fn open_store(&self) -> Result<Arc<dyn KeyValueStore>, StoreError> {
        Ok(Arc::new(MemoryStore::new()))
    }
}
