//! Writes that may be sent again.
//!
//! A client that got no answer can't know what became of its request. With a
//! key it sends the request again: the answer is kept under the key, in the
//! very commit of what it answers, and is given again instead of doing the
//! work twice. While the first is on its way, until its outcome is known, a
//! second one of the same key is turned away.
//!
//! Answers are kept for a day and are bounded in bytes; nothing is dropped
//! early to make room.

use super::imports::ImportStep;
use super::response::StoredResponse;
use crate::engine::caller::Caller;
use crate::engine::clock::EngineClock;
use crate::engine::error::EngineError;
use crate::engine::filters::OpenFilter;
use crate::engine::store_work::StoreWork;
use crate::metrics::Metrics;
use crate::page::FilterId;
use crate::share::{Permit, Resource, UsedUp};
use crate::store::{PageStore, SideRecord, SideRecordChange, SideRecordKey, StoreError};
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer is kept.
pub const ANSWER_KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// What makes a request the same as one sent before. Both are digests, so
/// that they are as good as unique and tell nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Of the key, with its caller, the operation and what that is about.
    pub key: [u8; 32],
    /// Of everything else that the request says.
    pub fingerprint: [u8; 32],
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
    /// Held while an answer that has ended is removed.
    removing: Mutex<()>,
}

/// How a write with a key begins.
enum Begun {
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
    ) -> IdempotentWrites {
        metrics.retry_bytes.set(bytes.held() as i64);
        IdempotentWrites {
            store,
            work,
            clock,
            metrics,
            in_flight: Mutex::default(),
            bytes,
            removing: Mutex::default(),
        }
    }

    /// Makes a write, or with a key answers as it was answered before.
    /// `answer_bytes` is what its answer may take, `answer_of` knows the answers
    /// that are of its kind, and `filter_now` the filter that has the name.
    ///
    /// An answer is about one filter, not about all that ever have its name:
    /// without that filter it is no longer true. Only that it was removed is.
    ///
    /// # Errors
    /// Those of the write. With a key also [`EngineError::RetryInFlight`] while
    /// the first is on its way, [`EngineError::RetryConflict`] if that was
    /// another request, [`EngineError::RetryFilterGone`] if its filter is gone,
    /// [`EngineError::RetriesFull`] if no more answers can be kept.
    pub(crate) async fn once<T, F, W>(
        self: &Arc<Self>,
        caller: &Caller,
        key: Option<IdempotencyKey>,
        answer_bytes: usize,
        filter_now: impl FnOnce() -> F,
        answer_of: impl FnOnce(StoredResponse) -> Option<T>,
        write: impl FnOnce(Option<SideRecorder>) -> W,
    ) -> Result<Answered<T>, EngineError>
    where
        F: Future<Output = Result<Option<Arc<OpenFilter>>, EngineError>>,
        W: Future<Output = Result<T, EngineError>>,
    {
        let recorder = match key {
            None => None,
            Some(key) => match Box::pin(self.begin(caller, key, answer_bytes)).await? {
                Begun::New(guard) => Some(SideRecorder::Response(guard)),
                Begun::Replayed(filter, answer) => {
                    if answer != StoredResponse::Removed {
                        let now = Box::pin(filter_now()).await?;
                        if now.is_none_or(|now| now.id != filter) {
                            self.count("filter_gone");
                            return Err(EngineError::RetryFilterGone);
                        }
                    }
                    self.count("replayed");
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
    }

    /// Finds out whether a write was made before.
    async fn begin(
        self: &Arc<Self>,
        caller: &Caller,
        key: IdempotencyKey,
        answer_bytes: usize,
    ) -> Result<Begun, EngineError> {
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
        let reserved = self.reserve(caller, reserved)?;
        self.count("new");
        Ok(Begun::New(Arc::new(IdempotencyGuard {
            in_flight,
            ends_at_ms: now_ms.saturating_add(ANSWER_KEPT_FOR.as_millis() as u64),
            owner: caller.key.clone(),
            reserved: Some(reserved),
        })))
    }

    /// Notes that a request is on its way.
    fn take_off(self: &Arc<Self>, key: IdempotencyKey) -> Result<InFlight, EngineError> {
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
                self.forget_ended(key, now_ms)?;
                Ok(None)
            }
            found => Ok(found),
        }
    }

    /// Removes the answer under a key if it has ended. Says whether it did.
    pub(crate) fn forget_ended(
        &self,
        key: &SideRecordKey,
        now_ms: u64,
    ) -> Result<bool, StoreError> {
        // A new answer is written only after the old one was seen to be gone,
        // which is here, too.
        let _one_at_a_time = self.removing.lock();
        let ended = self.store.forget_ended(key, now_ms)?;
        if let Some(record) = &ended {
            self.note(record.owner.as_ref(), record.bytes(), 0);
        }
        Ok(ended.is_some())
    }

    /// Takes room for an answer.
    fn reserve(&self, caller: &Caller, bytes: u64) -> Result<Permit<Arc<str>>, EngineError> {
        let taken = self.bytes.try_take(caller.claimant().as_ref(), bytes);
        let taken = taken.map_err(|used_up| {
            self.count("full");
            match used_up {
                UsedUp::All { .. } => EngineError::RetriesFull,
                UsedUp::Share { held, bound } | UsedUp::Most { held, most: bound } => {
                    EngineError::OverKeptShare {
                        what: "bytes of answers for retries, which are kept for 24 hours",
                        held,
                        bound,
                    }
                }
            }
        })?;
        self.show();
        Ok(taken)
    }

    /// Notes that another pod has kept an answer.
    pub(crate) fn noted(&self, change: &SideRecordChange) {
        if let Some(record) = &change.before {
            self.note(record.owner.as_ref(), record.bytes(), 0);
        }
        if let Some(record) = &change.after {
            self.note(record.owner.as_ref(), 0, record.bytes());
        }
    }

    fn note(&self, owner: Option<&Arc<str>>, before: u64, after: u64) {
        self.bytes.note(owner, before, after);
        self.show();
    }

    fn show(&self) {
        self.metrics.retry_bytes.set(self.bytes.held() as i64);
    }

    fn count(&self, outcome: &str) {
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

    /// Says that the record is committed: it counts as it is, whatever was
    /// reserved for it.
    pub(crate) fn committed(&self, record: &SideRecordChange) {
        let bytes = record.after.as_ref().map_or(0, SideRecord::bytes);
        let writes = &self.in_flight.writes;
        writes.note(self.owner.as_ref(), 0, bytes);
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
            SideRecorder::Progress(step) => (step.run.key().clone(), step.before.as_ref()),
        }
    }

    /// Says that the record is committed.
    pub(crate) fn committed(&self, record: &SideRecordChange) {
        match self {
            SideRecorder::Response(guard) => guard.committed(record),
            SideRecorder::Progress(step) => step.committed(),
        }
    }
}

fn no_sense() -> StoreError {
    StoreError::Corrupt {
        what: "an answer kept for a retry".to_owned(),
        reason: "it makes no sense".to_owned(),
    }
}
