//! The changes of an overlay in the order of the record.

use super::changes::{ChangedCounter, ChangedPage, ChangedWord, PageChanges};
use super::overlay::{Overlay, Page, PageWrite, packed};
use crate::chain::counters::CounterKey;
use std::sync::Arc;

/// The changes of an overlay as they are put in order, some words at a time.
pub struct ChangesInOrder {
    /// Those that are in order.
    pub so_far: PageChanges,
    /// Numbers of all pages, in order.
    pages: Vec<(u64, u32)>,
    /// How many of them are in order.
    done: usize,
}

impl ChangesInOrder {
    /// None is in order yet. Costs as much as there are pages.
    pub fn of(overlay: &Overlay) -> ChangesInOrder {
        let numbers = 0..overlay.pages.len() as u32;
        let pages = overlay.pages.iter().zip(numbers);
        let mut pages: Vec<(u64, u32)> = pages
            .map(|(page, number)| (packed(page.address), number))
            .collect();
        sort(&mut pages);
        ChangesInOrder {
            so_far: PageChanges {
                pages: Vec::with_capacity(pages.len()),
                words: Vec::with_capacity(overlay.words.len()),
                counters: Vec::with_capacity(overlay.counters.len()),
                ..PageChanges::default()
            },
            pages,
            done: 0,
        }
    }

    /// Puts about so many words more in order, of the same overlay: all that
    /// changes in a page at once. `true`: these were the last.
    pub fn go_on(&mut self, overlay: &Overlay, words: usize) -> bool {
        let until = self.so_far.changed_words().saturating_add(words);
        let left = self.pages.get(self.done..).unwrap_or_default();
        for &(_, number) in left {
            if self.so_far.changed_words() >= until {
                return false;
            }
            self.done += 1;
            let Some(page) = overlay.pages.get(number as usize) else {
                continue;
            };
            match page.write {
                PageWrite::Changed => list(overlay, page, &mut self.so_far),
                PageWrite::Whole(whole) => {
                    let whole = overlay.wholes.get(whole as usize).map(Arc::clone);
                    let whole = whole.map(|it| (page.address, it));
                    self.so_far.wholes.extend(whole);
                }
                PageWrite::Dropped => self.so_far.dropped.push(page.address),
            }
        }
        true
    }
}

impl Overlay {
    /// The changes in order.
    pub fn changes(&self) -> PageChanges {
        let mut changes = ChangesInOrder::of(self);
        changes.go_on(self, usize::MAX);
        changes.so_far
    }
}

/// Pages from which on a pass for every eight bits costs less than comparing them.
const MANY: usize = 64;

/// Sorts by the address: a pass for every eight bits, if any of these differ.
fn sort(pages: &mut Vec<(u64, u32)>) {
    let Some(&(first, _)) = pages.first().filter(|_| pages.len() >= MANY) else {
        return pages.sort_unstable();
    };
    let differing = pages.iter().fold(0, |bits, page| bits | page.0 ^ first);
    let mut sorted = pages.clone();
    for shift in (0..u64::BITS).step_by(8) {
        if differing >> shift & 0xff == 0 {
            continue;
        }
        let digit = |page: &(u64, u32)| usize::from((page.0 >> shift) as u8);
        let mut places = [0; 256];
        for page in pages.iter() {
            if let Some(place) = places.get_mut(digit(page)) {
                *place += 1;
            }
        }
        let mut before = 0;
        for place in &mut places {
            before += std::mem::replace(place, before);
        }
        for page in pages.iter() {
            if let Some(place) = places.get_mut(digit(page))
                && let Some(sorted) = sorted.get_mut(*place)
            {
                *sorted = *page;
                *place += 1;
            }
        }
        std::mem::swap(pages, &mut sorted);
    }
}

/// Lists what changes in a page that is not held as a whole.
fn list(overlay: &Overlay, page: &Page, changes: &mut PageChanges) {
    let address = page.address;
    let (first_word, first_counter) = (changes.words.len(), changes.counters.len());
    overlay.words.in_order(&page.changed, |it| {
        changes.words.push(ChangedWord {
            at: address.word(it.word),
            value: it.value,
            slots: it.slots,
        });
    });
    if !overlay.counters.is_empty() {
        let counters = overlay.counters_within(address, CounterKey::ALL);
        let counters = counters.map(|(key, copies)| ChangedCounter { key, copies });
        changes.counters.extend(counters);
    }
    changes.pages.push(ChangedPage {
        address,
        words: first_word..changes.words.len(),
        counters: first_counter..changes.counters.len(),
        occupied: page.growth.occupied,
    });
}
