//! Streams of items of any length.
//!
//! An import goes into its filter in many commits, and each records how far the
//! stream came by then. So a stream that broke off is taken up where the last
//! commit left it, and no line counts twice. Nothing of the stream is held but
//! the lines of the next commit.
//!
//! What is recorded ends a week after the last commit, and is bounded in number.

use crate::engine::answer::{AddMode, AddResult};
use crate::engine::batch::ItemBatch;
use crate::engine::caller::Caller;
use crate::engine::error::EngineError;
use crate::engine::filters::OpenFilter;
use crate::engine::idempotency::guard::SideRecorder;
use crate::engine::idempotency::imports::{ImportRun, ImportStep};
use crate::engine::idempotency::progress::{BadLine, ImportProgress};
use crate::engine::lane::command::{ItemOp, Outcome, ValueOp};
use crate::engine::name::FilterName;
use crate::engine::rows::EntryCodec;
use crate::engine::state::{Engine, EngineState};
use crate::page::FilterId;
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
    state: Arc<EngineState>,
    caller: Caller,
    run: Arc<ImportRun>,
    name: FilterName,
    filter: FilterId,
    codec: EntryCodec,
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
    ) -> Result<Import, EngineError> {
        let (state, caller, reign) = (&self.state, &self.caller, self.state.reign(name));
        let found = state.import_key(caller, name, id).await;
        let (open, key) = state.confirmed(caller, name, reign, found).await?;
        let run = Arc::new(state.imports.begin(&self.caller, key)?);
        let recorded = state.recorded_import(caller, run.key()).await?;
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
            state: Arc::clone(state),
            caller: self.caller.clone(),
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
    ) -> Result<(ImportProgress, ImportState), EngineError> {
        let (_, key) = self.state.import_key(&self.caller, name, id).await?;
        // Before the note: of an import that ends in between its last one.
        let is_running = self.state.imports.is_running(&key);
        let recorded = self.state.recorded_import(&self.caller, &key).await?;
        let progress = progress_of(&recorded.ok_or(EngineError::ImportNotFound)?)?;
        let state = match (is_running, progress.is_complete) {
            (true, _) => ImportState::Running,
            (false, true) => ImportState::Complete,
            (false, false) => ImportState::Interrupted,
        };
        Ok((progress, state))
    }
}

impl EngineState {
    async fn import_key(
        &self,
        caller: &Caller,
        name: &FilterName,
        id: &ImportId,
    ) -> Result<(Arc<OpenFilter>, SideRecordKey), EngineError> {
        let open = self.find(caller, name).await?;
        // Of this very filter: another one of the name has imports of its own.
        let (filter, import) = (open.id, id.as_str().to_owned());
        Ok((open, SideRecordKey::Import { filter, import }))
    }

    async fn recorded_import(
        &self,
        caller: &Caller,
        key: &SideRecordKey,
    ) -> Result<Option<SideRecord>, EngineError> {
        let (imports, key) = (Arc::clone(&self.imports), key.clone());
        let now_ms = self.clock.now_ms();
        let reading = move || imports.recorded(&key, now_ms);
        Ok(self.store_work.run(caller, reading).await??)
    }
}

fn progress_of(record: &SideRecord) -> Result<ImportProgress, StoreError> {
    ImportProgress::decode(&record.payload).ok_or_else(|| StoreError::Corrupt {
        what: "the progress of an import".to_owned(),
        reason: "it makes no sense".to_owned(),
    })
}

impl Import {
    /// How far it came.
    pub fn progress(&self) -> &ImportProgress {
        &self.progress
    }

    /// What makes values of its filter of what its lines have beside their items.
    pub fn codec(&self) -> &EntryCodec {
        &self.codec
    }

    /// From now on nothing waits longer than that: what is not being written by
    /// then is not done.
    pub fn set_deadline(&mut self, deadline: Instant) {
        self.caller.deadline = Some(deadline);
    }

    /// Commits lines that follow those committed. In several commits if their
    /// items touch more pages than one may; each records how far it goes.
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
            let values = lines.values.iter().skip(first_item).take(items);
            let values: Arc<[u32]> = values.copied().collect();
            match self.step(&batch, values, progress).await {
                Err(EngineError::TooManyPages { .. } | EngineError::TooManyChangeProbes { .. })
                    if items > 1 =>
                {
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
    ) -> Result<(), EngineError> {
        let now_ms = self.state.clock.now_ms();
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
        self.state.count_added(&results);
        self.recorded = step.side_record(&results).after;
        self.progress = step.progress.clone();
        self.progress.note_results(&results);
        Ok(())
    }

    async fn add(
        &self,
        items: &ItemBatch,
        values: &Arc<[u32]>,
        step: &Arc<ImportStep>,
    ) -> Result<Vec<AddResult>, EngineError> {
        let recorder = SideRecorder::Progress(Arc::clone(step));
        let (caller, state) = (&self.caller, &self.state);
        loop {
            let filter = state.find(&self.caller, &self.name).await?;
            if filter.id != self.filter {
                let name = self.name.clone();
                return Err(EngineError::NotFound { name });
            }
            state.quota.check_growth(filter.owner.as_ref())?;
            let added = match self.codec {
                EntryCodec::Items => {
                    let op = (ItemOp::Add(self.mode), state.clock.now_ms());
                    state
                        .lanes
                        .submit_items(caller, &filter, op, items, Some(&recorder))
                        .await
                }
                EntryCodec::Values(_) | EntryCodec::Rows(_) => {
                    let change = (ValueOp::Add(self.mode), items, Arc::clone(values));
                    state
                        .change_values(caller, &filter, change, Some(&recorder))
                        .await
                }
            };
            if let Outcome::Added(results) = added? {
                return Ok(results);
            }
        }
    }
}
