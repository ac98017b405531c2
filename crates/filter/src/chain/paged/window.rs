//! Items that expire: filters with a window.
//!
//! The value of a slot is the epoch in which its item was seen last, modulo
//! `2^e`. Which one that was follows from the *stamp* of the page, the whole
//! number of the epoch in which it was written to last: all epochs of a page lie
//! in `(stamp - 2^e, stamp]`. So before the first write to a page in an epoch,
//! what has expired there is cleared, and the stamp is set; and however long a
//! page is left alone, nothing on it becomes young again.
//!
//! A stamp lies among the counters of its page, under a key that no class has. So
//! it is stored, logged and published as these are, and word and stamp of a page
//! are of one moment if the page's version says so.
//!
//! An item has one entry. Where an entry of another item matches it, that is its
//! entry as well: nothing is ever deleted, so it is there for as long as it
//! should be for both. To be seen again rewrites a slot in place.

use super::bucket::{Bucket, SlotOf, page};
use super::planner::{MAX_DUE_SPLITS, PagePlanner};
use super::read::{Match, Probe};
use crate::chain::address::PageAddress;
use crate::chain::counters::{CounterKey, Counters};
use crate::chain::meta::Chain;
use crate::chain::outcome::{AddMode, AddResult, PROBE, Swept, WRITTEN_COUNTER};
use crate::chain::pages::{Draft, PageWords};
use crate::chain::params::Epoch;
use crate::cuckoo::bucket;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::Slot;
use crate::cuckoo::paged::code::SlotCode;
use crate::cuckoo::paged::{Candidate, PAGE_WORDS, Paged};

/// What it costs to look at all slots of a page, in the units of
/// [`Planner::spent`](crate::chain::plan::Planner::spent).
const LOOK_AT_PAGE: u64 = 32;

/// The epoch of an entry on a page with that stamp.
#[inline]
pub(super) fn epoch_of(code: SlotCode, held: u32, stamp: Epoch) -> Epoch {
    let mask = u64::from(code.value_mask());
    stamp.saturating_sub(stamp.wrapping_sub(u64::from(held)) & mask)
}

/// The counters of a page that was written to in an epoch.
pub(super) fn stamped(epoch: Epoch) -> Counters {
    Counters::collect(vec![(CounterKey::STAMP, epoch + 1)])
}

/// The epoch in which a page was written to last; `Some(None)` if it never was.
fn stamp(pages: &mut impl PageWords, page: PageAddress) -> Option<Option<Epoch>> {
    // There is no counter of 0.
    Some(pages.counter(page, CounterKey::STAMP)?.checked_sub(1))
}

/// The first slot of a bucket whose entry has expired.
pub(super) fn expired_slot(
    layout: &Paged,
    bucket: &Bucket,
    oldest: Epoch,
    pages: &mut impl PageWords,
) -> Option<u8> {
    let stamp = stamp(pages, bucket.page())??;
    let has_expired = |held: u32| held != 0 && epoch_of(layout.code(), held, stamp) < oldest;
    let mut slots = (0..).zip(bucket.slots(layout));
    slots.find(|it| has_expired(it.1)).map(|it| it.0)
}

/// Whether the item was seen in that epoch or later. A match is an answer only
/// with its page's stamp; `None` if something was not at hand.
pub fn seen(
    chain: &Chain,
    hash: ItemHash,
    since: Epoch,
    pages: &mut impl PageWords,
) -> Option<bool> {
    let Some(table) = chain.table() else {
        return Some(false);
    };
    let layout = &table.layout;
    let probe = Probe::read(layout, hash, pages)?;
    for one in probe.matches(layout) {
        let stamp = stamp(pages, one.slot.at.on())?;
        if stamp.is_some_and(|it| epoch_of(layout.code(), one.held, it) >= since) {
            return Some(true);
        }
    }
    Some(false)
}

impl<D: Draft> PagePlanner<'_, D> {
    /// Plans that an item is seen in the current epoch.
    pub(super) fn see(&mut self, hash: ItemHash, mode: AddMode) -> Option<AddResult> {
        self.spend(PROBE);
        let (layout, current) = (self.table.layout, self.table.epochs.as_ref()?.current);
        let probe = self.probe(hash)?;
        if let Some((longest, epoch)) = self.longest_live(&probe)? {
            if mode == AddMode::OnlyIfAbsent {
                return Some(AddResult::Exists);
            }
            if epoch < current {
                self.touch(longest.slot.at.on())?;
                let word = self.draft.word(longest.slot.at)?;
                let slot = SlotOf {
                    word,
                    ..longest.slot
                };
                let held = longest.held & !layout.code().value_mask() | self.table.epoch_value();
                self.write(layout.code().width(), &slot, held, 0);
                self.count_seen(Some(epoch));
            }
            return Some(AddResult::Refreshed);
        }
        let splits = self.stats.splits;
        let placed = self.place_seen(hash, &probe);
        if placed == Some(AddResult::Added) {
            self.count_seen(None);
        }
        self.stats.max_splits = self.stats.max_splits.max(self.stats.splits - splits);
        placed
    }

    fn place_seen(&mut self, hash: ItemHash, probe: &Probe) -> Option<AddResult> {
        for (_, bucket) in probe.both() {
            self.touch(bucket.page())?;
        }
        if self.table.is_split_due() {
            self.split_as_due(MAX_DUE_SPLITS)?;
        }
        // What was cleared, or split, is looked at again.
        let (layout, probe) = (self.table.layout, self.probe(hash)?);
        let value = self.table.epoch_value();
        match self.put(&layout, &probe, value)? {
            true => Some(AddResult::Added),
            false => self.add_to_full(hash, value),
        }
    }

    /// The match that has not expired: one of the current epoch, else one of
    /// which most bits are known, with its epoch.
    fn longest_live(&mut self, probe: &Probe) -> Option<Option<(Match, Epoch)>> {
        let layout = self.table.layout;
        let epochs = self.table.epochs.as_ref()?;
        let (oldest, current) = (epochs.oldest(), epochs.current);
        let mut longest: Option<(Match, Epoch)> = None;
        for one in probe.matches(&layout) {
            let Some(stamp) = stamp(self.draft, one.slot.at.on())? else {
                continue;
            };
            let epoch = epoch_of(layout.code(), one.held, stamp);
            let rank = |known: u32, epoch: Epoch| (epoch == current, known);
            let is_longer = longest
                .as_ref()
                .is_none_or(|(other, of)| rank(one.known, epoch) > rank(other.known, *of));
            if epoch >= oldest && is_longer {
                longest = Some((one, epoch));
            }
        }
        Some(longest)
    }

    /// Counts an entry of the current epoch, which was one of another before.
    fn count_seen(&mut self, before: Option<Epoch>) {
        if let Some(epochs) = &mut self.table.epochs {
            if let Some(before) = before {
                epochs.forget(before);
            }
            epochs.add(epochs.current);
        }
    }

    /// Prepares a page for a write in the current epoch: clears what has expired
    /// and sets the stamp. Of a filter without a window nothing is to be done.
    pub(super) fn touch(&mut self, page: PageAddress) -> Option<()> {
        let Some(epochs) = &self.table.epochs else {
            return Some(());
        };
        let (current, oldest) = (epochs.current, epochs.oldest());
        let before = stamp(self.draft, page)?;
        if before == Some(current) {
            return Some(());
        }
        if let Some(before) = before {
            self.clear_expired(page, before, oldest)?;
        }
        self.spend(WRITTEN_COUNTER);
        self.draft.set_counter(
            page,
            CounterKey::STAMP,
            current + 1,
            i32::from(before.is_none()),
        );
        Some(())
    }

    fn clear_expired(&mut self, page: PageAddress, stamp: Epoch, oldest: Epoch) -> Option<()> {
        let code = self.table.layout.code();
        let level = self.table.layout.level_of(page.page);
        self.spend(LOOK_AT_PAGE);
        for number in 0..PAGE_WORDS {
            let at = page.word(number);
            let mut word = self.draft.word(at)?;
            if word == 0 {
                continue;
            }
            for (lane, held) in bucket::in_use(code.width(), word) {
                if epoch_of(code, held, stamp) < oldest {
                    self.write(code.width(), &SlotOf { at, lane, word }, 0, -1);
                    word = bucket::set(code.width(), word, lane, 0);
                    self.table.forget_entry(code.known(held, level));
                }
            }
        }
        self.table.forget_expired_void_copies();
        Some(())
    }

    /// Whether anything on a page has expired that is still there.
    fn has_expired(&mut self, page: PageAddress) -> Option<bool> {
        let epochs = self.table.epochs.as_ref()?;
        let (current, oldest) = (epochs.current, epochs.oldest());
        let Some(stamp) = stamp(self.draft, page)? else {
            return Some(false);
        };
        if stamp == current || self.draft.occupied(page)? == 0 {
            return Some(false);
        }
        let code = self.table.layout.code();
        self.spend(LOOK_AT_PAGE);
        for number in 0..PAGE_WORDS {
            let word = self.draft.word(page.word(number))?;
            let mut slots = bucket::in_use(code.width(), word);
            if slots.any(|(_, held)| epoch_of(code, held, stamp) < oldest) {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Plans that up to so many pages from one on are rid of what has expired
    /// there, and that as many are merged if the filter has become sparse.
    pub(in crate::chain) fn sweep(&mut self, from: u32, pages: u32) -> Option<Swept> {
        let end = from.saturating_add(pages).min(self.table.layout.pages());
        let occupied = self.table.occupied;
        let mut complete = true;
        for number in from..end {
            // Those that follow are asked for, too, if one is not at hand.
            match self.has_expired(page(number)) {
                Some(true) => complete &= self.touch(page(number)).is_some(),
                Some(false) => {}
                None => complete = false,
            }
        }
        complete.then_some(())?;
        let cleared = occupied - self.table.occupied;
        for _ in 0..pages {
            if self.table.due_merge().is_none() {
                break;
            }
            self.merge_as_due()?;
        }
        let goes_on = end < self.table.layout.pages();
        Some(Swept {
            cleared,
            next: goes_on.then_some(end),
        })
    }

    /// Makes one entry of two in a bucket of the item that are of one class: the
    /// younger one. Says whether there were two.
    pub(super) fn dedupe_epochs(&mut self, candidates: &[Candidate; 2]) -> Option<bool> {
        let layout = self.table.layout;
        let (code, width) = (layout.code(), layout.code().width());
        for candidate in candidates {
            let bucket = Bucket::read(&layout, candidate.bucket, self.draft)?;
            let slots = || (0..).zip(bucket.slots(&layout)).filter(|it| it.1 != 0);
            let is_of = |one: u32, other: u32| (one ^ other) & !code.value_mask() == 0;
            let twice = slots().find_map(|(at, held)| {
                let mut others = slots().take_while(|it| it.0 < at);
                Some(((at, held), others.find(|it| is_of(it.1, held))?))
            });
            let Some((one, other)) = twice else {
                continue;
            };
            self.touch(bucket.page())?;
            let current = self.table.epochs.as_ref()?.current;
            let epoch = |it: (u8, u32)| epoch_of(code, it.1, current);
            let older = if epoch(one) < epoch(other) {
                one
            } else {
                other
            };
            let slot = Slot {
                bucket: candidate.bucket,
                slot: older.0,
            };
            let slot = self.slot(&layout, slot)?;
            // The other may have expired, and have been cleared just now.
            if slot.held(width) != 0 {
                self.write(width, &slot, 0, -1);
                let known = code.known(older.1, candidate.level.into());
                self.table.forget_entry(known);
                if let Some(epochs) = &mut self.table.epochs {
                    epochs.forget(epoch_of(code, older.1, current));
                }
            }
            return Some(true);
        }
        Some(false)
    }
}
