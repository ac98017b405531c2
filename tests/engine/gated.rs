//! A store whose operations can be held up or made to fail, so that tests
//! drive an interleaving by hand.

use cuckood::page::{FilterId, PageId, Sequence};
use cuckood::store::{
    Commit, Condition, Due, FrozenFile, FrozenStore, Garbage, PageStore, SideRecord, SideRecordKey,
    SideRecordTotals, StoreError, StoreView, StoredFilter,
};
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
    /// A filter's description was read, nobody has seen it yet.
    FilterRead,
    /// A frozen file was opened, nothing of it is read yet.
    FrozenOpen,
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

struct State {
    closed: Option<Point>,
    /// Somebody stands at the gate; whoever comes later passes.
    held: bool,
    failing: Failing,
    checkpoints_fail: bool,
    disk_full: bool,
    condition: Condition,
    frozen_bytes: Option<u64>,
}

#[derive(Clone)]
pub(crate) struct GatedStore {
    inner: Arc<dyn PageStore>,
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl GatedStore {
    pub(crate) fn new(inner: Arc<dyn PageStore>) -> Self {
        let state = State {
            closed: None,
            held: false,
            failing: Failing::Nothing,
            checkpoints_fail: false,
            disk_full: false,
            condition: Condition::default(),
            frozen_bytes: None,
        };
        GatedStore {
            inner,
            shared: Arc::new((Mutex::new(state), Condvar::new())),
        }
    }

    /// Holds up the first who comes to the point; the others pass.
    pub(crate) fn hold_first(&self, point: Point) {
        let mut state = self.shared.0.lock().unwrap();
        state.closed = Some(point);
        state.held = false;
    }

    /// Lets go whoever is held up.
    pub(crate) fn open(&self) {
        let mut state = self.shared.0.lock().unwrap();
        state.closed = None;
        state.held = false;
        self.shared.1.notify_all();
    }

    /// Blocks until somebody is held up.
    pub(crate) fn await_arrival(&self) {
        let (state, changed) = &*self.shared;
        let mut state = state.lock().unwrap();
        while !state.held {
            let (next, timeout) = changed
                .wait_timeout(state, Duration::from_secs(20))
                .unwrap();
            state = next;
            assert!(!timeout.timed_out(), "nobody came to the gate");
        }
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

    fn pass(&self, point: Point) {
        let (state, changed) = &*self.shared;
        let mut state = state.lock().unwrap();
        if state.closed != Some(point) || state.held {
            return;
        }
        state.held = true;
        changed.notify_all();
        while state.held {
            state = changed.wait(state).unwrap();
        }
    }

    fn failure(&self) -> StoreError {
        let (doing, reason) = ("being tested", "the test says so".to_owned());
        match self.shared.0.lock().unwrap().disk_full {
            true => StoreError::NoSpace { doing, reason },
            false => StoreError::Io { doing, reason },
        }
    }
}

impl PageStore for GatedStore {
    fn commit(&self, commit: &Commit) -> Result<(), StoreError> {
        let failing = self.shared.0.lock().unwrap().failing;
        match failing {
            Failing::Before => return Err(self.failure()),
            Failing::After => {
                self.inner.commit(commit)?;
                return Err(self.failure());
            }
            Failing::Nothing => {}
        }
        self.inner.commit(commit)?;
        self.pass(Point::CommitDone);
        Ok(())
    }

    fn read_pages(
        &self,
        ids: &[PageId],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), StoreError> {
        let mut pages = Vec::new();
        self.inner.read_pages(ids, &mut |index, bytes| {
            pages.push((index, bytes.map(<[u8]>::to_vec)));
        })?;
        self.pass(Point::ReadDone);
        for (index, bytes) in pages {
            each(index, bytes.as_deref());
        }
        Ok(())
    }

    fn checkpoint(
        &self,
        images: &[(PageId, Vec<u8>)],
        truncate_before: Sequence,
    ) -> Result<(), StoreError> {
        self.pass(Point::CheckpointStart);
        if self.shared.0.lock().unwrap().checkpoints_fail {
            return Err(self.failure());
        }
        self.inner.checkpoint(images, truncate_before)
    }

    fn replay(
        &self,
        each: &mut dyn FnMut(Sequence, &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.inner.replay(each)
    }

    fn filter_by_name(&self, name: &str) -> Result<Option<StoredFilter>, StoreError> {
        let found = self.inner.filter_by_name(name);
        self.pass(Point::FilterRead);
        found
    }

    fn filter_by_id(&self, id: FilterId) -> Result<Option<StoredFilter>, StoreError> {
        self.inner.filter_by_id(id)
    }

    fn list_filters(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredFilter>, StoreError> {
        self.inner.list_filters(prefix, after, limit)
    }

    fn reserve_filter_ids(&self, count: u64) -> Result<FilterId, StoreError> {
        self.inner.reserve_filter_ids(count)
    }

    fn garbage(&self) -> Result<Vec<Garbage>, StoreError> {
        self.inner.garbage()
    }

    fn reclaim(&self, garbage: Garbage) -> Result<(), StoreError> {
        self.inner.reclaim(garbage)
    }

    fn due(&self, from_ms: u64, until_ms: u64, limit: usize) -> Result<Vec<Due>, StoreError> {
        self.inner.due(from_ms, until_ms, limit)
    }

    fn forget_due(&self, due: &Due) -> Result<(), StoreError> {
        self.inner.forget_due(due)
    }

    fn side_record(&self, key: &SideRecordKey) -> Result<Option<SideRecord>, StoreError> {
        self.inner.side_record(key)
    }

    fn forget_side_record(
        &self,
        key: &SideRecordKey,
        record: &SideRecord,
    ) -> Result<(), StoreError> {
        self.inner.forget_side_record(key, record)
    }

    fn side_record_totals(&self) -> Result<SideRecordTotals, StoreError> {
        self.inner.side_record_totals()
    }

    fn approximate_page_bytes(&self, id: FilterId) -> Result<u64, StoreError> {
        self.inner.approximate_page_bytes(id)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn stage(&self, id: FilterId) -> Result<(), StoreError> {
        self.inner.stage(id)
    }

    fn at_one_moment(
        &self,
        work: &mut dyn FnMut(&dyn StoreView) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.inner.at_one_moment(work)
    }

    fn freeze(&self) -> Result<Box<dyn FrozenStore>, StoreError> {
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

    fn compact_range(&self, garbage: Garbage) -> Result<(), StoreError> {
        self.inner.compact_range(garbage)
    }

    fn condition(&self) -> Condition {
        self.shared.0.lock().unwrap().condition.clone()
    }

    fn gauges(&self) -> Vec<(&'static str, &'static str, f64)> {
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
}
