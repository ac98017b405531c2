//! Asking: whether an item is in the chain, and how often.

use super::meta::{Chain, SubFilter};
use crate::cuckoo::bucket;
use crate::cuckoo::hash::ItemHash;

/// Where a word lies: sub-filter by its position in the chain, page, word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordAddress {
    /// Position of the sub-filter, 0 = oldest.
    pub sub: u32,
    /// Page within the sub-filter.
    pub page: u32,
    /// Word within the page.
    pub word: u16,
}

/// Hands out words of pages.
pub trait PageWords {
    /// The word at an address, or `None` if its page is not at hand. An
    /// implementation may note which pages were asked for in vain.
    fn word(&mut self, at: WordAddress) -> Option<u64>;
}

/// A page of the chain that an item may lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageAddress {
    /// Position of the sub-filter, 0 = oldest.
    pub sub: u32,
    /// Page within the sub-filter.
    pub page: u32,
}

/// Whether the item's fingerprint lies in one of its candidate buckets,
/// newest sub-filter first. Looks at up to two pages a sub-filter.
///
/// A match is an answer whatever else is missing; `None` if there was no match
/// and a word was not at hand.
#[inline]
pub fn exists(chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<bool> {
    let mut known = true;
    for (position, sub) in chain.sub_filters().iter().enumerate().rev() {
        match matches_in(sub, position, hash, pages) {
            Some(0) => {}
            Some(_) => return Some(true),
            None => known = false,
        }
    }
    known.then_some(false)
}

/// How many slots over the whole chain hold the item's fingerprint: at least
/// its true count. `None` if a word was not at hand.
#[inline]
pub fn count(chain: &Chain, hash: ItemHash, pages: &mut impl PageWords) -> Option<u64> {
    let mut total = Some(0u64);
    for (position, sub) in chain.sub_filters().iter().enumerate().rev() {
        let found = matches_in(sub, position, hash, pages);
        total = total
            .zip(found)
            .map(|(total, found)| total + u64::from(found));
    }
    total
}

/// The pages that an item's candidate buckets lie on, over the whole chain.
#[inline]
pub fn candidate_pages(chain: &Chain, hash: ItemHash) -> impl Iterator<Item = PageAddress> + '_ {
    chain
        .sub_filters()
        .iter()
        .enumerate()
        .flat_map(move |(position, sub)| {
            let layout = sub.layout;
            layout
                .candidates(hash)
                .buckets()
                .map(move |bucket| PageAddress {
                    sub: position as u32,
                    page: layout.place(bucket).page,
                })
        })
}

/// Matching slots in one sub-filter. Asks for every word even after one was
/// missing, so that all missing pages are noted at once.
#[inline]
fn matches_in(
    sub: &SubFilter,
    position: usize,
    hash: ItemHash,
    pages: &mut impl PageWords,
) -> Option<u32> {
    let candidates = sub.layout.candidates(hash);
    let mut matches = Some(0);
    for bucket in candidates.buckets() {
        let place = sub.layout.place(bucket);
        for piece in bucket::pieces(place.first_slot, sub.layout.bucket_size()) {
            let word = pages.word(WordAddress {
                sub: position as u32,
                page: place.page,
                word: piece.word,
            });
            matches = matches.zip(word).map(|(matches, word)| {
                matches + bucket::find(word, piece, candidates.fingerprint.0).count()
            });
        }
    }
    matches
}
