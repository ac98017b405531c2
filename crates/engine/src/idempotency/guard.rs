//! Writes that may be sent again.
//!
//! A client that got no answer can't know what became of its request. With a
//! key it sends the request again: the answer is kept under the key, in the
//! very commit of what it answers, and is given again instead of doing the
//! work twice. While the first is on its way, until its outcome is known, a
//! second one of the same key is turned away.
//!
//! An answer is kept as long as its request says, a day at most, and all of them
//! are bounded in bytes; nothing is dropped early to make room.

use super::ends::Ends;
use super::imports::ImportStep;
use super::response::StoredResponse;
use crate::caller::Caller;
use crate::clock::EngineClock;
use crate::error::{EngineError, Result};
use crate::metrics::Metrics;
use crate::page::FilterId;
use crate::share::{Permit, Resource, UsedUp};
use crate::store::{PageStore, RetryEnds, SideRecord, SideRecordChange, SideRecordKey, StoreError};
use crate::store_work::StoreWork;
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer is kept at most, and if its request does not say.
pub const ANSWER_KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// What makes a request the same as one sent before. Key and fingerprint are
/// digests, so that they are as good as unique and tell nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Of the key, with its caller, the operation and what that is about.
    pub key: [u8; 32],
    /// Of everything else that the request says.
    pub fingerprint: [u8; 32],
    /// How long its answer is to be kept, up to [`ANSWER_KEPT_FOR`].
    pub kept_for: Duration,
}

/// An answer, and whether it was given before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered<T> {
    /// The answer.
    pub answer: T,
    /// Whether it is that to an earlier request, kept since.
    pub replayed: bool,
}

/// The writes with a key that are on their way, and the bytes of the answers
/// that are kept.
pub(crate) struct IdempotentWrites {
    store: Arc<PageStore>,
    work: Arc<StoreWork>,
    clock: Arc<EngineClock>,
    metrics: Arc<Metrics>,
    /// Keys and fingerprints; as many as there are requests.
    in_flight: Mutex<HashMap<[u8; 32], [u8; 32], FixedState>>,
    /// Bytes that answers take, those to come included.
    bytes: Resource<Arc<str>>,
    /// When those end.
    ends: Ends,
}

/// How a write with a key begins.
pub(crate) enum Begun {
    /// It was made before, to this filter, and answered so.
    Replayed(FilterId, StoredResponse),
    /// It was not.
    New(Arc<IdempotencyGuard>),
}

impl IdempotentWrites {
    /// Room for so many bytes of answers, of which the store holds some.
    pub(crate) fn new(
        store: Arc<PageStore>,
        work: Arc<StoreWork>,
        clock: Arc<EngineClock>,
        metrics: Arc<Metrics>,
        bytes: Resource<Arc<str>>,
        ends: RetryEnds,
    ) -> IdempotentWrites {
        metrics.retry_bytes.set(bytes.held() as i64);
        IdempotentWrites {
            store,
            work,
            clock,
            metrics,
            in_flight: Mutex::default(),
            bytes,
            ends: Ends::new(ends),
        }
    }

    /// Finds out whether a write was made before. `answer_bytes` is what its answer may
    /// take.
    ///
    /// # Errors
    /// [`EngineError::RetryInFlight`] while the first is on its way,
    /// [`EngineError::RetryConflict`] if that was another request,
    /// [`EngineError::RetriesFull`] if no more answers can be kept.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        caller: &Caller,
        key: IdempotencyKey,
        answer_bytes: usize,
    ) -> Result<Begun> {
        let in_flight = self.take_off(key)?;
        let now_ms = self.clock.now_ms();
        let (writes, record_key) = (Arc::clone(self), SideRecordKey::Retry(key.key));
        let looking = move || writes.kept(&record_key, now_ms);
        let kept = self.work.run(caller, looking);
        if let Some(record) = kept.await?? {
            let (fingerprint, rest) = record.payload.split_first_chunk().ok_or_else(no_sense)?;
            if *fingerprint != key.fingerprint {
                self.count("conflict");
                return Err(EngineError::RetryConflict);
            }
            let (&filter, answer) = rest.split_first_chunk().ok_or_else(no_sense)?;
            let filter = FilterId(u64::from_le_bytes(filter));
            // The same request has the same items: no more results than these.
            let answer = StoredResponse::decode(answer, answer_bytes).ok_or_else(no_sense)?;
            return Ok(Begun::Replayed(filter, answer));
        }
        let payload_bytes = key.fingerprint.len() + size_of::<FilterId>() + answer_bytes;
        let reserved = SideRecord::stored_bytes(payload_bytes);
        let reserved = self.reserve(caller, reserved, now_ms)?;
        self.count("new");
        Ok(Begun::New(Arc::new(IdempotencyGuard {
            in_flight,
            ends_at_ms: now_ms.saturating_add(key.kept_for.min(ANSWER_KEPT_FOR).as_millis() as u64),
            owner: caller.key.clone(),
            reserved: Some(reserved),
        })))
    }

    /// Whether a filter has become another, by merges.
    pub(crate) async fn became(
        &self,
        caller: &Caller,
        mut filter: FilterId,
        now: FilterId,
    ) -> Result<bool> {
        let store = Arc::clone(&self.store);
        let looking = move || -> Result<bool, StoreError> {
            while filter != now {
                let Some(record) = store.side_record(&succession_of(filter))? else {
                    return Ok(false);
                };
                let next = record.payload.try_into().map_err(|_| no_sense())?;
                filter = FilterId(u64::from_le_bytes(next));
            }
            Ok(true)
        };
        Ok(self.work.run(caller, looking).await??)
    }

    /// What a commit records that has a filter become another, so that answers about it
    /// hold, and room for that until that is [counted](Self::adjust).
    ///
    /// # Errors
    /// [`EngineError::RetriesFull`], or this key has its share.
    pub(crate) fn succession(
        &self,
        caller: &Caller,
        from: FilterId,
        to: FilterId,
    ) -> Result<(SideRecordChange, Permit<Arc<str>>)> {
        let (now_ms, payload) = (self.clock.now_ms(), to.0.to_le_bytes().to_vec());
        let room = self.reserve(caller, SideRecord::stored_bytes(payload.len()), now_ms)?;
        let record = SideRecord {
            ends_at_ms: now_ms.saturating_add(ANSWER_KEPT_FOR.as_millis() as u64),
            owner: caller.key.clone(),
            payload,
        };
        let change = SideRecordChange {
            key: succession_of(from),
            before: None,
            after: Some(record),
        };
        Ok((change, room))
    }

    /// Notes that a request is on its way.
    fn take_off(self: &Arc<Self>, key: IdempotencyKey) -> Result<InFlight> {
        let mut in_flight = self.in_flight.lock();
        match in_flight.get(&key.key) {
            None => {}
            Some(&fingerprint) if fingerprint == key.fingerprint => {
                self.count("in_flight");
                return Err(EngineError::RetryInFlight);
            }
            Some(_) => {
                self.count("conflict");
                return Err(EngineError::RetryConflict);
            }
        }
        in_flight.insert(key.key, key.fingerprint);
        Ok(InFlight {
            writes: Arc::clone(self),
            key,
        })
    }

    /// What is kept under a key. What has ended is removed on the way, so that
    /// nothing is in the place of the next answer. Blocks.
    fn kept(&self, key: &SideRecordKey, now_ms: u64) -> Result<Option<SideRecord>, StoreError> {
        match self.store.side_record(key)? {
            Some(record) if record.ends_at_ms <= now_ms => {
                if let Some(record) = self.store.forget_ended(key, now_ms)? {
                    self.let_go(&record);
                }
                Ok(None)
            }
            found => Ok(found),
        }
    }

    /// Removes answers that have ended, as the list of what ends names them.
    /// Returns how many stay for now, and what is wrong with others.
    ///
    /// One that is being asked for stays: that request may have come in time.
    /// Whoever asks later sees that it has ended.
    pub(crate) fn forget_all_ended(
        &self,
        mut due: Vec<(u64, SideRecordKey)>,
        now_ms: u64,
    ) -> Result<(usize, Vec<StoreError>), StoreError> {
        let listed = due.len();
        {
            let in_flight = self.in_flight.lock();
            due.retain(|(_, key)| match key {
                SideRecordKey::Retry(key) => !in_flight.contains_key(key),
                SideRecordKey::Import { .. } => false,
            });
        }
        let mut damaged = Vec::new();
        for removed in self.store.forget_all_ended(&due, now_ms)? {
            match removed {
                Ok(Some(record)) => self.let_go(&record),
                Ok(None) => {}
                Err(error) => damaged.push(error),
            }
        }
        Ok((listed - due.len(), damaged))
    }

    /// Takes room for an answer.
    fn reserve(&self, caller: &Caller, bytes: u64, now_ms: u64) -> Result<Permit<Arc<str>>> {
        let taken = self.bytes.try_take(caller.claimant().as_ref(), bytes);
        let taken = taken.map_err(|used_up| {
            self.count("full");
            match used_up {
                UsedUp::All { bound } => {
                    let (lasting, first_ends_in) = self.ends.filled(now_ms);
                    EngineError::RetriesFull {
                        bound,
                        lasting,
                        first_ends_in,
                    }
                }
                UsedUp::Share { held, bound } | UsedUp::Most { held, most: bound } => {
                    EngineError::RetriesOverShare {
                        held,
                        bound,
                        first_ends_in: self.ends.first_ends_in(caller.key.as_ref(), now_ms),
                    }
                }
            }
        })?;
        self.show();
        Ok(taken)
    }

    /// Counts what a commit, of this pod or another, keeps: an answer, or what has answers
    /// hold. It counts as it is, whatever was reserved for it.
    pub(crate) fn adjust(&self, change: &SideRecordChange) {
        if let Some(record) = &change.before {
            self.let_go(record);
        }
        if let Some(record) = &change.after {
            self.bytes.adjust(record.owner.as_ref(), 0, record.bytes());
            self.ends.add(record);
            self.show();
        }
    }

    fn let_go(&self, record: &SideRecord) {
        self.bytes.adjust(record.owner.as_ref(), record.bytes(), 0);
        self.ends.remove(record);
        self.show();
    }

    fn show(&self) {
        self.metrics.retry_bytes.set(self.bytes.held() as i64);
    }

    /// Counts what became of a request with a key.
    pub(crate) fn count(&self, outcome: &str) {
        self.metrics.retries.with_label_values(&[outcome]).inc();
    }
}

/// A request on its way, as long as this lives.
struct InFlight {
    writes: Arc<IdempotentWrites>,
    key: IdempotencyKey,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.writes.in_flight.lock().remove(&self.key.key);
    }
}

/// The right, and the duty, to keep the answer to a request. While one lives
/// the key can't be used again: with the caller, with the command in its lane,
/// and with a commit whose outcome is unknown.
pub(crate) struct IdempotencyGuard {
    in_flight: InFlight,
    ends_at_ms: u64,
    /// The API key that the answer counts for.
    owner: Option<Arc<str>>,
    reserved: Option<Permit<Arc<str>>>,
}

impl IdempotencyGuard {
    /// What a commit records so that the answer, about that filter, is kept.
    pub(crate) fn side_record(
        &self,
        filter: FilterId,
        answer: &StoredResponse,
    ) -> SideRecordChange {
        let key = self.in_flight.key;
        let mut payload = key.fingerprint.to_vec();
        payload.extend_from_slice(&filter.0.to_le_bytes());
        payload.extend_from_slice(&answer.encode());
        SideRecordChange {
            key: SideRecordKey::Retry(key.key),
            before: None,
            after: Some(SideRecord {
                ends_at_ms: self.ends_at_ms,
                owner: self.owner.clone(),
                payload,
            }),
        }
    }
}

impl Drop for IdempotencyGuard {
    fn drop(&mut self) {
        drop(self.reserved.take());
        self.in_flight.writes.show();
    }
}

/// What a commit records beside its changes for one of its requests, and what
/// keeps the request from being sent again until it does. Cheap to clone.
#[derive(Clone)]
pub(crate) enum SideRecorder {
    /// The answer to a request with a key.
    Response(Arc<IdempotencyGuard>),
    /// The progress of an import.
    Progress(Arc<ImportStep>),
}

impl SideRecorder {
    /// The key of the record, and what has to stand there before.
    pub(crate) fn expected(&self) -> (SideRecordKey, Option<&SideRecord>) {
        match self {
            SideRecorder::Response(guard) => (SideRecordKey::Retry(guard.in_flight.key.key), None),
            SideRecorder::Progress(step) => (step.run.key.clone(), step.before.as_ref()),
        }
    }

    /// Says that the record is committed.
    pub(crate) fn committed(&self, record: &SideRecordChange) {
        match self {
            SideRecorder::Response(guard) => guard.in_flight.writes.adjust(record),
            SideRecorder::Progress(step) => step.committed(),
        }
    }
}

/// Under which key is kept what a filter has become; no digest is like it.
fn succession_of(filter: FilterId) -> SideRecordKey {
    let mut key = [0; 32];
    let (id, _) = key.split_at_mut(size_of::<FilterId>());
    id.copy_from_slice(&filter.0.to_le_bytes());
    SideRecordKey::Retry(key)
}

/// What is said of an answer that can't be read.
pub(crate) fn no_sense() -> StoreError {
    StoreError::corrupt("an answer kept for a retry", "it makes no sense")
}
