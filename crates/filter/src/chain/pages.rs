//! The seam to whatever holds the pages of a chain.
//!
//! The rules of a chain name words by their addresses and get them from one of
//! these traits. What is not in memory is "not at hand": the answer is `None`,
//! and the caller fetches the page and asks again.

use super::address::{PageAddress, WordAddress};
use super::counters::{CounterKey, CounterKeys, Counters};
use super::meta::Chain;
use crate::cuckoo::paged::PAGE_WORDS;

/// Items that are asked about together.
pub const GROUP: usize = 32;

/// Hands out what pages hold, word by word.
pub trait PageWords {
    /// The word at an address, or `None` if its page is not at hand. An
    /// implementation may note which pages were asked for in vain.
    fn word(&mut self, at: WordAddress) -> Option<u64>;

    /// The copies of a class that are counted beside a page, or `None` as
    /// for [`word`](Self::word). Asked for only when the class has a slot.
    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64>;

    /// What is counted beside a page under the keys of a range, or `None`
    /// likewise.
    fn counters_within(&mut self, page: PageAddress, keys: CounterKeys) -> Option<Counters>;

    /// Says that the word at an address will be asked for soon.
    #[inline]
    fn prefetch(&self, at: WordAddress) {
        let _ = at;
    }
}

/// Hands out whole pages, to be held on to while a group of items is asked
/// about: an item's two buckets mostly lie on one page, and looking for it
/// costs as much as looking into it.
pub trait HeldPages {
    /// A page at hand, as cheap to copy as a reference.
    type Page: Copy;

    /// The page at an address, or `None` if it is not at hand.
    fn hold(&mut self, page: PageAddress) -> Option<Self::Page>;

    /// A word of a page.
    fn load(page: Self::Page, word: u16) -> u64;

    /// Says that a word of a page will be asked for soon.
    fn prefetch(page: Self::Page, word: u16);
}

/// Hands out what a plan needs to know of pages beyond their words. What it
/// says must not depend on which pages happen to be at hand.
pub trait PlanPages: PageWords {
    /// Slots of a page in use, or `None` if the page is not at hand.
    fn occupied(&mut self, page: PageAddress) -> Option<u32>;

    /// How many counters there are beside a page, or `None` likewise.
    fn counters(&mut self, page: PageAddress) -> Option<usize>;

    /// Says that these words will be asked for soon, so that their pages can
    /// be taken hold of together.
    #[inline]
    fn expect(&mut self, words: &[WordAddress]) {
        for &word in words {
            self.prefetch(word);
        }
    }
}

/// Where a plan puts what it changes: an overlay, or, where no commit has to
/// come first, the pages themselves.
pub trait Draft: PlanPages {
    /// Sets a word of which one slot was written; `more` slots are in use then.
    fn set_slot(&mut self, at: WordAddress, value: u64, lane: u16, more: i32);

    /// Sets a side counter; there are `more` of them then.
    fn set_counter(&mut self, page: PageAddress, key: CounterKey, copies: u64, more: i32);

    /// Adds the sub-filters of the chain that are new: all of their words are 0.
    fn add_sub_filters(&mut self, chain: &Chain);

    /// Sets a whole page, whatever it held; it may be a new one.
    fn set_page(&mut self, page: PageAddress, whole: WholePage);

    /// Says that there is no such page any more. It may come back as a new one.
    fn drop_page(&mut self, page: PageAddress);
}

/// A page as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholePage {
    /// Its words.
    pub words: Box<[u64; PAGE_WORDS as usize]>,
    /// Slots in use.
    pub occupied: u32,
    /// What is counted beside it.
    pub counters: Counters,
}

impl WholePage {
    /// A page without an entry.
    pub fn empty() -> WholePage {
        WholePage {
            words: Box::new([0; PAGE_WORDS as usize]),
            occupied: 0,
            counters: Counters::default(),
        }
    }
}
