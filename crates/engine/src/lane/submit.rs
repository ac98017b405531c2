//! How commands get into lanes: with the pages that they need, as far as the
//! bounds allow; and what comes with them.

use super::allowance::Allowances;
use super::command::{AddsAndDeletes, Command, CompactStep, Outcome};
use super::queue::LaneQueue;
use super::request::{Reply, Request};
use super::shares::QueueShares;
use crate::batch::ItemBatch;
use crate::caller::Caller;
use crate::chain::address::PageAddress;
use crate::chain::meta::Chain;
use crate::chain::read::candidate_pages;
use crate::cuckoo::hash::ItemHash;
use crate::disk::Disk;
use crate::error::{EngineError, Overload, Result};
use crate::filters::{FilterView, OpenFilter};
use crate::idempotency::guard::SideRecorder;
use crate::metrics::Metrics;
use crate::name::FilterName;
use crate::pages::{Loader, PageCache, Pins};
use crate::quota::Reservation;
use crate::slot::{lane_of, lane_of_slot};
use crate::store_work::StoreWork;
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Items worked on before the thread is given back to other requests.
const ITEMS_PER_TURN: usize = 8192;

/// How long after its deadline a commit that is being written is waited for:
/// most take less, and then no outcome is unknown.
const COMMIT_PATIENCE: Duration = Duration::from_millis(250);

/// Items of a command times the sub-filters that each may have to be looked
/// for in: 250,000 items in 16 sub-filters.
const MAX_CHANGE_PROBES: usize = 4_000_000;

/// Puts commands into the lanes of their filters, and waits for what comes of
/// them.
pub(crate) struct Submitter {
    /// Empty once the engine stops.
    pub(crate) queues: RwLock<Vec<Arc<LaneQueue>>>,
    pub(crate) lanes: usize,
    /// Whether commits go through a commit log.
    pub(crate) is_shared: bool,
    /// What each API key may have of the queues.
    pub(crate) shares: QueueShares,
    /// What lanes may hold while they plan.
    pub(crate) allowances: Arc<Allowances>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) cache: Arc<PageCache>,
    pub(crate) loader: Arc<Loader>,
    pub(crate) store_work: Arc<StoreWork>,
    pub(crate) metrics: Arc<Metrics>,
}

impl Submitter {
    /// Pages that one command may touch.
    pub(crate) fn max_pages(&self) -> usize {
        self.allowances.max_pages
    }

    /// Submits a command with the pages pinned that it is known to need, and
    /// again with those that the lane misses, until it has all.
    pub(crate) async fn submit(
        &self,
        caller: &Caller,
        filter: &Arc<OpenFilter>,
        command: Command,
        recorder: Option<&SideRecorder>,
    ) -> Result<Outcome> {
        let mut needed = self.pages_of(caller, filter, &command).await?;
        caller.end_turn();
        loop {
            let pins = match needed.is_empty() {
                true => None,
                // Seldom, and far larger than all else that this future holds.
                false => Some(Box::pin(self.pin(caller, filter, &needed)).await?),
            };
            let (mut request, outcome) =
                Request::new(caller, command.clone(), Some(filter), recorder);
            request.pins = pins;
            let missing = match self.send(request, outcome).await? {
                Outcome::NeedsPages(missing) => missing,
                outcome => return Ok(outcome),
            };
            // What was needed before stays needed: the plan starts over.
            needed.extend(missing);
            let items = command.hashes();
            if !items.is_empty() {
                let view = filter.view.load_full();
                self.need_pages(&view.chain, command.changes(), items, &mut needed)
                    .await?;
            }
        }
    }

    /// Submits a command for a filter that is not there yet and was promised its
    /// room.
    pub(crate) async fn submit_new(
        &self,
        caller: &Caller,
        command: Command,
        recorder: Option<&SideRecorder>,
        reservation: Option<Reservation>,
    ) -> Result<Outcome> {
        caller.end_turn();
        let (mut request, outcome) = Request::new(caller, command, None, recorder);
        request.reservation = reservation;
        self.send(request, outcome).await
    }

    /// Submits a command that needs no pages, from a thread that may block. It may be about
    /// a filter that is not there yet.
    pub(crate) fn submit_blocking(
        &self,
        caller: &Caller,
        filter: Option<&Arc<OpenFilter>>,
        command: Command,
    ) -> Result<Outcome> {
        let kind = command.kind();
        let (request, outcome) = Request::new(caller, command, filter, None);
        let outcome = match self.enqueue(request) {
            Ok(_) => outcome
                .blocking_recv()
                .unwrap_or(Err(EngineError::Stopping)),
            Err(error) => Err(error),
        };
        self.count(kind, &outcome);
        outcome
    }

    /// Puts a request into the queue of its lane and waits for the outcome. After the
    /// deadline the request is withdrawn, unless its commit has begun.
    async fn send(&self, request: Request, mut reply: Reply) -> Result<Outcome> {
        let kind = request.command.kind();
        let (caller, progress) = (request.caller.clone(), request.progress.clone());
        let outcome = match self.enqueue(request) {
            Ok(lane) => {
                let stopped = |_| Err(EngineError::Stopping);
                let outcome = match caller.within(&mut reply).await {
                    Ok(outcome) => outcome.unwrap_or_else(stopped),
                    Err(late) if progress.withdraw() => Err(late),
                    Err(_) => match timeout(COMMIT_PATIENCE, &mut reply).await {
                        Ok(outcome) => outcome.unwrap_or_else(stopped),
                        // It is not known what becomes of the commit.
                        Err(_) if self.is_shared => Err(EngineError::LogSilent),
                        Err(_) => Err(EngineError::OutcomeLate),
                    },
                };
                if progress.is_withdrawn()
                    && let Some(queue) = self.queues.read().get(lane)
                {
                    queue.mark_withdrawn();
                }
                outcome
            }
            Err(error) => Err(error),
        };
        self.count(kind, &outcome);
        outcome
    }

    /// Returns the number of the lane.
    fn enqueue(&self, mut request: Request) -> Result<usize> {
        // Behind a write that hangs, what removes filters only waits, too.
        match request.command.needs_room() {
            true => self.disk.check()?,
            false => self.disk.check_answers()?,
        }
        let of = |name: &FilterName| lane_of(name, self.lanes);
        let lane = match (&request.filter, &request.command) {
            (Some(filter), _) => of(&filter.name),
            (None, Command::Create(create)) => of(&create.name),
            (None, Command::Adopt(adopt)) => of(&adopt.name),
            (None, Command::Stage(stage)) => of(&stage.name),
            (None, Command::GiveUp(id)) => lane_of_slot(id.slot(), self.lanes),
            (None, Command::Barrier(lane)) => *lane as usize,
            (None, _) => return Err(EngineError::Stopping),
        };
        let queues = self.queues.read();
        let queue = queues.get(lane).ok_or(EngineError::Stopping)?;
        let take = || {
            let items = request.command.items();
            self.shares.take(lane, &request.caller, items)
        };
        let place = match take() {
            Err(_) if queue.drop_withdrawn() => take(),
            taken => taken,
        };
        request.place = Some(place?);
        queue.push(request)?;
        Ok(lane)
    }

    fn count(&self, kind: &str, outcome: &Result<Outcome>) {
        let label = match outcome {
            Ok(outcome) => outcome.label(),
            Err(EngineError::OutcomeUnknown(_)) => "failed",
            Err(EngineError::DeadlineExceeded) => "withdrawn",
            Err(EngineError::OutcomeLate | EngineError::LogSilent) => "late",
            Err(_) => "refused",
        };
        let commands = &self.metrics.commands;
        commands.with_label_values(&[kind, label]).inc();
    }

    /// The pages that a command needs, as far as that can be known before it is
    /// planned. None if the candidates of all items are resident.
    async fn pages_of(
        &self,
        caller: &Caller,
        filter: &OpenFilter,
        command: &Command,
    ) -> Result<BTreeSet<PageAddress>> {
        let mut needed = BTreeSet::new();
        match command {
            Command::Items(_, items, _) => {
                let view = filter.view.load_full();
                check_probes(items.len(), view.chain.sub_filter_count())?;
                let changes = command.changes();
                if !self.all_resident(caller, &view, changes, items).await? {
                    self.need_pages(&view.chain, changes, items, &mut needed)
                        .await?;
                }
            }
            Command::Compact(CompactStep::Move(slice)) => {
                let chain = &filter.view.load_full().chain;
                if let Some(position) = chain.position_of(slice.ordinal)
                    && let Some(sub) = chain.sub_filter(position)
                    && sub.occupied > 0
                {
                    let first = sub.layout.page_of(slice.from);
                    let pages = first..sub.layout.pages().min(first + slice.max_pages);
                    needed.extend(pages.map(|page| PageAddress {
                        sub: position as u32,
                        page,
                    }));
                }
            }
            _ => {}
        }
        Ok(needed)
    }

    async fn all_resident(
        &self,
        caller: &Caller,
        view: &FilterView,
        changes: AddsAndDeletes,
        items: &[ItemHash],
    ) -> Result<bool> {
        let is_resident = |page: PageAddress| {
            let table = view.tables.get(page.sub as usize);
            table.is_some_and(|table| self.cache.is_resident(table, page.page))
        };
        if !pages_ahead(&view.chain, changes).all(is_resident) {
            return Ok(false);
        }
        for chunk in items.chunks(items_per_turn(&view.chain)) {
            let resident = |&hash: &ItemHash| candidate_pages(&view.chain, hash).all(is_resident);
            if !chunk.iter().all(resident) {
                return Ok(false);
            }
            tokio::task::yield_now().await;
            caller.check()?;
        }
        Ok(true)
    }

    /// Adds the pages that the items may lie on, but not many more than a
    /// command may touch, and those that are split or merged on the way.
    async fn need_pages(
        &self,
        chain: &Chain,
        changes: AddsAndDeletes,
        items: &[ItemHash],
        needed: &mut BTreeSet<PageAddress>,
    ) -> Result {
        for chunk in items.chunks(items_per_turn(chain)) {
            for page in chunk.iter().flat_map(|&hash| candidate_pages(chain, hash)) {
                needed.insert(page);
                self.check_pages(needed.len())?;
            }
            tokio::task::yield_now().await;
        }
        // Without them a plan finds out what it needs.
        let left = self.max_pages().saturating_sub(needed.len());
        needed.extend(pages_ahead(chain, changes).take(left));
        Ok(())
    }

    fn check_pages(&self, needed: usize) -> Result {
        match needed > self.max_pages() {
            true => Err(EngineError::TooManyPages {
                needed,
                bound: self.max_pages(),
            }),
            false => Ok(()),
        }
    }

    async fn pin(
        &self,
        caller: &Caller,
        filter: &Arc<OpenFilter>,
        pages: &BTreeSet<PageAddress>,
    ) -> Result<Pins> {
        self.check_pages(pages.len())?;
        let (pinnable, wanted) = (&self.loader.pinnable, pages.len() as u64);
        let permit = self.store_work.wait(caller, pinnable, wanted).await?;
        let (loader, view) = (Arc::clone(&self.loader), filter.view.load_full());
        let pages: Vec<PageAddress> = pages.iter().copied().collect();
        let pinning = move || loader.pin(&view.tables, &pages, permit);
        let pins = self.store_work.run(caller, pinning).await??;
        Ok(pins.ok_or(Overload::Counters)?)
    }
}

/// Pages that are split or merged by so many changes, and that their items may
/// have nothing to do with.
fn pages_ahead(chain: &Chain, changes: AddsAndDeletes) -> impl Iterator<Item = PageAddress> {
    let AddsAndDeletes { adds, deletes } = changes;
    let splits = (adds > 0).then(|| chain.pages_to_split(adds));
    let merges = (deletes > 0).then(|| chain.pages_to_merge(deletes));
    let splits = splits.into_iter().flatten();
    splits.chain(merges.into_iter().flatten())
}

/// Items that are looked for in a chain before the thread is given back.
fn items_per_turn(chain: &Chain) -> usize {
    (ITEMS_PER_TURN / chain.sub_filter_count().max(1)).max(1)
}

/// # Errors
/// There are too many items for so many sub-filters.
fn check_probes(items: usize, sub_filters: usize) -> Result {
    match items.saturating_mul(sub_filters) > MAX_CHANGE_PROBES {
        true => Err(EngineError::TooManyChangeProbes {
            items,
            sub_filters,
            bound: MAX_CHANGE_PROBES,
        }),
        false => Ok(()),
    }
}

/// Hashes the items of a request, giving the thread back between turns.
pub(crate) async fn hash_items(
    caller: &Caller,
    chain: &Chain,
    items: &ItemBatch,
) -> Result<Arc<[ItemHash]>> {
    let mut hashes = Vec::with_capacity(items.len());
    let hasher = chain.hash_id().hasher();
    while hashes.len() < items.len() {
        if !hashes.is_empty() {
            tokio::task::yield_now().await;
            caller.check()?;
        }
        let chunk = items.chunk(hashes.len(), ITEMS_PER_TURN);
        let of_chunk = items.iter().skip(chunk.start).take(chunk.len());
        hasher.hash_all(of_chunk, &mut hashes);
    }
    Ok(hashes.into())
}

#[cfg(test)]
mod tests;
