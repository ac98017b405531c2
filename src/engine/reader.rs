//! Asking a filter, beside its lane: exists and count over the pages as they
//! are published.
//!
//! A positive answer needs no check: every published slot is committed. A
//! negative answer or a count is right if no page it rests on was published
//! to between the first word read and the last; otherwise it is asked again.
//! Questions about many items are asked in groups first, which are right if
//! nothing at all was published to the filter meanwhile: one check for 32
//! items. What a group can't answer is asked one by one.

use super::batch::ItemBatch;
use super::caller::Caller;
use super::cold::ColdPages;
use super::error::EngineError;
use super::filters::{FilterView, OpenFilter};
use super::pages::{
    Images, PageCache, PageTable, ResidentPage, Version, Versions, Words, WordsRead,
};
use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::counters::CounterKey;
use crate::chain::meta::Chain;
use crate::chain::pages::{HeldPages, PageWords};
use crate::chain::read;
use crate::cuckoo::hash::ItemHash;
use crate::page::PageId;

/// Items answered before the thread is given back, so that one large batch
/// does not hold up all other requests.
pub(super) const ITEMS_PER_TURN: usize = 4096;

/// Pages that a request reads from the store at once.
pub(super) const PAGES_PER_LOAD: usize = 4096;

/// Rounds through the store before the lane is asked to answer.
pub(super) const ROUNDS: usize = 6;

/// Repeats of one resident item before it counts as overtaken.
const REPEATS: usize = 1000;

/// How often a group is asked at most while commits disturb it.
const GROUP_REPEATS: usize = 4;

/// What is asked about each item.
pub(super) trait Question: Copy + Send + 'static {
    /// The answer.
    type Answer: Copy + Default + Send + 'static;

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
    fn is_certain(self, answer: Self::Answer) -> bool;
}

/// Is the item there?
#[derive(Clone, Copy)]
pub(super) struct Exists;

/// How often is the item there?
#[derive(Clone, Copy)]
pub(super) struct Count;

impl Question for Exists {
    type Answer = bool;

    #[inline]
    fn ask(self, chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<bool> {
        read::exists(chain, hash, pages)
    }

    #[inline]
    fn ask_group(
        self,
        chain: &Chain,
        items: &[ItemHash],
        pages: &mut impl HeldPages,
        answers: &mut [Option<bool>; read::GROUP],
    ) {
        read::exists_group(chain, items, pages, answers);
    }

    #[inline]
    fn is_certain(self, found: bool) -> bool {
        found
    }
}

impl Question for Count {
    type Answer = u64;

    #[inline]
    fn ask(self, chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<u64> {
        read::count(chain, hash, pages)
    }

    #[inline]
    fn is_certain(self, _: u64) -> bool {
        false
    }
}

/// Answers to a request, and what they cost.
pub(super) struct Answers<A> {
    /// One an item; those of `open` are not filled in.
    pub(super) answers: Vec<A>,
    /// Items that commits kept overtaking: the lane has to answer them.
    pub(super) open: Vec<usize>,
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
    if items.len() > per_turn(&view) || items.turn(0, items.len()).len() < items.len() {
        return None;
    }
    let mut hashes = Vec::with_capacity(items.len());
    let hasher = view.chain.hash_id().hasher();
    hasher.hash_all(items.iter(), &mut hashes);
    let mut result = Answers::of(items.len());
    let open = result.ask_resident(question, filter, &view, cache, 0, &hashes);
    open.is_empty().then_some(result)
}

/// Answers what can be answered. Resident pages cost no thread hop; the others
/// are read in one batch per round off the async threads.
pub(super) async fn ask<Q: Question>(
    question: Q,
    filter: &OpenFilter,
    items: &ItemBatch,
    cache: &PageCache,
    cold: &ColdPages,
    caller: &Caller,
) -> Result<Answers<Q::Answer>, EngineError> {
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
        let turn = items.turn(first, per_turn);
        let of_turn = items.iter().skip(first).take(turn.len());
        hasher.hash_all(of_turn, &mut hashes);
        // The view comes first: pages that it does not name were published
        // after this request began.
        let mut view = filter.view.load_full();
        let mut open = result.ask_resident(question, filter, &view, cache, first, &hashes);
        for _ in 1..ROUNDS {
            if open.is_empty() {
                break;
            }
            let pages = all_pages(&view.chain, open.iter().filter_map(|&it| hashes.get(it)));
            let read = Box::pin(cold.read(caller, vec![(view, pages)])).await?;
            view = filter.view.load_full();
            let mut words = PublishedWords::new(cache, &view, &read.images);
            result.ask_each(question, &mut words, first, &hashes, &mut open);
        }
        result.open.extend(open.iter().map(|within| first + within));
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

impl<A: Copy + Default> Answers<A> {
    /// Of so many items, none of them asked about.
    fn of(items: usize) -> Answers<A> {
        // Not `vec!`: zeroed memory takes the allocator a longer way.
        let mut answers = Vec::with_capacity(items);
        answers.resize(items, A::default());
        Answers {
            answers,
            open: Vec::new(),
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
        let mut groups = Groups::new(cache, filter, view);
        let mut open = groups.settle(question, hashes, answers.unwrap_or_default());
        self.cached_pages += groups.pages;
        if !open.is_empty() {
            let images = Images::default();
            let mut words = PublishedWords::new(cache, view, &images);
            self.ask_each(question, &mut words, first, hashes, &mut open);
        }
        open
    }

    /// Asks about the open items one by one, and leaves those that stay open.
    fn ask_each<Q: Question<Answer = A>>(
        &mut self,
        question: Q,
        words: &mut PublishedWords<'_>,
        first: usize,
        hashes: &[ItemHash],
        open: &mut Vec<usize>,
    ) {
        open.retain(|&within| {
            let answer = self.answers.get_mut(first + within);
            let Some((&hash, answer)) = hashes.get(within).zip(answer) else {
                return false;
            };
            let settled = words.settle(question, hash);
            if let Some(settled) = settled {
                *answer = settled;
            }
            settled.is_none()
        });
        self.cached_pages += std::mem::take(&mut words.cached_pages);
        self.retries += std::mem::take(&mut words.retries);
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
        let (chain, filter_version) = (&self.view.chain, &self.filter.version);
        let mut open = Vec::new();
        let mut answers = [None; read::GROUP];
        let groups = items
            .chunks(read::GROUP)
            .zip(results.chunks_mut(read::GROUP));
        for (number, (group, results)) in groups.enumerate() {
            for repeat in 0..GROUP_REPEATS {
                self.held.clear();
                let version = filter_version.read();
                question.ask_group(chain, group, self, &mut answers);
                let read = WordsRead::fence();
                self.pages += self.held.len() as u64;
                // Every page was in its frame until the end.
                let in_place = self.held.iter().all(|page| page.is_still(read));
                // Nothing was published to the filter.
                let undisturbed = version.is_some_and(|it| filter_version.is_still(it, read));
                let is_right = |answer| in_place && (undisturbed || question.is_certain(answer));
                let all_right = answers.iter().take(group.len()).all(|answer| {
                    // One that is not at hand does not come by asking again.
                    answer.is_none_or(is_right)
                });
                if !all_right && repeat + 1 < GROUP_REPEATS {
                    continue;
                }
                for (at, (result, answer)) in results.iter_mut().zip(&answers).enumerate() {
                    match *answer {
                        Some(answer) if is_right(answer) => *result = answer,
                        _ => open.push(number * read::GROUP + at),
                    }
                }
                break;
            }
        }
        open
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
    view: &'a FilterView,
    images: &'a Images,
    /// Versions of the pages that this question has read so far, each with its
    /// number before.
    seen: Vec<(&'a Version, u64)>,
    overtaken: bool,
    last_page: Option<PageAddress>,
    /// Pages looked at in the cache.
    pub(super) cached_pages: u64,
    /// Questions asked again because of a commit.
    pub(super) retries: u64,
}

impl<'a> PublishedWords<'a> {
    /// The words of the view's resident pages, and of those in `images`.
    pub(super) fn new(cache: &'a PageCache, view: &'a FilterView, images: &'a Images) -> Self {
        PublishedWords {
            cache,
            view,
            images,
            seen: Vec::new(),
            overtaken: false,
            last_page: None,
            cached_pages: 0,
            retries: 0,
        }
    }

    /// Asks until the answer is right. `None`: pages are missing, or the
    /// question rests on an image that a commit has overtaken.
    pub(super) fn settle<Q: Question>(&mut self, question: Q, hash: ItemHash) -> Option<Q::Answer> {
        self.settle_with(
            |chain, words| question.ask(chain, hash, words),
            |&answer| question.is_certain(answer),
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
            self.seen.clear();
            self.overtaken = false;
            self.last_page = None;
            let answer = ask(&view.chain, self)?;
            if is_certain(&answer) || (!self.overtaken && Versions::are_still(&self.seen)) {
                return Some(answer);
            }
            self.retries += 1;
            // A publication takes microseconds: storing words, no I/O.
            match repeat % 16 {
                15 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        None
    }
}

impl PublishedWords<'_> {
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
        let version = self.cache.versions().of(table, page.page)?;
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
                // An image that was overtaken is as good as none.
                if read_at != number {
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
}
