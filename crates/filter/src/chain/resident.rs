//! Pages of a filter in plain memory: all are at hand, and what changes changes them as
//! they are. What builds a filter and stores it as a whole needs no others.

use super::address::{PageAddress, WordAddress};
use super::counters::{CounterKey, CounterKeys, Counters};
use super::meta::Chain;
use super::pages::{Draft, HeldPages, PageWords, PlanPages, WholePage};
use crate::hints;
use std::collections::BTreeMap;

/// The pages of all sub-filters.
#[derive(Default)]
pub struct Pages {
    subs: Vec<SubPages>,
}

struct SubPages {
    words_per_page: usize,
    words: Vec<u64>,
    /// By page.
    occupied: Vec<u32>,
    counters: BTreeMap<u32, Counters>,
}

impl SubPages {
    /// Where a word is in `words`.
    #[inline]
    fn index(&self, at: WordAddress) -> usize {
        at.page as usize * self.words_per_page + usize::from(at.word)
    }
}

impl Pages {
    #[inline]
    fn sub(&self, page: PageAddress) -> Option<&SubPages> {
        self.subs.get(page.sub as usize)
    }

    #[inline]
    fn at(&self, at: WordAddress) -> Option<&u64> {
        let sub = self.subs.get(at.sub as usize)?;
        sub.words.get(sub.index(at))
    }

    /// The words of a page.
    pub fn words(&self, page: PageAddress) -> Option<&[u64]> {
        let sub = self.sub(page)?;
        let first = page.page as usize * sub.words_per_page;
        sub.words.get(first..first + sub.words_per_page)
    }

    /// What is counted beside a page.
    pub fn counters(&self, page: PageAddress) -> Option<&Counters> {
        self.sub(page)?.counters.get(&page.page)
    }

    /// Has the first sub-filter grow to so many bytes without a second copy of it.
    pub fn reserve(&mut self, bytes: u64) {
        if let Some(sub) = self.subs.first_mut() {
            let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
            sub.words
                .reserve_exact(words.saturating_sub(sub.words.len()));
        }
    }

    /// Forgets all sub-filters but the first so many.
    pub fn truncate(&mut self, sub_filters: usize) {
        self.subs.truncate(sub_filters);
    }
}

impl<'a> HeldPages for &'a Pages {
    type Page = &'a [u64];

    #[inline]
    fn hold(&mut self, page: PageAddress) -> Option<&'a [u64]> {
        self.words(page)
    }

    #[inline]
    fn load(page: &'a [u64], word: u16) -> u64 {
        page.get(usize::from(word)).copied().unwrap_or(0)
    }

    #[inline]
    fn prefetch(page: &'a [u64], word: u16) {
        if let Some(word) = page.get(usize::from(word)) {
            hints::prefetch(word);
        }
    }
}

impl PageWords for Pages {
    #[inline]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        self.at(at).copied()
    }

    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        Some(Pages::counters(self, page).map_or(0, |counters| counters.get(key)))
    }

    fn counters_within(&mut self, page: PageAddress, keys: CounterKeys) -> Option<Counters> {
        let counters = Pages::counters(self, page);
        Some(counters.map(|it| it.within(keys)).unwrap_or_default())
    }

    #[inline]
    fn prefetch(&self, at: WordAddress) {
        if let Some(word) = self.at(at) {
            hints::prefetch(word);
        }
    }
}

impl PlanPages for Pages {
    #[inline]
    fn occupied(&mut self, page: PageAddress) -> Option<u32> {
        self.sub(page)?.occupied.get(page.page as usize).copied()
    }

    fn counters(&mut self, page: PageAddress) -> Option<usize> {
        Some(Pages::counters(self, page).map_or(0, Counters::len))
    }
}

impl Draft for Pages {
    #[inline(always)]
    fn set_slot(&mut self, at: WordAddress, value: u64, _: u16, more: i32) {
        let Some(sub) = self.subs.get_mut(at.sub as usize) else {
            return;
        };
        let index = sub.index(at);
        if let Some(word) = sub.words.get_mut(index) {
            *word = value;
        }
        if let Some(occupied) = sub.occupied.get_mut(at.page as usize) {
            *occupied = occupied.saturating_add_signed(more);
        }
    }

    fn set_counter(&mut self, page: PageAddress, key: CounterKey, copies: u64, _: i32) {
        if let Some(sub) = self.subs.get_mut(page.sub as usize) {
            let counters = sub.counters.entry(page.page).or_default();
            counters.set(key, copies);
        }
    }

    fn note_grown(&mut self, chain: &Chain) {
        for sub in chain.sub_filters().skip(self.subs.len()) {
            let words_per_page = (sub.layout.page_bytes() as usize).div_ceil(8);
            let pages = sub.layout.pages() as usize;
            self.subs.push(SubPages {
                words_per_page,
                words: vec![0; pages * words_per_page],
                occupied: vec![0; pages],
                counters: BTreeMap::new(),
            });
        }
    }

    fn set_page(&mut self, page: PageAddress, mut whole: WholePage) {
        let Some(sub) = self.subs.get_mut(page.sub as usize) else {
            return;
        };
        let number = page.page as usize;
        if number == sub.occupied.len() {
            sub.occupied.push(0);
            sub.words.resize(sub.words.len() + sub.words_per_page, 0);
        }
        let words = sub.words.chunks_mut(sub.words_per_page).nth(number);
        for (to, from) in words.unwrap_or_default().iter_mut().zip(whole.words.iter()) {
            *to = *from;
        }
        if let Some(occupied) = sub.occupied.get_mut(number) {
            *occupied = whole.occupied;
        }
        whole.counters.shrink();
        match whole.counters.is_empty() {
            true => sub.counters.remove(&page.page),
            false => sub.counters.insert(page.page, whole.counters),
        };
    }

    fn drop_page(&mut self, page: PageAddress) {
        if let Some(sub) = self.subs.get_mut(page.sub as usize) {
            let pages = page.page as usize;
            sub.occupied.truncate(pages);
            sub.words.truncate(pages * sub.words_per_page);
            sub.counters.split_off(&page.page);
        }
    }
}
