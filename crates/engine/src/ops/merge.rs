//! Making a filter the union of itself and others: they are read one after the other, as
//! each is at one moment, and put together in memory. The union takes the filter's place
//! as a dump does that is restored, unless the filter has changed meanwhile.

use crate::answer::FilterInfo;
use crate::chain::meta::Chain;
use crate::chain::resident::Pages;
use crate::chain::union::{UnionError, load, union};
use crate::dump::stage::{Intake, StagedFilter};
use crate::dump::write::DumpSink;
use crate::error::{EngineError, Overload, Result};
use crate::idempotency::guard::{Answered, IdempotencyKey, SideRecorder};
use crate::idempotency::response::StoredResponse;
use crate::name::FilterName;
use crate::ops::dumps::{Adopted, Replace};
use crate::state::{Engine, Pace};
use crate::threads::run_blocking;
use cuckood_filter::file::FileView;
use std::iter;
use std::ops::ControlFlow;

/// How often it begins again because the filter has changed meanwhile.
const ATTEMPTS: u32 = 3;

/// Bytes that a counter takes at most, in memory or in a dump.
const COUNTER_BYTES: u64 = 16;

/// What filters of few pages may take beside a quarter more.
const SOME_PAGES: u64 = 64 << 10;

impl Engine {
    /// Makes a filter the union of itself and others: what either finds is found, and
    /// counts add up. `hold` takes so many bytes of memory, or says why not.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::NotMerged`]; those of `hold`;
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
                let own = self.find(name).await?.view.load().chain.clone();
                let (version, most) = (*own.version(), own.params().max_filter_bytes());
                let mut chains = vec![own.clone()];
                for with in from {
                    let other = self.find(with).await?.view.load().chain.clone();
                    let refused = |why| EngineError::NotMerged {
                        with: with.clone(),
                        why,
                    };
                    own.may_unite(&other).map_err(refused)?;
                    chains.push(other);
                }
                // They may grow until they are read.
                let bytes = with_room(bytes_to_unite(&chains));
                let held = hold(bytes)?;
                let intake = self.intake(name, Replace::Something).await?;
                let (engine, from) = (self.clone(), from.to_vec());
                let uniting = run_blocking(move || {
                    let _held = held;
                    engine.unite(intake, &from, bytes, most)
                });
                let mut staged = self.caller.within(uniting).await???;
                staged.recorder.clone_from(&recorder);
                let adopted = self.adopt(name, staged, Replace::If(version));
                if let Adopted::Replaced(info) = adopted.await? {
                    return Ok(info);
                }
            }
            Err(Overload::FilterChanges.into())
        };
        let bytes = StoredResponse::FILTER_BYTES;
        self.once(name, key, bytes, kept, merge).await
    }

    /// The union, which has no name yet and may have so many bytes. Blocks.
    fn unite(
        &self,
        intake: Intake,
        from: &[FilterName],
        most_bytes: u64,
        most_of_one: u64,
    ) -> Result<StagedFilter> {
        let mut pace = self.pace();
        let mut read = Vec::new();
        let mut united: Option<(Chain, Pages)> = None;
        for name in iter::once(&intake.name).chain(from) {
            let mut dumped = Dumped(Vec::new(), &mut pace);
            self.dump(name, &mut dumped)?;
            let bytes = dumped.0;
            self.caller.check()?;
            let refused = |why| {
                let with = name.clone();
                EngineError::NotMerged { with, why }
            };
            let file = FileView::open(bytes).map_err(|_| refused(UnionError::Contents))?;
            let chain = Chain::from_portable(&file.header().description, most_of_one);
            let chain = chain.map_err(|_| refused(UnionError::Contents))?;
            read.push(chain.clone());
            if bytes_to_unite(&read) > most_bytes {
                return Err(Overload::FilterChanges.into());
            }
            let page = |number| match pace() {
                ControlFlow::Continue(()) => file
                    .whole_page(number)
                    .map_err(|_| Some(UnionError::Damaged(number))),
                ControlFlow::Break(()) => Err(None),
            };
            let more = match united.take() {
                None => load(&chain, page).map(|pages| (chain, pages)),
                Some((base, pages)) => {
                    let most = most_slots(&read).min(most_of_one);
                    union((base.with_max_filter_bytes(most), pages), &chain, page)
                }
            };
            united = Some(more.map_err(|why| why.map_or(EngineError::DeadlineExceeded, refused))?);
        }
        // Others have their turn while it is stored.
        drop(pace);
        let (chain, pages) = united.ok_or(Overload::FilterChanges)?;
        Ok(intake.pages(chain.with_max_filter_bytes(most_of_one), &pages)?)
    }
}

/// Bytes of memory for the union of the first filter and the others: its pages, which
/// are copied as they become more; what is counted in it, which may be all that is in
/// several; and one of them as a dump.
fn bytes_to_unite(chains: &[Chain]) -> u64 {
    let subs = || chains.iter().flat_map(Chain::sub_filters);
    let entries: u64 = subs().skip(1).map(|it| it.occupied).sum();
    let counters: u64 = subs().map(|it| it.keys).sum();
    let dumps = subs().map(|it| it.layout.bytes() + COUNTER_BYTES * it.keys);
    2 * most_slots(chains) + COUNTER_BYTES * (entries + counters) + 2 * dumps.max().unwrap_or(0)
}

/// Bytes that the slots of a union may take: no more than filters that are as full as
/// they may be, but for those whose entries were chosen so that they find no room.
fn most_slots(chains: &[Chain]) -> u64 {
    with_room(chains.iter().map(Chain::slot_bytes).sum()) + SOME_PAGES
}

fn with_room(bytes: u64) -> u64 {
    bytes + bytes / 4
}

/// A dump in memory.
struct Dumped<'a>(Vec<u8>, &'a mut Pace);

impl DumpSink for Dumped<'_> {
    fn throttle(&mut self) {
        // That time is over shows with the next bytes.
        let _ = (self.1)();
    }

    fn piece(&mut self, bytes: Vec<u8>) -> ControlFlow<()> {
        self.0.extend_from_slice(&bytes);
        (self.1)()
    }
}
