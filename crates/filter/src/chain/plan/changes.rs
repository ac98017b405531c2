//! What a plan changes in the pages, in an order that no hash map decides.

use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::counters::CounterKey;
use crate::chain::pages::WholePage;
use crate::cuckoo::paged::PAGE_WORDS;
use std::ops::Range;
use std::sync::Arc;

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

/// A side counter as it shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedCounter {
    /// The class.
    pub key: CounterKey,
    /// Its copies beyond its slots; 0: there is no counter.
    pub copies: u64,
}

/// A page that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPage {
    /// The page.
    pub address: PageAddress,
    /// Its words, as a range of [`PageChanges::words`].
    pub words: Range<usize>,
    /// Its counters, as a range of [`PageChanges::counters`].
    pub counters: Range<usize>,
    /// How many more of its slots are in use.
    pub occupied: i32,
}

/// All that changes, by ascending sub-filter, page, and word or class: an
/// order that no hash map decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageChanges {
    /// The pages.
    pub pages: Vec<ChangedPage>,
    /// The words of all pages.
    pub words: Vec<ChangedWord>,
    /// The counters of all pages.
    pub counters: Vec<ChangedCounter>,
    /// Pages that are set as a whole, by ascending address; new ones are among
    /// them.
    pub wholes: Vec<(PageAddress, Arc<WholePage>)>,
    /// Pages that are no more, by ascending address.
    pub dropped: Vec<PageAddress>,
}

impl PageChanges {
    /// Words and counters that change, the words of whole pages included.
    pub fn changed_words(&self) -> usize {
        self.words.len() + self.counters.len() + usize::from(PAGE_WORDS) * self.wholes.len()
    }

    /// The words of one of the pages.
    pub fn words_of(&self, page: &ChangedPage) -> &[ChangedWord] {
        self.words.get(page.words.clone()).unwrap_or_default()
    }

    /// The counters of one of the pages.
    pub fn counters_of(&self, page: &ChangedPage) -> &[ChangedCounter] {
        self.counters.get(page.counters.clone()).unwrap_or_default()
    }
}
