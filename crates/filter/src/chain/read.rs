//! Asking: whether an item is in the filter, and how often.

use super::address::{PageAddress, WordAddress};
use super::counters;
use super::meta::{Chain, Link};
use super::paged;
use super::pages::{HeldPages, PageWords};
use crate::cuckoo::bucket::{self, SlotWidth};
use crate::cuckoo::candidates::{BucketIndex, Candidates};
use crate::cuckoo::classic::{Classic, WIDTH};
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::paged::code::SlotCode;
use crate::cuckoo::paged::{ANY_LEVEL, Candidate, OfWidth, Paged};

pub use super::paged::values::{has_row, has_value, values};
pub use super::paged::window::seen;
pub use super::pages::GROUP;

/// Where a bucket begins.
#[inline]
pub(super) fn first_word(layout: &Classic, position: usize, bucket: BucketIndex) -> WordAddress {
    let at = layout.address(bucket);
    let (word, _) = WIDTH.word_and_lane(at.first_slot);
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
    let Some(table) = chain.table() else {
        for (position, link) in chain.links().iter().enumerate().rev() {
            probe_group::<_, P, MOST>(&link.layout, position, items, pages, answers);
        }
        return;
    };
    let layout = table.layout;
    if layout.code() != SlotCode::of(layout.code().width()) {
        probe_group::<_, P, MOST>(&layout, 0, items, pages, answers);
        return;
    }
    match layout.is_never_split() {
        true => exists_in_table::<P, MOST, 0>(layout, items, pages, answers),
        false => exists_in_table::<P, MOST, ANY_LEVEL>(layout, items, pages, answers),
    }
}

/// The same of a filter that splits pages, none of them of a higher level than
/// `LEVELS`.
#[inline]
fn exists_in_table<P: HeldPages, const MOST: usize, const LEVELS: u8>(
    layout: Paged,
    items: &[ItemHash],
    pages: &mut P,
    answers: &mut [Option<bool>],
) {
    match layout.code().width() {
        SlotWidth::Bits12 => {
            probe_group::<_, P, MOST>(&OfWidth::<12, LEVELS>(layout), 0, items, pages, answers);
        }
        SlotWidth::Bits21 => {
            probe_group::<_, P, MOST>(&OfWidth::<21, LEVELS>(layout), 0, items, pages, answers);
        }
        SlotWidth::Bits32 => {
            probe_group::<_, P, MOST>(&OfWidth::<32, LEVELS>(layout), 0, items, pages, answers);
        }
        SlotWidth::Bits8 | SlotWidth::Bits16 => {
            probe_group::<_, P, MOST>(&OfWidth::<16, LEVELS>(layout), 0, items, pages, answers);
        }
    }
}

/// Where an item may lie, as a probe needs it.
#[derive(Clone, Copy)]
struct BucketPlace {
    page: u32,
    /// The first word of the bucket, or for buckets that begin anywhere the
    /// first slot.
    first: u16,
    /// What a slot holds there of the item.
    slot: u32,
    /// Level of the page; no bytes are left over that way.
    level: u16,
}

/// What a probe needs of a layout. Loops over many items are generic over it,
/// so that the layout is matched once and not for each item.
trait Geometry: Copy {
    /// Both buckets that an item may lie in.
    fn places(&self, hash: ItemHash) -> [BucketPlace; 2];

    /// The first word of a bucket.
    fn first_word(place: &BucketPlace) -> u16;

    /// A bit for each slot of a bucket that may be the item's.
    fn matching(&self, place: &BucketPlace, word: impl Fn(u16) -> u64) -> u64;
}

impl Geometry for Classic {
    #[inline]
    fn places(&self, hash: ItemHash) -> [BucketPlace; 2] {
        let candidates = self.candidates(hash);
        [candidates.first, candidates.second].map(|bucket| {
            let at = self.address(bucket);
            BucketPlace {
                page: at.page,
                first: at.first_slot,
                slot: candidates.fingerprint.0,
                level: 0,
            }
        })
    }

    #[inline]
    fn first_word(place: &BucketPlace) -> u16 {
        WIDTH.word_and_lane(place.first).0
    }

    #[inline]
    fn matching(&self, place: &BucketPlace, word: impl Fn(u16) -> u64) -> u64 {
        let pieces = bucket::pieces(WIDTH, place.first, self.bucket_size());
        pieces.fold(0, |matches, piece| {
            let word = word(piece.word);
            matches | bucket::find(WIDTH, word, piece, place.slot).bits
        })
    }
}

impl<const BITS: u16, const LEVELS: u8> Geometry for OfWidth<BITS, LEVELS> {
    #[inline(always)]
    fn places(&self, hash: ItemHash) -> [BucketPlace; 2] {
        self.paged().places(hash)
    }

    #[inline]
    fn first_word(place: &BucketPlace) -> u16 {
        place.first
    }

    #[inline]
    fn matching(&self, place: &BucketPlace, word: impl Fn(u16) -> u64) -> u64 {
        matching(self.paged().code(), Self::level(place.level), place, word)
    }
}

/// Of slots whose code is not known when the program is built.
impl Geometry for Paged {
    #[inline(always)]
    fn places(&self, hash: ItemHash) -> [BucketPlace; 2] {
        let place = |candidate: Candidate| {
            let (page, first) = self.address(candidate.bucket);
            BucketPlace {
                page,
                first,
                slot: candidate.slot,
                level: candidate.level.into(),
            }
        };
        // An array that is mapped goes through memory.
        let [first, second] = self.candidates(hash);
        [place(first), place(second)]
    }

    #[inline]
    fn first_word(place: &BucketPlace) -> u16 {
        place.first
    }

    #[inline(always)]
    fn matching(&self, place: &BucketPlace, word: impl Fn(u16) -> u64) -> u64 {
        matching(self.code(), place.level.into(), place, word)
    }
}

/// A bit for each slot of a bucket that may be the item's.
#[inline(always)]
fn matching(code: SlotCode, level: u32, place: &BucketPlace, word: impl Fn(u16) -> u64) -> u64 {
    (0..code.words_per_bucket()).fold(0, |matches, next| {
        let word = word(place.first + next);
        matches | code.matching(word, place.slot, level).bits
    })
}

/// An item's candidate buckets, found but not looked into, and their pages as
/// far as these are at hand.
type HeldPlaces<Page> = [(Option<Page>, BucketPlace); 2];

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
    let mut all_held: [Option<HeldPlaces<P::Page>>; MOST] = [None; MOST];
    for ((&hash, held), answer) in items.iter().zip(&mut all_held).zip(&*answers) {
        if *answer == Some(true) {
            continue;
        }
        let [first, second] = layout.places(hash);
        let mut hold = |page: u32| pages.hold(PageAddress::new(position, page));
        let first_page = hold(first.page);
        let second_page = match second.page == first.page {
            true => first_page,
            false => hold(second.page),
        };
        let places = [(first_page, first), (second_page, second)];
        for (page, place) in &places {
            if let Some(page) = *page {
                P::prefetch(page, G::first_word(place));
            }
        }
        *held = Some(places);
    }
    for (held, answer) in all_held.iter().zip(answers) {
        let Some(places) = held else {
            continue;
        };
        let (mut matches, mut unknown) = (0, answer.is_none());
        for (page, place) in places {
            let Some(page) = *page else {
                unknown = true;
                continue;
            };
            matches |= layout.matching(place, |word| P::load(page, word));
        }
        // Looked up, since a jump that depends on a match is foreseen by nothing.
        let index = usize::from(matches != 0) | usize::from(unknown) << 1;
        *answer = ANSWERS.get(index).copied().flatten();
    }
}

/// Whether the item is found: in one of its candidate buckets, of the newest
/// sub-filter first. Looks at up to two pages a sub-filter.
///
/// A match is an answer whatever else is missing; `None` if there was no match
/// and a word was not at hand.
#[inline]
pub fn exists(chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<bool> {
    if let Some(table) = chain.table() {
        return paged::read::exists(table, hash, pages);
    }
    let mut known = true;
    for (position, link) in chain.links().iter().enumerate().rev() {
        let candidates = link.layout.candidates(hash);
        match matches_in(link, position, &candidates, pages) {
            Some(0) => {}
            Some(_) => return Some(true),
            None => known = false,
        }
    }
    known.then_some(false)
}

/// How often the item's class is in the filter, in slots and counters: at least
/// the item's true count. `None` if a word was not at hand.
#[inline]
pub fn count(chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<u64> {
    if let Some(table) = chain.table() {
        return paged::read::count(table, hash, pages);
    }
    let mut total = Some(0u64);
    for (position, link) in chain.links().iter().enumerate().rev() {
        let candidates = link.layout.candidates(hash);
        let found = match matches_in(link, position, &candidates, pages) {
            // Without a slot there is no counter.
            Some(0) => Some(0),
            Some(slots) => {
                let (page, key) = counters::address(&link.layout, position, &candidates);
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

/// The pages that an item's candidate buckets lie on, over the whole filter; a
/// page that holds both is named twice.
#[inline]
pub fn candidate_pages(chain: &Chain, hash: ItemHash) -> impl Iterator<Item = PageAddress> + '_ {
    let of_table = chain.table().into_iter().flat_map(move |table| {
        let (layout, candidates) = (&table.layout, table.layout.candidates(hash));
        paged::read::first_words(layout, &candidates).map(|word| word.on())
    });
    let links = chain.links().iter().enumerate();
    let of_links = links.flat_map(move |(position, link)| {
        let buckets = link.layout.candidates(hash).buckets();
        buckets.map(move |bucket| PageAddress::new(position, link.layout.address(bucket).page))
    });
    of_table.chain(of_links)
}

/// Matching slots in one sub-filter. Asks for every word even after one was
/// missing, so that all missing pages are noted at once.
#[inline]
fn matches_in(
    link: &Link,
    position: usize,
    candidates: &Candidates,
    pages: &mut impl PageWords,
) -> Option<u32> {
    let mut matches = Some(0);
    for bucket in candidates.buckets() {
        let at = link.layout.address(bucket);
        let page = PageAddress::new(position, at.page);
        for piece in bucket::pieces(WIDTH, at.first_slot, link.layout.bucket_size()) {
            let word = pages.word(page.word(piece.word));
            matches = matches.zip(word).map(|(matches, word)| {
                matches + bucket::find(WIDTH, word, piece, candidates.fingerprint.0).count()
            });
        }
    }
    matches
}
