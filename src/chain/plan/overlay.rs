//! What a plan would change, page by page.
//!
//! A batch meets most of its pages once or twice, so a page has a short list
//! of the words that change. One of which many words change has a table of
//! them instead, or small filters would be slow to fill. A page is found once
//! and then named by its number.

use super::changes::{ChangedCounter, ChangedPage, ChangedWord, PageChanges};
use crate::chain::address::PageAddress;
use crate::chain::counters::CounterKey;
use crate::chain::params::PAGE_BYTES;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};

/// Words of a page that are listed; of more there is a table.
const LISTED_WORDS: u32 = 16;

const PAGE_WORDS: usize = PAGE_BYTES as usize / 8;

/// Where a list ends, and what a table holds for words that do not change.
const NONE: u32 = u32::MAX;

/// What differs from the pages, by address.
#[derive(Default)]
pub struct Overlay {
    /// Numbers of pages, by address.
    numbers: HashTable<u32>,
    /// In the order in which they were first written to.
    pages: Vec<Page>,
    words: Vec<Word>,
    /// Where in `words` each word of a page is.
    tables: Vec<[u32; PAGE_WORDS]>,
    counters: HashMap<(PageAddress, CounterKey), u64, FixedState>,
    /// The newest sub-filter with a page.
    newest: Option<u32>,
}

/// The changes of an overlay as they are put in order, some words at a time.
pub struct ChangesInOrder {
    /// Those that are in order.
    pub so_far: PageChanges,
    /// Numbers of all pages, in order.
    pages: Vec<(u64, u32)>,
    counters: Vec<((PageAddress, CounterKey), u64)>,
}

impl ChangesInOrder {
    /// None is in order yet. Costs as much as there are pages and counters.
    pub fn of(overlay: &Overlay) -> ChangesInOrder {
        let numbers = 0..overlay.pages.len() as u32;
        let pages = overlay.pages.iter().zip(numbers);
        let mut pages: Vec<(u64, u32)> = pages
            .map(|(page, number)| (packed(page.address), number))
            .collect();
        pages.sort_unstable();
        let counters = overlay.counters.iter().map(|(&at, &copies)| (at, copies));
        let mut counters: Vec<((PageAddress, CounterKey), u64)> = counters.collect();
        counters.sort_unstable_by_key(|&(at, _)| at);
        ChangesInOrder {
            so_far: PageChanges {
                pages: Vec::with_capacity(pages.len()),
                words: Vec::with_capacity(overlay.words.len()),
                counters: Vec::with_capacity(counters.len()),
            },
            pages,
            counters,
        }
    }

    /// Puts about so many words more in order, of the same overlay: whole pages.
    /// `true`: these were the last.
    pub fn go_on(&mut self, overlay: &Overlay, words: usize) -> bool {
        let PageChanges {
            pages,
            words: in_order,
            counters,
        } = &mut self.so_far;
        let until = in_order.len().saturating_add(words);
        let left = self.pages.get(pages.len()..).unwrap_or_default();
        for &(_, number) in left {
            if in_order.len() >= until {
                return false;
            }
            let Some(page) = overlay.pages.get(number as usize) else {
                continue;
            };
            let address = page.address;
            let (first_word, first_counter) = (in_order.len(), counters.len());
            // A loop: most pages have one word, and `extend` counts first.
            for it in overlay.words_of(page) {
                in_order.push(ChangedWord {
                    at: address.word(it.word),
                    value: it.value,
                    slots: it.slots,
                });
            }
            let rest = self.counters.get(first_counter..).unwrap_or_default();
            for &((_, key), copies) in rest.iter().take_while(|it| it.0.0 == address) {
                counters.push(ChangedCounter { key, copies });
            }
            pages.push(ChangedPage {
                address,
                words: first_word..in_order.len(),
                counters: first_counter..counters.len(),
                occupied: page.growth.occupied,
            });
        }
        true
    }
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

struct Page {
    address: PageAddress,
    growth: Growth,
    /// Words that change.
    words: u32,
    /// The first of its words, or its table if there are many.
    first: u32,
}

struct Word {
    value: u64,
    /// The page's next word in ascending order; only of listed ones.
    next: u32,
    word: u16,
    /// The slots that were written.
    slots: u8,
}

/// Where a word of a page is found, or would be put.
enum Found {
    There(u32),
    /// Behind that word of the list, or as its first.
    Behind(u32),
    InTable(usize),
}

impl Overlay {
    /// No change yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for so many words and pages more.
    pub(super) fn reserve(&mut self, words: usize) {
        let pages = &self.pages;
        self.numbers
            .reserve(words, |&number| hash_of_page(pages, number));
        self.pages.reserve(words);
        self.words.reserve(words);
    }

    /// Words that change.
    pub fn changed_words(&self) -> usize {
        self.words.len()
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Puts later changes on top of these.
    pub fn merge(&mut self, later: Overlay) {
        if self.is_empty() {
            *self = later;
            return;
        }
        self.reserve(later.pages.len());
        for page in &later.pages {
            let number = match self.page(page.address) {
                Some(number) => number,
                None => self.add_page(page.address),
            };
            self.grow(number, page.growth);
            for word in later.words_of(page) {
                self.set(number, word.word, word.value, word.slots);
            }
        }
        self.counters.extend(later.counters);
    }

    /// Distinct pages with changes in sub-filters from `sub` on.
    pub fn pages_from(&self, sub: u32) -> usize {
        match self.newest {
            Some(newest) if newest >= sub => {
                let pages = self.pages.iter();
                pages.filter(|page| page.address.sub >= sub).count()
            }
            _ => 0,
        }
    }

    /// The changes in order.
    pub fn changes(&self) -> PageChanges {
        let mut changes = ChangesInOrder::of(self);
        changes.go_on(self, usize::MAX);
        changes.so_far
    }

    /// A page, if it is written to.
    #[inline]
    pub(super) fn page(&self, page: PageAddress) -> Option<PageNumber> {
        let is_it = |&number: &u32| {
            let planned = self.pages.get(number as usize);
            planned.is_some_and(|planned| planned.address == page)
        };
        if self.pages.is_empty() {
            return None;
        }
        let number = self.numbers.find(hash_of(page), is_it);
        number.copied().map(PageNumber)
    }

    /// Adds a page that is about to be written to and was not before.
    pub(super) fn add_page(&mut self, address: PageAddress) -> PageNumber {
        // A plan is far from having so many pages.
        let number = self.pages.len() as u32;
        self.pages.push(Page {
            address,
            growth: Growth::default(),
            words: 0,
            first: NONE,
        });
        let pages = &self.pages;
        self.numbers
            .insert_unique(hash_of(address), number, |&it| hash_of_page(pages, it));
        self.newest = self.newest.max(Some(address.sub));
        PageNumber(number)
    }

    /// A word of a page, if it changes.
    #[inline]
    pub(super) fn word(&self, page: PageNumber, word: u16) -> Option<u64> {
        let Found::There(found) = self.find(page, word) else {
            return None;
        };
        self.words.get(found as usize).map(|it| it.value)
    }

    /// By how much a page grows.
    #[inline]
    pub(super) fn growth(&self, page: PageNumber) -> Growth {
        let page = self.pages.get(page.0 as usize);
        page.map(|page| page.growth).unwrap_or_default()
    }

    /// A counter, if it changes.
    pub(super) fn counter(&self, page: PageAddress, key: CounterKey) -> Option<u64> {
        self.counters.get(&(page, key)).copied()
    }

    /// Sets a counter.
    pub(super) fn set_counter(&mut self, page: PageAddress, key: CounterKey, copies: u64) {
        self.counters.insert((page, key), copies);
    }

    /// Notes that a page has more, or fewer.
    #[inline]
    pub(super) fn grow(&mut self, page: PageNumber, by: Growth) {
        if let Some(page) = self.pages.get_mut(page.0 as usize) {
            page.growth.occupied += by.occupied;
            page.growth.counters += by.counters;
        }
    }

    #[inline]
    fn find(&self, page: PageNumber, word: u16) -> Found {
        let Some(page) = self.pages.get(page.0 as usize) else {
            return Found::Behind(NONE);
        };
        if page.words > LISTED_WORDS {
            let table = self.tables.get(page.first as usize);
            let entry = table.and_then(|table| table.get(usize::from(word)));
            return match entry {
                Some(&NONE) | None => Found::InTable(page.first as usize),
                Some(&found) => Found::There(found),
            };
        }
        let (mut before, mut at) = (NONE, page.first);
        while let Some(it) = self.words.get(at as usize) {
            if it.word >= word {
                if it.word == word {
                    return Found::There(at);
                }
                break;
            }
            (before, at) = (at, it.next);
        }
        Found::Behind(before)
    }

    /// Sets a word of which some slots were written, bit `n` for slot `n`.
    pub(super) fn set(&mut self, number: PageNumber, word: u16, value: u64, slots: u8) {
        let found = self.find(number, word);
        let new = self.words.len() as u32;
        let Some(page) = self.pages.get_mut(number.0 as usize) else {
            return;
        };
        let next = match found {
            Found::There(found) => {
                if let Some(it) = self.words.get_mut(found as usize) {
                    it.value = value;
                    it.slots |= slots;
                }
                return;
            }
            Found::Behind(before) => {
                let link = match self.words.get_mut(before as usize) {
                    Some(before) => &mut before.next,
                    None => &mut page.first,
                };
                std::mem::replace(link, new)
            }
            Found::InTable(table) => {
                let table = self.tables.get_mut(table);
                if let Some(entry) = table.and_then(|table| table.get_mut(usize::from(word))) {
                    *entry = new;
                }
                NONE
            }
        };
        page.words += 1;
        self.words.push(Word {
            value,
            next,
            word,
            slots,
        });
        if page.words == LISTED_WORDS + 1 {
            self.make_table(number);
        }
    }

    /// Turns the list of a page into a table.
    fn make_table(&mut self, number: PageNumber) {
        let Some(page) = self.pages.get_mut(number.0 as usize) else {
            return;
        };
        let mut table = [NONE; PAGE_WORDS];
        let mut at = page.first;
        while let Some(it) = self.words.get(at as usize) {
            if let Some(entry) = table.get_mut(usize::from(it.word)) {
                *entry = at;
            }
            at = it.next;
        }
        page.first = self.tables.len() as u32;
        self.tables.push(table);
    }

    /// The words of a page, in ascending order.
    fn words_of(&self, page: &Page) -> impl Iterator<Item = &Word> {
        let is_listed = page.words <= LISTED_WORDS;
        let (mut listed, table) = match is_listed {
            true => (page.first, None),
            false => (NONE, self.tables.get(page.first as usize)),
        };
        let listed = std::iter::from_fn(move || {
            let word = self.words.get(listed as usize)?;
            listed = word.next;
            Some(word)
        });
        let of_table = table.into_iter().flatten();
        listed.chain(of_table.filter_map(|&at| self.words.get(at as usize)))
    }
}

fn hash_of_page(pages: &[Page], number: u32) -> u64 {
    let page = pages.get(number as usize);
    page.map_or(0, |page| hash_of(page.address))
}

/// Nothing that is stored or answered depends on this hash.
#[inline]
fn hash_of(page: PageAddress) -> u64 {
    let product = u128::from(packed(page)) * 0x9e37_79b9_7f4a_7c15;
    product as u64 ^ (product >> 64) as u64
}

/// Sub-filter and page in one number, which is compared faster than the two.
#[inline]
fn packed(page: PageAddress) -> u64 {
    u64::from(page.sub) << 32 | u64::from(page.page)
}

#[cfg(test)]
mod tests;
