//! A slot for an entry: a free one in its candidate buckets, or one that
//! kick-outs make free.

use super::planner::PagePlanner;
use super::read::{self, page};
use crate::chain::address::WordAddress;
use crate::chain::counters::MAX_COUNTERS;
use crate::chain::pages::{Draft, PlanPages};
use crate::chain::plan::{MAX_FUTILE_SEARCHES, SEARCHED_BUCKET};
use crate::cuckoo::bucket;
use crate::cuckoo::candidates::BucketIndex;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::{Elsewhere, KickSearch, Move, SearchBounds, Slot};
use crate::cuckoo::paged::{Candidate, Paged, SEARCH, WIDE_SEARCH};

/// Slots of a bucket at most.
const MAX_BUCKET_SLOTS: usize = 5;

impl<D: Draft> PagePlanner<'_, D> {
    /// Adds an entry of the item where there is room, or where kick-outs make
    /// some. Says whether there was any.
    pub(super) fn place(&mut self, hash: ItemHash) -> Option<bool> {
        let layout = self.table.layout;
        let mut candidates = layout.candidates(hash);
        if self.second_is_emptier(&layout, &candidates)? {
            candidates.reverse();
        }
        for candidate in &candidates {
            if let Some((at, lane)) = self.free_slot(&layout, candidate.bucket)? {
                self.put(at, lane, candidate)?;
                return Some(true);
            }
        }
        // A filter that is full stays so for a while.
        if *self.futile_searches >= MAX_FUTILE_SEARCHES {
            return Some(false);
        }
        Some(self.kick_out(&candidates, SEARCH)? || self.kick_out(&candidates, WIDE_SEARCH)?)
    }

    /// Balances: the emptier bucket of a page, the emptier of two pages.
    fn second_is_emptier(&mut self, layout: &Paged, candidates: &[Candidate; 2]) -> Option<bool> {
        let [first, second] = candidates.map(|it| layout.address(it.bucket).0);
        let [first, second] = match first == second {
            true => candidates.map(|it| self.used_in(layout, &it)),
            false => [first, second].map(|number| self.draft.occupied(page(number))),
        };
        Some(second? < first?)
    }

    /// Slots of a bucket in use.
    fn used_in(&mut self, layout: &Paged, candidate: &Candidate) -> Option<u32> {
        let width = layout.code().width();
        let mut used = Some(0);
        for at in read::words(layout, candidate) {
            let word = self.draft.word(at);
            used = used
                .zip(word)
                .map(|(used, word)| used + bucket::occupied(width, word));
        }
        used
    }

    /// The first free slot of a bucket.
    pub(super) fn free_slot(
        &mut self,
        layout: &Paged,
        bucket: BucketIndex,
    ) -> Option<Option<(WordAddress, u16)>> {
        let (number, first) = layout.address(bucket);
        for word in first..first + layout.words_per_bucket() {
            let at = page(number).word(word);
            let free = bucket::empty(layout.code().width(), self.draft.word(at)?);
            if let Some(lane) = free.first() {
                return Some(Some((at, lane)));
            }
        }
        Some(None)
    }

    /// Writes a fresh entry into a free slot.
    fn put(&mut self, at: WordAddress, lane: u16, candidate: &Candidate) -> Option<()> {
        self.write(at, lane, candidate.slot)?;
        let code = self.table.layout.code();
        self.table
            .note_entry(code.known(candidate.slot, candidate.level.into()));
        Some(())
    }

    /// Makes room along a shortest path of kick-outs, which begins at one of
    /// the candidates.
    fn kick_out(&mut self, candidates: &[Candidate; 2], bounds: SearchBounds) -> Option<bool> {
        let layout = self.table.layout;
        let roots = candidates.iter().map(|it| it.bucket);
        self.search.start(roots, bounds, u16::MAX);
        let followed = follow(self.search, &layout, self.draft, may_move);
        self.spend(SEARCHED_BUCKET * self.search.looked_at());
        followed?;
        let Some(mut free) = self.search.empty_slot() else {
            return Some(false);
        };
        let moves: Vec<Move> = self.search.moves().collect();
        for step in &moves {
            self.relocate(&layout, step)?;
            free = step.from;
        }
        let (at, lane) = address(&layout, free);
        let candidate = candidates.iter().find(|it| it.bucket == free.bucket)?;
        self.put(at, lane, candidate)?;
        self.stats.kick_paths.push(moves.len() as u16);
        Some(true)
    }

    /// Moves an entry to an empty slot. With the last of its class in a bucket
    /// go the copies that are counted there.
    fn relocate(&mut self, layout: &Paged, step: &Move) -> Option<()> {
        let [from, to] = [step.from, step.to].map(|slot| address(layout, slot));
        let word = self.draft.word(from.0)?;
        let slot = bucket::get(layout.code().width(), word, from.1);
        self.write(to.0, to.1, step.value)?;
        self.write(from.0, from.1, 0)?;
        if !layout.crosses(slot) {
            return Some(());
        }
        let copies = copies_with(layout, step.from.bucket, slot, self.draft)?;
        if copies == 0 || self.holds(layout, step.from.bucket, slot)? {
            return Some(());
        }
        let class = |bucket, slot| read::key(layout.class_bucket(bucket, slot), slot);
        let (here, there) = (from.0.on(), to.0.on());
        let key = class(step.to.bucket, step.value);
        let before = self.draft.counter(there, key)?;
        self.draft
            .set_counter(here, class(step.from.bucket, slot), 0, -1);
        self.draft
            .set_counter(there, key, before + copies, i32::from(before == 0));
        Some(())
    }

    /// Whether a slot of a bucket holds just that.
    fn holds(&mut self, layout: &Paged, bucket: BucketIndex, slot: u32) -> Option<bool> {
        let (mut slots, mut length) = ([0; MAX_BUCKET_SLOTS], 0);
        read_bucket(layout, bucket, self.draft, &mut slots, &mut length)?;
        Some(slots.contains(&slot))
    }
}

/// Goes on with a search until it is over. `may_move` is asked of an entry that
/// copies may be counted with, by its bucket. `None` if a page was not at hand;
/// the search passed over it, to find out which other pages are needed.
pub(super) fn follow<P: PlanPages>(
    search: &mut KickSearch,
    layout: &Paged,
    pages: &mut P,
    may_move: impl Fn(&Paged, BucketIndex, u32, &Elsewhere, &mut P) -> Option<bool>,
) -> Option<()> {
    let mut complete = true;
    while let Some(bucket) = search.next_bucket() {
        let (mut slots, mut length) = ([0; MAX_BUCKET_SLOTS], 0);
        if read_bucket(layout, bucket, pages, &mut slots, &mut length).is_none() {
            complete = false;
            search.pass();
            continue;
        }
        search.look(slots.get(..length)?, |_, slot| {
            let to = layout.elsewhere(bucket, slot)?;
            let may = match layout.crosses(slot) {
                true => may_move(layout, bucket, slot, &to, pages),
                false => Some(true),
            };
            complete &= may.is_some();
            may?.then_some(to)
        });
        for bucket in search.added() {
            let (number, first) = layout.address(bucket);
            pages.prefetch(page(number).word(first));
        }
    }
    complete.then_some(())
}

/// The copies that are counted with an entry that crosses.
pub(super) fn copies_with(
    layout: &Paged,
    bucket: BucketIndex,
    slot: u32,
    pages: &mut impl PlanPages,
) -> Option<u64> {
    let address = page(layout.address(bucket).0);
    match pages.counters(address)? {
        0 => Some(0),
        _ => pages.counter(address, read::key(layout.class_bucket(bucket, slot), slot)),
    }
}

/// An entry takes its copies along, if the page it goes to has room for them.
fn may_move(
    layout: &Paged,
    bucket: BucketIndex,
    slot: u32,
    to: &Elsewhere,
    pages: &mut impl PlanPages,
) -> Option<bool> {
    if copies_with(layout, bucket, slot, pages)? == 0 {
        return Some(true);
    }
    Some(pages.counters(page(layout.address(to.bucket).0))? < MAX_COUNTERS)
}

fn read_bucket(
    layout: &Paged,
    bucket: BucketIndex,
    pages: &mut impl PlanPages,
    slots: &mut [u32; MAX_BUCKET_SLOTS],
    length: &mut usize,
) -> Option<()> {
    let ((number, first), width) = (layout.address(bucket), layout.code().width());
    for word in first..first + layout.words_per_bucket() {
        let word = pages.word(page(number).word(word))?;
        for lane in 0..width.slots_per_word() {
            *slots.get_mut(*length)? = bucket::get(width, word, lane);
            *length += 1;
        }
    }
    Some(())
}

/// Where a slot of a bucket lies.
pub(super) fn address(layout: &Paged, slot: Slot) -> (WordAddress, u16) {
    let (number, first) = layout.address(slot.bucket);
    let (word, lane) = layout.code().width().word_and_lane(u16::from(slot.slot));
    (page(number).word(first + word), lane)
}
