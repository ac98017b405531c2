//! Asking: whether an item is in the chain, and how often.

use super::address::{PageAddress, WordAddress};
use super::counters;
use super::meta::{Chain, SubFilter};
use super::pages::{HeldPages, PageWords};
use crate::cuckoo::bucket::{self, SlotWidth};
use crate::cuckoo::candidates::{BucketIndex, Candidates, Fingerprint};
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::layout::{Geometry, Layout};
use crate::cuckoo::paged::OfWidth;

/// Items that are asked about together.
pub const GROUP: usize = 32;

/// Where a bucket begins.
#[inline]
pub(super) fn first_word(layout: &Layout, position: usize, bucket: BucketIndex) -> WordAddress {
    let at = layout.address(bucket);
    let (word, _) = layout.slot_width().word_and_lane(at.first_slot);
    PageAddress::new(position, at.page).word(word)
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
struct HeldCandidates<Page> {
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
    let mut all_held: [Option<HeldCandidates<P::Page>>; MOST] = [None; MOST];
    for ((&hash, held), answer) in items.iter().zip(&mut all_held).zip(&*answers) {
        if *answer == Some(true) {
            continue;
        }
        let candidates = layout.candidates(hash);
        let [first, second] =
            [candidates.first, candidates.second].map(|bucket| layout.address(bucket));
        let mut hold = |page: u32| pages.hold(PageAddress::new(position, page));
        let first_page = hold(first.page);
        let second_page = match second.page == first.page {
            true => first_page,
            false => hold(second.page),
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
        *held = Some(HeldCandidates {
            fingerprint: candidates.fingerprint,
            buckets,
        });
    }
    for (held, answer) in all_held.iter().zip(answers) {
        let Some(HeldCandidates {
            fingerprint,
            buckets,
        }) = held
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
                let (page, key) = counters::address(&sub.layout, position, &candidates);
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
            let buckets = layout.candidates(hash).buckets();
            buckets.map(move |bucket| PageAddress::new(position, layout.address(bucket).page))
        })
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
        let at = sub.layout.address(bucket);
        let page = PageAddress::new(position, at.page);
        for piece in bucket::pieces(width, at.first_slot, sub.layout.bucket_size()) {
            let word = pages.word(page.word(piece.word));
            matches = matches.zip(word).map(|(matches, word)| {
                matches + bucket::find(width, word, piece, candidates.fingerprint.0).count()
            });
        }
    }
    matches
}
