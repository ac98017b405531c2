//! One page becomes two.

use super::bucket::page;
use super::class::key;
use super::planner::PagePlanner;
use super::window::{epoch_of, stamped};
use crate::chain::counters::{CounterKey, Counters};
use crate::chain::meta::FullReason;
use crate::chain::pages::{Draft, WholePage};
use crate::cuckoo::bucket;
use crate::cuckoo::paged::PAGE_WORDS;
use crate::cuckoo::paged::code::{Deeper, SlotCode};

/// What a split makes of an entry: the slot on either page, 0 where it is not.
fn halves(code: SlotCode, slot: u32, level: u32) -> [u32; 2] {
    match code.deeper(slot, level) {
        Deeper::Child { bit: false, slot } => [slot, 0],
        Deeper::Child { bit: true, slot } => [0, slot],
        Deeper::Void => [slot; 2],
    }
}

impl<D: Draft> PagePlanner<'_, D> {
    /// Splits the page at the pointer, or says why there is no page to split.
    /// An entry keeps its bucket and its place there.
    pub(super) fn split(&mut self) -> Option<Result<(), FullReason>> {
        let next = match self.table.next_layout(&self.bounds) {
            Ok(next) => next,
            Err(end) => return Some(Err(end)),
        };
        let pair = self.table.layout.next_pair();
        let (code, level) = (next.code(), u32::from(pair.level));
        self.touch(page(pair.page))?;
        let mut pages = [WholePage::empty(), WholePage::empty()];
        for word in 0..PAGE_WORDS {
            let before = self.draft.word(page(pair.page).word(word))?;
            for (lane, slot) in bucket::in_use(code.width(), before) {
                self.share(&mut pages, (word, lane), halves(code, slot, level));
                self.count_split(slot, level);
            }
        }
        let mut counted = [Vec::new(), Vec::new()];
        let counters = self.copies_beside(pair.page)?;
        for (class, copies) in counters.iter() {
            let halves = halves(code, class.0 as u32, level);
            if halves.iter().all(|&it| it != 0) {
                self.table.counted += copies;
                self.stats.void_copies += copies;
            }
            for (counted, slot) in counted.iter_mut().zip(halves).filter(|it| it.1 != 0) {
                counted.push((moved(class, slot), copies));
            }
        }
        for (page, counted) in pages.iter_mut().zip(counted) {
            // An entry that became void is of one class with those that were.
            page.counters = self.counters_of(counted);
        }
        let after: usize = pages.iter().map(|page| page.counters.len()).sum();
        self.table.add_keys(after as i64 - counters.len() as i64);
        let [stays, goes] = pages;
        self.draft.set_page(page(pair.page), stays);
        self.draft.set_page(page(pair.sibling), goes);
        self.table.layout = next;
        self.stats.splits += 1;
        self.futile.reset();
        self.spend_pair();
        if next.pointer() == 0 {
            self.table.void_copies = 0;
            self.stats.expansions += 1;
        }
        Some(Ok(()))
    }

    /// What stands beside a page that is written whole: what is counted there, or
    /// where items expire its stamp.
    pub(super) fn counters_of(&self, counted: Vec<(CounterKey, u64)>) -> Counters {
        match &self.table.epochs {
            Some(epochs) => stamped(epochs.current),
            None => Counters::collect(counted),
        }
    }

    /// The copies that are counted beside a page. None where items expire.
    pub(super) fn copies_beside(&mut self, number: u32) -> Option<Counters> {
        match self.table.epochs {
            Some(_) => Some(Counters::default()),
            None => self.draft.counters_within(page(number), CounterKey::ALL),
        }
    }

    /// Writes an entry to either page, or both.
    fn share(&self, pages: &mut [WholePage; 2], (word, lane): (u16, u16), halves: [u32; 2]) {
        let width = self.table.layout.code().width();
        for (page, slot) in pages.iter_mut().zip(halves).filter(|it| it.1 != 0) {
            if let Some(word) = page.words.get_mut(usize::from(word)) {
                *word = bucket::set(width, *word, lane, slot);
                page.occupied += 1;
            }
        }
    }

    /// Keeps count of an entry that is split: a void one is two from then on,
    /// each of which knows a bit more, by its page.
    fn count_split(&mut self, slot: u32, level: u32) {
        let code = self.table.layout.code();
        if code.deeper(slot, level) == Deeper::Void {
            let known = code.known(slot, level);
            self.table.forget_entry(known);
            self.table.add_entry(known + 1);
            self.table.add_entry(known + 1);
            if let Some(epochs) = &mut self.table.epochs {
                epochs.add(epoch_of(code, slot, epochs.current));
            }
            self.table.void_copies += 1;
            self.stats.void_copies += 1;
        }
    }
}

/// The class that entries of a class are of when they hold another slot.
pub(super) fn moved(class: CounterKey, slot: u32) -> CounterKey {
    key((class.0 >> 32) as u16, slot)
}
