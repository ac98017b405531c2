//! Compaction: what the newest sub-filters hold moves into older ones.
//!
//! Because sub-filters nest, a slot of a newer sub-filter says all that has to
//! be known: whichever item it stands for has its candidates in an older one
//! right below. And because a delete clears any match, newest sub-filter
//! first, it does not matter which of several items of one class a slot came
//! from: where the entry was found before, it is found afterwards.
//!
//! The work is cut into slices, each a plan of its own: an entry is in its new
//! slot in the same commit in which it leaves the old one, the copies counted
//! beside a class with its last slot. A slice depends on nothing but the state
//! and itself, and one that is planned again finds the rest.

use super::links::LinkBuckets;
use super::planner::Planner;
use crate::chain::address::Ordinal;
use crate::chain::address::{PageAddress, SlotAddress};
use crate::chain::counters;
use crate::chain::pages::Draft;
use crate::cuckoo::candidates::{BucketIndex, Candidates, Fingerprint};
use crate::cuckoo::classic::Classic;
use crate::cuckoo::kick::Slot;

/// What searches in vain for one entry may cost, see [`Planner::spent`], before there
/// counts as no room for it. One in wide buckets comes to that, and is seldom in vain in
/// a sub-filter that is not as full as it can be.
const MAX_SEARCH_UNITS: u64 = 32_768;

/// A bounded piece of the work on one sub-filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The sub-filter that is emptied.
    pub ordinal: Ordinal,
    /// The bucket that it begins with.
    pub from: BucketIndex,
    /// Pages of the sub-filter after which it ends.
    pub max_pages: u32,
    /// Entries after which it ends, whether they could be moved or not: so it
    /// bounds the pages that are asked for, too.
    pub max_entries: u32,
    /// What it may cost, see [`Planner::spent`]: it ends with the entry that
    /// costs more.
    pub max_units: u64,
}

/// What came of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Entries that moved.
    pub moved: u32,
    /// How it ended.
    pub end: SliceEnd,
}

/// How a slice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceEnd {
    /// The next one begins with that bucket, of which entries may have moved.
    At(BucketIndex),
    /// All buckets of the sub-filter are behind it.
    Through,
    /// There was no room for an entry.
    NoRoom,
    /// The sub-filter is not being emptied: adds needed its room.
    Reopened,
}

/// An entry of a newer sub-filter.
#[derive(Clone, Copy)]
struct Entry {
    bucket: BucketIndex,
    fingerprint: Fingerprint,
}

impl Entry {
    /// Its fingerprint and candidate buckets in an older sub-filter, or its own.
    fn candidates(self, layout: &Classic) -> Candidates {
        layout.candidates_under(self.bucket, self.fingerprint)
    }
}

impl<D: Draft> Planner<'_, D> {
    /// Plans a slice. `None`: a page was not at hand, as for an add.
    pub fn compact(&mut self, slice: &Slice) -> Option<Compacted> {
        let mut moved = 0;
        let ended = |moved, end| Some(Compacted { moved, end });
        let position = self.chain.position_of(slice.ordinal);
        let Some(position) = position.filter(|&it| it >= self.chain.open()) else {
            return ended(moved, SliceEnd::Reopened);
        };
        let layout = self.chain.links().get(position)?.layout;
        let until = self.spent.saturating_add(slice.max_units);
        let mut slots = Vec::new();
        let (mut bucket, mut pages, mut page) = (slice.from, 0, None);
        let mut looked_at = 0;
        while bucket.0 < layout.buckets() && self.holds_something(position) {
            let address = PageAddress::new(position, layout.address(bucket).page);
            if page != Some(address) {
                page = Some(address);
                pages += 1;
            }
            if pages > slice.max_pages {
                return self.finished().and(ended(moved, SliceEnd::At(bucket)));
            }
            let occupied = self.draft.occupied(address);
            self.complete &= occupied.is_some();
            if occupied.is_none_or(|slots| slots == 0) {
                bucket = layout.next_page(bucket);
                continue;
            }
            slots.clear();
            let mut buckets = LinkBuckets {
                layout,
                position,
                draft: &mut self.draft,
                missing: &mut self.missing,
            };
            let entries = buckets.slots(bucket, &mut slots);
            self.settled(entries)??;
            for (slot, &fingerprint) in (0..=u8::MAX).zip(&slots) {
                if fingerprint == 0 {
                    continue;
                }
                if looked_at >= slice.max_entries || self.spent >= until {
                    return self.finished().and(ended(moved, SliceEnd::At(bucket)));
                }
                let entry = Entry {
                    bucket,
                    fingerprint: Fingerprint(fingerprint),
                };
                looked_at += 1;
                let done = self.move_down(position, Slot { bucket, slot }, entry);
                match self.settled(done) {
                    // Going on finds out which other pages are needed.
                    None => {}
                    Some(Some(())) => moved += 1,
                    Some(None) => return self.finished().and(ended(moved, SliceEnd::NoRoom)),
                }
            }
            bucket = BucketIndex(bucket.0 + 1);
        }
        self.finished().and(ended(moved, SliceEnd::Through))
    }

    /// Whether a slot of a sub-filter is in use. Most of the pages of one that
    /// is emptied need not be looked at.
    fn holds_something(&self, position: usize) -> bool {
        let link = self.chain.links().get(position);
        link.is_some_and(|link| link.occupied > 0)
    }

    /// Nothing once a page was not at hand.
    fn finished(&self) -> Option<()> {
        self.complete.then_some(())
    }

    /// Moves one entry into a sub-filter that takes adds; if it is the last of
    /// its class, with the copies counted beside it.
    fn move_down(&mut self, position: usize, slot: Slot, entry: Entry) -> Option<()> {
        let link = *self.chain.links().get(position)?;
        let here = entry.candidates(&link.layout);
        let [first, second] = self.probe(position, &link.layout, &here);
        let (page, key) = counters::address(&link.layout, position, &here);
        let copies = match first.matches + second.matches {
            1 => self.missing.check(self.draft.counter(page, key)),
            _ => Some(0),
        };
        let placed = self.count_or_place(|layout| entry.candidates(layout));
        if self.missing.0 {
            return None;
        }
        let target = placed.or_else(|| self.make_room(entry))?;
        let copies = copies?;
        if copies > 0 {
            let layout = self.chain.links().get(target)?.layout;
            let there = entry.candidates(&layout);
            if self.count_copies(target, &there, copies).is_none() {
                self.take_back(target, &layout, &there);
                return None;
            }
            self.set_counter(page, key, copies, 0);
        }
        let left = SlotAddress::of(position, &link.layout, slot);
        self.write(left, 0);
        Some(())
    }

    /// Makes room by kick-outs in the newest sub-filter where they are expected
    /// to find some. An add does so in the newest one only; here the older
    /// ones, which deletes made room in, are to be filled up as well.
    fn make_room(&mut self, entry: Entry) -> Option<usize> {
        let until = self.spent + MAX_SEARCH_UNITS;
        for position in (0..self.chain.open()).rev() {
            let link = self.chain.links().get(position)?;
            if link.occupied >= link.reachable() || self.spent >= until {
                continue;
            }
            let made = self.kick_out(position, |layout| entry.candidates(layout));
            if made.is_some() {
                return made;
            }
        }
        None
    }

    /// Clears a slot that an entry was to move into.
    fn take_back(&mut self, target: usize, layout: &Classic, entry: &Candidates) {
        let [first, second] = self.probe(target, layout, entry);
        if let Some(taken) = first.matching.or(second.matching) {
            self.write(taken, 0);
        }
    }
}

#[cfg(test)]
mod tests;
