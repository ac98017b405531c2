//! Dumping a filter, taking one in, and giving it its name.

use crate::answer::{FilterInfo, FilterSizes};
use crate::chain::meta::{FilterVersion, Lineage};
use crate::dump::stage::{Intake, StagedFilter};
use crate::dump::write::{self, DumpSink};
use crate::error::{EngineError, Result};
use crate::filters::decode;
use crate::lane::command::{Adopt, Command, Outcome, Replaced};
use crate::name::FilterName;
use crate::ops::create::random;
use crate::state::Engine;
use crate::ttl::has_ended;
use cuckood_filter::file::Header;
use std::sync::Arc;
use std::time::Duration;

/// A long log is cut before a dump, if that takes no longer than so.
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
    /// One of the name that has this version, at the moment of the replacing.
    If(FilterVersion),
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
    /// Dumps a filter as it is at one moment; commits go on meanwhile. Blocks.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or the store can't be read.
    pub fn dump(&self, name: &FilterName, sink: &mut dyn DumpSink) -> Result {
        let now_ms = self.state.clock.now_ms();
        let checkpointer = &self.state.checkpointer;
        checkpointer.shorten_log(LOG_PATIENCE);
        let share = self.state.dump_memory.take();
        let view = self.state.store.snapshot();
        let filter = view.filter_by_name(name.as_str())?;
        match filter.filter(|filter| !has_ended(filter.expiry, now_ms)) {
            Some(filter) => {
                let chain = decode(filter.id, &filter.meta)?;
                Ok(write::write(&view, filter.id, &chain, &share, sink)?)
            }
            None => Err(EngineError::NotFound { name: name.clone() }),
        }
    }

    /// The version of a filter, as a dump that begins now would have it.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or the store can't be read.
    pub async fn version(&self, name: &FilterName) -> Result<FilterVersion> {
        Ok(self.find(name).await?.version())
    }

    /// The header of a dump that begins now.
    ///
    /// # Errors
    /// As for [`version`](Self::version).
    pub async fn header(&self, name: &FilterName) -> Result<Header> {
        let header = Header::of(&self.find(name).await?.view.load().chain);
        header.ok_or(EngineError::NotFound { name: name.clone() })
    }

    /// Why a filter could not be taken in under this name now, if that is so:
    /// [`Adopted::Exists`] or [`Adopted::Changed`].
    ///
    /// # Errors
    /// Those of [`version`](Self::version).
    pub async fn refuses_intake(
        &self,
        name: &FilterName,
        replace: Replace,
    ) -> Result<Option<Adopted>> {
        let term = self.state.term(name);
        let found = self.state.open(&self.caller, name).await?;
        let refused = match (replace, found) {
            (Replace::Nothing, Some(_)) => Adopted::Exists,
            (Replace::Something | Replace::If(_), None) => Adopted::Changed,
            (Replace::If(wanted), Some(it)) if it.version() != wanted => Adopted::Changed,
            _ => return Ok(None),
        };
        self.confirm(name, term).await?;
        Ok(Some(refused))
    }

    /// A place for a filter that is to be taken in under this name: as a new one, or
    /// in the place of the one of that name, if there is one. It is promised its room
    /// as soon as it says how large it is.
    ///
    /// # Errors
    /// [`EngineError::DiskShort`], or the store refused a number for it.
    pub async fn intake(&self, name: &FilterName, replace: Replace) -> Result<Intake> {
        self.state.disk.check()?;
        let in_place_of = match replace {
            Replace::Nothing => None,
            _ => self.state.open(&self.caller, name).await?,
        };
        Ok(Intake {
            id: self.next_id(name).await?,
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
    ) -> Result<Adopted> {
        let lineage = Lineage(random()?);
        let chain = staged.chain.clone();
        let chain = Arc::new(chain.with_lineage(lineage, self.state.clock.now_ms()));
        // Before the commit: once that is done, nothing may fail.
        let sizes = FilterSizes {
            memory_bytes: 0,
            disk_bytes: self.disk_bytes(staged.pages.id).await?,
        };
        let caller = &self.caller;
        loop {
            let term = self.state.term(name);
            let found = self.state.open(&self.caller, name).await?;
            let refused = |why| async move {
                let confirmed = self.confirm(name, term).await;
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
                    version: None,
                }),
                // It is looked at again in the commit.
                (Some(found), Replace::If(wanted)) => {
                    if found.version() != wanted {
                        return refused(Adopted::Changed).await;
                    }
                    Some(Replaced {
                        id: found.id,
                        version: Some(wanted),
                    })
                }
            };
            // What replaces a filter takes its bytes over.
            let reservation = staged.promise.redeem(
                &self.state.quota,
                caller.key.as_ref(),
                found.as_ref(),
                chain.slot_bytes(),
            )?;
            self.state.make_room(caller).await?;
            let replacing = replaces.is_some();
            let writes = &self.state.idempotent_writes;
            let succession = replaces.as_ref().filter(|_| staged.is_union);
            let succession = succession
                .map(|it| writes.succession(caller, it.id, staged.pages.id))
                .transpose()?;
            let command = Command::Adopt(Adopt {
                id: staged.pages.id,
                name: name.clone(),
                chain: Arc::clone(&chain),
                replaces,
                now_ms: self.state.clock.now_ms(),
                sizes,
                succession: succession.as_ref().map(|it| it.0.clone()),
            });
            // Should the caller be gone before the outcome comes, the lane has the
            // pages, or the next start reclaims them.
            staged.pages.is_handed_over = true;
            let recorder = staged.recorder.as_ref();
            let lanes = &self.state.lanes;
            let outcome = lanes
                .submit_new(caller, command, recorder, reservation)
                .await;
            staged.pages.is_handed_over = match &outcome {
                Ok(outcome) => matches!(outcome, Outcome::Adopted(_)),
                // A lane that stops says nothing of what it has done.
                Err(error) => error.may_be_done() || matches!(error, EngineError::Stopping),
            };
            if let Outcome::Adopted(filter) = outcome? {
                if let Some((change, _room)) = &succession {
                    writes.adjust(change);
                }
                let info = filter.info(name);
                return Ok(match replacing {
                    true => Adopted::Replaced(info),
                    false => Adopted::New(info),
                });
            }
        }
    }
}
