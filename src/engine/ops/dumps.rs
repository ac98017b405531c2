//! Dumping a filter, taking one in, and giving it its name.

use crate::engine::answer::{FilterInfo, FilterSizes};
use crate::engine::dump::format::Digest;
use crate::engine::dump::stage::{Intake, StagedFilter};
use crate::engine::dump::write::{self, DumpSink};
use crate::engine::error::EngineError;
use crate::engine::filters::decode;
use crate::engine::lane::command::{Adopt, Command, Outcome, Replaced};
use crate::engine::name::FilterName;
use crate::engine::state::{Engine, KnownDigest, unpaced};
use crate::engine::threads::run_blocking;
use crate::engine::ttl::has_ended;
use crate::store::{Snapshot, StoredFilter};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of the redo log that a dump reads as they are; a longer log is cut
/// before, if that takes no longer than so.
const LONG_LOG_BYTES: u64 = 4 << 20;
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// Which filter may be replaced by one that was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// None: there must be none of the name.
    Nothing,
    /// One of the name, if there is one.
    Anything,
    /// One of the name, which must be there.
    Something,
    /// One of the name that has this digest, at the moment of the replacing.
    If(Digest),
}

/// What became of a filter that was to get its name.
#[derive(Clone, Debug, PartialEq)]
pub enum Adopted {
    /// The filter was created.
    New(FilterInfo),
    /// The filter replaced another one.
    Replaced(FilterInfo),
    /// There is a filter of that name; nothing was changed.
    Exists,
    /// There is none to replace, or it is not the one that was meant; nothing
    /// was changed.
    Changed,
}

impl Engine {
    /// Dumps a filter as it is at one moment; commits go on meanwhile. Reads
    /// it twice, once for its digest. Blocks.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or the store can't be read.
    pub fn dump(&self, name: &FilterName, sink: &mut dyn DumpSink) -> Result<(), EngineError> {
        let now_ms = self.state.clock.now_ms();
        let checkpointer = &self.state.checkpointer;
        checkpointer.shorten_log(LONG_LOG_BYTES, LOG_PATIENCE);
        let share = self.state.dump_memory.take();
        let view = self.state.store.snapshot();
        let filter = view.filter_by_name(name.as_str())?;
        match filter.filter(|filter| !has_ended(filter.expiry, now_ms)) {
            Some(filter) => Ok(write::write(&view, &filter, &share, sink)?),
            None => Err(EngineError::NotFound { name: name.clone() }),
        }
    }

    /// The digest of a filter's dump, as it is at one moment. Reads all of it, at
    /// the engine's pace, unless it is the last that was found out.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::DeadlineExceeded`] if the pace
    /// broke, or the store can't be read.
    pub async fn digest(&self, name: &FilterName) -> Result<Digest, EngineError> {
        match self.measured(name).await? {
            Some((_, digest)) => Ok(digest),
            None => Err(EngineError::NotFound { name: name.clone() }),
        }
    }

    async fn measured(
        &self,
        name: &FilterName,
    ) -> Result<Option<(StoredFilter, Digest)>, EngineError> {
        let (state, name) = (Arc::clone(&self.state), name.clone());
        let now_ms = state.clock.now_ms();
        let mut pace = self.paces.as_ref().map_or_else(unpaced, |paces| paces());
        run_blocking(move || {
            let find = |view: &Snapshot<'_>| -> Result<Option<StoredFilter>, EngineError> {
                let filter = view.filter_by_name(name.as_str())?;
                Ok(filter.filter(|filter| !has_ended(filter.expiry, now_ms)))
            };
            let Some(filter) = find(&state.store.snapshot())? else {
                return Ok(None);
            };
            // A restore asks for it before it takes a dump in, and after.
            if let Some(known) = &*state.last_digest.lock()
                && (known.id, &known.meta) == (filter.id, &filter.meta)
            {
                return Ok(Some((filter, known.digest)));
            }
            state.checkpointer.shorten_log(LONG_LOG_BYTES, LOG_PATIENCE);
            let share = state.dump_memory.take();
            let view = state.store.snapshot();
            let Some(filter) = find(&view)? else {
                return Ok(None);
            };
            let chain = decode(&filter)?;
            match write::measure(&view, filter.id, &chain, &share, &mut pace)? {
                Some((digest, _)) => {
                    let (id, meta) = (filter.id, filter.meta.clone());
                    *state.last_digest.lock() = Some(KnownDigest { id, meta, digest });
                    Ok(Some((filter, digest)))
                }
                None => Err(EngineError::DeadlineExceeded),
            }
        })
        .await?
    }

    /// Why a filter could not be taken in under this name now, if that is so:
    /// [`Adopted::Exists`] or [`Adopted::Changed`].
    ///
    /// # Errors
    /// Those of [`digest`](Self::digest).
    pub async fn refuses_intake(
        &self,
        name: &FilterName,
        replace: Replace,
    ) -> Result<Option<Adopted>, EngineError> {
        let reign = self.state.reign(name);
        let refused = match (replace, self.has_filter(name).await?) {
            (Replace::Nothing, true) => Adopted::Exists,
            (Replace::Something | Replace::If(_), false) => Adopted::Changed,
            (Replace::If(wanted), true) if self.digest(name).await? != wanted => Adopted::Changed,
            _ => return Ok(None),
        };
        self.state.confirm(&self.caller, name, reign).await?;
        Ok(Some(refused))
    }

    /// A place for a filter that is to be taken in under this name: as a new one, or
    /// in the place of the one of that name, if there is one. It is promised its room
    /// as soon as it says how large it is.
    ///
    /// # Errors
    /// [`EngineError::DiskShort`], or the store refused a number for it.
    pub async fn intake(&self, name: &FilterName, replace: Replace) -> Result<Intake, EngineError> {
        self.state.disk.check()?;
        let in_place_of = match replace {
            Replace::Nothing => None,
            _ => self.state.open(&self.caller, name).await?,
        };
        Ok(Intake {
            id: self.state.next_id(&self.caller).await?,
            state: Arc::clone(&self.state),
            caller: self.caller.clone(),
            name: name.clone(),
            in_place_of,
            now_ms: self.state.clock.now_ms(),
        })
    }

    /// Gives a filter that was taken in its name, in one commit.
    ///
    /// # Errors
    /// Those of which [`EngineError::may_be_done`] is true; everything else
    /// changed nothing.
    pub async fn adopt(
        &self,
        name: &FilterName,
        mut staged: StagedFilter,
        replace: Replace,
    ) -> Result<Adopted, EngineError> {
        let chain = Arc::new(staged.chain.clone());
        // Before the commit: once that is done, nothing may fail.
        let sizes = FilterSizes {
            memory_bytes: 0,
            disk_bytes: self.state.disk_bytes(&self.caller, staged.pages.id).await?,
        };
        let mut caller = self.caller.clone();
        loop {
            let reign = self.state.reign(name);
            let found = self.state.open(&caller, name).await?;
            let refused = |why| async move {
                let confirmed = self.state.confirm(&self.caller, name, reign).await;
                confirmed.map(|()| why)
            };
            let replaces = match (&found, replace) {
                (None, Replace::Nothing | Replace::Anything) => None,
                (None, Replace::Something | Replace::If(_)) => {
                    return refused(Adopted::Changed).await;
                }
                (Some(_), Replace::Nothing) => return refused(Adopted::Exists).await,
                (Some(found), Replace::Anything | Replace::Something) => Some(Replaced {
                    id: found.id,
                    meta: None,
                }),
                (Some(_), Replace::If(wanted)) => {
                    let started = Instant::now();
                    let measured = self.measured(name).await?;
                    // The deadline is for the change: a digest takes as long as
                    // its filter is large.
                    let changed_by = |deadline: Instant| deadline + started.elapsed();
                    caller.deadline = caller.deadline.map(changed_by);
                    match measured {
                        Some((filter, digest)) if digest == wanted => Some(Replaced {
                            id: filter.id,
                            meta: Some(filter.meta.into()),
                        }),
                        _ => return refused(Adopted::Changed).await,
                    }
                }
            };
            // What replaces a filter takes its bytes over.
            let reservation = staged.promise.redeem(
                &self.state.quota,
                caller.key.as_ref(),
                found.as_ref(),
                chain.slot_bytes(),
            )?;
            self.state.make_room(&caller).await?;
            let replacing = replaces.is_some();
            let command = Command::Adopt(Adopt {
                id: staged.pages.id,
                name: name.clone(),
                chain: Arc::clone(&chain),
                replaces,
                now_ms: self.state.clock.now_ms(),
                sizes,
            });
            // Should the caller be gone before the outcome comes, the lane has the
            // pages, or the next start reclaims them.
            staged.pages.hand_over(true);
            let outcome = self
                .state
                .lanes
                .submit_new(&caller, command, None, reservation)
                .await;
            staged.pages.hand_over(match &outcome {
                Ok(outcome) => matches!(outcome, Outcome::Adopted(_)),
                // A lane that stops says nothing of what it has done.
                Err(error) => error.may_be_done() || matches!(error, EngineError::Stopping),
            });
            if let Outcome::Adopted(filter) = outcome? {
                let info = filter.info(name);
                return Ok(match replacing {
                    true => Adopted::Replaced(info),
                    false => Adopted::New(info),
                });
            }
        }
    }
}
