//! Making a filter, or saying what it would be.

use crate::answer::{AddMode, Created, FilterInfo, FilterPreview, NewFilter};
use crate::batch::ItemBatch;
use crate::chain::forecast::forecast;
use crate::chain::meta::{Chain, Lineage};
use crate::chain::params::{Difference, FilterParams};
use crate::chain::union::UnionError;
use crate::cuckoo::hash::{HashId, HashKey};
use crate::error::{EngineError, Result, too_many_pages_to_number};
use crate::idempotency::guard::{Answered, IdempotencyKey, SideRecorder};
use crate::idempotency::response::{Origin, StoredResponse};
use crate::lane::command::{Command, Create, Outcome, ReplyWith};
use crate::lane::submit::hash_items;
use crate::name::FilterName;
use crate::ops::filters::describe;
use crate::state::Engine;
use crate::store::StoreError;
use crate::ttl;
use std::sync::Arc;

/// What a filter is to be, as far as that is known before another one is asked.
pub(super) enum CheckedFilter<'a> {
    Itself(FilterParams),
    SiblingOf(&'a FilterName),
}

/// What a filter is to be, checked.
pub(super) struct ResolvedFilter {
    pub(super) params: FilterParams,
    ttl_seconds: Option<u64>,
    /// Whose hash it has.
    sibling: Option<Chain>,
}

/// A filter to be made, with its first items.
pub(super) struct NewWithItems<'a> {
    pub(super) filter: &'a ResolvedFilter,
    pub(super) items: &'a ItemBatch,
    pub(super) mode: AddMode,
    pub(super) reply_with: ReplyWith,
}

impl Engine {
    /// Creates a filter, or says that it is there already and whether it has
    /// what was asked for. One that has ended is not there. That a filter
    /// differs is an answer that is not kept for a key.
    ///
    /// # Errors
    /// [`EngineError::InvalidParams`] names every field that is refused; those
    /// of a key, see [`Engine::add`].
    pub async fn create_filter(
        &self,
        name: &FilterName,
        wanted: &NewFilter,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<Created>> {
        let state = &self.state;
        let kept = |response| match response {
            StoredResponse::Filter(filter) => Some(match filter.origin {
                Origin::New => Created::New(filter.info(name)),
                Origin::Existing => Created::Existing(filter.info(name)),
            }),
            _ => None,
        };
        let create = |recorder: Option<SideRecorder>| async move {
            let checked = self.check_new(wanted)?;
            loop {
                let term = state.term(name);
                let Some(filter) = self.state.open(&self.caller, name).await? else {
                    let new = self.resolve_new(wanted, &checked).await?;
                    let empty = NewWithItems {
                        filter: &new,
                        items: &ItemBatch::default(),
                        mode: AddMode::Always,
                        reply_with: ReplyWith::Description,
                    };
                    let created = self.create(name, empty, recorder.as_ref());
                    // Another creation may have been quicker; then it is looked up
                    // again.
                    if let Outcome::Created(_, filter) = created.await? {
                        return Ok(Created::New(filter.info(name)));
                    }
                    continue;
                };
                let sizes = self.sizes(&filter).await?;
                let info = describe(&filter, sizes, state.clock.now_ms());
                let mut differences = differences(&info, wanted);
                // It need not be there any more.
                if let Some(of) = &wanted.sibling_of
                    && let Some(sibling) = Box::pin(state.open(&self.caller, of)).await?
                    && let sibling = sibling.view.load()
                    && sibling.chain.may_unite(&filter.view.load().chain).is_err()
                {
                    differences.push(Difference {
                        field: "sibling_of",
                        requested: of.to_string(),
                        existing: "a hash, pages or slots of its own".to_owned(),
                    });
                }
                if !differences.is_empty() {
                    self.confirm(name, term).await?;
                    return Ok(Created::Differs(info, differences));
                }
                if recorder.is_none() || wanted.must_be_new {
                    self.confirm(name, term).await?;
                    return Ok(Created::Existing(info));
                }
                // The answer is kept, so it has to come from the lane.
                let command = Command::Describe { sizes };
                let described =
                    state
                        .lanes
                        .submit(&self.caller, &filter, command, recorder.as_ref());
                if let Outcome::Described(filter) = described.await? {
                    return Ok(Created::Existing(filter.info(name)));
                }
            }
        };
        let bytes = StoredResponse::FILTER_BYTES;
        self.once(name, key, bytes, kept, create).await
    }

    /// What a filter would be if it were created now; creates nothing.
    ///
    /// # Errors
    /// Those of a creation: [`EngineError::InvalidParams`],
    /// [`EngineError::OverQuota`].
    pub async fn preview_filter(&self, wanted: &NewFilter) -> Result<FilterPreview> {
        let checked = self.check_new(wanted)?;
        let new = self.resolve_new(wanted, &checked).await?;
        let (quota, key) = (&self.state.quota, self.caller.key.as_ref());
        // Given back at once: nothing is made.
        drop(quota.take(key, new.params.first_bytes(), 1)?);
        match forecast(&new.params) {
            Some(forecast) => Ok(FilterPreview {
                params: new.params,
                ttl_seconds: new.ttl_seconds,
                forecast,
            }),
            None => Err(too_many_pages_to_number(&new.params)),
        }
    }

    /// Has a lane make a filter with its first items.
    pub(super) async fn create(
        &self,
        name: &FilterName,
        new: NewWithItems<'_>,
        recorder: Option<&SideRecorder>,
    ) -> Result<Outcome> {
        let (params, created_at_ms) = (&new.filter.params, self.now_ms());
        let expiry = ttl::expiry(new.filter.ttl_seconds, created_at_ms)?;
        let (state, caller) = (&self.state, &self.caller);
        let reservation = state
            .quota
            .take(caller.key.as_ref(), params.first_bytes(), 1)?;
        state.make_room(caller).await?;
        let hash_key = match new.filter.sibling.as_ref().map(Chain::hash_id) {
            Some(HashId::SipHash13(key)) => key,
            _ => HashKey(random()?),
        };
        let lineage = Lineage(random()?);
        let items = match Chain::new(params.clone(), hash_key, 0) {
            Some(empty) => hash_items(caller, &empty, new.items).await?,
            None => Arc::from([]),
        };
        let command = Command::Create(Create {
            id: self.next_id(name).await?,
            name: name.clone(),
            params: params.clone(),
            hash_key,
            lineage,
            created_at_ms,
            expiry,
            items,
            mode: new.mode,
            reply_with: new.reply_with,
        });
        state
            .lanes
            .submit_new(caller, command, recorder, reservation)
            .await
    }

    /// Checks what a filter is to be, whether it is there or not; of a sibling what the
    /// other filter does not say.
    pub(super) fn check_new<'a>(&self, wanted: &'a NewFilter) -> Result<CheckedFilter<'a>> {
        let checked = match &wanted.sibling_of {
            Some(name) => CheckedFilter::SiblingOf(name),
            None => {
                let params = FilterParams::resolve(&wanted.params, &self.state.defaults)
                    .map_err(EngineError::InvalidParams)?;
                if !params.can_be_numbered() {
                    return Err(too_many_pages_to_number(&params));
                }
                CheckedFilter::Itself(params)
            }
        };
        ttl::expiry(wanted.ttl_seconds, 0)?;
        Ok(checked)
    }

    /// What a filter that is not there is to be.
    pub(super) async fn resolve_new(
        &self,
        wanted: &NewFilter,
        checked: &CheckedFilter<'_>,
    ) -> Result<ResolvedFilter> {
        let (params, sibling) = match checked {
            CheckedFilter::Itself(params) => (params.clone(), None),
            CheckedFilter::SiblingOf(name) => {
                // Seldom, and larger than all else that this future holds.
                let sibling = Box::pin(self.sibling(name, wanted)).await?;
                (sibling.params().clone(), Some(sibling))
            }
        };
        Ok(ResolvedFilter {
            params,
            ttl_seconds: wanted.ttl_seconds,
            sibling,
        })
    }

    /// The filter of that name, which one with those fields can be a sibling of.
    async fn sibling(&self, name: &FilterName, wanted: &NewFilter) -> Result<Chain> {
        let sibling = self.find(name).await?.view.load().chain.clone();
        let differ = sibling.params().differences(&wanted.params).into_iter();
        let refused = match differ.map(UnionError::Differ).next() {
            Some(differs) => Err(differs),
            None => sibling.may_unite(&sibling),
        };
        refused.map_err(EngineError::not_merged(name))?;
        // Whatever was allowed when that one was made.
        let sibling = sibling.with_max_filter_bytes(self.state.defaults.max_filter_bytes);
        match sibling.params().too_large() {
            Some(refused) => Err(EngineError::InvalidParams(vec![refused])),
            None => Ok(sibling),
        }
    }
}

/// A new filter's key, or lineage, from the operating system.
pub(super) fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Random {
        source: error.into(),
    })?;
    Ok(bytes)
}

/// Where what is asked for and what is there part.
fn differences(info: &FilterInfo, wanted: &NewFilter) -> Vec<Difference> {
    let mut differences = info.params.differences(&wanted.params);
    let existing = info.expiry.map(|expiry| expiry.ttl_seconds);
    if let Some(requested) = wanted.ttl_seconds
        && existing != Some(requested)
    {
        differences.push(Difference {
            field: "ttl_seconds",
            requested: requested.to_string(),
            existing: existing.map_or("none".to_owned(), |seconds| seconds.to_string()),
        });
    }
    differences
}
