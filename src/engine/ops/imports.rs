//! Streams of items of any length.
//!
//! An import goes into its filter in many commits, and each notes how far the
//! stream came by then. So a stream that broke off is taken up where the last
//! commit left it, and no line counts twice. Nothing of the stream is held but
//! the lines of the next commit.
//!
//! What is noted ends a week after the last commit, and is bounded in number.

use crate::engine::Engine;
use crate::engine::answer::{AddMode, AddResult, EngineError, FilterName};
use crate::engine::batch::ItemBatch;
use crate::engine::idempotency::note::Keep;
use crate::engine::idempotency::progress::{BadLine, ImportProgress};
use crate::engine::lane::command::{Outcome, Verb};
use crate::engine::reader::off_thread;
use crate::engine::shared::Shared;
use crate::page::FilterId;
use crate::store::{PageStore, SideRecord, SideRecordChange, SideRecordKey, StoreError};
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use prometheus::IntGauge;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long progress is kept after the last commit of an import.
pub const PROGRESS_KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// Most characters of an import's name.
pub const MAX_IMPORT_ID_LENGTH: usize = 100;

/// Most items of one commit of an import: enough to be quick, and few enough
/// to let others through.
pub const MAX_ITEMS_AT_ONCE: usize = 8192;

/// How often, and after which pause, an overloaded lane is asked again.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// Name of an import: 1 to 100 characters of those that a filter's name has.
/// Valid by construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportId(String);

impl ImportId {
    /// Checks a text; `None` if it can't name an import.
    pub fn parse(text: &str) -> Option<ImportId> {
        let fits = text.len() <= MAX_IMPORT_ID_LENGTH && FilterName::parse(text).is_ok();
        fits.then(|| ImportId(text.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether an import goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportState {
    /// A request for it is being worked on.
    Running,
    /// It waits to be taken up again.
    Interrupted,
    /// The end of the stream came.
    Complete,
}

/// Lines in the order of the stream.
#[derive(Clone, Debug, Default)]
pub struct ImportLines {
    /// Number of the first, from 1.
    pub first_line: u64,
    /// How many there are, those without an item included.
    pub count: u32,
    /// The items.
    pub items: ItemBatch,
    /// Position of each item's line, from 0 on.
    pub item_lines: Vec<u32>,
    /// Positions of lines that are no items, ascending.
    pub bad: Vec<(u32, BadLine)>,
    /// Whether the stream ends behind them.
    pub is_last: bool,
}

/// The imports that run, and those of which something is noted.
pub(crate) struct Imports {
    running: Mutex<HashSet<SideRecordKey, FixedState>>,
    /// Imports of which something is noted, those that begin included.
    kept: AtomicU64,
    max: u64,
    gauge: IntGauge,
    /// Held while a note that has ended is removed.
    removing: Mutex<()>,
}

impl Imports {
    /// Room for `max` imports, of which the store knows some.
    pub(crate) fn new(max: u64, kept: u64, gauge: IntGauge) -> Imports {
        Imports {
            running: Mutex::default(),
            kept: AtomicU64::new(kept),
            max,
            gauge,
            removing: Mutex::default(),
        }
    }

    fn begin(self: &Arc<Self>, key: SideRecordKey) -> Result<Run, EngineError> {
        let mut running = self.running.lock();
        if !running.insert(key.clone()) {
            return Err(EngineError::ImportRunning);
        }
        self.gauge.inc();
        Ok(Run {
            imports: Arc::clone(self),
            key,
            takes_room: AtomicBool::new(false),
        })
    }

    fn is_running(&self, key: &SideRecordKey) -> bool {
        self.running.lock().contains(key)
    }

    fn take_room(&self) -> Result<(), EngineError> {
        let add = |kept: u64| (kept < self.max).then_some(kept + 1);
        self.kept
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add)
            .map(|_| ())
            .map_err(|_| EngineError::ImportsFull)
    }

    /// Removes what is noted under a key if it has ended. Says whether it did.
    pub(crate) fn forget_ended(
        &self,
        store: &PageStore,
        key: &SideRecordKey,
        now_ms: u64,
    ) -> Result<bool, StoreError> {
        // An import that runs has looked here first, and what it notes then
        // has not ended.
        let _one_at_a_time = self.removing.lock();
        let note = store
            .side_record(key)?
            .filter(|note| note.ends_at_ms <= now_ms);
        let Some(note) = note else {
            return Ok(false);
        };
        store.forget_side_record(key, &note)?;
        self.kept.fetch_sub(1, Ordering::AcqRel);
        Ok(true)
    }

    fn noted(
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
}

/// The right to run an import, as long as this lives: with its request, and
/// with each commit until its outcome is known.
struct Run {
    imports: Arc<Imports>,
    key: SideRecordKey,
    /// Whether it holds room for a note that is not committed yet.
    takes_room: AtomicBool,
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.takes_room.load(Ordering::Acquire) {
            self.imports.kept.fetch_sub(1, Ordering::AcqRel);
        }
        self.imports.running.lock().remove(&self.key);
        self.imports.gauge.dec();
    }
}

/// One commit of an import.
pub(crate) struct Step {
    run: Arc<Run>,
    before: Option<SideRecord>,
    /// The progress with it, but for what becomes of its items.
    progress: ImportProgress,
    ends_at_ms: u64,
}

impl Step {
    /// What the commit notes.
    pub(crate) fn note(&self, results: &[AddResult]) -> SideRecordChange {
        let mut progress = self.progress.clone();
        progress.note_results(results);
        SideRecordChange {
            key: self.run.key.clone(),
            before: self.before.clone(),
            after: Some(SideRecord {
                ends_at_ms: self.ends_at_ms,
                payload: progress.encode(),
            }),
        }
    }

    /// Says that it is committed.
    pub(crate) fn kept(&self) {
        self.run.takes_room.store(false, Ordering::Release);
    }
}

/// An import that runs.
pub struct Import {
    shared: Arc<Shared>,
    run: Arc<Run>,
    name: FilterName,
    filter: FilterId,
    mode: AddMode,
    noted: Option<SideRecord>,
    progress: ImportProgress,
    /// Adapts to the pages that a commit may touch.
    items_at_once: usize,
}

impl Engine {
    /// Begins an import, or takes it up where its last commit left it. While
    /// the result lives nobody else can.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::ImportRunning`];
    /// [`EngineError::ImportsFull`] for a new one.
    pub async fn begin_import(
        &self,
        name: &FilterName,
        id: &ImportId,
        mode: AddMode,
    ) -> Result<Import, EngineError> {
        let shared = &self.shared;
        let (filter, key) = shared.import_key(name, id).await?;
        let run = Arc::new(shared.imports.begin(key)?);
        let noted = shared.noted_import(&run.key).await?;
        let progress = match &noted {
            Some(note) => progress_of(note)?,
            None => {
                shared.imports.take_room()?;
                run.takes_room.store(true, Ordering::Release);
                ImportProgress {
                    started_at_ms: shared.clock.now_ms(),
                    ..ImportProgress::default()
                }
            }
        };
        Ok(Import {
            shared: Arc::clone(shared),
            run,
            name: name.clone(),
            filter,
            mode,
            noted,
            progress,
            items_at_once: MAX_ITEMS_AT_ONCE,
        })
    }

    /// How far an import came.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::ImportNotFound`] if nothing
    /// of it was committed, or too long ago.
    pub async fn import_progress(
        &self,
        name: &FilterName,
        id: &ImportId,
    ) -> Result<(ImportProgress, ImportState), EngineError> {
        let (_, key) = self.shared.import_key(name, id).await?;
        // Before the note: of an import that ends in between its last one.
        let is_running = self.shared.imports.is_running(&key);
        let noted = self.shared.noted_import(&key).await?;
        let progress = progress_of(&noted.ok_or(EngineError::ImportNotFound)?)?;
        let state = match (is_running, progress.is_complete) {
            (true, _) => ImportState::Running,
            (false, true) => ImportState::Complete,
            (false, false) => ImportState::Interrupted,
        };
        Ok((progress, state))
    }
}

impl Shared {
    async fn import_key(
        &self,
        name: &FilterName,
        id: &ImportId,
    ) -> Result<(FilterId, SideRecordKey), EngineError> {
        // Of this very filter: another one of the name has imports of its own.
        let filter = self.find(name).await?.id;
        let import = id.as_str().to_owned();
        Ok((filter, SideRecordKey::Import { filter, import }))
    }

    async fn noted_import(&self, key: &SideRecordKey) -> Result<Option<SideRecord>, EngineError> {
        let (imports, store) = (Arc::clone(&self.imports), Arc::clone(&self.store));
        let (key, now_ms) = (key.clone(), self.clock.now_ms());
        Ok(off_thread(move || imports.noted(&store, &key, now_ms)).await??)
    }
}

fn progress_of(note: &SideRecord) -> Result<ImportProgress, StoreError> {
    ImportProgress::decode(&note.payload).ok_or_else(|| StoreError::Corrupt {
        what: "the progress of an import".to_owned(),
        reason: "it makes no sense".to_owned(),
    })
}

impl Import {
    /// How far it came.
    pub fn progress(&self) -> &ImportProgress {
        &self.progress
    }

    /// Commits lines that follow those committed. In several commits if their
    /// items touch more pages than one may; each notes how far it goes.
    ///
    /// # Errors
    /// What the last commit failed with; those before it stand, and
    /// [`progress`](Self::progress) tells. [`EngineError::NotFound`] also if
    /// the filter was replaced.
    pub async fn commit(&mut self, lines: &ImportLines) -> Result<(), EngineError> {
        let (mut first_item, mut first_line, mut first_bad) = (0, 0, 0);
        loop {
            let items = self.items_at_once.min(lines.items.len() - first_item);
            let next_item = first_item + items;
            let next_line = lines.item_lines.get(next_item).copied();
            let next_line = next_line.unwrap_or(lines.count);
            let bad = lines.bad.get(first_bad..).unwrap_or_default();
            let bad: Vec<_> = bad
                .iter()
                .take_while(|(line, _)| *line < next_line)
                .collect();
            let without_item = (next_line - first_line) as usize - items;

            let mut progress = self.progress.clone();
            let ends = next_item == lines.items.len();
            progress.committed_lines = lines.first_line - 1 + u64::from(next_line);
            progress.blank_lines += (without_item - bad.len()) as u64;
            for &&(line, why) in &bad {
                progress.note_bad(lines.first_line + u64::from(line), why);
            }
            progress.is_complete = ends && lines.is_last;

            let mut batch = ItemBatch::new();
            for item in lines.items.iter().skip(first_item).take(items) {
                batch.push(item);
            }
            match self.step(&batch, progress).await {
                Err(EngineError::TooManyPages { .. }) if items > 1 => {
                    self.items_at_once = items / 2;
                    continue;
                }
                outcome => outcome?,
            }
            if ends {
                return Ok(());
            }
            (first_item, first_line, first_bad) = (next_item, next_line, first_bad + bad.len());
            self.items_at_once = (self.items_at_once * 2).min(MAX_ITEMS_AT_ONCE);
        }
    }

    /// One commit.
    async fn step(
        &mut self,
        items: &ItemBatch,
        mut progress: ImportProgress,
    ) -> Result<(), EngineError> {
        let now_ms = self.shared.clock.now_ms();
        progress.updated_at_ms = now_ms;
        let step = Arc::new(Step {
            run: Arc::clone(&self.run),
            before: self.noted.clone(),
            progress,
            ends_at_ms: now_ms.saturating_add(PROGRESS_KEPT_FOR.as_millis() as u64),
        });
        let mut attempts = 0;
        let results = loop {
            match self.add(items, &step).await {
                // Others are served first; the client waits for us anyway.
                Err(EngineError::Overloaded { .. }) if attempts < ATTEMPTS => {
                    attempts += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                outcome => break outcome?,
            }
        };
        self.shared.count_added(&results);
        self.noted = step.note(&results).after;
        self.progress = step.progress.clone();
        self.progress.note_results(&results);
        Ok(())
    }

    async fn add(
        &self,
        items: &ItemBatch,
        step: &Arc<Step>,
    ) -> Result<Vec<AddResult>, EngineError> {
        let keep = Keep::Progress(Arc::clone(step));
        loop {
            let filter = self.shared.find(&self.name).await?;
            if filter.id != self.filter {
                let name = self.name.clone();
                return Err(EngineError::NotFound { name });
            }
            let work = self
                .shared
                .work(filter, Verb::Add(self.mode), items, Some(&keep));
            if let Outcome::Added(results) = work.await? {
                return Ok(results);
            }
        }
    }
}
