//! Requests that may be sent again.
//!
//! A client that got no answer can't know what became of its request. With a
//! key it sends the request again: the answer is kept under the key, in the
//! very commit of what it answers, and is given again instead of doing the
//! work twice. While the first is on its way, until its outcome is known, a
//! second one of the same key is turned away.
//!
//! Answers are kept for a day and are bounded in bytes; nothing is dropped
//! early to make room.

use crate::engine::Engine;
use crate::engine::answer::{
    AddOptions, AddResult, Created, EngineError, FilterInfo, FilterName, NewFilter,
};
use crate::engine::batch::ItemBatch;
use crate::engine::idempotency::note::Keep;
use crate::engine::idempotency::response::{Origin, Remembered, RememberedFilter};
use crate::engine::reader::off_thread;
use crate::engine::shared::{Shared, describe};
use crate::store::{PageStore, SideRecord, SideRecordChange, SideRecordKey, StoreError};
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use prometheus::{IntCounterVec, IntGauge};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long an answer is kept.
pub const ANSWER_KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// What makes a request the same as one sent before. Both are digests, so
/// that they are as good as unique and tell nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Of the key, with who gave it for which operation on what.
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

impl<T> Answered<T> {
    fn now(answer: T) -> Self {
        Answered {
            answer,
            replayed: false,
        }
    }

    fn again(answer: T) -> Self {
        Answered {
            answer,
            replayed: true,
        }
    }
}

/// The answers that are kept, and the requests on their way.
pub(crate) struct Retries {
    /// Keys and fingerprints; as many as there are requests.
    in_flight: Mutex<HashMap<[u8; 32], [u8; 32], FixedState>>,
    /// Bytes that answers take, those to come included.
    bytes: AtomicU64,
    max_bytes: u64,
    gauge: IntGauge,
    outcomes: IntCounterVec,
    /// Held while an answer that has ended is removed.
    removing: Mutex<()>,
}

impl Retries {
    /// Room for `max_bytes` of answers, of which the store holds some.
    pub(crate) fn new(
        max_bytes: u64,
        held_bytes: u64,
        gauge: IntGauge,
        outcomes: IntCounterVec,
    ) -> Retries {
        gauge.set(held_bytes as i64);
        Retries {
            in_flight: Mutex::default(),
            bytes: AtomicU64::new(held_bytes),
            max_bytes,
            gauge,
            outcomes,
            removing: Mutex::default(),
        }
    }

    fn count(&self, outcome: &str) {
        self.outcomes.with_label_values(&[outcome]).inc();
    }

    /// Notes that a request is on its way.
    fn take_off(self: &Arc<Self>, retry: Retry) -> Result<Flight, EngineError> {
        let mut in_flight = self.in_flight.lock();
        match in_flight.get(&retry.key) {
            None => {}
            Some(&fingerprint) if fingerprint == retry.fingerprint => {
                self.count("in_flight");
                return Err(EngineError::RetryInFlight);
            }
            Some(_) => {
                self.count("conflict");
                return Err(EngineError::RetryConflict);
            }
        }
        in_flight.insert(retry.key, retry.fingerprint);
        Ok(Flight {
            retries: Arc::clone(self),
            retry,
        })
    }

    /// What is kept under a key. What has ended is removed on the way, so that
    /// nothing is in the place of the next answer. Blocks.
    fn kept(
        &self,
        store: &PageStore,
        key: &SideRecordKey,
        now_ms: u64,
    ) -> Result<Option<SideRecord>, StoreError> {
        match store.side_record(key)? {
            Some(note) if note.ends_at_ms <= now_ms => {
                self.forget_ended(store, key, now_ms)?;
                Ok(None)
            }
            found => Ok(found),
        }
    }

    /// Removes the answer under a key if it has ended. Says whether it did.
    pub(crate) fn forget_ended(
        &self,
        store: &PageStore,
        key: &SideRecordKey,
        now_ms: u64,
    ) -> Result<bool, StoreError> {
        // A new answer is written only by those who saw the old one gone, and
        // they get here, too.
        let _one_at_a_time = self.removing.lock();
        let note = store
            .side_record(key)?
            .filter(|note| note.ends_at_ms <= now_ms);
        let Some(note) = note else {
            return Ok(false);
        };
        store.forget_side_record(key, &note)?;
        self.give_back(SideRecord::stored_bytes(note.payload.len()));
        Ok(true)
    }

    /// Takes room for an answer.
    fn reserve(&self, bytes: u64) -> Result<(), EngineError> {
        let add = |held: u64| {
            let held = held.checked_add(bytes)?;
            (held <= self.max_bytes).then_some(held)
        };
        match self
            .bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add)
        {
            Ok(_) => {
                self.gauge.add(bytes as i64);
                Ok(())
            }
            Err(_) => {
                self.count("full");
                Err(EngineError::RetriesFull)
            }
        }
    }

    /// Counts an answer that is kept now, whatever was reserved for it.
    fn keep(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.gauge.add(bytes as i64);
    }

    fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.gauge.sub(bytes as i64);
    }
}

/// A request on its way, as long as this lives.
struct Flight {
    retries: Arc<Retries>,
    retry: Retry,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.retries.in_flight.lock().remove(&self.retry.key);
    }
}

/// The right, and the duty, to keep the answer to a request. Whoever holds one
/// keeps the key from being used again: the caller, the command in its lane,
/// and a commit whose outcome is unknown.
pub(crate) struct Ticket {
    flight: Flight,
    ends_at_ms: u64,
    reserved: u64,
}

impl Ticket {
    /// What a commit notes so that the answer is kept.
    pub(crate) fn note(&self, answer: &Remembered) -> SideRecordChange {
        let mut payload = self.flight.retry.fingerprint.to_vec();
        payload.extend_from_slice(&answer.encode());
        SideRecordChange {
            key: SideRecordKey::Retry(self.flight.retry.key),
            before: None,
            after: Some(SideRecord {
                ends_at_ms: self.ends_at_ms,
                payload,
            }),
        }
    }

    /// Says that the note is committed.
    pub(crate) fn kept(&self, note: &SideRecordChange) {
        let bytes = note.after.as_ref().map_or(0, |note| note.payload.len());
        self.flight.retries.keep(SideRecord::stored_bytes(bytes));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.flight.retries.give_back(self.reserved);
    }
}

/// How a request begins that may have been sent before.
enum Begun {
    /// It was.
    Again(Remembered),
    /// It was not; without a key nothing is kept.
    Now(Option<Keep>),
}

impl Shared {
    /// Finds out whether a request was sent before. `answer_bytes` is what its
    /// answer may take.
    async fn begin(&self, retry: Option<Retry>, answer_bytes: usize) -> Result<Begun, EngineError> {
        let Some(retry) = retry else {
            return Ok(Begun::Now(None));
        };
        let flight = self.retries.take_off(retry)?;
        let now_ms = self.clock.now_ms();
        let (retries, store) = (Arc::clone(&self.retries), Arc::clone(&self.store));
        let key = SideRecordKey::Retry(retry.key);
        let found = off_thread(move || retries.kept(&store, &key, now_ms)).await??;
        if let Some(note) = found {
            let (fingerprint, answer) = note.payload.split_first_chunk().ok_or_else(no_sense)?;
            if *fingerprint != retry.fingerprint {
                self.retries.count("conflict");
                return Err(EngineError::RetryConflict);
            }
            // The same request has the same items: no more results than these.
            let answer = Remembered::decode(answer, answer_bytes).ok_or_else(no_sense)?;
            self.retries.count("replayed");
            return Ok(Begun::Again(answer));
        }
        let payload = retry.fingerprint.len() + answer_bytes;
        let reserved = SideRecord::stored_bytes(payload);
        self.retries.reserve(reserved)?;
        self.retries.count("new");
        Ok(Begun::Now(Some(Keep::Answer(Arc::new(Ticket {
            flight,
            ends_at_ms: now_ms.saturating_add(ANSWER_KEPT_FOR.as_millis() as u64),
            reserved,
        })))))
    }
}

fn no_sense() -> StoreError {
    StoreError::Corrupt {
        what: "an answer kept for a retry".to_owned(),
        reason: "it makes no sense".to_owned(),
    }
}

/// Changes that are made once however often they are asked for with the same
/// key; see [`Engine::once`].
pub struct Once<'a> {
    engine: &'a Engine,
    retry: Option<Retry>,
}

impl Engine {
    /// Changes under a key: each is made once, and asked for again it is
    /// answered as it was the first time, for [`ANSWER_KEPT_FOR`]. Answers to
    /// what failed are not kept. Without a key nothing is kept at all.
    ///
    /// Beside what each can fail with:
    /// [`EngineError::RetryInFlight`] while the first is on its way,
    /// [`EngineError::RetryConflict`] if that was another request,
    /// [`EngineError::RetriesFull`] if no more answers can be kept.
    pub fn once(&self, retry: Option<Retry>) -> Once<'_> {
        Once {
            engine: self,
            retry,
        }
    }
}

impl Once<'_> {
    async fn begin(&self, answer_bytes: usize) -> Result<Begun, EngineError> {
        self.engine.shared.begin(self.retry, answer_bytes).await
    }

    /// See [`Engine::add`].
    ///
    /// # Errors
    /// As there, and those of [`Engine::once`].
    pub async fn add(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        options: &AddOptions,
    ) -> Result<Answered<Vec<AddResult>>, EngineError> {
        match self.begin(Remembered::most_bytes(items.len())).await? {
            Begun::Again(Remembered::Added(results)) => Ok(Answered::again(results)),
            Begun::Again(_) => Err(no_sense().into()),
            Begun::Now(keep) => {
                let added = self.engine.add_items(name, items, options, keep);
                added.await.map(Answered::now)
            }
        }
    }

    /// See [`Engine::delete`].
    ///
    /// # Errors
    /// As there, and those of [`Engine::once`].
    pub async fn delete(
        &self,
        name: &FilterName,
        items: &ItemBatch,
    ) -> Result<Answered<Vec<bool>>, EngineError> {
        match self.begin(Remembered::most_bytes(items.len())).await? {
            Begun::Again(Remembered::Deleted(results)) => Ok(Answered::again(results)),
            Begun::Again(_) => Err(no_sense().into()),
            Begun::Now(keep) => {
                let deleted = self.engine.delete_items(name, items, keep);
                deleted.await.map(Answered::now)
            }
        }
    }

    /// See [`Engine::create_filter`]. That a filter differs is an answer that
    /// is not kept.
    ///
    /// # Errors
    /// As there, and those of [`Engine::once`].
    pub async fn create_filter(
        &self,
        name: &FilterName,
        wanted: &NewFilter,
    ) -> Result<Answered<Created>, EngineError> {
        match self.begin(Remembered::FILTER_BYTES).await? {
            Begun::Again(Remembered::Filter(filter)) => {
                let info = described(name, &filter);
                Ok(Answered::again(match filter.origin {
                    Origin::New => Created::New(info),
                    Origin::Existing => Created::Existing(info),
                }))
            }
            Begun::Again(_) => Err(no_sense().into()),
            Begun::Now(keep) => {
                let created = self.engine.make_filter(name, wanted, keep);
                created.await.map(Answered::now)
            }
        }
    }

    /// See [`Engine::set_ttl`].
    ///
    /// # Errors
    /// As there, and those of [`Engine::once`].
    pub async fn set_ttl(
        &self,
        name: &FilterName,
        ttl_seconds: Option<u64>,
    ) -> Result<Answered<FilterInfo>, EngineError> {
        match self.begin(Remembered::FILTER_BYTES).await? {
            Begun::Again(Remembered::Filter(filter)) => {
                Ok(Answered::again(described(name, &filter)))
            }
            Begun::Again(_) => Err(no_sense().into()),
            Begun::Now(keep) => {
                let changed = self.engine.change_ttl(name, ttl_seconds, keep);
                changed.await.map(Answered::now)
            }
        }
    }

    /// See [`Engine::delete_filter`].
    ///
    /// # Errors
    /// As there, and those of [`Engine::once`].
    pub async fn delete_filter(&self, name: &FilterName) -> Result<Answered<()>, EngineError> {
        match self.begin(1).await? {
            Begun::Again(Remembered::Removed) => Ok(Answered::again(())),
            Begun::Again(_) => Err(no_sense().into()),
            Begun::Now(keep) => {
                let removed = self.engine.remove_filter(name, keep);
                removed.await.map(Answered::now)
            }
        }
    }

    /// Has a filter compacted, and says how many of its sub-filters are to be
    /// emptied: as many of the newest as the others have room for, which may
    /// be none. It is done in the background; [`Engine::compaction`] tells how
    /// far it is.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::CompactionRunning`]; those of
    /// [`Engine::once`].
    pub async fn compact(&self, name: &FilterName) -> Result<Answered<u32>, EngineError> {
        match self.begin(Remembered::COMPACTION_BYTES).await? {
            Begun::Again(Remembered::CompactionBegun(closed)) => Ok(Answered::again(closed)),
            Begun::Again(_) => Err(no_sense().into()),
            Begun::Now(keep) => {
                let begun = self.engine.compact_filter(name, keep);
                begun.await.map(Answered::now)
            }
        }
    }
}

/// The filter as it was when the answer was given.
pub(crate) fn described(name: &FilterName, filter: &RememberedFilter) -> FilterInfo {
    describe(name, &filter.chain, filter.expiry, filter.sizes)
}
