//! What all handles to an engine share: plain state, and the way into the lanes.

use super::caller::Caller;
use super::clock::EngineClock;
use super::compactions::Compactions;
use super::disk::Disk;
use super::dump_memory::DumpMemory;
use super::error::{EngineError, Overload, Result};
use super::filters::{Filters, OpenFilter};
use super::history::History;
use super::idempotency::guard::{
    Answered, Begun, IdempotencyKey, IdempotentWrites, SideRecorder, no_sense,
};
use super::idempotency::imports::Imports;
use super::idempotency::response::StoredResponse;
use super::lane::submit::Submitter;
use super::name::FilterName;
use super::pages::{Checkpointer, Loader, PageCache};
use super::quota::Quota;
use super::sharing::Sharing;
use super::slot::slot_of;
use super::store_work::StoreWork;
use super::threads::Threads;
use crate::chain::params::Defaults;
use crate::metrics::Metrics;
use crate::page::FilterId;
use crate::share::{Permit, Resource};
use crate::store::{PageStore, StoreError};
use parking_lot::Mutex;
use prometheus::IntCounter;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serial numbers of filters that are reserved in the store at once.
pub(super) const SERIAL_BLOCK: u64 = 1024;

/// The filters of one server, as one caller has them. Cheap to clone; all
/// clones are the same engine.
#[derive(Clone)]
pub struct Engine {
    pub(super) state: Arc<EngineState>,
    /// Whom it works for.
    pub(super) caller: Caller,
    /// How it reads whole filters.
    pub(super) paces: Option<Arc<dyn Fn() -> Pace + Send + Sync>>,
}

/// Called again and again while a filter is read as a whole, where nothing is
/// held that others wait for: the place to take a rest, and to give up. Blocks.
pub type Pace = Box<dyn FnMut() -> ControlFlow<()> + Send>;

impl Engine {
    /// The same engine, working for this caller.
    pub fn for_caller(&self, caller: Caller) -> Engine {
        Engine {
            state: Arc::clone(&self.state),
            caller,
            paces: self.paces.clone(),
        }
    }

    /// The same engine, which reads a filter as a whole at one of these paces
    /// where it finds slots for copies that are counted.
    pub fn paced(mut self, paces: impl Fn() -> Pace + Send + Sync + 'static) -> Engine {
        self.paces = Some(Arc::new(paces));
        self
    }

    /// At which pace it reads a filter as a whole now: as long as its caller waits.
    pub(super) fn pace(&self) -> Pace {
        let mut paced = self.paces.as_ref().map(|paces| paces());
        let caller = self.caller.clone();
        Box::new(move || match (caller.check(), &mut paced) {
            (Err(_), _) => ControlFlow::Break(()),
            (Ok(()), Some(paced)) => paced(),
            (Ok(()), None) => ControlFlow::Continue(()),
        })
    }

    /// The same for the same caller, who has this turn among large requests.
    pub fn in_turn(&self, turn: Option<Permit<Arc<str>>>) -> Engine {
        self.for_caller(Caller {
            turn: turn.into(),
            ..self.caller.clone()
        })
    }

    /// The same for the same caller, who waits until then.
    pub fn until(&self, deadline: Instant) -> Engine {
        self.for_caller(Caller {
            deadline: Some(deadline),
            ..self.caller.clone()
        })
    }

    /// Makes a write to the filter of that name, or with a key answers as it was
    /// answered before. `answer_bytes` is what its answer may take, and `answer_of`
    /// knows the answers that are of its kind.
    ///
    /// An answer is about one filter, not about all that ever have its name:
    /// without that filter it is no longer true. Only that it was removed is.
    ///
    /// # Errors
    /// Those of the write; with a key also those of [`IdempotentWrites::begin`], and
    /// [`EngineError::RetryFilterGone`] if its filter is gone.
    pub(super) async fn once<T, W>(
        &self,
        name: &FilterName,
        key: Option<IdempotencyKey>,
        answer_bytes: usize,
        answer_of: impl FnOnce(StoredResponse) -> Option<T>,
        write: impl FnOnce(Option<SideRecorder>) -> W,
    ) -> Result<Answered<T>>
    where
        W: Future<Output = Result<T>>,
    {
        let (term, writes) = (self.state.term(name), &self.state.idempotent_writes);
        let answering = async {
            let recorder = match key {
                None => None,
                Some(key) => match Box::pin(writes.begin(&self.caller, key, answer_bytes)).await? {
                    Begun::New(guard) => Some(SideRecorder::Response(guard)),
                    Begun::Replayed(filter, answer) => {
                        if answer != StoredResponse::Removed {
                            let now = Box::pin(self.state.open(&self.caller, name)).await?;
                            let holds = match now {
                                None => false,
                                Some(now) if now.id == filter => true,
                                Some(now) => {
                                    Box::pin(writes.became(&self.caller, filter, now.id)).await?
                                }
                            };
                            if !holds {
                                writes.count("filter_gone");
                                return Err(EngineError::RetryFilterGone);
                            }
                        }
                        writes.count("replayed");
                        return Ok(Answered {
                            answer: answer_of(answer).ok_or_else(no_sense)?,
                            replayed: true,
                        });
                    }
                },
            };
            Ok(Answered {
                answer: write(recorder).await?,
                replayed: false,
            })
        };
        let answered = answering.await;
        self.confirmed(name, term, answered).await
    }

    /// The filter of that name.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or the store can't be read.
    pub(super) async fn find(&self, name: &FilterName) -> Result<Arc<OpenFilter>> {
        let found = self.state.open(&self.caller, name).await?;
        found.ok_or_else(|| EngineError::NotFound { name: name.clone() })
    }

    /// A number for a new filter of this name, never used before.
    pub(super) async fn next_id(&self, name: &FilterName) -> Result<FilterId> {
        loop {
            if let Some(serial) = self.state.serials.lock().next() {
                return Ok(FilterId::new(slot_of(name), serial));
            }
            self.state.disk.check()?;
            let first = self
                .read(|store| store.reserve_serials(SERIAL_BLOCK))
                .await?;
            let mut serials = self.state.serials.lock();
            // Another creation may have been quicker; its block serves both,
            // and the numbers of this one are never used.
            if serials.is_empty() {
                *serials = first..first + SERIAL_BLOCK;
            }
        }
    }

    /// Asks the store, on a thread that may block.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&PageStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T> {
        let store = Arc::clone(&self.state.store);
        let reading = move || read(&store);
        Ok(self.state.store_work.run(&self.caller, reading).await??)
    }
}

/// What all handles to an engine share.
pub(super) struct EngineState {
    pub(super) clock: Arc<EngineClock>,
    pub(super) defaults: Defaults,
    /// Probes that a question may take.
    pub(super) max_probes: usize,
    pub(super) quota: Arc<Quota>,
    pub(super) disk: Arc<Disk>,
    /// Where dumps that come are kept.
    pub(super) spool: PathBuf,
    pub(super) store: Arc<PageStore>,
    pub(super) store_work: Arc<StoreWork>,
    pub(super) cache: Arc<PageCache>,
    pub(super) checkpointer: Arc<Checkpointer>,
    pub(super) loader: Arc<Loader>,
    pub(super) filters: Arc<Filters>,
    pub(super) history: History,
    /// Of these, those that lookups keep open.
    pub(super) looked_up: Resource<Arc<str>>,
    pub(super) idempotent_writes: Arc<IdempotentWrites>,
    pub(super) imports: Arc<Imports>,
    pub(super) compactions: Arc<Compactions>,
    /// What dumps hold of the redo log.
    pub(super) dump_memory: Arc<DumpMemory>,
    /// Serial numbers of filters that are reserved and not used yet.
    pub(super) serials: Mutex<Range<u64>>,
    pub(super) lanes: Submitter,
    /// What it shares with other engines, if it shares its lanes.
    pub(super) sharing: Option<Sharing>,
    pub(super) threads: Threads,
    pub(super) metrics: Arc<Metrics>,
    /// Of [`metrics`](Self::metrics), what every question counts: looking a
    /// series up costs more than counting in it.
    pub(super) cached_reads: IntCounter,
    pub(super) items_found: IntCounter,
    pub(super) items_absent: IntCounter,
}

impl Drop for EngineState {
    fn drop(&mut self) {
        // The lanes end with their queues, the checkpointer has none.
        self.checkpointer.stop();
    }
}

impl EngineState {
    /// The filter of that name, if there is one that has not ended.
    pub(super) async fn open(
        &self,
        caller: &Caller,
        name: &FilterName,
    ) -> Result<Option<Arc<OpenFilter>>> {
        caller.check()?;
        let found = match self.filters.get(name) {
            Some(filter) => Some(filter),
            // Seldom, and far larger than all else that this future holds.
            None => Box::pin(self.open_stored(caller, name)).await?,
        };
        Ok(found.filter(|filter| !filter.has_ended(&self.clock)))
    }

    async fn open_stored(
        &self,
        caller: &Caller,
        name: &FilterName,
    ) -> Result<Option<Arc<OpenFilter>>> {
        self.make_room(caller).await?;
        let (filters, store, name) = (
            Arc::clone(&self.filters),
            Arc::clone(&self.store),
            name.clone(),
        );
        let opening = move || filters.open(&name, &store);
        Ok(self.store_work.run(caller, opening).await??)
    }

    /// Makes sure that one more filter may be open.
    pub(super) async fn make_room(&self, caller: &Caller) -> Result {
        if self.filters.has_room() {
            return Ok(());
        }
        let (filters, checkpointer) = (Arc::clone(&self.filters), Arc::clone(&self.checkpointer));
        let has_room = self.store_work.run(caller, move || {
            // Filters with dirty pages stay open until a checkpoint wrote them.
            let started = Instant::now();
            while started.elapsed() < Duration::from_secs(2) {
                if filters.close_unused() {
                    return true;
                }
                let wait = Duration::from_millis(50);
                if checkpointer.wait_for_images(wait).is_err() {
                    return false;
                }
            }
            false
        });
        match has_room.await? {
            true => Ok(()),
            false => Err(Overload::OpenFilters.into()),
        }
    }

    /// # Errors
    /// [`EngineError::TooManyProbes`].
    pub(super) fn check_probes(&self, items: usize, sub_filters: usize) -> Result {
        let (probes, bound) = (items.saturating_mul(sub_filters), self.max_probes);
        match probes > bound {
            true => Err(EngineError::TooManyProbes { probes, bound }),
            false => Ok(()),
        }
    }

    /// Counts what became of items.
    pub(super) fn count_items(&self, operation: &str, outcome: &str, items: usize) {
        if items > 0 {
            self.metrics
                .items
                .with_label_values(&[operation, outcome])
                .inc_by(items as u64);
        }
    }
}
