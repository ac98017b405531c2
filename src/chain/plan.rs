//! Changes, planned over an overlay of the pages.
//!
//! A [`Planner`] works through the items of one command. It reads words of
//! pages, and what it would change it keeps in an [`Overlay`]; the pages
//! themselves stay as they are until the caller has made the plan durable. So
//! a plan that can't be finished, or a commit that failed, is simply dropped.
//!
//! The rules, newest sub-filter first: an add takes a free slot in one of the
//! two candidate buckets of any sub-filter; if there is none, a path of
//! kick-outs in the newest; if there is none, a new sub-filter. A delete
//! clears one match.

use super::meta::Chain;
use super::read::{self, PageWords, WordAddress};
use crate::cuckoo::bucket;
use crate::cuckoo::hash::ItemHash;
use crate::cuckoo::kick::{KickSearch, Slot};
use crate::cuckoo::layout::{BucketIndex, Candidates, Layout};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// What to do with an item that is found already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddMode {
    /// Add another copy of it.
    #[default]
    Always,
    /// Leave it.
    OnlyIfAbsent,
}

/// What became of one added item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddResult {
    /// It is in.
    Added,
    /// It was found already and left ([`AddMode::OnlyIfAbsent`]).
    Exists,
    /// There was no room and the filter may not grow.
    Full(FullReason),
}

/// Why a filter may not grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullReason {
    /// It was created with `expansion` 0.
    ExpansionOff,
    /// It has as many sub-filters as `max_expansions` allows.
    MaxExpansions,
    /// The next sub-filter would exceed the bytes a filter may have.
    MaxFilterBytes,
}

/// What the algorithm did, for whoever keeps count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Kick-outs of each path that made room, one entry a path.
    pub kick_paths: Vec<u16>,
    /// Sub-filters appended.
    pub expansions: u32,
}

/// A word as it shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedWord {
    /// Where it lies.
    pub at: WordAddress,
    /// The whole word.
    pub value: u64,
    /// The slots of it that were written, bit `n` for slot `n` of the word.
    pub slots: u8,
}

/// Words that differ from the pages, by address.
#[derive(Default)]
pub struct Overlay {
    words: HashMap<u64, (u64, u8), FixedState>,
}

impl Overlay {
    /// No change yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Puts later changes on top of these.
    pub fn merge(&mut self, later: Overlay) {
        if self.words.is_empty() {
            self.words = later.words;
            return;
        }
        for (key, (value, slots)) in later.words {
            let entry = self.words.entry(key).or_default();
            *entry = (value, entry.1 | slots);
        }
    }

    /// Distinct pages with changes in sub-filters from `sub` on.
    pub fn pages_from(&self, sub: u32) -> usize {
        let mut pages: Vec<u64> = self
            .words
            .keys()
            .filter(|&&key| unpack(key).sub >= sub)
            .map(|&key| key >> 12)
            .collect();
        pages.sort_unstable();
        pages.dedup();
        pages.len()
    }

    /// The changes by ascending sub-filter, page and word: an order that no
    /// hash map decides.
    pub fn sorted(&self) -> Vec<ChangedWord> {
        let mut keys: Vec<(u64, u64, u8)> = self
            .words
            .iter()
            .map(|(&key, &(value, slots))| (key, value, slots))
            .collect();
        keys.sort_unstable_by_key(|&(key, ..)| key);
        keys.into_iter()
            .map(|(key, value, slots)| ChangedWord {
                at: unpack(key),
                value,
                slots,
            })
            .collect()
    }

    #[inline]
    fn get(&self, at: WordAddress) -> Option<u64> {
        self.words.get(&pack(at)).map(|&(value, _)| value)
    }

    fn set(&mut self, at: WordAddress, value: u64, lane: u16) {
        let entry = self.words.entry(pack(at)).or_default();
        *entry = (value, entry.1 | 1 << lane);
    }
}

/// Sub-filter, page and word in one number: at most 2^16 + 1 positions, 2^32
/// pages and 2^9 words of a page, in the order in which they are sorted.
#[inline]
fn pack(at: WordAddress) -> u64 {
    u64::from(at.sub) << 44 | u64::from(at.page) << 12 | u64::from(at.word)
}

fn unpack(key: u64) -> WordAddress {
    WordAddress {
        sub: (key >> 44) as u32,
        page: (key >> 12) as u32,
        word: (key & 0xfff) as u16,
    }
}

/// What to plan over: how the filter stands before the command.
pub struct Basis<'a> {
    /// The filter's description.
    pub chain: Chain,
    /// Changes planned before and not yet on the pages.
    pub pending: &'a Overlay,
    /// Sub-filters from this position on have no pages yet: all words are 0.
    pub fresh_from: u32,
}

/// A command's items, planned one after another.
pub struct Planner<'a, P> {
    chain: Chain,
    words: Words<'a, P>,
    search: &'a mut KickSearch,
    facts: Facts,
    complete: bool,
}

/// A finished plan.
pub struct Plan {
    /// The filter's description afterwards.
    pub chain: Chain,
    /// The words that change.
    pub overlay: Overlay,
    /// What the algorithm did.
    pub facts: Facts,
}

impl<'a, P: PageWords> Planner<'a, P> {
    /// Starts a plan.
    pub fn new(basis: Basis<'a>, pages: &'a mut P, search: &'a mut KickSearch) -> Self {
        Planner {
            chain: basis.chain,
            words: Words {
                overlay: Overlay::new(),
                pending: basis.pending,
                fresh_from: basis.fresh_from,
                pages,
                missing: false,
            },
            search,
            facts: Facts::default(),
            complete: true,
        }
    }

    /// Plans an add. `None`: a page was not at hand; the plan can't be
    /// finished, but going on finds out which other pages are needed.
    pub fn add(&mut self, hash: ItemHash, mode: AddMode) -> Option<AddResult> {
        if mode == AddMode::OnlyIfAbsent {
            let found = self.exists(hash)?;
            if found {
                return Some(AddResult::Exists);
            }
        }
        let free = self.free_slot(hash);
        let result = match self.settled(free)? {
            Some(()) => AddResult::Added,
            None => {
                let kicked = self.kick_out(hash);
                match self.settled(kicked)? {
                    Some(()) => AddResult::Added,
                    None => self.expand(hash),
                }
            }
        };
        Some(result)
    }

    /// Plans a delete and says whether there was a match to clear. `None` as
    /// for [`add`](Self::add).
    pub fn delete(&mut self, hash: ItemHash) -> Option<bool> {
        let cleared = self.clear_match(hash);
        Some(self.settled(cleared)?.is_some())
    }

    /// Whether the item is found, what was planned before included.
    pub fn exists(&mut self, hash: ItemHash) -> Option<bool> {
        let found = read::exists(&self.chain, hash, &mut self.words);
        self.settled_by(found)
    }

    /// How often the item is found, what was planned before included.
    pub fn count(&mut self, hash: ItemHash) -> Option<u64> {
        let found = read::count(&self.chain, hash, &mut self.words);
        self.settled_by(found)
    }

    /// The plan, or `None` if a page was not at hand.
    pub fn finish(self) -> Option<Plan> {
        self.complete.then_some(Plan {
            chain: self.chain,
            overlay: self.words.overlay,
            facts: self.facts,
        })
    }

    /// Turns "found nothing" into "not known" if a word was missing on the
    /// way: what would have been there decides the order of trying.
    fn settled(&mut self, found: Option<()>) -> Option<Option<()>> {
        if std::mem::take(&mut self.words.missing) {
            self.complete = false;
            return None;
        }
        Some(found)
    }

    fn settled_by<T>(&mut self, known: Option<T>) -> Option<T> {
        self.words.missing = false;
        self.complete &= known.is_some();
        known
    }

    /// Takes the first free slot among the candidates, newest sub-filter first.
    fn free_slot(&mut self, hash: ItemHash) -> Option<()> {
        for position in (0..self.chain.sub_filters().len()).rev() {
            let (layout, candidates) = self.locate(position, hash)?;
            for bucket in candidates.buckets() {
                let replaced =
                    self.words
                        .replace(position, &layout, bucket, 0, candidates.fingerprint.0);
                if replaced.is_some() {
                    self.chain.note_added(position);
                    return replaced;
                }
            }
        }
        None
    }

    /// Makes room in the newest sub-filter along a shortest path of kick-outs.
    fn kick_out(&mut self, hash: ItemHash) -> Option<()> {
        let position = self.chain.sub_filters().len().checked_sub(1)?;
        let (layout, candidates) = self.locate(position, hash)?;
        self.search
            .start(candidates.buckets(), self.chain.params().max_iterations());
        let mut slots = [0u8; u8::MAX as usize];
        while let Some(bucket) = self.search.next_bucket() {
            match self.words.load(position, &layout, bucket, &mut slots) {
                Some(slots) => self.search.look(&layout, slots),
                None => self.search.pass(),
            }
        }
        let mut free = self.search.empty_slot()?;
        if self.words.missing {
            return None;
        }
        let mut kick_outs = 0u16;
        for step in self.search.moves() {
            self.words.relocate(position, &layout, step.from, step.to);
            free = step.from;
            kick_outs += 1;
        }
        self.words
            .put(position, &layout, free, candidates.fingerprint.0);
        self.chain.note_added(position);
        self.facts.kick_paths.push(kick_outs);
        Some(())
    }

    /// Appends a sub-filter and puts the item into its first candidate.
    fn expand(&mut self, hash: ItemHash) -> AddResult {
        if let Err(reason) = self.chain.grow() {
            return AddResult::Full(reason);
        }
        self.facts.expansions += 1;
        // All slots of the new sub-filter are free.
        self.free_slot(hash);
        AddResult::Added
    }

    /// Clears one match, newest sub-filter first.
    fn clear_match(&mut self, hash: ItemHash) -> Option<()> {
        for position in (0..self.chain.sub_filters().len()).rev() {
            let (layout, candidates) = self.locate(position, hash)?;
            for bucket in candidates.buckets() {
                let replaced =
                    self.words
                        .replace(position, &layout, bucket, candidates.fingerprint.0, 0);
                if replaced.is_some() {
                    self.chain.note_deleted(position);
                    return replaced;
                }
            }
        }
        None
    }

    fn locate(&self, position: usize, hash: ItemHash) -> Option<(Layout, Candidates)> {
        let layout = self.chain.sub_filters().get(position)?.layout;
        Some((layout, layout.candidates(hash)))
    }
}

/// The words as they are planned to be.
struct Words<'a, P> {
    overlay: Overlay,
    pending: &'a Overlay,
    fresh_from: u32,
    pages: &'a mut P,
    /// Whether a word was not at hand since this was last taken.
    missing: bool,
}

impl<P: PageWords> PageWords for Words<'_, P> {
    #[inline]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        if let Some(value) = self.overlay.get(at) {
            return Some(value);
        }
        if !self.pending.is_empty()
            && let Some(value) = self.pending.get(at)
        {
            return Some(value);
        }
        if at.sub >= self.fresh_from {
            return Some(0);
        }
        let value = self.pages.word(at);
        self.missing |= value.is_none();
        value
    }
}

impl<P: PageWords> Words<'_, P> {
    /// Overwrites the first slot of the bucket that holds `old`. Does nothing
    /// once a word was missing.
    fn replace(
        &mut self,
        position: usize,
        layout: &Layout,
        bucket: BucketIndex,
        old: u8,
        new: u8,
    ) -> Option<()> {
        let place = layout.place(bucket);
        for piece in bucket::pieces(place.first_slot, layout.bucket_size()) {
            let at = WordAddress {
                sub: position as u32,
                page: place.page,
                word: piece.word,
            };
            let Some(value) = self.word(at) else {
                continue;
            };
            if let Some(lane) = bucket::find(value, piece, old).first()
                && !self.missing
            {
                self.overlay.set(at, bucket::set(value, lane, new), lane);
                return Some(());
            }
        }
        None
    }

    /// The slots of a bucket, copied into `slots`.
    fn load<'s>(
        &mut self,
        position: usize,
        layout: &Layout,
        bucket: BucketIndex,
        slots: &'s mut [u8; u8::MAX as usize],
    ) -> Option<&'s [u8]> {
        let place = layout.place(bucket);
        let mut filled = 0;
        for piece in bucket::pieces(place.first_slot, layout.bucket_size()) {
            let at = WordAddress {
                sub: position as u32,
                page: place.page,
                word: piece.word,
            };
            let value = self.word(at)?;
            for (lane, slot) in bucket::lanes_of(piece).zip(slots.iter_mut().skip(filled)) {
                *slot = bucket::get(value, lane);
                filled += 1;
            }
        }
        slots.get(..filled)
    }

    /// Moves a fingerprint from one slot to another.
    fn relocate(&mut self, position: usize, layout: &Layout, from: Slot, to: Slot) {
        let (at, lane) = slot_address(position, layout, from);
        let fingerprint = self.word(at).map(|value| bucket::get(value, lane));
        self.put(position, layout, to, fingerprint.unwrap_or(0));
        self.put(position, layout, from, 0);
    }

    /// Overwrites a slot whose word the search has read before.
    fn put(&mut self, position: usize, layout: &Layout, slot: Slot, fingerprint: u8) {
        let (at, lane) = slot_address(position, layout, slot);
        if let Some(value) = self.word(at) {
            self.overlay
                .set(at, bucket::set(value, lane, fingerprint), lane);
        }
    }
}

fn slot_address(position: usize, layout: &Layout, slot: Slot) -> (WordAddress, u16) {
    let place = layout.place(slot.bucket);
    let slot = place.first_slot + u16::from(slot.slot);
    let at = WordAddress {
        sub: position as u32,
        page: place.page,
        word: slot / bucket::SLOTS_PER_WORD,
    };
    (at, slot % bucket::SLOTS_PER_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::params::{Defaults, FilterParams, FilterRequest};
    use crate::chain::read::PageAddress;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Pages as plain arrays, some of which may be hidden.
    #[derive(Default, Clone, PartialEq, Debug)]
    struct Pages {
        words: BTreeMap<(u32, u32, u16), u64>,
        hidden: BTreeSet<PageAddress>,
        missed: BTreeSet<PageAddress>,
    }

    impl PageWords for Pages {
        fn word(&mut self, at: WordAddress) -> Option<u64> {
            let page = PageAddress {
                sub: at.sub,
                page: at.page,
            };
            if self.hidden.contains(&page) {
                self.missed.insert(page);
                return None;
            }
            Some(
                self.words
                    .get(&(at.sub, at.page, at.word))
                    .copied()
                    .unwrap_or(0),
            )
        }
    }

    struct Filter {
        chain: Chain,
        pages: Pages,
        search: KickSearch,
    }

    fn filter(request: FilterRequest) -> Filter {
        let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
        Filter {
            chain: Chain::new(params, 0).unwrap(),
            pages: Pages::default(),
            search: KickSearch::new(),
        }
    }

    impl Filter {
        /// Plans with `work` and, if the plan is complete, applies it.
        fn apply<T>(
            &mut self,
            work: impl FnOnce(&mut Planner<'_, Pages>) -> T,
        ) -> (T, Option<Facts>) {
            let pending = Overlay::new();
            let basis = Basis {
                fresh_from: self.chain.sub_filters().len() as u32,
                chain: self.chain.clone(),
                pending: &pending,
            };
            let mut planner = Planner::new(basis, &mut self.pages, &mut self.search);
            let result = work(&mut planner);
            let Some(plan) = planner.finish() else {
                return (result, None);
            };
            self.chain = plan.chain;
            for word in plan.overlay.sorted() {
                self.pages
                    .words
                    .insert((word.at.sub, word.at.page, word.at.word), word.value);
            }
            (result, Some(plan.facts))
        }

        fn hash(&self, item: u64) -> ItemHash {
            self.chain.hash(item.to_string().as_bytes())
        }

        fn add(&mut self, item: u64) -> AddResult {
            let hash = self.hash(item);
            self.apply(|planner| planner.add(hash, AddMode::Always))
                .0
                .unwrap()
        }

        fn delete(&mut self, item: u64) -> bool {
            let hash = self.hash(item);
            self.apply(|planner| planner.delete(hash)).0.unwrap()
        }

        fn exists(&mut self, item: u64) -> bool {
            let hash = self.hash(item);
            read::exists(&self.chain, hash, &mut self.pages).unwrap()
        }

        fn count(&mut self, item: u64) -> u64 {
            let hash = self.hash(item);
            read::count(&self.chain, hash, &mut self.pages).unwrap()
        }

        /// Occupied slots as the pages have them.
        fn occupied(&self) -> u64 {
            self.pages
                .words
                .values()
                .flat_map(|word| word.to_le_bytes())
                .filter(|&slot| slot != 0)
                .count() as u64
        }
    }

    #[test]
    fn the_requested_capacity_fits_without_expansion() {
        for (bucket_size, capacity) in [
            (1, 5_000),
            (2, 27_000),
            (3, 24_000),
            (4, 62_000),
            (255, 9_000),
        ] {
            let mut it = filter(FilterRequest {
                capacity: Some(capacity),
                bucket_size: Some(bucket_size),
                ..Default::default()
            });
            for n in 0..capacity {
                assert_eq!(
                    it.add(n),
                    AddResult::Added,
                    "bucket size {bucket_size}, item {n}"
                );
            }
            assert_eq!(it.chain.sub_filters().len(), 1, "bucket size {bucket_size}");
            assert_eq!(it.occupied(), capacity);
        }
    }

    #[test]
    fn a_full_filter_without_expansion_reports_full_and_says_why() {
        let mut it = filter(FilterRequest {
            capacity: Some(4),
            expansion: Some(0),
            ..Default::default()
        });
        let results: Vec<AddResult> = (0..40).map(|n| it.add(n)).collect();
        assert!(results.contains(&AddResult::Full(FullReason::ExpansionOff)));
        let added = results
            .iter()
            .filter(|&&result| result == AddResult::Added)
            .count();
        assert_eq!(it.chain.items(), added as u64);
        assert_eq!(it.occupied(), added as u64);
    }

    #[test]
    fn only_if_absent_leaves_what_is_found() {
        let mut it = filter(FilterRequest::default());
        let hash = it.hash(7);
        let twice =
            it.apply(|planner| [(); 2].map(|()| planner.add(hash, AddMode::OnlyIfAbsent).unwrap()));
        assert_eq!(twice.0, [AddResult::Added, AddResult::Exists]);
        assert_eq!(it.count(7), 1);
    }

    #[test]
    fn deleting_frees_slots_that_adds_use_again_in_any_sub_filter() {
        let mut it = filter(FilterRequest {
            capacity: Some(500),
            ..Default::default()
        });
        for n in 0..2_000 {
            it.add(n);
        }
        let grown = it.chain.sub_filters().len();
        assert!(grown > 1);
        for round in 0..20 {
            for n in 0..200 {
                assert!(it.delete(n), "round {round} item {n}");
            }
            for n in 0..200 {
                assert_eq!(it.add(n), AddResult::Added);
            }
        }
        assert_eq!(it.chain.items(), 2_000);
        assert_eq!(it.chain.sub_filters().len(), grown);
        assert_eq!(it.chain.deletions(), 4_000);
    }

    #[test]
    fn what_is_planned_does_not_depend_on_what_was_at_hand() {
        let request = FilterRequest {
            capacity: Some(6_000),
            bucket_size: Some(2),
            expansion: Some(2),
            ..Default::default()
        };
        let mut warm = filter(request.clone());
        let mut cold = filter(request);
        for batch in 0..30u64 {
            let hashes: Vec<ItemHash> = (batch * 500..(batch + 1) * 500)
                .map(|n| warm.hash(n))
                .collect();
            let expected = warm.apply(|planner| {
                hashes
                    .iter()
                    .map(|&hash| planner.add(hash, AddMode::Always))
                    .collect::<Vec<_>>()
            });
            // Every page starts hidden; what was asked for in vain is loaded
            // and the command planned again, as a lane does.
            let pages: Vec<PageAddress> = (cold.chain.sub_filters().iter().enumerate())
                .flat_map(|(position, sub)| {
                    (0..sub.layout.pages()).map(move |page| PageAddress {
                        sub: position as u32,
                        page,
                    })
                })
                .collect();
            cold.pages.hidden.extend(pages);
            let mut rounds = 0;
            let found = loop {
                let found = cold.apply(|planner| {
                    hashes
                        .iter()
                        .map(|&hash| planner.add(hash, AddMode::Always))
                        .collect::<Vec<_>>()
                });
                if found.1.is_some() {
                    break found;
                }
                let missed = std::mem::take(&mut cold.pages.missed);
                assert!(!missed.is_empty());
                for page in missed {
                    cold.pages.hidden.remove(&page);
                }
                rounds += 1;
                assert!(rounds < 40, "a plan must come to know all its pages");
            };
            assert_eq!(found, expected);
            cold.pages.hidden.clear();
            assert_eq!(cold.chain, warm.chain);
            assert_eq!(cold.pages.words, warm.pages.words);
        }
    }

    #[test]
    fn planning_over_pending_changes_equals_applying_them_first() {
        let mut one = filter(FilterRequest {
            capacity: Some(300),
            ..Default::default()
        });
        let mut two = filter(FilterRequest {
            capacity: Some(300),
            ..Default::default()
        });
        let mut pending = Overlay::new();
        let mut chain = two.chain.clone();
        for n in 0..900 {
            one.add(n);
            let hash = two.hash(n);
            let basis = Basis {
                chain,
                pending: &pending,
                fresh_from: 1,
            };
            let mut planner = Planner::new(basis, &mut two.pages, &mut two.search);
            planner.add(hash, AddMode::Always).unwrap();
            let plan = planner.finish().unwrap();
            chain = plan.chain;
            pending.merge(plan.overlay);
        }
        for word in pending.sorted() {
            two.pages
                .words
                .insert((word.at.sub, word.at.page, word.at.word), word.value);
        }
        assert_eq!(chain, one.chain);
        assert_eq!(two.pages.words, one.pages.words);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_chain_agrees_with_an_exact_multiset(
            bucket_size in prop_oneof![Just(1u64), Just(2), Just(3), Just(4), Just(7)],
            expansion in prop_oneof![Just(1u64), Just(2), Just(4)],
            steps in proptest::collection::vec((0u64..300, 0u8..10), 1..2_500),
        ) {
            let mut it = filter(FilterRequest {
                capacity: Some(64.max(2 * bucket_size)),
                bucket_size: Some(bucket_size),
                expansion: Some(expansion),
                max_expansions: Some(200),
                ..Default::default()
            });
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            for (item, kind) in steps {
                if kind < 6 {
                    prop_assert_eq!(it.add(item), AddResult::Added);
                    *model.entry(item).or_default() += 1;
                } else if let Some(copies) = model.get_mut(&item).filter(|copies| **copies > 0) {
                    prop_assert!(it.delete(item));
                    *copies -= 1;
                }
            }
            for (&item, &copies) in &model {
                prop_assert!(it.count(item) >= copies);
                prop_assert!(copies == 0 || it.exists(item));
            }
            let total: u64 = model.values().sum();
            prop_assert_eq!(it.chain.items(), total);
            prop_assert_eq!(it.occupied(), total);
        }
    }
}
