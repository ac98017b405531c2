//! The entries of another filter, taken in as they are: bits that are known of an item
//! are all that is needed, never the item.
//!
//! An entry goes where splits would have taken it. If one of its class is there, it is
//! counted with that; else it gets a slot, as an item does that is added. So the filter
//! finds what either found, and nothing else, and counts add up.

use super::bucket::Bucket;
use super::planner::{COUNTERS_PER_UNIT, MAX_FORCED_SPLITS, PagePlanner};
use super::read::{Match, Probe};
use crate::chain::counters::Counters;
use crate::chain::meta::FullReason;
use crate::chain::outcome::PROBE;
use crate::chain::pages::{Draft, WholePage};
use crate::chain::params::MAX_VALUES_PER_ITEM;
use crate::cuckoo::bucket;
use crate::cuckoo::candidates::BucketIndex;
use crate::cuckoo::paged::{Candidate, Paged};

/// A page of a filter with the same hash, families and slots, that was split no further.
#[derive(Clone, Copy)]
pub struct OtherPage<'a> {
    /// The pages of that filter.
    pub layout: &'a Paged,
    /// Which of them it is.
    pub number: u32,
    /// Its words.
    pub words: &'a [u64],
    /// What is counted beside it.
    pub counters: &'a Counters,
}

/// An entry, and how often it is taken in.
#[derive(Clone, Copy)]
struct Entry {
    bucket: BucketIndex,
    slot: u32,
    copies: u64,
}

/// Why a page was not taken in as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// There is no room.
    Full(FullReason),
    /// No page of that filter is like it.
    Damaged,
}

impl<'a> OtherPage<'a> {
    /// That of a number.
    pub fn of(layout: &'a Paged, number: u32, whole: &'a WholePage) -> OtherPage<'a> {
        OtherPage {
            layout,
            number,
            words: &*whole.words,
            counters: &whole.counters,
        }
    }

    /// What is in slots; `None` of a slot that can't be.
    fn slots(&self) -> impl Iterator<Item = Option<Entry>> {
        let (code, level) = (self.layout.code(), self.layout.level_of(self.number));
        (0..).zip(self.words).flat_map(move |(word, &bits)| {
            bucket::in_use(code.width(), bits).map(move |(_, slot)| {
                code.known_if_sound(slot, level).map(|_| Entry {
                    bucket: self.layout.bucket_at(self.number, word),
                    slot,
                    copies: 1,
                })
            })
        })
    }

    /// What is in slots, and then what is counted with it.
    fn entries(&self) -> impl Iterator<Item = Option<Entry>> {
        let (code, level) = (self.layout.code(), self.layout.level_of(self.number));
        let counted = self.counters.iter().map(move |(key, copies)| {
            let (place, slot) = ((key.0 >> 32) as u32, key.0 as u32);
            code.known_if_sound(slot, level).map(|_| Entry {
                bucket: self.layout.bucket_within(self.number, place),
                slot,
                copies,
            })
        });
        self.slots().chain(counted)
    }
}

impl<D: Draft> PagePlanner<'_, D> {
    /// How many slots the entries of a page would take: those of whose class there is
    /// none here.
    pub fn new_entries(&mut self, other: &OtherPage<'_>) -> Option<u64> {
        let (mut new, layout) = (0, self.table.layout);
        for entry in other.slots().flatten() {
            for (bucket, slot, _) in layout.descendants(other.layout, entry.bucket, entry.slot) {
                let equal = self.equal(&both(&layout, bucket, slot))?;
                new += u64::from(equal.is_none());
            }
        }
        Some(new)
    }

    /// Splits a page if there are fewer than so many, or one is due with so many entries
    /// more. Says whether it did.
    pub fn split_for(&mut self, pages: u32, entries: u64) -> Option<Result<bool, FullReason>> {
        let has_all = self.table.layout.pages() >= pages;
        if has_all && self.table.splits_after(entries) == 0 {
            return Some(Ok(false));
        }
        let split = self.split()?;
        Some(match has_all {
            true => Ok(split.is_ok()),
            false => split.map(|()| true),
        })
    }

    /// Takes in all entries of a page.
    pub fn take_in(&mut self, other: &OtherPage<'_>) -> Option<Result<(), NotTaken>> {
        for entry in other.entries() {
            let Some(entry) = entry else {
                return Some(Err(NotTaken::Damaged));
            };
            if let Err(end) = self.take_in_entry(other.layout, entry, MAX_FORCED_SPLITS)? {
                return Some(Err(NotTaken::Full(end)));
            }
        }
        Some(Ok(()))
    }

    /// Takes in an entry of pages that were split as far as `from`.
    fn take_in_entry(
        &mut self,
        from: &Paged,
        entry: Entry,
        splits: u32,
    ) -> Option<Result<(), FullReason>> {
        let layout = self.table.layout;
        for (bucket, slot, is_copy) in layout.descendants(from, entry.bucket, entry.slot) {
            let entry = Entry {
                bucket,
                slot,
                copies: entry.copies,
            };
            // A split for the one before may have moved the place of this one.
            let taken = match self.table.layout == layout {
                true => self.take_in_here(entry, splits)?,
                false => self.take_in_entry(&layout, entry, splits)?,
            };
            if taken.is_err() {
                return Some(taken);
            }
            if is_copy {
                self.table.void_copies += 1;
                self.table.forget_expired_void_copies();
                self.stats.void_copies += 1;
            }
        }
        Some(Ok(()))
    }

    /// Takes in an entry of the pages as they are.
    fn take_in_here(&mut self, entry: Entry, splits: u32) -> Option<Result<(), FullReason>> {
        self.spend(PROBE);
        let layout = self.table.layout;
        let candidates = both(&layout, entry.bucket, entry.slot);
        let value = entry.slot & layout.code().value_mask();
        if let Some(equal) = self.equal(&candidates)? {
            if self.has_most_values_of_class(&equal, value)? {
                return Some(Err(FullReason::MaxValuesPerItem));
            }
            if self.count_copies(&equal, value, entry.copies)? {
                return Some(Ok(()));
            }
        } else if self.table.is_split_due() {
            self.split_as_due(u32::MAX)?;
            if self.table.layout != layout {
                return self.take_in_entry(&layout, entry, splits);
            }
        }
        if !self.table.has_room_for(entry.copies) {
            return Some(Err(FullReason::GrowthLimit));
        }
        let probe = Probe::of(&layout, candidates, self.draft)?;
        let has_slot = self.put(&layout, &probe, value)?
            || self.kick_out(&candidates, value)?
            || self.make_room(&candidates, value)?;
        if has_slot {
            let rest = entry.copies.saturating_sub(1);
            return match rest {
                0 => Some(Ok(())),
                copies => self.take_in_here(Entry { copies, ..entry }, splits),
            };
        }
        let Some(splits) = splits.checked_sub(1) else {
            return Some(Err(FullReason::GrowthLimit));
        };
        if let Err(end) = self.split()? {
            self.futile.count_refusal();
            return Some(Err(end));
        }
        self.stats.forced_splits += 1;
        self.take_in_entry(&layout, entry, splits)
    }

    /// A slot of the class that an entry with these places is of.
    fn equal(&mut self, places: &[Candidate; 2]) -> Option<Option<Match>> {
        let layout = self.table.layout;
        let code = layout.code();
        for place in places {
            let bucket = Bucket::read(&layout, place.bucket, self.draft)?;
            let is_of = |&(_, held): &(u8, u32)| (held ^ place.slot) & !code.value_mask() == 0;
            if let Some((at, _)) = (0..).zip(bucket.slots(&layout)).find(is_of) {
                let slot = bucket.slot(code.width(), at);
                return Some(Some(Match::of(code, place, slot)));
            }
        }
        Some(None)
    }

    /// Whether a class has as many values as an item may have, and the value is none
    /// of them.
    fn has_most_values_of_class(&mut self, one: &Match, value: u32) -> Option<bool> {
        let layout = self.table.layout;
        if layout.code().value_bits() == 0 {
            return Some(false);
        }
        let class = one.class(&layout);
        let counted = class.counted(self.draft)?;
        self.spend(counted.len() as u64 / COUNTERS_PER_UNIT);
        let has = |value| counted.get(class.key(value)) > 0;
        let own = one.value(&layout);
        let values = counted.len() as u64 + u64::from(!has(own));
        Some(values >= MAX_VALUES_PER_ITEM && value != own && !has(value))
    }
}

/// The two places of an entry; the same twice if it has one.
fn both(layout: &Paged, bucket: BucketIndex, slot: u32) -> [Candidate; 2] {
    let slot = slot & !layout.code().value_mask();
    let place = |bucket, slot| Candidate {
        bucket,
        level: layout.level_of(layout.address(bucket).0) as u8,
        slot,
    };
    let other = layout.elsewhere(bucket, slot);
    let here = place(bucket, slot);
    [here, other.map_or(here, |it| place(it.bucket, it.slot))]
}
