//! A filter whose pages are plain arrays, for tests of plans.

use super::{
    AddMode, AddResult, OverlaidPages, Overlay, PageChanges, PlanInput, PlanStats, Planner,
};
use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::contents::Contents;
use crate::chain::counters::{CounterKey, CounterKeys, Counters};
use crate::chain::meta::{Chain, SubFilter};
use crate::chain::pages::{PageWords, PlanPages};
use crate::chain::params::{Defaults, FilterParams, FilterRequest, MAX_CHAIN_LENGTH};
use crate::chain::read;
use crate::cuckoo::bucket;
use crate::cuckoo::hash::{HashKey, ItemHash};
use crate::cuckoo::kick::KickSearch;
use std::collections::{BTreeMap, BTreeSet};

/// Pages as plain arrays, some of which may be hidden.
#[derive(Default, Clone, PartialEq, Debug)]
pub(super) struct Pages {
    words: BTreeMap<(u32, u32, u16), u64>,
    pub(super) counters: BTreeMap<PageAddress, Counters>,
    occupied: BTreeMap<PageAddress, u32>,
    pub(super) hidden: BTreeSet<PageAddress>,
    pub(super) missed: BTreeSet<PageAddress>,
}

impl Pages {
    fn at_hand(&mut self, page: PageAddress) -> Option<()> {
        if self.hidden.contains(&page) {
            self.missed.insert(page);
            return None;
        }
        Some(())
    }

    /// Forgets the pages of sub-filters from that position on.
    pub(super) fn forget_from(&mut self, sub: u32) {
        self.words.retain(|at, _| at.0 < sub);
        self.counters.retain(|page, _| page.sub < sub);
        self.occupied.retain(|page, _| page.sub < sub);
    }

    pub(super) fn apply(&mut self, changes: &PageChanges) {
        for word in &changes.words {
            let at = (word.at.sub, word.at.page, word.at.word);
            self.words.insert(at, word.value);
        }
        for page in &changes.pages {
            assert!(!page.words.is_empty() || !page.counters.is_empty());
            let occupied = self.occupied.entry(page.address).or_default();
            *occupied = occupied.checked_add_signed(page.occupied).unwrap();
            let counters = self.counters.entry(page.address).or_default();
            for counter in changes.counters_of(page) {
                counters.set(counter.key, counter.copies);
            }
            for word in changes.words_of(page) {
                assert_eq!(word.at.on(), page.address);
            }
        }
        for (address, whole) in &changes.wholes {
            self.forget(*address);
            for (word, &value) in (0..).zip(whole.words.iter()) {
                let at = (address.sub, address.page, word);
                self.words.insert(at, value);
            }
            self.occupied.insert(*address, whole.occupied);
            self.counters.insert(*address, whole.counters.clone());
        }
        for &address in &changes.dropped {
            self.forget(address);
        }
    }

    /// What verifies stored pages finds what the description says.
    fn verify(&self, chain: &Chain, sub: &SubFilter, position: u32) {
        let mut found = Contents::none_of(&sub.layout);
        for page in 0..sub.layout.pages() {
            let words = (0..sub.layout.page_bytes().div_ceil(8) as u16).map(|word| {
                let word = self.words.get(&(position, page, word));
                word.copied().unwrap_or(0)
            });
            let address = PageAddress::new(position as usize, page);
            let counters = self.counters.get(&address);
            let of_page = Contents::of_page(&sub.layout, page, words, counters);
            found.add(&of_page.unwrap());
        }
        assert_eq!(found, Contents::told_by(chain, sub));
    }

    fn forget(&mut self, page: PageAddress) {
        let (first, last) = ((page.sub, page.page, 0), (page.sub, page.page, u16::MAX));
        let words: Vec<_> = self.words.range(first..=last).map(|it| *it.0).collect();
        for word in words {
            self.words.remove(&word);
        }
        self.occupied.remove(&page);
        self.counters.remove(&page);
    }
}

impl PageWords for Pages {
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        self.at_hand(at.on())?;
        let word = self.words.get(&(at.sub, at.page, at.word));
        Some(word.copied().unwrap_or(0))
    }

    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        self.at_hand(page)?;
        Some(self.counters.get(&page).map_or(0, |it| it.get(key)))
    }

    fn counters_within(&mut self, page: PageAddress, keys: CounterKeys) -> Option<Counters> {
        self.at_hand(page)?;
        let counters = self.counters.get(&page);
        Some(counters.map(|it| it.within(keys)).unwrap_or_default())
    }
}

impl PlanPages for Pages {
    fn occupied(&mut self, page: PageAddress) -> Option<u32> {
        self.at_hand(page)?;
        Some(self.occupied.get(&page).copied().unwrap_or(0))
    }

    fn counters(&mut self, page: PageAddress) -> Option<usize> {
        self.at_hand(page)?;
        Some(self.counters.get(&page).map_or(0, Counters::len))
    }
}

pub(super) struct Filter {
    pub(super) chain: Chain,
    pub(super) pages: Pages,
    pub(super) search: KickSearch,
}

pub(super) fn filter(request: FilterRequest) -> Filter {
    let defaults = Defaults {
        max_chain_length: MAX_CHAIN_LENGTH,
        ..Defaults::default()
    };
    let params = FilterParams::resolve(&request, &defaults).unwrap();
    Filter {
        chain: Chain::new(params, HashKey([0x5a; 16]), 0).unwrap(),
        pages: Pages::default(),
        search: KickSearch::default(),
    }
}

impl Filter {
    /// Plans with `work` and, if the plan is complete, applies it.
    pub(super) fn apply<T>(
        &mut self,
        work: impl FnOnce(&mut Planner<'_, OverlaidPages<'_, Pages>>) -> T,
    ) -> (T, Option<PlanStats>) {
        let pending = Overlay::default();
        let input = PlanInput {
            fresh_from: self.chain.sub_filter_count() as u32,
            chain: self.chain.clone(),
            pending: &pending,
        };
        let mut planner = Planner::new(input, &mut self.pages, &mut self.search);
        let result = work(&mut planner);
        let Some(plan) = planner.finish() else {
            return (result, None);
        };
        self.chain = plan.chain;
        self.pages.apply(&plan.overlay.changes());
        (result, Some(plan.stats))
    }

    pub(super) fn hash(&self, item: u64) -> ItemHash {
        self.chain.hash(item.to_string().as_bytes())
    }

    pub(super) fn add(&mut self, item: u64) -> AddResult {
        let hash = self.hash(item);
        self.apply(|planner| planner.add(hash, AddMode::Always))
            .0
            .unwrap()
    }

    pub(super) fn delete(&mut self, item: u64) -> bool {
        let hash = self.hash(item);
        self.apply(|planner| planner.delete(hash)).0.unwrap()
    }

    pub(super) fn exists(&mut self, item: u64) -> bool {
        let hash = self.hash(item);
        read::exists(&self.chain, hash, &mut self.pages).unwrap()
    }

    pub(super) fn count(&mut self, item: u64) -> u64 {
        let hash = self.hash(item);
        read::count(&self.chain, hash, &mut self.pages).unwrap()
    }

    /// Occupied slots as the pages have them, which every record of them
    /// must agree with.
    pub(super) fn occupied(&self) -> u64 {
        let width = self.chain.params().slot_width();
        let mut of_pages: BTreeMap<PageAddress, u32> = BTreeMap::new();
        for (&(sub, page, _), &word) in &self.pages.words {
            let found = of_pages.entry(PageAddress { sub, page }).or_default();
            *found += bucket::occupied(width, word);
        }
        for (page, &found) in &of_pages {
            assert_eq!(self.pages.occupied.get(page), Some(&found));
        }
        for (position, sub) in self.chain.sub_filters().enumerate() {
            let here = |it: &PageAddress| it.sub == position as u32;
            let slots = of_pages.iter().filter(|(page, _)| here(page));
            assert_eq!(
                slots.map(|(_, &slots)| u64::from(slots)).sum::<u64>(),
                sub.occupied
            );
            let counted = self.pages.counters.iter().filter(|(page, _)| here(page));
            let copies: Vec<u64> = counted
                .flat_map(|(_, it)| it.iter())
                .map(|(_, copies)| copies)
                .collect();
            let found = (copies.len() as u64, copies.iter().sum());
            assert_eq!(found, (sub.keys, sub.counted));
            self.pages.verify(&self.chain, &sub, position as u32);
        }
        of_pages.values().map(|&slots| u64::from(slots)).sum()
    }
}

/// One request of each kind of filter.
pub(super) fn kinds(capacity: u64) -> Vec<FilterRequest> {
    let paged = [12, 16, 21, 32].map(|bits| FilterRequest {
        capacity: Some(capacity),
        fingerprint_bits: Some(bits),
        ..Default::default()
    });
    classics(capacity).into_iter().chain(paged).collect()
}

/// One request of each kind of filter that is a chain.
pub(super) fn classics(capacity: u64) -> Vec<FilterRequest> {
    let classic = [1, 2, 3, 4, 255].map(|bucket_size| FilterRequest {
        capacity: Some(capacity.max(2 * bucket_size)),
        bucket_size: Some(bucket_size),
        ..Default::default()
    });
    classic.into()
}
