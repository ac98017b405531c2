//! Cuckoo filters that grow, delete, count and hold values, over pages that the
//! caller keeps.
//!
//! A filter answers "have we seen this item?". It stores a fingerprint of each item
//! and never the item, so it may say yes of an item that was never added, with a
//! probability that is chosen when it is made. It never says no of one that was
//! added and not deleted.
//!
//! Pure: no I/O, no clock, no randomness, no threads, no lock. The same changes in
//! the same order give the same bytes. Two things are the caller's: the
//! [`Chain`](chain::meta::Chain), which describes one filter, and its pages of up to
//! 4 KiB, which lie wherever the caller wants: in memory, in files, in a database.
//!
//! | module | owns |
//! |---|---|
//! | [`chain`] | one filter: its parameters, and the rules of add, exists, count, delete and growth |
//! | [`cuckoo`] | the mathematics: hashes, buckets as machine words, layouts, the search for kick-outs |
//! | [`mod@file`] | a filter as a flat file, which can be asked as it is |
//! | [`hints`] | hints to the processor about memory |
//! | [`varint`] | numbers in few bytes, as descriptions and counters are stored |
//!
//! # Example
//!
//! Pages in a map. The traits of [`chain::pages`] hand them out: a page that is not
//! at hand is `None`, and then so is the answer; fetch the page and ask again. Here
//! all are at hand, and one that is not in the map is empty.
//!
//! ```
//! use cuckood_filter::chain::address::{PageAddress, WordAddress};
//! use cuckood_filter::chain::counters::{CounterKey, Counters};
//! use cuckood_filter::chain::meta::Chain;
//! use cuckood_filter::chain::pages::{PageWords, PlanPages, WholePage};
//! use cuckood_filter::chain::params::{Defaults, FilterParams, FilterRequest};
//! use cuckood_filter::chain::plan::{
//!     AddMode, AddResult, OverlaidPages, Overlay, Plan, PlanInput, Planner,
//! };
//! use cuckood_filter::chain::read;
//! use cuckood_filter::cuckoo::hash::HashKey;
//! use cuckood_filter::cuckoo::kick::KickSearch;
//! use std::collections::BTreeMap;
//! use std::ops::RangeInclusive;
//!
//! #[derive(Default)]
//! struct Pages(BTreeMap<PageAddress, WholePage>);
//!
//! impl PageWords for Pages {
//!     fn word(&mut self, at: WordAddress) -> Option<u64> {
//!         let page = self.0.get(&at.on());
//!         Some(page.map_or(0, |page| page.words[usize::from(at.word)]))
//!     }
//!
//!     fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
//!         Some(self.0.get(&page).map_or(0, |page| page.counters.get(key)))
//!     }
//!
//!     fn counters_within(
//!         &mut self,
//!         page: PageAddress,
//!         keys: RangeInclusive<CounterKey>,
//!     ) -> Option<Counters> {
//!         let page = self.0.get(&page);
//!         Some(page.map(|page| page.counters.within(keys)).unwrap_or_default())
//!     }
//! }
//!
//! impl PlanPages for Pages {
//!     fn occupied(&mut self, page: PageAddress) -> Option<u32> {
//!         Some(self.0.get(&page).map_or(0, |page| page.occupied))
//!     }
//!
//!     fn counters(&mut self, page: PageAddress) -> Option<usize> {
//!         Some(self.0.get(&page).map_or(0, |page| page.counters.len()))
//!     }
//! }
//!
//! impl Pages {
//!     /// Takes over what was planned. Where pages are durable, this is what is
//!     /// written first, in one piece.
//!     fn apply(&mut self, plan: Plan) -> Chain {
//!         let changes = plan.overlay.changes();
//!         for page in &changes.pages {
//!             let to = self.0.entry(page.address).or_insert_with(WholePage::empty);
//!             for word in changes.words_of(page) {
//!                 to.words[usize::from(word.at.word)] = word.value;
//!             }
//!             for counter in changes.counters_of(page) {
//!                 to.counters.set(counter.key, counter.copies);
//!             }
//!             to.occupied = to.occupied.saturating_add_signed(page.occupied);
//!         }
//!         for (address, whole) in &changes.wholes {
//!             self.0.insert(*address, WholePage::clone(whole));
//!         }
//!         for address in &changes.dropped {
//!             self.0.remove(address);
//!         }
//!         plan.chain
//!     }
//! }
//!
//! /// A plan changes nothing by itself: its changes are in an overlay.
//! fn planned<T>(
//!     chain: &Chain,
//!     pages: &mut Pages,
//!     work: impl FnOnce(&mut Planner<'_, OverlaidPages<'_, Pages>>) -> Option<T>,
//! ) -> (T, Plan) {
//!     let (pending, mut search) = (Overlay::default(), KickSearch::default());
//!     let input = PlanInput {
//!         chain: chain.clone(),
//!         pending: &pending,
//!         fresh_from: chain.sub_filter_count() as u32,
//!     };
//!     let mut planner = Planner::new(input, pages, &mut search);
//!     let result = work(&mut planner).expect("all pages are at hand");
//!     (result, planner.finish().expect("all pages are at hand"))
//! }
//!
//! let request = FilterRequest {
//!     capacity: Some(1_000),
//!     error_rate: Some(0.001),
//!     ..FilterRequest::default()
//! };
//! let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
//! // 16 secret bytes, which make the hashes of this filter its own.
//! let mut chain = Chain::new(params, HashKey(*b"0123456789abcdef"), 0).unwrap();
//! let mut pages = Pages::default();
//!
//! // Ten times its capacity: it grows.
//! for n in 0..10_000u32 {
//!     let hash = chain.hash(&n.to_le_bytes());
//!     let (result, plan) = planned(&chain, &mut pages, |planner| {
//!         planner.add(hash, AddMode::Always)
//!     });
//!     assert_eq!(result, AddResult::Added);
//!     chain = pages.apply(plan);
//! }
//! let seven = chain.hash(&7u32.to_le_bytes());
//! assert_eq!(read::exists(&chain, seven, &mut pages), Some(true));
//! assert_eq!(read::count(&chain, seven, &mut pages), Some(1));
//!
//! let (was_there, plan) = planned(&chain, &mut pages, |planner| planner.delete(seven));
//! assert!(was_there);
//! chain = pages.apply(plan);
//! assert_eq!(chain.items(), 9_999);
//!
//! // The description is stored beside the pages.
//! let stored = chain.encode();
//! assert_eq!(Chain::decode(&stored).unwrap(), chain);
//! ```
//!
//! Deleting an item that was never added may take another's fingerprint, and is the
//! one way to a false negative: delete only what was added.
//!
//! Questions about many items at once, whose memory is asked for together, are
//! [`chain::read::exists_group`]'s.

pub mod chain;
pub mod cuckoo;
pub mod file;
pub mod hints;
pub mod varint;

#[cfg(test)]
extern crate self as cuckood_filter;
#[cfg(test)]
#[path = "../tests/resident/mod.rs"]
mod resident;
