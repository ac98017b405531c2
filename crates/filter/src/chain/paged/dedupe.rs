//! Entries that splits copied become one again where pages are merged.
//!
//! An entry that knows no bit of its path any more is copied by each split. Where
//! pages are merged, its copies come back to the same two buckets, which have no room
//! for all of them. An entry that knows what two of them have in common stands for
//! both. Nothing says which of them is an item's, so the other one is counted: no
//! item is lost, and a copy without an item costs a number instead of a slot.

use super::merged::{Entry, Merged};
use crate::chain::counters::CounterKey;

/// What entries of a merged page are put together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dedupe {
    /// None: splits copied nothing.
    Nothing,
    /// Two of which either knows at most one bit more than they have in common. All
    /// copies of an entry are such, whichever of them is gone; of entries of items
    /// few are.
    Close,
    /// All that may be, at the cost of what is known of entries of items.
    All,
}

impl Merged {
    /// Puts entries together, and counts those that are no more.
    pub(super) fn dedupe(&mut self, entries: &mut Vec<Entry>, dedupe: Dedupe) {
        if dedupe == Dedupe::Nothing {
            return;
        }
        // In the order of their paths, what two entries have in common is between
        // them: those of which something may become one are neighbours.
        entries.sort_unstable_by_key(|it| self.key(it));
        let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
        for &entry in entries.iter() {
            let mut entry = entry;
            while let Some(before) = kept.last()
                && let Some(both) = self.both(before, &entry, dedupe)
            {
                self.put_together([before.slot, entry.slot], &both);
                entry = both;
                kept.pop();
            }
            kept.push(entry);
        }
        *entries = kept;
        self.bound_copies();
    }

    /// Forgets copies of a class that can't be: the filter has no more than its items.
    /// Else copies of copies would be counted.
    fn bound_copies(&mut self) {
        // Without values, the entry itself is for one of them.
        let in_slots = u64::from(self.table.layout.code().value_bits() == 0);
        let most = self.table.items.saturating_sub(in_slots);
        let too_many = |it: &(CounterKey, u64)| it.1 > most;
        let classes: Vec<_> = self.page.counters.iter().filter(too_many).collect();
        for (class, copies) in classes {
            self.page.counters.set(class, most);
            self.table.counted -= copies - most;
        }
    }

    /// What stands for two entries, if anything may.
    fn both(&self, one: &Entry, other: &Entry, dedupe: Dedupe) -> Option<Entry> {
        let layout = &self.table.layout;
        let (code, level) = (layout.code(), layout.level_of(self.number));
        let bucket = |it: &Entry| layout.class_bucket(it.bucket, it.slot);
        let value = one.slot & code.value_mask();
        let slot = code.common(one.slot, other.slot, level)? | value;
        let known = |slot| code.known(slot, level);
        let less = known(one.slot).min(known(other.slot)) - known(slot);
        let may = bucket(one) == bucket(other) && (dedupe == Dedupe::All || less <= 1);
        may.then_some(Entry { slot, ..*one })
    }

    /// Counts the second of two entries, and what was counted with either, with the
    /// one that stands for them and has the value of the first.
    fn put_together(&mut self, parts: [u32; 2], both: &Entry) {
        let (code, level) = (
            self.table.layout.code(),
            self.table.layout.level_of(self.number),
        );
        let [_, gone] = parts;
        let mut counted = vec![(gone & code.value_mask(), 1)];
        for slot in parts {
            self.table.forget_entry(code.known(slot, level));
            let class = self.class(&Entry { slot, ..*both });
            let before = counted.len();
            let of_class = self.page.counters.range(class.keys());
            counted.extend(of_class.map(|(key, copies)| (class.value(key), copies)));
            for &(value, _) in counted.iter().skip(before) {
                self.page.counters.set(class.key(value), 0);
            }
        }
        self.table.add_entry(code.known(both.slot, level));
        self.table.counted += 1;
        let class = self.class(both);
        for (value, copies) in counted {
            self.page.counters.add(class.key(value), copies);
        }
    }
}
