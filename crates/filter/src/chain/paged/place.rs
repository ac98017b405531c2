//! A slot for an entry: a free one in its candidate buckets, or one that
//! kick-outs make free.

use super::bucket::{Bucket, SlotOf, page};
use super::class::Class;
use super::planner::PagePlanner;
use super::read::Probe;
use super::window;
use crate::chain::counters::most_counters;
use crate::chain::meta::Epochs;
use crate::chain::outcome::SEARCHED_ON_PAGE;
use crate::chain::pages::{Draft, PlanPages};
use crate::chain::params::Epoch;
use crate::cuckoo::candidates::BucketIndex;
use crate::cuckoo::kick::{Buckets, Elsewhere, Move, SearchBounds, Slot};
use crate::cuckoo::paged::code::SlotCode;
use crate::cuckoo::paged::{Candidate, Paged, SEARCH, WIDE_SEARCH};
use std::hint::select_unpredictable;

/// Counters that a kick-out may take along.
const MAX_MOVED: usize = 64;

impl<D: Draft> PagePlanner<'_, D> {
    /// Puts an entry of the item into a free slot of its buckets. Says whether
    /// there was one.
    #[inline(always)]
    pub(super) fn put(&mut self, layout: &Paged, probe: &Probe, value: u32) -> Option<bool> {
        let second_is_emptier = self.second_is_emptier(layout, probe)?;
        let [first, second] = probe.both();
        let choose = |one, other| select_unpredictable(second_is_emptier, one, other);
        let (emptier, fuller) = (choose(second, first), choose(first, second));
        let free = |it: (Candidate, Bucket)| Some((it, it.1.empty_slot(layout)?));
        let Some(((candidate, bucket), free)) = free(emptier).or_else(|| free(fuller)) else {
            return Some(false);
        };
        let free = bucket.slot(layout.code().width(), free);
        self.enter(layout.code(), &free, &candidate, value);
        Some(true)
    }

    /// Balances: the emptier bucket of a page, the emptier of two pages.
    #[inline(always)]
    fn second_is_emptier(&mut self, layout: &Paged, probe: &Probe) -> Option<bool> {
        let [(_, first), (_, second)] = probe.both();
        let [page, other_page] = [first.page(), second.page()];
        if page == other_page {
            return Some(second.used(layout) < first.used(layout));
        }
        let (first, second) = (self.draft.occupied(page), self.draft.occupied(other_page));
        Some(second? < first?)
    }

    /// Writes a fresh entry into a free slot.
    #[inline(always)]
    fn enter(&mut self, code: SlotCode, free: &SlotOf, candidate: &Candidate, value: u32) {
        self.write(code.width(), free, candidate.slot | value, 1);
        self.table
            .add_entry(code.known(candidate.slot, candidate.level.into()));
    }

    /// Makes room for the item along a shortest path of kick-outs, which begins
    /// in one of its buckets. Says whether there is any.
    pub(super) fn kick_out(&mut self, candidates: &[Candidate; 2], value: u32) -> Option<bool> {
        // A filter that is full stays so for a while.
        if !self.futile.may_search() {
            return Some(false);
        }
        let is_placed = self.kick_out_within(candidates, value, SEARCH)?
            || self.kick_out_within(candidates, value, WIDE_SEARCH)?;
        if is_placed {
            self.futile.reset();
        }
        Some(is_placed)
    }

    fn kick_out_within(
        &mut self,
        candidates: &[Candidate; 2],
        value: u32,
        bounds: SearchBounds,
    ) -> Option<bool> {
        let layout = self.table.layout;
        let roots = candidates.iter().map(|it| it.bucket);
        let mut buckets = PagedBuckets::new(&layout, self.draft, may_move);
        buckets.oldest = self.table.epochs.as_ref().map(Epochs::oldest);
        let free = self.search.find(roots, bounds, u16::MAX, &mut buckets);
        let complete = buckets.complete;
        self.spend(SEARCHED_ON_PAGE * self.search.looked_at());
        complete.then_some(())?;
        let Some(free) = free else {
            return Some(false);
        };
        // Entries move between pages of one stamp. None on the path has expired:
        // it would have ended there.
        let mut touched = 0;
        while let Some(step) = self.search.moves.get(touched) {
            let ends = [step.from.bucket, step.to.bucket];
            for bucket in ends {
                self.touch(page(layout.address(bucket).0))?;
            }
            touched += 1;
        }
        let mut kicked_out = 0;
        while let Some(&step) = self.search.moves.get(kicked_out) {
            self.relocate(&layout, &step)?;
            kicked_out += 1;
        }
        let candidate = candidates.iter().find(|it| it.bucket == free.bucket)?;
        let free = self.slot(&layout, free)?;
        self.enter(layout.code(), &free, candidate, value);
        self.stats.kick_paths.push(kicked_out as u16);
        Some(true)
    }

    /// A slot as it is by now.
    pub(super) fn slot(&mut self, layout: &Paged, slot: Slot) -> Option<SlotOf> {
        let bucket = Bucket::read(layout, slot.bucket, self.draft)?;
        Some(bucket.slot(layout.code().width(), slot.slot))
    }

    /// Moves an entry to an empty slot. With the last of its class in a bucket
    /// go the copies that are counted there.
    fn relocate(&mut self, layout: &Paged, step: &Move) -> Option<()> {
        let width = layout.code().width();
        let to = self.slot(layout, step.to)?;
        self.write(width, &to, step.value, 1);
        let from = self.slot(layout, step.from)?;
        self.write(width, &from, 0, -1);
        let held = from.held(width);
        if !layout.crosses(held) {
            return Some(());
        }
        let here = Class::of(layout, step.from.bucket, held);
        let there = Class::of(layout, step.to.bucket, step.value);
        let counted = here.counted(self.draft)?;
        let bucket = Bucket::read(layout, step.from.bucket, self.draft)?;
        let is_of_class = |slot| Class::of(layout, step.from.bucket, slot) == here;
        if counted.is_empty() || bucket.slots(layout).any(is_of_class) {
            return Some(());
        }
        for (key, copies) in counted.iter() {
            let moved = there.key(here.value(key));
            let before = self.draft.counter(there.page(), moved)?;
            self.draft.set_counter(here.page(), key, 0, -1);
            self.draft
                .set_counter(there.page(), moved, before + copies, i32::from(before == 0));
            self.table.add_keys(-i64::from(before > 0));
        }
        Some(())
    }
}

/// Buckets that a search looks into. `may_move` is asked of an entry that copies
/// may be counted with, by its bucket.
pub(super) struct PagedBuckets<'a, P, M> {
    layout: &'a Paged,
    pages: &'a mut P,
    may_move: M,
    /// Whether every page was at hand. The search passes over what was not, to
    /// find out which other pages are needed.
    pub(super) complete: bool,
    /// Where items expire: the first epoch whose entries have not. The slots of
    /// the others are as good as empty.
    oldest: Option<Epoch>,
}

impl<'a, P, M> PagedBuckets<'a, P, M>
where
    P: PlanPages,
    M: Fn(&Paged, BucketIndex, u32, &Elsewhere, &mut P) -> Option<bool>,
{
    pub(super) fn new(layout: &'a Paged, pages: &'a mut P, may_move: M) -> Self {
        PagedBuckets {
            layout,
            pages,
            may_move,
            complete: true,
            oldest: None,
        }
    }
}

impl<P, M> Buckets for PagedBuckets<'_, P, M>
where
    P: PlanPages,
    M: Fn(&Paged, BucketIndex, u32, &Elsewhere, &mut P) -> Option<bool>,
{
    #[inline]
    fn empty_slot(&mut self, bucket: BucketIndex) -> Option<Option<u8>> {
        let bucket = Bucket::read(self.layout, bucket, self.pages);
        self.complete &= bucket.is_some();
        let (bucket, oldest) = (bucket?, self.oldest);
        let expired = || window::expired_slot(self.layout, &bucket, oldest?, self.pages);
        Some(bucket.empty_slot(self.layout).or_else(expired))
    }

    #[inline]
    fn read(&mut self, bucket: BucketIndex, slots: &mut Vec<u32>) {
        let bucket = Bucket::read(self.layout, bucket, self.pages);
        slots.extend(bucket.iter().flat_map(|it| it.slots(self.layout)));
    }

    #[inline]
    fn elsewhere(&mut self, bucket: BucketIndex, held: u32) -> Option<Elsewhere> {
        let to = self.layout.elsewhere(bucket, held)?;
        if !self.layout.crosses(held) {
            return Some(to);
        }
        let may = (self.may_move)(self.layout, bucket, held, &to, self.pages);
        self.complete &= may.is_some();
        may?.then_some(to)
    }

    #[inline]
    fn prefetch(&mut self, bucket: BucketIndex) {
        let (number, first) = self.layout.address(bucket);
        self.pages.prefetch(page(number).word(first));
    }
}

/// An entry takes along what is counted with it, if that is not much and the
/// page it goes to has room for it.
fn may_move(
    layout: &Paged,
    bucket: BucketIndex,
    slot: u32,
    to: &Elsewhere,
    pages: &mut impl PlanPages,
) -> Option<bool> {
    let counted = Class::of(layout, bucket, slot).counted(pages)?.len();
    if counted == 0 {
        return Some(true);
    }
    let there = pages.counters(page(layout.address(to.bucket).0))?;
    Some(counted <= MAX_MOVED && there + counted <= most_counters(layout))
}
