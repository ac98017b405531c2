//! Asking a filter, beside its lane: exists and count over the pages as they
//! are published.
//!
//! A view says on which pages an item may lie and what their slots mean. Once
//! a page was split or merged an older view is wrong about it: it looks for an
//! item on the page that it has left, and takes an entry that has one bit less
//! for one of another item. So no answer counts, yes or no, unless the filter
//! still has the shape of its view after the last word was read; see
//! [`OpenFilter::is_shaped_as`], and `pages/seqlock.rs` for why that is enough.
//! Otherwise it is asked again, of the view as it is then.
//!
//! Of one shape, a positive answer needs no other check: every published slot
//! is committed. A
//! negative answer or a count is right if no page it rests on was published
//! to between the first word read and the last; otherwise it is asked again.
//! Questions about many items are asked in groups first, which are right if
//! nothing at all was published to the filter meanwhile: one check for 32
//! items. What a group can't answer is asked one by one.

use super::batch::ItemBatch;
use super::caller::Caller;
use super::error::{EngineError, Holds, Result};
use super::filters::{FilterView, OpenFilter};
use super::pages::{
    Images, PageCache, PageTable, ResidentPage, Version, Versions, Words, WordsRead,
};
use super::state::EngineState;
use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::counters::{CounterKey, CounterKeys, Counters};
use crate::chain::meta::Chain;
use crate::chain::paged::values::ValueCopies;
use crate::chain::pages::{HeldPages, PageWords};
use crate::chain::params::Epoch;
use crate::chain::read;
use crate::chain::rows::RowTest;
use crate::cuckoo::hash::ItemHash;
use crate::page::PageId;
use std::sync::Arc;

/// Items answered before the thread is given back, so that one large batch
/// does not hold up all other requests.
pub(super) const ITEMS_PER_TURN: usize = 4096;

/// Pages that a request reads from the store at once.
pub(super) const PAGES_PER_LOAD: usize = 4096;

/// Repeats of one resident item before it counts as overtaken.
const REPEATS: usize = 1000;

/// How often a group is asked at most while commits disturb it.
const GROUP_REPEATS: usize = 4;

/// What is asked about each item.
pub(super) trait Question: Copy + Send {
    /// The answer.
    type Answer: Clone + Default + Send;

    /// What is asked of a filter, as of a moment in milliseconds since 1970.
    ///
    /// # Errors
    /// The filter is of another kind.
    fn of_filter(self, _: &OpenFilter, _: impl Fn() -> u64) -> Result<Self> {
        Ok(self)
    }

    /// What is asked about the item at a position, where that makes a difference.
    fn about(self, _: usize) -> Self {
        self
    }

    /// Asks the chain; `None` if a page was not at hand.
    fn ask(self, chain: &Chain, hash: ItemHash, pages: &mut impl PageWords)
    -> Option<Self::Answer>;

    /// Asks about up to [`GROUP`](read::GROUP) items together; `None` to be
    /// asked one by one.
    fn ask_group(
        self,
        _: &Chain,
        _: &[ItemHash],
        _: &mut impl HeldPages,
        answers: &mut [Option<Self::Answer>; read::GROUP],
    ) {
        answers.fill(None);
    }

    /// Whether the answer is right whatever was published meanwhile.
    #[inline]
    fn is_certain(self, _: &Self::Answer) -> bool {
        false
    }
}

/// Is the item there?
#[derive(Clone, Copy, Default)]
pub(super) struct Exists {
    /// Where items expire: how far back it is asked; `None`: the whole window.
    within_seconds: Option<u64>,
    /// The same, as of a moment: was it seen in that epoch or later?
    pub(super) since: Option<Epoch>,
}

/// How often is the item there? Once at most where items expire: since the oldest
/// epoch of their window.
#[derive(Clone, Copy, Default)]
pub(super) struct Count(Option<Epoch>);

impl Exists {
    /// Was it seen within so many seconds? `None`: is it there?
    pub(super) fn within(within_seconds: Option<u64>) -> Exists {
        Exists {
            within_seconds,
            since: None,
        }
    }

    /// Whether it may be asked of a filter.
    ///
    /// # Errors
    /// [`EngineError::NoWindow`], [`EngineError::BeyondWindow`].
    pub(super) fn check(self, filter: &OpenFilter) -> Result {
        let Some(within_seconds) = self.within_seconds else {
            return Ok(());
        };
        let name = || filter.name.clone();
        let window = filter.view.load().chain.params().window();
        let window = window.ok_or_else(|| EngineError::NoWindow { filter: name() })?;
        match (1..=u64::from(window.seconds())).contains(&within_seconds) {
            true => Ok(()),
            false => Err(EngineError::BeyondWindow {
                filter: name(),
                within_seconds,
                window_seconds: window.seconds(),
            }),
        }
    }

    /// As of a moment, in milliseconds since 1970.
    #[inline]
    pub(super) fn at(self, view: &FilterView, now_ms: impl Fn() -> u64) -> Exists {
        let window = view.chain.params().window();
        // A look at the clock takes as long as many a question.
        let since = window.and_then(|_| view.chain.oldest_epoch(now_ms(), self.within_seconds));
        Exists { since, ..self }
    }
}

impl Question for Exists {
    type Answer = bool;

    fn of_filter(self, filter: &OpenFilter, now_ms: impl Fn() -> u64) -> Result<Self> {
        self.check(filter)?;
        Ok(self.at(&filter.view.load(), now_ms))
    }

    #[inline]
    fn ask(self, chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<bool> {
        match self.since {
            Some(since) => read::seen(chain, hash, since, pages),
            None => read::exists(chain, hash, pages),
        }
    }

    #[inline]
    fn ask_group(
        self,
        chain: &Chain,
        items: &[ItemHash],
        pages: &mut impl HeldPages,
        answers: &mut [Option<bool>; read::GROUP],
    ) {
        match self.since {
            Some(_) => answers.fill(None),
            None => read::exists_group(chain, items, pages, answers),
        }
    }

    /// A word says nothing without the stamp of its page, which is read after it.
    #[inline]
    fn is_certain(self, &found: &bool) -> bool {
        found && self.since.is_none()
    }
}

impl Question for Count {
    type Answer = u64;

    fn of_filter(self, filter: &OpenFilter, now_ms: impl Fn() -> u64) -> Result<Self> {
        let Exists { since, .. } = Exists::default().at(&filter.view.load(), now_ms);
        Ok(Count(since))
    }

    #[inline]
    fn ask(self, chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<u64> {
        match self.0 {
            Some(since) => read::seen(chain, hash, since, pages).map(u64::from),
            None => read::count(chain, hash, pages),
        }
    }
}

/// Has the item the value at its position? There is one value an item.
#[derive(Clone, Copy)]
pub(super) struct HasValue<'a> {
    pub(super) values: &'a [u32],
    pub(super) position: usize,
}

impl Question for HasValue<'_> {
    type Answer = bool;

    fn about(self, position: usize) -> Self {
        HasValue { position, ..self }
    }

    fn ask(self, chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<bool> {
        let value = self.values.get(self.position);
        read::has_value(chain, hash, value.copied().unwrap_or_default(), pages)
    }
}

/// Has the item a row that meets a condition?
#[derive(Clone, Copy)]
pub(super) struct HasRow<'a>(pub(super) &'a Arc<RowTest>);

impl Question for HasRow<'_> {
    type Answer = bool;

    fn ask(self, chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<bool> {
        read::has_row(chain, hash, self.0, pages)
    }
}

/// Which values has the item?
#[derive(Clone, Copy)]
pub(super) struct Values;

impl Question for Values {
    type Answer = Vec<ValueCopies>;

    fn of_filter(self, filter: &OpenFilter, _: impl Fn() -> u64) -> Result<Self> {
        match Holds::of(filter.view.load().chain.params()) {
            holds @ Holds::Items => Err(EngineError::NotForThisFilter { holds }),
            Holds::Values(_) | Holds::Rows(_) => Ok(self),
        }
    }

    fn ask(
        self,
        chain: &Chain,
        hash: ItemHash,
        pages: &mut impl PageWords,
    ) -> Option<Vec<ValueCopies>> {
        read::values(chain, hash, pages)
    }
}

/// Answers to a request, and what they cost.
pub(super) struct Answers<A> {
    /// One an item.
    pub(super) answers: Vec<A>,
    /// Pages looked at in the cache.
    pub(super) cached_pages: u64,
    /// Questions asked again because of a commit.
    pub(super) retries: u64,
}

/// Answers at once, if that is possible: if the pages are resident, no commit
/// is in the way, and the items are not so many that others would wait. Else
/// nothing of it is kept: beside the pages that [`ask`] has to read, asking the
/// resident ones again is nothing.
pub(super) fn ask_at_once<Q: Question>(
    question: Q,
    filter: &OpenFilter,
    items: &ItemBatch,
    cache: &PageCache,
) -> Option<Answers<Q::Answer>> {
    let view = filter.view.load();
    if items.len() > per_turn(&view) || items.chunk(0, items.len()).len() < items.len() {
        return None;
    }
    let mut hashes = Vec::with_capacity(items.len());
    let hasher = view.chain.hash_id().hasher();
    hasher.hash_all(items.iter(), &mut hashes);
    let mut result = Answers::of(items.len());
    let open = result.ask_resident(question, filter, &view, cache, 0, &hashes);
    open.is_empty().then_some(result)
}

/// Answers, unless the filter is gone meanwhile. Resident pages cost no thread hop;
/// the others are read in one batch per round off the async threads. What commits
/// keep overtaking is asked while the filter's lane publishes nothing.
pub(super) async fn ask<Q: Question>(
    question: Q,
    filter: &OpenFilter,
    items: &ItemBatch,
    state: &EngineState,
    caller: &Caller,
) -> Result<Answers<Q::Answer>> {
    let cache = &state.cache;
    let mut result = Answers::of(items.len());
    let (hasher, per_turn) = {
        let view = filter.view.load();
        (view.chain.hash_id().hasher(), per_turn(&view))
    };
    let mut hashes: Vec<ItemHash> = Vec::with_capacity(per_turn.min(items.len()));
    let mut first = 0;
    while first < items.len() {
        if first > 0 {
            tokio::task::yield_now().await;
            caller.check()?;
        }
        hashes.clear();
        let chunk = items.chunk(first, per_turn);
        let of_chunk = items.iter().skip(first).take(chunk.len());
        hasher.hash_all(of_chunk, &mut hashes);
        let mut open = {
            let view = filter.view.load();
            result.ask_resident(question, filter, &view, cache, first, &hashes)
        };
        let mut round = 1;
        while !open.is_empty() && !filter.is_removed() {
            caller.check()?;
            // Pages that it does not name were published after this request
            // began, or split off meanwhile: these are for the next round.
            let view = filter.view.load_full();
            let pages = all_pages(&view.chain, open.iter().filter_map(|&it| hashes.get(it)));
            let read = Box::pin(state.read_cold(caller, vec![(view, pages)], round)).await?;
            let chunk = Chunk {
                first,
                hashes: &hashes,
            };
            let _held = state.hold_publications(filter, round);
            result.ask_each(question, filter, cache, &read.images, chunk, &mut open);
            round += 1;
        }
        first += hashes.len();
    }
    Ok(result)
}

/// How many items are asked about before others get a turn, and before what
/// they need is read: no more pages than are read at once.
fn per_turn(view: &FilterView) -> usize {
    let pages_per_item = 2 * view.tables.len().max(1);
    ITEMS_PER_TURN.min(PAGES_PER_LOAD.div_ceil(pages_per_item))
}

impl<A: Clone + Default> Answers<A> {
    /// Of so many items, none of them asked about.
    fn of(items: usize) -> Answers<A> {
        // Not `vec!`: zeroed memory takes the allocator a longer way.
        let mut answers = Vec::with_capacity(items);
        answers.resize(items, A::default());
        Answers {
            answers,
            cached_pages: 0,
            retries: 0,
        }
    }

    /// Asks the resident pages about the items from `first` on. Returns those
    /// that are not answered, by their positions behind `first`.
    fn ask_resident<Q: Question<Answer = A>>(
        &mut self,
        question: Q,
        filter: &OpenFilter,
        view: &FilterView,
        cache: &PageCache,
        first: usize,
        hashes: &[ItemHash],
    ) -> Vec<usize> {
        let answers = self.answers.get_mut(first..first + hashes.len());
        let answers = answers.unwrap_or_default();
        let mut groups = Groups::new(cache, filter, view);
        let mut open = groups.settle(question, hashes, answers);
        self.cached_pages += groups.pages;
        if !open.is_empty() {
            let images = Images::default();
            let chunk = Chunk { first, hashes };
            self.ask_each(question, filter, cache, &images, chunk, &mut open);
        }
        open
    }

    /// Asks about the open items of a chunk one by one, and leaves those that
    /// stay open.
    fn ask_each<Q: Question<Answer = A>>(
        &mut self,
        question: Q,
        filter: &OpenFilter,
        cache: &PageCache,
        images: &Images,
        Chunk { first, hashes }: Chunk<'_>,
        open: &mut Vec<usize>,
    ) {
        let mut reshapes = Reshapes::default();
        loop {
            let view = filter.view.load();
            let mut words = PublishedWords::new(cache, filter, &view, images);
            open.retain(|&within| {
                let answer = self.answers.get_mut(first + within);
                let Some((&hash, answer)) = hashes.get(within).zip(answer) else {
                    return false;
                };
                let settled = words.settle(question.about(first + within), hash);
                let is_open = settled.is_none();
                if let Some(settled) = settled {
                    *answer = settled;
                }
                is_open
            });
            self.cached_pages += words.cached_pages;
            self.retries += words.retries;
            if open.is_empty() || !reshapes.ask_again(&words) {
                return;
            }
        }
    }
}

/// Items of a request that are asked about together.
#[derive(Clone, Copy)]
struct Chunk<'a> {
    /// Position of the first.
    first: usize,
    hashes: &'a [ItemHash],
}

/// How often a filter was split or merged while it was asked.
#[derive(Default)]
pub(super) struct Reshapes(usize);

impl Reshapes {
    /// Whether to ask again of the view as it is now: what is not answered may
    /// not be for no other reason than that the last one was of another shape.
    pub(super) fn ask_again(&mut self, last: &PublishedWords<'_>) -> bool {
        let again = last.is_reshaped && self.0 < REPEATS;
        if again {
            pause(self.0);
            self.0 += 1;
        }
        again
    }
}

/// Lets a publication go on, which takes microseconds: storing words, no I/O.
fn pause(repeat: usize) {
    match repeat % 16 {
        15 => std::thread::yield_now(),
        _ => std::hint::spin_loop(),
    }
}

/// All pages that the items may lie on, ascending, each once.
pub(super) fn all_pages<'a>(
    chain: &Chain,
    items: impl Iterator<Item = &'a ItemHash>,
) -> Vec<PageAddress> {
    let mut pages: Vec<PageAddress> = items
        .flat_map(|&hash| read::candidate_pages(chain, hash))
        .collect();
    pages.sort_unstable();
    pages.dedup();
    pages
}

/// Asks about items in groups, of pages that are resident. Answers rest on
/// nothing having been published to the filter meanwhile: that is one look a
/// group, where [`PublishedWords`] has two a page.
pub(super) struct Groups<'a> {
    cache: &'a PageCache,
    filter: &'a OpenFilter,
    view: &'a FilterView,
    /// The pages that the last group was asked of.
    held: Vec<ResidentPage<'a>>,
    /// Pages were split or merged since the view.
    is_reshaped: bool,
    /// Pages looked at.
    pub(super) pages: u64,
}

impl<'a> Groups<'a> {
    /// Groups to be asked of this view of the filter.
    pub(super) fn new(cache: &'a PageCache, filter: &'a OpenFilter, view: &'a FilterView) -> Self {
        Groups {
            cache,
            filter,
            view,
            held: Vec::with_capacity(4),
            is_reshaped: false,
            pages: 0,
        }
    }

    /// Asks about all items and fills in the answers that are right. Returns
    /// the positions of the others, which are to be asked one by one.
    pub(super) fn settle<Q: Question>(
        &mut self,
        question: Q,
        items: &[ItemHash],
        results: &mut [Q::Answer],
    ) -> Vec<usize> {
        let mut open = Vec::new();
        let groups = items
            .chunks(read::GROUP)
            .zip(results.chunks_mut(read::GROUP));
        for (number, (group, results)) in groups.enumerate() {
            let first = number * read::GROUP;
            if self.is_reshaped {
                open.extend(first..first + group.len());
                continue;
            }
            let mut answers = [const { None }; read::GROUP];
            self.ask(question, group, &mut answers);
            for (at, (result, answer)) in results.iter_mut().zip(&mut answers).enumerate() {
                match answer.take() {
                    Some(answer) => *result = answer,
                    None => open.push(first + at),
                }
            }
        }
        open
    }

    /// Asks about a group, again if commits disturb it, and leaves the answers
    /// that are right.
    #[inline]
    fn ask<Q: Question>(
        &mut self,
        question: Q,
        group: &[ItemHash],
        answers: &mut [Option<Q::Answer>; read::GROUP],
    ) {
        let (chain, filter_version) = (&self.view.chain, &self.filter.version);
        for repeat in 0..GROUP_REPEATS {
            self.held.clear();
            let version = filter_version.read();
            question.ask_group(chain, group, self, answers);
            let read = WordsRead::fence();
            self.pages += self.held.len() as u64;
            // What the view takes the pages for, they are no more.
            self.is_reshaped = !self.filter.is_shaped_as(self.view, read);
            // Every page was in its frame until the end.
            let in_place = self.held.iter().all(|page| page.is_still(read));
            let in_place = in_place && !self.is_reshaped;
            // Nothing was published to the filter.
            let undisturbed = version.is_some_and(|it| filter_version.is_still(it, read));
            let is_right =
                |answer: &Q::Answer| in_place && (undisturbed || question.is_certain(answer));
            let all_right = answers.iter().take(group.len()).all(|answer| {
                // One that is not at hand does not come by asking again.
                answer.as_ref().is_none_or(is_right)
            });
            if all_right || self.is_reshaped || repeat + 1 == GROUP_REPEATS {
                if !all_right {
                    for answer in answers {
                        answer.take_if(|it| !is_right(it));
                    }
                }
                return;
            }
        }
    }
}

impl<'a> HeldPages for Groups<'a> {
    type Page = Words<'a>;

    #[inline]
    fn hold(&mut self, page: PageAddress) -> Option<Words<'a>> {
        let table = self.view.tables.get(page.sub as usize)?;
        let resident = self.cache.resident(table, page.page)?;
        self.held.push(resident);
        Some(resident.words())
    }

    #[inline]
    fn load(page: Words<'a>, word: u16) -> u64 {
        page.load(word)
    }

    #[inline]
    fn prefetch(page: Words<'a>, word: u16) {
        page.prefetch(word);
    }
}

/// Words as published, with the versions they had.
pub(super) struct PublishedWords<'a> {
    cache: &'a PageCache,
    filter: &'a OpenFilter,
    view: &'a FilterView,
    images: &'a Images,
    /// Versions of the pages that this question has read so far, each with its
    /// number before.
    seen: Vec<(&'a Version, u64)>,
    overtaken: bool,
    /// Pages were split or merged since the view: nothing is settled with it any
    /// more.
    is_reshaped: bool,
    last_page: Option<PageAddress>,
    /// Pages looked at in the cache.
    pub(super) cached_pages: u64,
    /// Questions asked again because of a commit.
    pub(super) retries: u64,
}

impl<'a> PublishedWords<'a> {
    /// The words of the view's resident pages, and of those in `images`.
    pub(super) fn new(
        cache: &'a PageCache,
        filter: &'a OpenFilter,
        view: &'a FilterView,
        images: &'a Images,
    ) -> Self {
        PublishedWords {
            cache,
            filter,
            view,
            images,
            seen: Vec::new(),
            overtaken: false,
            is_reshaped: false,
            last_page: None,
            cached_pages: 0,
            retries: 0,
        }
    }

    /// Asks until the answer is right. `None`: pages are missing, the question
    /// rests on an image that a commit has overtaken, or pages were split or
    /// merged since the view was published.
    pub(super) fn settle<Q: Question>(&mut self, question: Q, hash: ItemHash) -> Option<Q::Answer> {
        self.settle_with(
            |chain, words| question.ask(chain, hash, words),
            |answer| question.is_certain(answer),
        )
    }

    /// The same for whatever can be asked of a chain. `is_certain` says which
    /// answers are right whatever was published meanwhile.
    #[inline]
    pub(super) fn settle_with<T>(
        &mut self,
        ask: impl Fn(&Chain, &mut Self) -> Option<T>,
        is_certain: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let view = self.view;
        for repeat in 0..REPEATS {
            if self.is_reshaped {
                return None;
            }
            self.seen.clear();
            self.overtaken = false;
            self.last_page = None;
            let answer = ask(&view.chain, self);
            let read = WordsRead::fence();
            // Whatever is missing may be on a page that the item has left.
            self.is_reshaped = !self.filter.is_shaped_as(view, read);
            let is_right = |answer: &T| {
                is_certain(answer) || (!self.overtaken && Versions::are_still(&self.seen, read))
            };
            if !self.is_reshaped && is_right(answer.as_ref()?) {
                return answer;
            }
            self.retries += 1;
            pause(repeat);
        }
        None
    }

    /// Reads something of a page: from the cache, or else from the image that
    /// was read for this request; and notes the version that it had.
    #[inline]
    fn read<T>(
        &mut self,
        page: PageAddress,
        cached: impl FnOnce(&PageCache, &PageTable) -> Option<T>,
        of_image: impl FnOnce(&Images, PageId) -> Option<(T, Option<u64>)>,
    ) -> Option<T> {
        let table = self.view.tables.get(page.sub as usize)?;
        let version = self.cache.versions.of(table, page.page)?;
        let number = version.read();
        let (value, number) = match cached(self.cache, table) {
            Some(value) => {
                if self.last_page != Some(page) {
                    self.last_page = Some(page);
                    self.cached_pages += 1;
                }
                (value, number)
            }
            None => {
                let (value, read_at) = of_image(self.images, table.id(page.page))?;
                // An image that was overtaken, or may have been, is as good as
                // none.
                if read_at.is_none() || read_at != number {
                    return None;
                }
                (value, read_at)
            }
        };
        match number {
            Some(number) => self.seen.push((version, number)),
            None => self.overtaken = true,
        }
        Some(value)
    }
}

impl PageWords for PublishedWords<'_> {
    #[inline]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        self.read(
            at.on(),
            |cache, table| cache.read(table, at.page, at.word),
            |images, page| images.word(page, at.word),
        )
    }

    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        self.read(
            page,
            |cache, table| cache.counter(table, page.page, key),
            |images, id| images.counter(id, key),
        )
    }

    fn counters_within(&mut self, page: PageAddress, keys: CounterKeys) -> Option<Counters> {
        self.read(
            page,
            |cache, table| cache.counters_within(table, page.page, keys.clone()),
            |images, id| images.counters_within(id, keys.clone()),
        )
    }
}
