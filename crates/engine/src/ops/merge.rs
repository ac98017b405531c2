//! Making a filter the union of itself and others: they are read one after the other, as
//! each is at one moment, and put together in memory. The union takes the filter's place
//! as a dump does that is restored, unless the filter has changed meanwhile; imports into
//! the filter, and answers about it, are then of the union.

use crate::answer::FilterInfo;
use crate::chain::meta::Chain;
use crate::chain::pages::WholePage;
use crate::chain::union::{UnionError, load, memory, union};
use crate::dump::stage::{Intake, StagedFilter};
use crate::dump::write::{DumpSink, Wanted};
use crate::error::{EngineError, Overload, Result};
use crate::idempotency::guard::{Answered, IdempotencyKey, SideRecorder};
use crate::idempotency::response::StoredResponse;
use crate::name::FilterName;
use crate::ops::dumps::{Adopted, Replace};
use crate::state::{Engine, Pace};
use crate::threads::run_blocking;
use cuckood_filter::file::{FileView, Header};
use std::ops::ControlFlow;

/// How often it begins again because the filter, or how much another takes, has changed
/// meanwhile.
const ATTEMPTS: u32 = 3;

/// What filters of few pages may take beside their share.
const SOME_PAGES: u64 = 64 << 10;

impl Engine {
    /// Makes a filter the union of itself and others: what either finds is found, and
    /// counts add up. `hold` takes so many bytes of memory, or says why not.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::NotMerged`]; those of `hold`;
    /// [`EngineError::DeadlineExceeded`], also if the pace broke;
    /// [`EngineError::Overloaded`] if the filter changes again and again; those of taking a
    /// filter in, and of a key, see [`Engine::add`].
    pub async fn merge<H: Send + 'static>(
        &self,
        name: &FilterName,
        from: &[FilterName],
        hold: impl Fn(u64) -> Result<H>,
        key: Option<IdempotencyKey>,
    ) -> Result<Answered<FilterInfo>> {
        let kept = |response| match response {
            StoredResponse::Filter(filter) => Some(filter.info(name)),
            _ => None,
        };
        let merge = |recorder: Option<SideRecorder>| async move {
            for _ in 0..ATTEMPTS {
                match self.merge_once(name, from, &hold, recorder.clone()).await {
                    Err(EngineError::Overloaded(Overload::FilterChanges)) => {}
                    merged => return merged,
                }
            }
            Err(Overload::FilterChanges.into())
        };
        let bytes = StoredResponse::FILTER_BYTES;
        self.once(name, key, bytes, kept, merge).await
    }

    async fn merge_once<H: Send + 'static>(
        &self,
        name: &FilterName,
        from: &[FilterName],
        hold: &impl Fn(u64) -> Result<H>,
        recorder: Option<SideRecorder>,
    ) -> Result<FilterInfo> {
        let own = self.find(name).await?.view.load().chain.clone();
        let mut chains = vec![own.clone()];
        for with in from {
            let other = self.find(with).await?.view.load().chain.clone();
            own.may_unite(&other)
                .map_err(EngineError::not_merged(with))?;
            chains.push(other);
        }
        let version = *own.version();
        let merge = Merge::of(name.clone(), own, chains);
        let held = hold(merge.bytes)?;
        let intake = self.intake(name, Replace::Something).await?;
        let (engine, from) = (self.clone(), from.to_vec());
        let uniting = run_blocking(move || {
            let _held = held;
            engine.unite(intake, &from, merge)
        });
        let mut staged = self.caller.within(uniting).await???;
        staged.recorder = recorder;
        staged.is_union = true;
        match self.adopt(name, staged, Replace::If(version)).await? {
            Adopted::Replaced(info) => Ok(info),
            _ => Err(Overload::FilterChanges.into()),
        }
    }

    /// The union, which has no name yet. Blocks.
    fn unite(&self, intake: Intake, from: &[FilterName], mut merge: Merge) -> Result<StagedFilter> {
        let (most_of_one, name) = (merge.own.params().max_filter_bytes(), merge.name.clone());
        let mut united = {
            let (file, chain, mut pace) = self.read_whole(&name, &mut merge)?;
            let page = |number| {
                rest(&mut pace)?;
                whole_page(&file, number)
            };
            let pages = load(&chain, page).map_err(refused(&name))?;
            let most = merge.slots.min(most_of_one);
            (chain.with_max_filter_bytes(most), pages)
        };
        for with in from {
            let (file, chain, mut pace) = self.read_whole(with, &mut merge)?;
            let page = |number| whole_page(&file, number);
            let more = union(united, &chain, page, || rest(&mut pace));
            united = more.map_err(refused(with))?;
        }
        let now = self.state.filters.open(&name, &self.state.store)?;
        let now = now.map(|it| it.version());
        if now != Some(*merge.own.version()) {
            return Err(Overload::FilterChanges.into());
        }
        let (chain, pages) = united;
        let chain = chain.with_max_filter_bytes(most_of_one);
        Ok(intake.pages(chain, &pages, || self.pace())?)
    }

    /// One of the filters as it is now, and the pace at which to go on with it.
    fn read_whole(
        &self,
        name: &FilterName,
        merge: &mut Merge,
    ) -> Result<(FileView<Vec<u8>>, Chain, Pace)> {
        let mut dumped = Dumped {
            name,
            merge,
            bytes: Vec::new(),
            chain: Err(EngineError::DeadlineExceeded),
            pace: self.pace(),
        };
        self.dump(name, &mut dumped)?;
        let Dumped {
            bytes, chain, pace, ..
        } = dumped;
        let chain = chain?;
        let file = FileView::open(bytes).map_err(|_| Some(UnionError::Contents));
        Ok((file.map_err(refused(name))?, chain, pace))
    }
}

/// A merge, and the memory that is held for it.
struct Merge {
    name: FilterName,
    own: Chain,
    /// All filters, the one that is read next first.
    chains: Vec<Chain>,
    /// Bytes that the slots of the union may take: more than those of filters that are as
    /// full as they may be, but for those whose entries were chosen so that they find no
    /// room.
    slots: u64,
    /// Bytes that all of it may take.
    bytes: u64,
}

impl Merge {
    /// Of filters that may grow by an eighth until they are read.
    fn of(name: FilterName, own: Chain, chains: Vec<Chain>) -> Merge {
        let slots = slot_bytes(&chains);
        let mut merge = Merge {
            name,
            own,
            chains,
            slots: slots + slots / 4 + SOME_PAGES,
            bytes: 0,
        };
        let bytes = merge.needs();
        merge.bytes = bytes + bytes / 8 + SOME_PAGES;
        merge
    }

    /// Bytes of the union, and of the largest of the filters as a dump.
    fn needs(&self) -> u64 {
        let headers = self.chains.iter().filter_map(Header::of);
        let dump = headers.map(|it| it.parts.bytes).max();
        memory(&self.chains, self.slots).saturating_add(dump.unwrap_or(0))
    }

    /// What the next filter is, by what its dump says of it.
    fn next(&mut self, name: &FilterName, header: &Header) -> Result<Chain> {
        let most = self.own.params().max_filter_bytes();
        let chain = Chain::from_portable(&header.description, most);
        let chain = chain.map_err(|_| UnionError::Contents);
        let fits = chain.and_then(|it| self.own.may_unite(&it).map(|()| it));
        let chain = fits.map_err(EngineError::not_merged(name))?;
        self.chains.rotate_left(1);
        if let Some(last) = self.chains.last_mut() {
            last.clone_from(&chain);
        }
        let slots = slot_bytes(&self.chains);
        let is_as_before = *name != self.name || header.version == *self.own.version();
        match is_as_before && slots + slots / 8 <= self.slots && self.needs() <= self.bytes {
            true => Ok(chain),
            false => Err(Overload::FilterChanges.into()),
        }
    }
}

fn slot_bytes(chains: &[Chain]) -> u64 {
    chains.iter().map(Chain::slot_bytes).sum()
}

/// A filter that is dumped into memory.
struct Dumped<'a> {
    name: &'a FilterName,
    merge: &'a mut Merge,
    bytes: Vec<u8>,
    /// What it is, or why it is not read.
    chain: Result<Chain>,
    pace: Pace,
}

impl Dumped<'_> {
    fn rest(&mut self) -> ControlFlow<()> {
        let flow = (self.pace)();
        if flow.is_break() {
            self.chain = Err(EngineError::DeadlineExceeded);
        }
        flow
    }
}

impl DumpSink for Dumped<'_> {
    fn throttle(&mut self) {
        // That time is over shows with the next bytes.
        let _ = self.rest();
    }

    fn begin(&mut self, header: Header) -> ControlFlow<(), Wanted> {
        self.chain = self.merge.next(self.name, &header);
        if self.chain.is_err() {
            return ControlFlow::Break(());
        }
        self.bytes.reserve_exact(header.parts.bytes as usize);
        ControlFlow::Continue(Wanted::all(header))
    }

    fn piece(&mut self, bytes: Vec<u8>) -> ControlFlow<()> {
        self.bytes.extend_from_slice(&bytes);
        self.rest()
    }
}

fn rest(pace: &mut Pace) -> Result<(), Option<UnionError>> {
    match pace() {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(None),
    }
}

fn whole_page(file: &FileView<Vec<u8>>, number: u32) -> Result<WholePage, Option<UnionError>> {
    let page = file.whole_page(number);
    page.map_err(|_| Some(UnionError::Damaged(number)))
}

/// Why there is no union with that filter; `None`: there was no time.
fn refused(with: &FilterName) -> impl FnOnce(Option<UnionError>) -> EngineError {
    let refused = EngineError::not_merged(with);
    |why| why.map_or(EngineError::DeadlineExceeded, refused)
}
