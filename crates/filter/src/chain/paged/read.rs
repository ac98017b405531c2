//! Asking: whether an item is in the filter, and how often.

use super::bucket::{Bucket, SlotOf, page};
use super::class::Class;
use crate::chain::address::WordAddress;
use crate::chain::meta::Table;
use crate::chain::pages::PageWords;
use crate::cuckoo::candidates::BucketIndex;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::paged::code::SlotCode;
use crate::cuckoo::paged::{Candidate, Paged};

/// A slot that may hold an entry of an item.
#[derive(Clone, Copy)]
pub(super) struct Match {
    pub(super) bucket: BucketIndex,
    pub(super) slot: SlotOf,
    /// What it holds.
    pub(super) held: u32,
    /// Bits that are known of it.
    pub(super) known: u32,
}

impl Match {
    pub(super) fn of(code: SlotCode, candidate: &Candidate, slot: SlotOf) -> Match {
        let held = slot.held(code.width());
        Match {
            bucket: candidate.bucket,
            slot,
            held,
            known: code.known(held, candidate.level.into()),
        }
    }

    /// Its class.
    #[inline]
    pub(super) fn class(&self, layout: &Paged) -> Class {
        Class::of(layout, self.bucket, self.held)
    }

    /// Its value.
    #[inline]
    pub(super) fn value(&self, layout: &Paged) -> u32 {
        self.held & layout.code().value_mask()
    }
}

/// An item's candidate buckets, and what they hold.
pub(super) struct Probe {
    candidates: [Candidate; 2],
    buckets: [Bucket; 2],
}

impl Probe {
    /// Reads them. `None` if a word was not at hand; both were asked for then.
    #[inline(always)]
    pub(super) fn read(
        layout: &Paged,
        hash: ItemHash,
        pages: &mut impl PageWords,
    ) -> Option<Probe> {
        Probe::of(layout, layout.candidates(hash), pages)
    }

    /// The same of an item with these candidates.
    #[inline(always)]
    pub(super) fn of(
        layout: &Paged,
        candidates: [Candidate; 2],
        pages: &mut impl PageWords,
    ) -> Option<Probe> {
        let [first, second] = &candidates;
        let first = Bucket::read(layout, first.bucket, pages);
        let second = Bucket::read(layout, second.bucket, pages);
        Some(Probe {
            candidates,
            buckets: [first?, second?],
        })
    }

    #[inline(always)]
    pub(super) fn both(&self) -> [(Candidate, Bucket); 2] {
        let ([c, d], [b, e]) = (self.candidates, self.buckets);
        [(c, b), (d, e)]
    }

    /// Whether a slot matches.
    #[inline(always)]
    pub(super) fn has_match(&self, layout: &Paged) -> bool {
        let [first, second] = self.both();
        first.1.matches(layout, &first.0) || second.1.matches(layout, &second.0)
    }

    /// The slots that match.
    pub(super) fn matches(&self, layout: &Paged) -> impl Iterator<Item = Match> {
        let code = layout.code();
        self.both()
            .into_iter()
            .flat_map(move |(candidate, bucket)| {
                let slots = bucket.matching(layout, &candidate);
                slots.map(move |slot| Match::of(code, &candidate, bucket.slot(code.width(), slot)))
            })
    }

    /// Whether none of the matches before a position is of the class.
    pub(super) fn is_first_of(&self, layout: &Paged, position: usize, class: &Class) -> bool {
        let mut before = self.matches(layout).take(position);
        !before.any(|it| it.class(layout) == *class)
    }

    /// One of those of which most bits are known, the first.
    pub(super) fn longest(&self, layout: &Paged) -> Option<Match> {
        let longer = |one: Match, other: Match| match other.known > one.known {
            true => other,
            false => one,
        };
        self.matches(layout).reduce(longer)
    }
}

/// Where candidate buckets begin.
#[inline(always)]
pub(in crate::chain) fn first_words(
    layout: &Paged,
    [first, second]: &[Candidate; 2],
) -> [WordAddress; 2] {
    let word = |candidate: &Candidate| {
        let (number, word) = layout.address(candidate.bucket);
        page(number).word(word)
    };
    [word(first), word(second)]
}

/// Whether an entry of the item lies in one of its candidate buckets. A match
/// is an answer whatever is missing; `None` if there was none and a word was
/// not at hand.
pub fn exists(table: &Table, hash: ItemHash, pages: &mut impl PageWords) -> Option<bool> {
    let (layout, mut known) = (&table.layout, true);
    for candidate in layout.candidates(hash) {
        match Bucket::read(layout, candidate.bucket, pages) {
            None => known = false,
            Some(bucket) if bucket.matches(layout, &candidate) => return Some(true),
            Some(_) => {}
        }
    }
    known.then_some(false)
}

/// How often the item is found, in slots and counted, whatever its values: at
/// least its true count. `None` if a word was not at hand.
pub fn count(table: &Table, hash: ItemHash, pages: &mut impl PageWords) -> Option<u64> {
    let layout = &table.layout;
    let probe = Probe::read(layout, hash, pages)?;
    let mut total = 0u64;
    for (position, one) in probe.matches(layout).enumerate() {
        total = total.saturating_add(1);
        let class = one.class(layout);
        if probe.is_first_of(layout, position, &class) {
            total = total.saturating_add(class.copies(pages)?);
        }
    }
    Some(total)
}
