//! The imports that run, and what their commits record.

use super::progress::ImportProgress;
use crate::answer::AddResult;
use crate::caller::Caller;
use crate::error::{EngineError, Result};
use crate::metrics::Metrics;
use crate::share::{Permit, Resource, UsedUp};
use crate::store::{PageStore, SideRecord, SideRecordChange, SideRecordKey, StoreError};
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

/// The imports that run, and those of which something is recorded.
pub(crate) struct Imports {
    store: Arc<PageStore>,
    metrics: Arc<Metrics>,
    running: Mutex<HashSet<SideRecordKey, FixedState>>,
    /// Imports of which something is recorded, those that begin included.
    kept: Resource<Arc<str>>,
}

impl Imports {
    /// Room for so many imports, of which the store knows some.
    pub(crate) fn new(
        store: Arc<PageStore>,
        metrics: Arc<Metrics>,
        kept: Resource<Arc<str>>,
    ) -> Imports {
        Imports {
            store,
            metrics,
            running: Mutex::default(),
            kept,
        }
    }

    /// Begins a request for an import.
    ///
    /// # Errors
    /// [`EngineError::ImportRunning`].
    pub(crate) fn begin(
        self: &Arc<Self>,
        caller: &Caller,
        key: SideRecordKey,
    ) -> Result<ImportRun> {
        let mut running = self.running.lock();
        if !running.insert(key.clone()) {
            return Err(EngineError::ImportRunning);
        }
        self.metrics.imports_running.inc();
        Ok(ImportRun {
            imports: Arc::clone(self),
            key,
            caller: caller.clone(),
            room: Mutex::default(),
        })
    }

    /// Whether a request for it is being worked on.
    pub(crate) fn is_running(&self, key: &SideRecordKey) -> bool {
        self.running.lock().contains(key)
    }

    /// Removes what is recorded under a key if it has ended. Says whether it did.
    pub(crate) fn forget_ended(
        &self,
        key: &SideRecordKey,
        now_ms: u64,
    ) -> Result<bool, StoreError> {
        // An import that runs has looked here first, and what it records then has not
        // ended.
        let ended = self.store.forget_ended(key, now_ms)?;
        if let Some(record) = &ended {
            self.kept.adjust(record.owner.as_ref(), 1, 0);
        }
        Ok(ended.is_some())
    }

    /// Counts progress that another pod has recorded.
    pub(crate) fn adjust(&self, change: &SideRecordChange) {
        if let Some(record) = &change.before {
            self.kept.adjust(record.owner.as_ref(), 1, 0);
        }
        if let Some(record) = &change.after {
            self.kept.adjust(record.owner.as_ref(), 0, 1);
        }
    }

    /// What is recorded under a key. What has ended is removed on the way. Blocks.
    pub(crate) fn recorded(
        &self,
        key: &SideRecordKey,
        now_ms: u64,
    ) -> Result<Option<SideRecord>, StoreError> {
        match self.store.side_record(key)? {
            Some(record) if record.ends_at_ms <= now_ms => {
                self.forget_ended(key, now_ms)?;
                Ok(None)
            }
            found => Ok(found),
        }
    }
}

/// The right to run an import, as long as this lives: with its request, and
/// with each commit until its outcome is known.
pub(crate) struct ImportRun {
    imports: Arc<Imports>,
    /// Under which key its commits record.
    pub(crate) key: SideRecordKey,
    caller: Caller,
    /// Room for a record that is not committed yet.
    room: Mutex<Option<Permit<Arc<str>>>>,
}

impl ImportRun {
    /// Takes room for the record of a new import.
    ///
    /// # Errors
    /// [`EngineError::ImportsFull`].
    pub(crate) fn take_room(&self) -> Result {
        let by = self.caller.claimant();
        let taken = self.imports.kept.try_take(by.as_ref(), 1);
        let room = taken.map_err(|used_up| match used_up {
            UsedUp::All { .. } => EngineError::ImportsFull,
            UsedUp::Share { held, bound } | UsedUp::Most { held, most: bound } => {
                EngineError::OverKeptShare {
                    what: "imports whose progress is stored for a week",
                    held,
                    bound,
                }
            }
        })?;
        *self.room.lock() = Some(room);
        Ok(())
    }
}

impl Drop for ImportRun {
    fn drop(&mut self) {
        self.imports.running.lock().remove(&self.key);
        self.imports.metrics.imports_running.dec();
    }
}

/// One commit of an import.
pub(crate) struct ImportStep {
    pub(crate) run: Arc<ImportRun>,
    /// What was recorded before.
    pub(crate) before: Option<SideRecord>,
    /// The progress with it, but for what becomes of its items.
    pub(crate) progress: ImportProgress,
    /// Until when it is kept.
    pub(crate) ends_at_ms: u64,
}

impl ImportStep {
    /// What the commit records.
    pub(crate) fn side_record(&self, results: &[AddResult]) -> SideRecordChange {
        let mut progress = self.progress.clone();
        progress.count_results(results);
        SideRecordChange {
            key: self.run.key.clone(),
            before: self.before.clone(),
            after: Some(SideRecord {
                ends_at_ms: self.ends_at_ms,
                owner: match &self.before {
                    Some(before) => before.owner.clone(),
                    None => self.run.caller.key.clone(),
                },
                payload: progress.encode(),
            }),
        }
    }

    /// Says that it is committed.
    pub(crate) fn committed(&self) {
        let room = self.run.room.lock().take();
        if room.is_some() {
            let owner = self.run.caller.key.as_ref();
            self.run.imports.kept.adjust(owner, 0, 1);
        }
    }
}
