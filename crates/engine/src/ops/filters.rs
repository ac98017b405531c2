//! Describing, listing and removing filters, and setting when they end.

use crate::answer::{FilterInfo, FilterPage, FilterSizes};
use crate::error::Result;
use crate::filters::OpenFilter;
use crate::history::Sample;
use crate::idempotency::guard::{Answered, IdempotencyKey, SideRecorder};
use crate::idempotency::response::StoredResponse;
use crate::lane::command::{Command, Outcome};
use crate::listing::page_of;
use crate::name::FilterName;
use crate::page::FilterId;
use crate::state::Engine;
use crate::store::Expiry;
use crate::ttl;

impl Engine {
    /// The description of a filter.
    ///
    /// # Errors
    /// [`EngineError::NotFound`](crate::EngineError::NotFound), or the store can't be read.
    pub async fn filter_info(&self, name: &FilterName) -> Result<FilterInfo> {
        let filter = self.find(name).await?;
        let sizes = self.sizes(&filter).await?;
        Ok(describe(&filter, sizes, self.state.clock.now_ms()))
    }

    /// The same without its bytes on disk, which are none: of a filter that is open
    /// nothing is asked of the store.
    ///
    /// # Errors
    /// As [`filter_info`](Self::filter_info).
    pub async fn filter_in_memory(&self, name: &FilterName) -> Result<FilterInfo> {
        let filter = self.find(name).await?;
        let sizes = FilterSizes {
            memory_bytes: filter.view.load().memory_bytes(),
            disk_bytes: 0,
        };
        Ok(describe(&filter, sizes, self.state.clock.now_ms()))
    }

    /// Whether there is a filter of that name.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn has_filter(&self, name: &FilterName) -> Result<bool> {
        Ok(self.state.open(&self.caller, name).await?.is_some())
    }

    /// What a filter was like within the last day, the oldest first; nothing before
    /// the first survey ([`survey_filters`](Self::survey_filters)).
    ///
    /// # Errors
    /// As [`filter_info`](Self::filter_info).
    pub async fn filter_history(&self, name: &FilterName) -> Result<Vec<Sample>> {
        let filter = self.find(name).await?;
        Ok(self.state.history.of(filter.id))
    }

    /// Up to `limit` filters whose names start with `prefix`, contain `part` and are
    /// greater than `after`, by name: fewer, where many or long descriptions are read. They are
    /// read and decoded off the async threads, in the caller's turn.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn list_filters(
        &self,
        prefix: &str,
        part: &str,
        after: Option<&FilterName>,
        limit: usize,
    ) -> Result<FilterPage> {
        let (prefix, part, after) = (prefix.to_owned(), part.to_owned(), after.cloned());
        let now_ms = self.state.clock.now_ms();
        let turn = self.caller.turn.clone();
        self.read(move |store| {
            // As long as it works, also for a caller who is gone.
            let _turn = turn;
            page_of(store, &prefix, &part, after, limit, now_ms)
        })
        .await
    }

    /// Has a filter end so many seconds from now, or never.
    ///
    /// # Errors
    /// [`EngineError::NotFound`](crate::EngineError::NotFound); [`EngineError::InvalidParams`](crate::EngineError::InvalidParams) for a time
    /// out of range; [`EngineError::OutcomeUnknown`](crate::EngineError::OutcomeUnknown) if the commit failed;
    /// those of a key, see [`Engine::add`].
    pub async fn set_ttl(
        &self,
        name: &FilterName,
        ttl_seconds: Option<u64>,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<FilterInfo>> {
        let kept = |response| match response {
            StoredResponse::Filter(filter) => Some(filter.info(name)),
            _ => None,
        };
        let set = |recorder: Option<SideRecorder>| async move {
            loop {
                let filter = self.find(name).await?;
                let command = Command::SetExpiry {
                    sizes: self.sizes(&filter).await?,
                    known: filter.expiry(),
                    expiry: ttl::expiry(ttl_seconds, self.now_ms())?,
                };
                let (lanes, recorder) = (&self.state.lanes, recorder.as_ref());
                let set = lanes.submit(&self.caller, &filter, command, recorder);
                if let Outcome::Described(filter) = set.await? {
                    return Ok(filter.info(name));
                }
            }
        };
        let bytes = StoredResponse::FILTER_BYTES;
        self.once(name, key, bytes, kept, set).await
    }

    /// Has a filter end at that moment, in milliseconds since 1970, if its end until
    /// then allows it; `false`: it does not. A moment that is past ends it at once.
    ///
    /// # Errors
    /// As [`set_ttl`](Self::set_ttl).
    pub async fn set_end(
        &self,
        name: &FilterName,
        at_ms: u64,
        allows: impl Fn(Option<u64>) -> bool,
    ) -> Result<bool> {
        let expiry = || ttl::expiry_at(at_ms, self.now_ms()).map(Some);
        self.set_expiry(name, expiry, allows).await
    }

    /// Has a filter never end; `false`: it had no end.
    ///
    /// # Errors
    /// As [`set_ttl`](Self::set_ttl).
    pub async fn persist(&self, name: &FilterName) -> Result<bool> {
        self.set_expiry(name, || Ok(None), |end| end.is_some())
            .await
    }

    /// When a filter ends, in milliseconds since 1970; `None`: never.
    ///
    /// # Errors
    /// [`EngineError::NotFound`](crate::EngineError::NotFound), or the store can't be read.
    pub async fn end_of(&self, name: &FilterName) -> Result<Option<u64>> {
        let filter = self.find(name).await?;
        Ok(filter.expiry().map(|expiry| expiry.at_ms))
    }

    /// The engine's time, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.state.clock.now_ms()
    }

    /// The same by where this pod began and the time since the machine's start alone.
    pub fn reckoned_ms(&self) -> u64 {
        self.state.clock.reckoned_ms()
    }

    /// Deletes a filter with everything in it. The cost does not depend on its
    /// size; the pages are reclaimed in the background.
    ///
    /// # Errors
    /// [`EngineError::NotFound`](crate::EngineError::NotFound); those of a key, see [`Engine::add`].
    pub async fn delete_filter(
        &self,
        name: &FilterName,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<()>> {
        let kept = |response| (response == StoredResponse::Removed).then_some(());
        let remove = |recorder: Option<SideRecorder>| async move {
            loop {
                let filter = self.find(name).await?;
                let (lanes, recorder) = (&self.state.lanes, recorder.as_ref());
                let removed = lanes.submit(&self.caller, &filter, Command::Remove, recorder);
                if removed.await? != Outcome::Stale {
                    return Ok(());
                }
            }
        };
        self.once(name, key, 1, kept, remove).await
    }

    /// Sets when a filter ends, or that it never does.
    async fn set_expiry(
        &self,
        name: &FilterName,
        expiry: impl Fn() -> Result<Option<Expiry>>,
        allows: impl Fn(Option<u64>) -> bool,
    ) -> Result<bool> {
        let term = self.state.term(name);
        let set = async {
            loop {
                let filter = self.find(name).await?;
                let known = filter.expiry();
                if !allows(known.map(|expiry| expiry.at_ms)) {
                    return Ok(false);
                }
                let command = Command::SetExpiry {
                    known,
                    expiry: expiry()?,
                    // Nobody asks for its bytes, which the store tells.
                    sizes: FilterSizes::default(),
                };
                let lanes = &self.state.lanes;
                let set = lanes.submit(&self.caller, &filter, command, None);
                if set.await? != Outcome::Stale {
                    return Ok(true);
                }
            }
        };
        let is_set = self.confirmed(name, term, set.await).await?;
        if !is_set {
            self.confirm(name, term).await?;
        }
        Ok(is_set)
    }

    /// Bytes of a filter as it is now.
    pub(super) async fn sizes(&self, filter: &OpenFilter) -> Result<FilterSizes> {
        let disk_bytes = self.disk_bytes(filter.id).await?;
        Ok(FilterSizes {
            memory_bytes: filter.view.load().memory_bytes(),
            disk_bytes,
        })
    }

    /// Bytes of the page images of a filter in the store, an estimate.
    pub(super) async fn disk_bytes(&self, id: FilterId) -> Result<u64> {
        self.read(move |store| store.approximate_page_bytes(id))
            .await
    }
}

/// Everything there is to know about a filter as of a moment, in milliseconds since
/// 1970.
pub(super) fn describe(filter: &OpenFilter, sizes: FilterSizes, now_ms: u64) -> FilterInfo {
    let view = filter.view.load_full();
    let chain = view.chain.as_of(now_ms);
    FilterInfo::of(&filter.name, &chain, filter.expiry(), sizes)
}
