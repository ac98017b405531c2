//! Streams of items of any length.
//!
//! An import goes into its filter in many commits, and each records how far the
//! stream came by then. So a stream that broke off is taken up where the last
//! commit left it, and no line counts twice. Nothing of the stream is held but
//! the lines of the next commit.
//!
//! What is recorded ends a week after the last commit, and is bounded in number.

use crate::answer::{AddMode, AddResult};
use crate::batch::ItemBatch;
use crate::error::{EngineError, Result};
use crate::filters::OpenFilter;
use crate::idempotency::guard::SideRecorder;
use crate::idempotency::imports::{ImportRun, ImportStep};
use crate::idempotency::progress::{BadLine, ImportProgress};
use crate::lane::command::{ItemChange, Outcome};
use crate::name::FilterName;
use crate::page::FilterId;
use crate::rows::EntryCodec;
use crate::state::Engine;
use crate::store::{SideRecord, SideRecordKey, StoreError};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._:~-".contains(c);
        let fits = (1..=MAX_IMPORT_ID_LENGTH).contains(&text.len()) && text.chars().all(is_part);
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

/// A page of the imports into a filter.
#[derive(Debug, Default)]
pub struct ImportPage {
    /// The imports, by name.
    pub imports: Vec<(ImportId, ImportProgress, ImportState)>,
    /// Behind which name the next page begins; `None`: this is the last one.
    pub next: Option<String>,
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
    /// The value of each, to a filter with values or rows; else none.
    pub values: Vec<u32>,
    /// Position of each item's line, from 0 on.
    pub item_lines: Vec<u32>,
    /// Positions of lines that are no items, ascending.
    pub bad: Vec<(u32, BadLine)>,
    /// Whether the stream ends behind them.
    pub is_last: bool,
}

/// An import that runs.
pub struct Import {
    engine: Engine,
    run: Arc<ImportRun>,
    name: FilterName,
    filter: FilterId,
    /// What makes values of its filter of what its lines have beside their items.
    pub codec: EntryCodec,
    mode: AddMode,
    recorded: Option<SideRecord>,
    progress: ImportProgress,
    /// Adapts to the pages that a commit may touch.
    items_at_once: usize,
}

impl Engine {
    /// Begins an import, or takes it up where its last commit left it. While
    /// the result lives no other request can.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::ImportRunning`];
    /// [`EngineError::ImportsFull`] for a new one.
    pub async fn begin_import(
        &self,
        name: &FilterName,
        id: &ImportId,
        mode: AddMode,
    ) -> Result<Import> {
        let (state, term) = (&self.state, self.state.term(name));
        let found = self.import_key(name, id).await;
        let (open, key) = self.confirmed(name, term, found).await?;
        let run = Arc::new(state.imports.begin(&self.caller, key)?);
        let recorded = self.recorded_import(&run.key).await?;
        let progress = match &recorded {
            Some(record) => progress_of(record)?,
            None => {
                run.take_room()?;
                ImportProgress {
                    started_at_ms: state.clock.now_ms(),
                    ..ImportProgress::default()
                }
            }
        };
        Ok(Import {
            engine: self.clone(),
            run,
            name: name.clone(),
            filter: open.id,
            codec: EntryCodec::of(&open.view.load().chain),
            mode,
            recorded,
            progress,
            items_at_once: MAX_ITEMS_AT_ONCE,
        })
    }

    /// The progress of an import.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::ImportNotFound`] if nothing
    /// of it was committed, or too long ago.
    pub async fn import_progress(
        &self,
        name: &FilterName,
        id: &ImportId,
    ) -> Result<(ImportProgress, ImportState)> {
        let (_, key) = self.import_key(name, id).await?;
        // Before the note: of an import that ends in between its last one.
        let is_running = self.state.imports.is_running(&key);
        let recorded = self.recorded_import(&key).await?;
        let progress = progress_of(&recorded.ok_or(EngineError::ImportNotFound)?)?;
        let state = state_of(is_running, &progress);
        Ok((progress, state))
    }

    /// The imports into a filter of which something was committed within the last week,
    /// by name, up to `limit` whose names are greater than `after`; and behind which
    /// name there may be more.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or the store can't be read.
    pub async fn imports(
        &self,
        name: &FilterName,
        after: &str,
        limit: usize,
    ) -> Result<ImportPage> {
        let filter = self.find(name).await?.id;
        let (state, after) = (Arc::clone(&self.state), after.to_owned());
        self.read(move |store| {
            let (now_ms, mut page) = (state.clock.now_ms(), ImportPage::default());
            let found = store.imports(filter, &after, limit)?;
            if found.len() == limit {
                page.next = found.last().map(|(import, _)| import.clone());
            }
            for (import, record) in found.into_iter().filter(|(_, it)| it.ends_at_ms > now_ms) {
                let (id, progress) = (ImportId(import.clone()), progress_of(&record)?);
                let key = SideRecordKey::Import { filter, import };
                let now = state_of(state.imports.is_running(&key), &progress);
                page.imports.push((id, progress, now));
            }
            Ok(page)
        })
        .await
    }

    async fn import_key(
        &self,
        name: &FilterName,
        id: &ImportId,
    ) -> Result<(Arc<OpenFilter>, SideRecordKey)> {
        let open = self.find(name).await?;
        // Of this very filter: another one of the name has imports of its own.
        let (filter, import) = (open.id, id.as_str().to_owned());
        Ok((open, SideRecordKey::Import { filter, import }))
    }

    async fn recorded_import(&self, key: &SideRecordKey) -> Result<Option<SideRecord>> {
        let (imports, key) = (Arc::clone(&self.state.imports), key.clone());
        let now_ms = self.state.clock.now_ms();
        self.read(move |_| imports.recorded(&key, now_ms)).await
    }
}

fn state_of(is_running: bool, progress: &ImportProgress) -> ImportState {
    match (is_running, progress.is_complete) {
        (true, _) => ImportState::Running,
        (false, true) => ImportState::Complete,
        (false, false) => ImportState::Interrupted,
    }
}

fn progress_of(record: &SideRecord) -> Result<ImportProgress, StoreError> {
    ImportProgress::decode(&record.payload)
        .ok_or_else(|| StoreError::corrupt("the progress of an import", "it makes no sense"))
}

impl Import {
    /// How far it came.
    pub fn progress(&self) -> &ImportProgress {
        &self.progress
    }

    /// From now on nothing waits longer than that: what is not being written by
    /// then is not done.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.engine.caller.deadline = Some(deadline);
    }

    /// Commits lines that follow those committed. In several commits if their
    /// items touch more pages, or change more of them, than one may; each records how far
    /// it goes.
    ///
    /// # Errors
    /// What the last commit failed with; those before it stand, and
    /// [`progress`](Self::progress) tells. [`EngineError::NotFound`] also if
    /// the filter was replaced.
    pub async fn commit(&mut self, lines: &ImportLines) -> Result {
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
                progress.count_bad(lines.first_line + u64::from(line), why);
            }
            progress.is_complete = ends && lines.is_last;

            let mut batch = ItemBatch::default();
            for item in lines.items.iter().skip(first_item).take(items) {
                batch.push(item);
            }
            let values = lines.values.iter().skip(first_item).take(items);
            let values: Arc<[u32]> = values.copied().collect();
            match self.step(&batch, values, progress).await {
                Err(
                    EngineError::TooManyPages { .. }
                    | EngineError::TooManyChangeProbes { .. }
                    | EngineError::TooManyWords { .. },
                ) if items > 1 => {
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
        values: Arc<[u32]>,
        mut progress: ImportProgress,
    ) -> Result {
        let now_ms = self.engine.now_ms();
        progress.updated_at_ms = now_ms;
        let step = Arc::new(ImportStep {
            run: Arc::clone(&self.run),
            before: self.recorded.clone(),
            progress,
            ends_at_ms: now_ms.saturating_add(PROGRESS_KEPT_FOR.as_millis() as u64),
        });
        let mut attempts = 0;
        let results = loop {
            match self.add(items, &values, &step).await {
                // Others are served first; the client waits for us anyway.
                Err(EngineError::Overloaded(_) | EngineError::OverShare { .. })
                    if attempts < ATTEMPTS =>
                {
                    attempts += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                outcome => break outcome?,
            }
        };
        self.engine.state.count_added(&results);
        self.recorded = step.side_record(&results).after;
        self.progress = step.progress.clone();
        self.progress.count_results(&results);
        Ok(())
    }

    async fn add(
        &self,
        items: &ItemBatch,
        values: &Arc<[u32]>,
        step: &Arc<ImportStep>,
    ) -> Result<Vec<AddResult>> {
        let recorder = SideRecorder::Progress(Arc::clone(step));
        let engine = &self.engine;
        loop {
            let filter = engine.find(&self.name).await?;
            if filter.id != self.filter {
                let name = self.name.clone();
                return Err(EngineError::NotFound { name });
            }
            engine.state.quota.check_growth(filter.owner.as_ref())?;
            let change = match self.codec {
                EntryCodec::Items => ItemChange::Add(self.mode),
                EntryCodec::Values(_) | EntryCodec::Rows(_) => {
                    ItemChange::AddValues(self.mode, Arc::clone(values))
                }
            };
            let added = engine.change_items(&filter, items, change, Some(&recorder));
            if let Outcome::Added(results) = added.await? {
                return Ok(results);
            }
        }
    }
}
