//! The page that a merge fills: worked out beside all others, so that a merge
//! whose entries don't fit changes nothing.

use super::bucket::Bucket;
use super::class::Class;
use super::place::PagedBuckets;
use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::counters::{CounterKey, CounterKeys, Counters, most_counters};
use crate::chain::meta::Table;
use crate::chain::pages::{PageWords, PlanPages, WholePage};
use crate::cuckoo::bucket;
use crate::cuckoo::candidates::BucketIndex;
use crate::cuckoo::kick::{Elsewhere, KickSearch, SearchBounds};
use crate::cuckoo::paged::Paged;

/// Kick-outs stay on the page: entries of two pages that are four tenths full
/// mostly find room there, and then there is nothing to undo if they don't.
const SEARCH: SearchBounds = SearchBounds {
    expanded_per_level: 512,
    levels: 1,
    crossings_per_level: 0,
    buckets: 512,
};

/// An entry that has to find a slot on the merged page.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) bucket: BucketIndex,
    pub(super) slot: u32,
}

/// A merged page that is being filled, and the table as it is with it.
pub(super) struct Merged {
    pub(super) table: Table,
    pub(super) number: u32,
    pub(super) page: WholePage,
    /// Entries that go to other pages, each of which has room for them.
    pub(super) away: Vec<Elsewhere>,
}

impl Merged {
    /// Gives each entry a slot, those first that copies are counted with: of
    /// these only the first needs one, and the others are counted.
    pub(super) fn take_in(
        &mut self,
        entries: Vec<Entry>,
        search: &mut KickSearch,
        pages: &mut impl PageWords,
    ) -> Option<bool> {
        let (counted, plain): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|it| self.is_counted(it));
        let mut waiting = Vec::new();
        for entry in counted {
            if self.holds(&entry) {
                let code = self.table.layout.code();
                let level = self.table.layout.level_of(self.number);
                self.table.forget_entry(code.known(entry.slot, level));
                self.table.counted += 1;
                self.page.counters.add(self.key(&entry), 1);
            } else if !self.put(&entry) {
                waiting.push(entry);
            }
        }
        if self.page.counters.len() > most_counters(&self.table.layout) {
            return Some(false);
        }
        for entry in plain {
            if !self.put(&entry) {
                waiting.push(entry);
            }
        }
        for entry in &waiting {
            if !self.kick_out(entry, search) && !self.send_away(entry, pages)? {
                return Some(false);
            }
        }
        Some(true)
    }

    pub(super) fn class(&self, entry: &Entry) -> Class {
        Class::of(&self.table.layout, entry.bucket, entry.slot)
    }

    /// What a copy of it is counted under.
    pub(super) fn key(&self, entry: &Entry) -> CounterKey {
        let value = entry.slot & self.table.layout.code().value_mask();
        self.class(entry).key(value)
    }

    fn is_counted(&self, entry: &Entry) -> bool {
        let mut counted = self.page.counters.range(self.class(entry).keys());
        counted.next().is_some()
    }

    /// Where the entry may lie on this page, and what it is there.
    fn places(&self, entry: &Entry) -> impl Iterator<Item = Entry> + use<> {
        let layout = &self.table.layout;
        let stays = layout.crosses(entry.slot) && self.is_counted(entry);
        let other = layout.elsewhere(entry.bucket, entry.slot);
        let other = other.filter(|it| it.is_near && !stays).map(|it| Entry {
            bucket: it.bucket,
            slot: it.slot,
        });
        [Some(*entry), other].into_iter().flatten()
    }

    /// A bucket of the page.
    fn bucket(&mut self, bucket: BucketIndex) -> Option<Bucket> {
        let layout = self.table.layout;
        Bucket::read(&layout, bucket, self)
    }

    /// Whether a slot of the entry's class is there.
    fn holds(&mut self, entry: &Entry) -> bool {
        let layout = self.table.layout;
        let of_class = !layout.code().value_mask();
        self.places(entry).any(|place| {
            let bucket = self.bucket(place.bucket);
            let mut slots = bucket.iter().flat_map(|it| it.slots(&layout));
            slots.any(|slot| (slot ^ place.slot) & of_class == 0)
        })
    }

    /// Puts an entry into a free slot of its bucket.
    fn put(&mut self, entry: &Entry) -> bool {
        let layout = self.table.layout;
        let bucket = self.bucket(entry.bucket);
        let Some(slot) = bucket.and_then(|it| it.empty_slot(&layout)) else {
            return false;
        };
        self.fill(entry.bucket, slot, entry.slot);
        true
    }

    /// Writes an entry into a free slot.
    fn fill(&mut self, bucket: BucketIndex, slot: u8, held: u32) {
        self.set(bucket, slot, held);
        self.page.occupied += 1;
    }

    /// Puts an entry where kick-outs make room.
    fn kick_out(&mut self, entry: &Entry, search: &mut KickSearch) -> bool {
        let layout = self.table.layout;
        let roots = self.places(entry).map(|it| it.bucket);
        // Copies stay where they are counted.
        let may_move = |layout: &Paged, bucket, slot, _: &Elsewhere, page: &mut Merged| {
            Some(Class::of(layout, bucket, slot).counted(page)?.is_empty())
        };
        let mut buckets = PagedBuckets::new(&layout, self, may_move);
        let Some(free) = search.find(roots, SEARCH, u16::MAX, &mut buckets) else {
            return false;
        };
        for step in &search.moves {
            self.set(step.to.bucket, step.to.slot, step.value);
            self.set(step.from.bucket, step.from.slot, 0);
        }
        let root = self.places(entry).find(|it| it.bucket == free.bucket);
        if let Some(root) = root {
            self.fill(free.bucket, free.slot, root.slot);
        }
        root.is_some()
    }

    /// Makes room for an entry by sending it, or one of those in its way, to
    /// another page, if there is a free slot in its other bucket.
    fn send_away(&mut self, entry: &Entry, pages: &mut impl PageWords) -> Option<bool> {
        if let Some(to) = self.room_elsewhere(entry, pages)? {
            self.away.push(to);
            return Some(true);
        }
        let layout = self.table.layout;
        for place in self.places(entry) {
            let slots: Vec<u32> = self.bucket(place.bucket)?.slots(&layout).collect();
            for (at, slot) in (0..).zip(slots) {
                let in_the_way = Entry { slot, ..place };
                if let Some(to) = self.room_elsewhere(&in_the_way, pages)? {
                    self.away.push(to);
                    self.set(place.bucket, at, place.slot);
                    return Some(true);
                }
            }
        }
        Some(false)
    }

    /// Where else an entry may lie, if that is on another page where there is
    /// room, and no copies are counted with it here.
    fn room_elsewhere(
        &self,
        entry: &Entry,
        pages: &mut impl PageWords,
    ) -> Option<Option<Elsewhere>> {
        let layout = &self.table.layout;
        let to = layout.elsewhere(entry.bucket, entry.slot);
        let Some(to) = to.filter(|to| !to.is_near && !self.is_counted(entry)) else {
            return Some(None);
        };
        let bucket = Bucket::read(layout, to.bucket, pages)?;
        let room = u32::from(layout.code().bucket_size()) - bucket.used(layout);
        let taken = self.away.iter().filter(|it| it.bucket == to.bucket);
        Some((taken.count() < room as usize).then_some(to))
    }

    fn set(&mut self, bucket: BucketIndex, slot: u8, held: u32) {
        let width = self.table.layout.code().width();
        let Some(slot) = self.bucket(bucket).map(|it| it.slot(width, slot)) else {
            return;
        };
        if let Some(word) = self.page.words.get_mut(usize::from(slot.at.word)) {
            *word = bucket::set(width, slot.word, slot.lane, held);
        }
    }
}

/// Kick-outs ask nothing of any other page.
impl PageWords for Merged {
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        self.page.words.get(usize::from(at.word)).copied()
    }

    fn counter(&mut self, _: PageAddress, key: CounterKey) -> Option<u64> {
        Some(self.page.counters.get(key))
    }

    fn counters_within(&mut self, _: PageAddress, keys: CounterKeys) -> Option<Counters> {
        Some(self.page.counters.within(keys))
    }
}

impl PlanPages for Merged {
    fn occupied(&mut self, _: PageAddress) -> Option<u32> {
        Some(self.page.occupied)
    }

    fn counters(&mut self, _: PageAddress) -> Option<usize> {
        Some(self.page.counters.len())
    }
}
