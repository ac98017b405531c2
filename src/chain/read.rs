//! Asking: whether an item is in the chain, and how often.

use super::counters::CounterKey;
use super::meta::{Chain, SubFilter};
use crate::cuckoo::bucket::{self, SlotWidth};
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::layout::{BucketIndex, Candidates, Fingerprint, Geometry, Layout, Place};
use crate::cuckoo::paged::OfWidth;

/// Where a word lies: sub-filter by its position in the chain, page, word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordAddress {
    /// Position of the sub-filter, 0 = oldest.
    pub sub: u32,
    /// Page within the sub-filter.
    pub page: u32,
    /// Word within the page.
    pub word: u16,
}

/// A page of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageAddress {
    /// Position of the sub-filter, 0 = oldest.
    pub sub: u32,
    /// Page within the sub-filter.
    pub page: u32,
}

impl WordAddress {
    /// The page it lies on.
    #[inline]
    pub fn on(self) -> PageAddress {
        PageAddress {
            sub: self.sub,
            page: self.page,
        }
    }
}

/// Hands out what pages hold.
pub trait PageWords {
    /// The word at an address, or `None` if its page is not at hand. An
    /// implementation may note which pages were asked for in vain.
    fn word(&mut self, at: WordAddress) -> Option<u64>;

    /// The copies of a class that are counted beside a page, or `None` as
    /// for [`word`](Self::word). Asked for only when the class has a slot.
    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64>;

    /// Says that the word at an address will be asked for soon.
    #[inline]
    fn prefetch(&self, at: WordAddress) {
        let _ = at;
    }
}

/// Items that are asked about together.
pub const GROUP: usize = 32;

/// Asks for the memory of a bucket.
#[inline]
pub(super) fn prefetch_bucket(
    layout: &Layout,
    position: usize,
    bucket: BucketIndex,
    pages: &impl PageWords,
) {
    pages.prefetch(first_word(layout, position, bucket));
}

/// Where a bucket begins.
#[inline]
pub(super) fn first_word(layout: &Layout, position: usize, bucket: BucketIndex) -> WordAddress {
    let place = layout.place(bucket);
    WordAddress {
        sub: position as u32,
        page: place.page,
        word: layout.slot_width().word_and_lane(place.first_slot).0,
    }
}

/// Hands out whole pages, to be held on to while a group of items is asked
/// about: an item's two buckets mostly lie on one page, and looking for it
/// costs as much as looking into it.
pub trait HeldPages {
    /// A page at hand, as cheap to copy as a reference.
    type Page: Copy;

    /// The page at an address, or `None` if it is not at hand.
    fn hold(&mut self, page: PageAddress) -> Option<Self::Page>;

    /// A word of a page.
    fn load(page: Self::Page, word: u16) -> u64;

    /// Says that a word of a page will be asked for soon.
    fn prefetch(page: Self::Page, word: u16);
}

/// [`exists`] for up to [`GROUP`] items at once. For each sub-filter all
/// addresses are computed and their memory is asked for, and then all items
/// are probed that are not answered yet, so that the waits for memory overlap.
/// `answers` gets one a item; of those beyond [`GROUP`] nothing is said.
#[inline]
pub fn exists_group<P: HeldPages>(
    chain: &Chain,
    items: &[ItemHash],
    pages: &mut P,
    answers: &mut [Option<bool>; GROUP],
) {
    match items.len() {
        // To make room for many costs more than to ask about one.
        0 | 1 => exists_among::<P, 1>(chain, items, pages, answers),
        _ => exists_among::<P, GROUP>(chain, items, pages, answers),
    }
}

/// [`exists_group`] for at most `MOST` items.
#[inline]
fn exists_among<P: HeldPages, const MOST: usize>(
    chain: &Chain,
    items: &[ItemHash],
    pages: &mut P,
    answers: &mut [Option<bool>; GROUP],
) {
    answers.fill(Some(false));
    let answers = answers.as_mut_slice();
    for (position, sub) in chain.sub_filters().iter().enumerate().rev() {
        match &sub.layout {
            Layout::Classic(classic) => {
                probe_group::<_, P, MOST>(classic, position, items, pages, answers);
            }
            Layout::Paged(paged) => match paged.width() {
                SlotWidth::Bits8 => {
                    let layout = OfWidth::<8>(*paged);
                    probe_group::<_, P, MOST>(&layout, position, items, pages, answers);
                }
                SlotWidth::Bits16 => {
                    let layout = OfWidth::<16>(*paged);
                    probe_group::<_, P, MOST>(&layout, position, items, pages, answers);
                }
                SlotWidth::Bits32 => {
                    let layout = OfWidth::<32>(*paged);
                    probe_group::<_, P, MOST>(&layout, position, items, pages, answers);
                }
            },
        }
    }
}

/// An item's candidate buckets, found but not looked into: their pages, as far
/// as these are at hand, and their first slots.
#[derive(Clone, Copy)]
struct Probe<Page> {
    fingerprint: Fingerprint,
    buckets: [(Option<Page>, u16); 2],
}

/// The answer to an item: by whether there is a match, which is an answer
/// whatever is missing elsewhere, and, twice that, by whether something was not
/// at hand.
const ANSWERS: [Option<bool>; 4] = [Some(false), Some(true), None, Some(true)];

/// Asks one sub-filter about the items, at most `MOST`, that are not found yet.
#[inline]
fn probe_group<G: Geometry, P: HeldPages, const MOST: usize>(
    layout: &G,
    position: usize,
    items: &[ItemHash],
    pages: &mut P,
    answers: &mut [Option<bool>],
) {
    let width = layout.slot_width();
    let mut probes: [Option<Probe<P::Page>>; MOST] = [None; MOST];
    for ((&hash, probe), answer) in items.iter().zip(&mut probes).zip(&*answers) {
        if *answer == Some(true) {
            continue;
        }
        let candidates = layout.candidates(hash);
        let (first, second) = (
            layout.place(candidates.first),
            layout.place(candidates.second),
        );
        let mut hold = |place: Place| {
            pages.hold(PageAddress {
                sub: position as u32,
                page: place.page,
            })
        };
        let first_page = hold(first);
        let second_page = match second.page == first.page {
            true => first_page,
            false => hold(second),
        };
        let buckets = [
            (first_page, first.first_slot),
            (second_page, second.first_slot),
        ];
        for (page, first_slot) in buckets {
            if let Some(page) = page {
                P::prefetch(page, width.word_and_lane(first_slot).0);
            }
        }
        *probe = Some(Probe {
            fingerprint: candidates.fingerprint,
            buckets,
        });
    }
    for (probe, answer) in probes.iter().zip(answers) {
        let Some(Probe {
            fingerprint,
            buckets,
        }) = probe
        else {
            continue;
        };
        let (mut matches, mut unknown) = (0, answer.is_none());
        for (page, first_slot) in buckets {
            let Some(page) = *page else {
                unknown = true;
                continue;
            };
            for piece in layout.pieces(*first_slot) {
                let word = P::load(page, piece.word);
                matches |= bucket::find(width, word, piece, fingerprint.0).bits();
            }
        }
        // Looked up, since a jump that depends on a match is foreseen by nothing.
        let index = usize::from(matches != 0) | usize::from(unknown) << 1;
        *answer = ANSWERS.get(index).copied().flatten();
    }
}

/// Whether the item's fingerprint lies in one of its candidate buckets,
/// newest sub-filter first. Looks at up to two pages a sub-filter.
///
/// A match is an answer whatever else is missing; `None` if there was no match
/// and a word was not at hand.
#[inline]
pub fn exists(chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<bool> {
    let mut known = true;
    for (position, sub) in chain.sub_filters().iter().enumerate().rev() {
        let candidates = sub.layout.candidates(hash);
        match matches_in(sub, position, &candidates, pages) {
            Some(0) => {}
            Some(_) => return Some(true),
            None => known = false,
        }
    }
    known.then_some(false)
}

/// How often the item's class is in the whole chain, in slots and counters: at
/// least the item's true count. `None` if a word was not at hand.
#[inline]
pub fn count(chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<u64> {
    let mut total = Some(0u64);
    for (position, sub) in chain.sub_filters().iter().enumerate().rev() {
        let candidates = sub.layout.candidates(hash);
        let found = match matches_in(sub, position, &candidates, pages) {
            // Without a slot there is no counter.
            Some(0) => Some(0),
            Some(slots) => {
                let (page, key) = counter_of(sub, position, &candidates);
                let copies = pages.counter(page, key);
                copies.map(|copies| copies.saturating_add(u64::from(slots)))
            }
            None => None,
        };
        total = total
            .zip(found)
            .map(|(total, found)| total.saturating_add(found));
    }
    total
}

/// The pages that an item's candidate buckets lie on, over the whole chain; a
/// page that holds both is named twice.
#[inline]
pub fn candidate_pages(chain: &Chain, hash: ItemHash) -> impl Iterator<Item = PageAddress> + '_ {
    chain
        .sub_filters()
        .iter()
        .enumerate()
        .flat_map(move |(position, sub)| {
            let layout = sub.layout;
            layout
                .candidates(hash)
                .buckets()
                .map(move |bucket| PageAddress {
                    sub: position as u32,
                    page: layout.place(bucket).page,
                })
        })
}

/// Where the copies of a class are counted.
#[inline]
pub(super) fn counter_of(
    sub: &SubFilter,
    position: usize,
    candidates: &Candidates,
) -> (PageAddress, CounterKey) {
    let place = sub.layout.place(candidates.canonical());
    let page = PageAddress {
        sub: position as u32,
        page: place.page,
    };
    (page, CounterKey::new(place, candidates.fingerprint))
}

/// Matching slots in one sub-filter. Asks for every word even after one was
/// missing, so that all missing pages are noted at once.
#[inline]
fn matches_in(
    sub: &SubFilter,
    position: usize,
    candidates: &Candidates,
    pages: &mut impl PageWords,
) -> Option<u32> {
    let width = sub.layout.slot_width();
    let mut matches = Some(0);
    for bucket in candidates.buckets() {
        let place = sub.layout.place(bucket);
        for piece in bucket::pieces(width, place.first_slot, sub.layout.bucket_size()) {
            let word = pages.word(WordAddress {
                sub: position as u32,
                page: place.page,
                word: piece.word,
            });
            matches = matches.zip(word).map(|(matches, word)| {
                matches + bucket::find(width, word, piece, candidates.fingerprint.0).count()
            });
        }
    }
    matches
}
