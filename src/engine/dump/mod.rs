//! Filters as streams of bytes: dumps out of a server and back into another.
//!
//! `format` is the bytes, `scandump` those of RedisBloom, `write` makes a dump of a filter as it was at one
//! moment, while commits go on, in the memory that `room` gives it; `stage` takes pages in under a number that no
//! name leads to, until a lane gives it one in a commit of its own.

pub mod format;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz_targets;
mod page;
pub(super) mod room;
pub mod scandump;
pub(super) mod stage;
mod write;

use super::Engine;
use super::answer::{EngineError, FilterInfo, FilterName};
use super::filters::decode;
use super::pages::Checkpointer;
use super::reader::off_thread;
use crate::chain::meta::Chain;
use crate::engine::lane::command::{Adopt, Command, Outcome, Replaced};
use crate::engine::tasks::expiry::is_over;
use crate::store::StoredFilter;
use format::Digest;
use stage::{Intake, StagedPages};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the redo log that a dump reads as they are; a longer log is cut
/// before, if that takes no longer than so.
const LONG_LOG_BYTES: u64 = 4 << 20;
const LOG_PATIENCE: Duration = Duration::from_secs(2);

fn shorten_log(checkpointer: &Checkpointer) {
    checkpointer.shorten_log(LONG_LOG_BYTES, LOG_PATIENCE);
}

/// Takes a dump. What takes a part may block, and ends the dump by breaking.
pub trait DumpSink {
    /// Whether somebody still wants it. Asked page by page while the digest is
    /// found out, when there is nothing to take yet.
    fn is_wanted(&self) -> bool {
        true
    }

    /// Called again and again while the filter is read, where nothing is held
    /// that others wait for: the place to take a rest.
    fn throttle(&mut self) {}

    /// What is to come: its digest, and how many bytes.
    fn begin(&mut self, digest: Digest, bytes: u64) -> ControlFlow<()>;

    /// The next bytes.
    fn piece(&mut self, bytes: Vec<u8>) -> ControlFlow<()>;
}

/// A filter that was taken in and has no name yet. Dropped as it is, its pages
/// are reclaimed.
pub struct StagedFilter {
    chain: Chain,
    pages: StagedPages,
}

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
    /// It is new.
    New(FilterInfo),
    /// It took the place of another.
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
        let now_ms = self.shared.clock.now_ms();
        shorten_log(&self.shared.checkpointer);
        let share = self.shared.log_room.take();
        let view = self.shared.store.snapshot();
        let filter = view.filter_by_name(name.as_str())?;
        match filter.filter(|filter| !is_over(filter.expiry, now_ms)) {
            Some(filter) => Ok(write::write(&view, &filter, &share, sink)?),
            None => Err(EngineError::NotFound { name: name.clone() }),
        }
    }

    /// The digest of a filter's dump, as it is at one moment.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or the store can't be read.
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
        let (store, name) = (Arc::clone(&self.shared.store), name.clone());
        let now_ms = self.shared.clock.now_ms();
        let (checkpointer, share) = (
            Arc::clone(&self.shared.checkpointer),
            self.shared.log_room.take(),
        );
        off_thread(move || {
            shorten_log(&checkpointer);
            let view = store.snapshot();
            let filter = view.filter_by_name(name.as_str())?;
            let Some(filter) = filter.filter(|filter| !is_over(filter.expiry, now_ms)) else {
                return Ok(None);
            };
            let chain = decode(&filter)?;
            let found = write::measure(&view, filter.id, &chain, &share, None)?;
            Ok(found.map(|(digest, _)| (filter, digest)))
        })
        .await?
    }

    /// Whether there is a filter of that name.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn has_filter(&self, name: &FilterName) -> Result<bool, EngineError> {
        Ok(self.shared.open(name).await?.is_some())
    }

    /// A place for a filter that is to be taken in.
    ///
    /// # Errors
    /// [`EngineError::DiskShort`], or the store refused a number for it.
    pub async fn intake(&self) -> Result<Intake, EngineError> {
        self.shared.disk.check()?;
        Ok(Intake {
            id: self.shared.next_id().await?,
            store: Arc::clone(&self.shared.store),
            disk: Arc::clone(&self.shared.disk),
            checkpointer: Arc::clone(&self.shared.checkpointer),
            max_filter_bytes: self.shared.defaults.max_filter_bytes,
            max_expansions: self.shared.defaults.max_expansions,
            now_ms: self.shared.clock.now_ms(),
        })
    }

    /// Gives a filter that was taken in its name, in one commit.
    ///
    /// # Errors
    /// [`EngineError::OutcomeUnknown`] if the commit failed; everything else
    /// changed nothing.
    pub async fn adopt(
        &self,
        name: &FilterName,
        mut staged: StagedFilter,
        replace: Replace,
    ) -> Result<Adopted, EngineError> {
        let chain = Arc::new(staged.chain.clone());
        loop {
            let found = self.shared.open(name).await?;
            let replaces = match (&found, replace) {
                (None, Replace::Nothing | Replace::Anything) => None,
                (None, Replace::Something | Replace::If(_)) => return Ok(Adopted::Changed),
                (Some(_), Replace::Nothing) => return Ok(Adopted::Exists),
                (Some(found), Replace::Anything | Replace::Something) => Some(Replaced {
                    id: found.id,
                    meta: None,
                }),
                (Some(_), Replace::If(wanted)) => match self.measured(name).await? {
                    Some((filter, digest)) if digest == wanted => Some(Replaced {
                        id: filter.id,
                        meta: Some(filter.meta.into()),
                    }),
                    _ => return Ok(Adopted::Changed),
                },
            };
            // Who replaces a filter takes its bytes over.
            let freed = found.as_ref().map(|it| it.view.load().chain.slot_bytes());
            let room = match freed {
                None => self.shared.quota.take_new(chain.slot_bytes())?,
                Some(freed) => {
                    let more = chain.slot_bytes().saturating_sub(freed);
                    self.shared.quota.take_bytes(more)?
                }
            };
            self.shared.make_room().await?;
            let replacing = replaces.is_some();
            let command = Command::Adopt(Adopt {
                id: staged.pages.id,
                name: name.clone(),
                chain: Arc::clone(&chain),
                replaces,
                now_ms: self.shared.clock.now_ms(),
            });
            // Should nobody wait for the outcome any more, the lane has the
            // pages, or the next start reclaims them.
            staged.pages.is_handed_over = true;
            let outcome = self.shared.submit_new(command, None, room).await;
            let is_refused = match &outcome {
                Ok(outcome) => *outcome != Outcome::Adopted,
                Err(error) => !matches!(error, EngineError::OutcomeUnknown(_)),
            };
            if is_refused {
                staged.pages.is_handed_over = false;
            }
            if outcome? == Outcome::Adopted {
                let filter = self.shared.find(name).await?;
                let info = self.shared.info(&filter).await?;
                return Ok(match replacing {
                    true => Adopted::Replaced(info),
                    false => Adopted::New(info),
                });
            }
        }
    }
}
