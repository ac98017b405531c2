//! Asking: whether an item is in the filter, and how often.

use super::table::Table;
use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::counters::CounterKey;
use crate::chain::pages::PageWords;
use crate::cuckoo::bucket;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::paged::{Candidate, Paged};

/// Slots of both candidate buckets: two of five, or of four.
pub(super) const MAX_CANDIDATE_SLOTS: usize = 10;

/// The page at a position. There is one sub-filter.
#[inline]
pub(super) fn page(page: u32) -> PageAddress {
    PageAddress { sub: 0, page }
}

/// A slot that may hold an entry of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Match {
    pub(super) candidate: Candidate,
    pub(super) at: WordAddress,
    pub(super) lane: u16,
    /// What it holds.
    pub(super) slot: u32,
    /// Bits that are known of it.
    pub(super) known: u32,
}

/// All slots that match an item.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Matches {
    found: [Option<Match>; MAX_CANDIDATE_SLOTS],
    len: usize,
}

impl Matches {
    fn push(&mut self, found: Match) {
        if let Some(free) = self.found.get_mut(self.len) {
            *free = Some(found);
            self.len += 1;
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Match> {
        self.found.iter().flatten()
    }

    /// One of those of which most bits are known, the first.
    pub(super) fn longest(&self) -> Option<&Match> {
        let known = self.iter().map(|it| it.known).max()?;
        self.iter().find(|it| it.known == known)
    }
}

/// Names the class that a slot's entry is counted with.
#[inline]
pub(super) fn counter_key(layout: &Paged, found: &Match) -> CounterKey {
    key(
        layout.class_bucket(found.candidate.bucket, found.slot),
        found.slot,
    )
}

/// Names the class of a slot by its bucket on the page.
#[inline]
pub(super) fn key(class_bucket: u16, slot: u32) -> CounterKey {
    CounterKey(u64::from(class_bucket) << 32 | u64::from(slot))
}

/// The words of a bucket.
#[inline]
pub(super) fn words(
    layout: &Paged,
    candidate: &Candidate,
) -> impl Iterator<Item = WordAddress> + use<> {
    let (number, first) = layout.address(candidate.bucket);
    (first..first + layout.words_per_bucket()).map(move |word| page(number).word(word))
}

/// Where the candidate buckets of an item begin.
#[inline]
pub(in crate::chain) fn first_words(layout: &Paged, hash: ItemHash) -> [WordAddress; 2] {
    layout.candidates(hash).map(|candidate| {
        let (number, word) = layout.address(candidate.bucket);
        page(number).word(word)
    })
}

/// The slots that match an item. `None` if a word was not at hand; both
/// buckets were asked for then.
#[inline]
pub(super) fn matches(
    layout: &Paged,
    candidates: &[Candidate; 2],
    pages: &mut impl PageWords,
) -> Option<Matches> {
    let (code, mut found, mut known) = (layout.code(), Matches::default(), true);
    for candidate in candidates {
        let level = u32::from(candidate.level);
        for at in words(layout, candidate) {
            let Some(word) = pages.word(at) else {
                known = false;
                continue;
            };
            for lane in code.matching(word, candidate.slot, level) {
                let slot = bucket::get(code.width(), word, lane);
                found.push(Match {
                    candidate: *candidate,
                    at,
                    lane,
                    slot,
                    known: code.known(slot, level),
                });
            }
        }
    }
    known.then_some(found)
}

/// Whether an entry of the item lies in one of its candidate buckets. A match
/// is an answer whatever is missing; `None` if there was none and a word was
/// not at hand.
pub fn exists(table: &Table, hash: ItemHash, pages: &mut impl PageWords) -> Option<bool> {
    let (layout, mut known) = (table.layout(), true);
    for candidate in layout.candidates(hash) {
        for at in words(layout, &candidate) {
            match pages.word(at) {
                None => known = false,
                Some(word) => {
                    let level = u32::from(candidate.level);
                    let matching = layout.code().matching(word, candidate.slot, level);
                    if matching.bits() != 0 {
                        return Some(true);
                    }
                }
            }
        }
    }
    known.then_some(false)
}

/// How often the item is found, in slots and counted: at least its true count.
/// `None` if a word was not at hand.
pub fn count(table: &Table, hash: ItemHash, pages: &mut impl PageWords) -> Option<u64> {
    let layout = table.layout();
    let found = matches(layout, &layout.candidates(hash), pages)?;
    let mut total = found.len() as u64;
    for (position, one) in found.iter().enumerate() {
        let class = (one.at.page, counter_key(layout, one));
        let same = |it: &&Match| (it.at.page, counter_key(layout, it)) == class;
        // Each class is counted once.
        if found.iter().take(position).find(same).is_none() {
            total = total.saturating_add(pages.counter(one.at.on(), class.1)?);
        }
    }
    Some(total)
}
