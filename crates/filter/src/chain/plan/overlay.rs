//! What a plan would change, page by page.
//!
//! A page that is split or merged is held as a whole; whatever else changes in
//! it is changed there. Of the others it is held what differs. A page is found
//! once and then named by its number.

use super::numbers::Numbers;
use super::words::{Changed, Words};
use crate::chain::address::PageAddress;
use crate::chain::counters::{CounterKey, CounterKeys};
use crate::chain::pages::WholePage;
use crate::cuckoo::paged::PAGE_WORDS;
use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

/// What differs from the pages, by address.
#[derive(Default)]
pub struct Overlay {
    /// Numbers of pages, by address.
    numbers: Numbers,
    /// In the order in which they were first written to.
    pub(super) pages: Vec<Page>,
    pub(super) words: Words,
    /// Of pages that are not held as a whole.
    pub(super) counters: BTreeMap<(PageAddress, CounterKey), u64>,
    /// Pages that are held as a whole.
    pub(super) wholes: Vec<Arc<WholePage>>,
    /// Whether any page is set as a whole or dropped.
    pub reshapes: bool,
    /// The newest sub-filter with a page.
    newest: Option<u32>,
}

/// Number of a page that is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageNumber(u32);

/// By how much a page has more than before.
#[derive(Clone, Copy, Default)]
pub(super) struct Growth {
    pub(super) occupied: i32,
    pub(super) counters: i32,
}

impl Growth {
    #[inline]
    fn add(&mut self, more: Growth) {
        self.occupied += more.occupied;
        self.counters += more.counters;
    }
}

pub(super) struct Page {
    pub(super) address: PageAddress,
    pub(super) write: PageWrite,
    pub(super) growth: Growth,
    /// Its words that change.
    pub(super) changed: Changed,
}

/// What is written of a page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PageWrite {
    /// Some of its words and counters change.
    Changed,
    /// It is as one of `wholes`.
    Whole(u32),
    /// It is no more.
    Dropped,
}

impl Overlay {
    /// Makes room for so many words and pages more.
    pub(super) fn reserve(&mut self, words: usize) {
        self.reserve_pages(words);
        self.words.reserve(words);
    }

    fn reserve_pages(&mut self, more: usize) {
        let addresses = self.pages.iter().map(|page| packed(page.address));
        self.numbers.reserve(more, addresses);
        self.pages.reserve(more);
    }

    /// Words and counters that change.
    pub fn changed_words(&self) -> usize {
        self.words.len() + self.counters.len() + usize::from(PAGE_WORDS) * self.wholes.len()
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Pages and words that there is room for.
    fn room(&self) -> usize {
        let pages = self.pages.capacity().max(self.wholes.capacity());
        pages.max(self.words.room())
    }

    /// Forgets all changes, and keeps their memory.
    fn clear(&mut self) {
        while let Some(page) = self.pages.pop() {
            self.numbers.pop(packed(page.address));
        }
        self.words.clear();
        self.counters.clear();
        self.wholes.clear();
        (self.reshapes, self.newest) = (false, None);
    }

    /// Puts later changes on top of these. Returns an overlay that is done with.
    pub fn merge(&mut self, later: Overlay) -> Overlay {
        if self.is_empty() {
            return mem::replace(self, later);
        }
        self.reserve(later.pages.len());
        for page in &later.pages {
            match page.write {
                PageWrite::Whole(whole) => {
                    if let Some(whole) = later.wholes.get(whole as usize) {
                        self.set_whole(page.address, Arc::clone(whole));
                    }
                }
                PageWrite::Dropped => self.drop_page(page.address),
                PageWrite::Changed => {
                    let number = self.page_to_change(page.address);
                    self.grow(number, page.growth);
                    later.words.in_order(&page.changed, |it| {
                        self.set(number, it.word, it.value, it.slots, Growth::default());
                    });
                }
            }
        }
        for (&(page, key), &copies) in &later.counters {
            self.set_counter(page, key, copies);
        }
        later
    }

    /// Pages with changes that there are not yet: those of sub-filters from
    /// `fresh_from` on, and of the others, those that are set as a whole beyond
    /// the `published` pages of their sub-filter.
    pub fn new_pages(&self, fresh_from: u32, published: impl Fn(u32) -> u32) -> usize {
        let has_fresh = self.newest.is_some_and(|newest| newest >= fresh_from);
        if !has_fresh && self.wholes.is_empty() {
            return 0;
        }
        let is_new = |page: &&Page| {
            let PageAddress { sub, page: number } = page.address;
            let is_whole = matches!(page.write, PageWrite::Whole(_));
            sub >= fresh_from || is_whole && number >= published(sub)
        };
        self.pages.iter().filter(is_new).count()
    }

    /// A page, if it is written to.
    #[inline]
    pub(super) fn page(&self, page: PageAddress) -> Option<PageNumber> {
        if self.pages.is_empty() {
            return None;
        }
        let is_it = |number: u32| {
            let other = self.pages.get(number as usize);
            other.is_some_and(|other| other.address == page)
        };
        self.numbers.get(packed(page), is_it).map(PageNumber)
    }

    /// A page that is about to be written to.
    fn page_to_change(&mut self, page: PageAddress) -> PageNumber {
        self.page(page).unwrap_or_else(|| self.add_page(page))
    }

    /// Adds a page that is about to be written to and was not before.
    pub(super) fn add_page(&mut self, address: PageAddress) -> PageNumber {
        if !self.numbers.has_room() {
            self.reserve_pages(self.pages.len() + 1);
        }
        let number = self.numbers.push(packed(address));
        self.pages.push(Page {
            address,
            write: PageWrite::Changed,
            growth: Growth::default(),
            changed: Changed::default(),
        });
        self.newest = self.newest.max(Some(address.sub));
        PageNumber(number)
    }

    /// A word of a page, if it changes.
    #[inline(always)]
    pub(super) fn word(&self, page: PageNumber, word: u16) -> Option<u64> {
        let page = self.pages.get(page.0 as usize)?;
        match page.changed.may_have(word) {
            true => self.changed_word(page, word),
            false => None,
        }
    }

    #[inline(never)]
    fn changed_word(&self, page: &Page, word: u16) -> Option<u64> {
        match page.write {
            PageWrite::Changed => self.words.get(&page.changed, word),
            PageWrite::Whole(whole) => {
                let whole = self.wholes.get(whole as usize)?;
                whole.words.get(usize::from(word)).copied()
            }
            PageWrite::Dropped => None,
        }
    }

    /// By how much a page grows.
    #[inline]
    pub(super) fn growth(&self, page: PageNumber) -> Growth {
        let page = self.pages.get(page.0 as usize);
        page.map(|page| page.growth).unwrap_or_default()
    }

    /// A page that is held as a whole.
    #[inline]
    pub(super) fn whole(&self, page: PageNumber) -> Option<&WholePage> {
        match self.pages.get(page.0 as usize)?.write {
            PageWrite::Whole(whole) => self.wholes.get(whole as usize).map(Arc::as_ref),
            PageWrite::Changed | PageWrite::Dropped => None,
        }
    }

    /// The same, to be changed.
    #[inline]
    fn whole_mut(&mut self, page: PageNumber) -> Option<&mut WholePage> {
        match self.pages.get(page.0 as usize)?.write {
            PageWrite::Whole(whole) => self.wholes.get_mut(whole as usize).map(Arc::make_mut),
            PageWrite::Changed | PageWrite::Dropped => None,
        }
    }

    /// Sets a whole page, whatever was to change in it before.
    pub(super) fn set_whole(&mut self, address: PageAddress, whole: Arc<WholePage>) {
        let held = self
            .page(address)
            .and_then(|it| self.pages.get(it.0 as usize));
        let number = match held.map(|page| page.write) {
            Some(PageWrite::Whole(number)) => number,
            _ => self.wholes.len() as u32,
        };
        match self.wholes.get_mut(number as usize) {
            Some(held) => *held = whole,
            None => self.wholes.push(whole),
        }
        self.settle(address, PageWrite::Whole(number));
    }

    /// Says that a page is no more, whatever was to change in it before.
    pub(super) fn drop_page(&mut self, address: PageAddress) {
        self.settle(address, PageWrite::Dropped);
    }

    fn settle(&mut self, address: PageAddress, write: PageWrite) {
        self.reshapes = true;
        let number = self.page_to_change(address);
        if let Some(page) = self.pages.get_mut(number.0 as usize) {
            page.write = write;
            page.growth = Growth::default();
            page.changed = match write {
                PageWrite::Whole(_) => Changed::ALL,
                PageWrite::Changed | PageWrite::Dropped => Changed::default(),
            };
        }
        let of_page = self.counters_within(address, CounterKey::ALL);
        let of_page: Vec<CounterKey> = of_page.map(|it| it.0).collect();
        for key in of_page {
            self.counters.remove(&(address, key));
        }
    }

    /// The counters that change of a page that is not held as a whole, with
    /// keys of a range.
    pub(super) fn counters_within(
        &self,
        page: PageAddress,
        keys: CounterKeys,
    ) -> impl Iterator<Item = (CounterKey, u64)> + '_ {
        let (first, last) = keys.into_inner();
        let range = self.counters.range((page, first)..=(page, last));
        range.map(|(&(_, key), &copies)| (key, copies))
    }

    /// A counter, if it changes.
    pub(super) fn counter(&self, page: PageAddress, key: CounterKey) -> Option<u64> {
        let whole = self.page(page).and_then(|number| self.whole(number));
        match whole {
            Some(whole) => Some(whole.counters.get(key)),
            None => self.counters.get(&(page, key)).copied(),
        }
    }

    /// Sets a counter of a page that is written to.
    pub(super) fn set_counter(&mut self, page: PageAddress, key: CounterKey, copies: u64) {
        let number = self.page(page);
        match number.and_then(|number| self.whole_mut(number)) {
            Some(whole) => whole.counters.set(key, copies),
            None => {
                self.counters.insert((page, key), copies);
            }
        }
    }

    /// Notes that a page has more, or fewer.
    #[inline]
    pub(super) fn grow(&mut self, number: PageNumber, by: Growth) {
        match self.pages.get_mut(number.0 as usize) {
            Some(page) if page.write == PageWrite::Changed => page.growth.add(by),
            _ => self.grow_whole(number, by),
        }
    }

    #[inline(never)]
    fn grow_whole(&mut self, page: PageNumber, by: Growth) {
        if let Some(whole) = self.whole_mut(page) {
            whole.occupied = whole.occupied.saturating_add_signed(by.occupied);
        }
    }

    /// Sets a word of which some slots were written, bit `n` for slot `n`, and
    /// notes that its page has more slots in use, or fewer.
    #[inline]
    pub(super) fn set(
        &mut self,
        number: PageNumber,
        word: u16,
        value: u64,
        slots: u8,
        more: Growth,
    ) {
        let Some(page) = self.pages.get_mut(number.0 as usize) else {
            return;
        };
        if page.write == PageWrite::Changed {
            page.growth.add(more);
            return self.words.set(&mut page.changed, word, value, slots);
        }
        self.grow_whole(number, more);
        if let Some(whole) = self.whole_mut(number)
            && let Some(word) = whole.words.get_mut(usize::from(word))
        {
            *word = value;
        }
    }
}

/// Overlays that are done with: the next ones take their memory, which would
/// otherwise be given back and asked for anew with each plan.
#[derive(Default)]
pub struct SpareOverlays(Vec<Overlay>);

impl SpareOverlays {
    /// Overlays that are kept: that of a command, and those of the filters that a
    /// group commit changes, if these are few.
    const KEPT: usize = 4;
    /// Pages and words that one of them has room for, at most: 1.25 MiB.
    const KEPT_ROOM: usize = 1 << 14;

    /// One without a change.
    pub fn take(&mut self) -> Overlay {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps the memory of one.
    pub fn give_back(&mut self, mut overlay: Overlay) {
        let room = overlay.room();
        if (1..=SpareOverlays::KEPT_ROOM).contains(&room) && self.0.len() < SpareOverlays::KEPT {
            overlay.clear();
            self.0.push(overlay);
        }
    }
}

/// Sub-filter and page in one number, which is compared faster than the two.
#[inline]
pub(super) fn packed(page: PageAddress) -> u64 {
    u64::from(page.sub) << 32 | u64::from(page.page)
}

#[cfg(test)]
mod tests;
