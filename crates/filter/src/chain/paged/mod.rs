//! One filter that grows and shrinks page by page.
//!
//! The layout [`cuckoo::paged`](crate::cuckoo::paged) says what a slot holds
//! and where it may lie; here are the rules by which entries are added, found,
//! counted and deleted, and by which pages are split and merged. What a plan
//! changes depends on nothing but the filter and the items, in their order.
//!
//! The description of such a filter, which says when to split and when to merge, is
//! [`Table`](super::meta::Table).
//!
//! | file | what it owns |
//! |---|---|
//! | `ahead.rs` | pages that splits and merges will read |
//! | `bucket.rs` | a bucket as it was read |
//! | `read.rs` | the candidate buckets of an item: exists and count |
//! | `class.rs` | entries that differ in nothing but their value |
//! | `values.rs` | the values of an item: which, and whether one |
//! | `window.rs` | items that expire: to be seen, and to be asked for |
//! | `planner.rs` | [`PagePlanner`]: the rules of adds |
//! | `group.rs` | adds of many items: those that need no more than a free slot |
//! | `delete.rs` | which entry a delete takes, and what comes in its place |
//! | `replace.rs` | a value of an item becomes another |
//! | `union.rs` | entries of another filter are taken in as they are |
//! | `place.rs` | a slot for an entry: free, by kick-outs |
//! | `split.rs` | one page becomes two |
//! | `merge.rs` | two pages become one |
//! | `merged.rs` | the page that a merge fills |
//! | `dedupe.rs` | what splits had copied becomes one entry there |
//!
//! # Copies
//!
//! A *class* is what the filter cannot tell apart: the entries of one item have
//! one anchor and one path, but those that were added earlier know less of it.
//! An item that is found already is counted beside the page, with the longest
//! entry that matches it, under that entry's *key*: the class's bucket and
//! exactly what the slot holds. There is no count without a slot that holds
//! just that: an entry that leaves its class's bucket takes its copies along,
//! and so do splits and merges.
//!
//! More slots a class would cost less memory where items come two or three
//! times each, but two equal entries in a bucket are in each other's way: with
//! two slots each, one filter in which every item came twice split 8 pages at
//! a load of 0.945 because adds found no room, and with one slot none.
//!
//! # Values
//!
//! Where slots carry values, an item that is found has each further value counted
//! in the same way: under the longest match's bits with the value in place of the
//! slot's own. So the keys of a class are a range, and they are there only while it
//! has a slot; when its last slot is deleted, its first key moves into the slot.
//! Where an entry lies, which items match it, and where splits and merges take it
//! follows from the rest of the slot alone. `docs/engine.md` has the rules in full.
//!
//! # Windows
//!
//! Where items expire, the value of a slot is the epoch in which its item was seen
//! last, and each item has one entry. `window.rs` has the rules.
//!
//! # Why the longest match is deleted
//!
//! All entries that match an item are beginnings of one string. If the longest
//! was added for another item, then the item's own entry, which is shorter,
//! matches that item as well and lies on its path: it takes the place of the
//! one that is gone. Deleting a shorter one could take the only entry of an
//! item that left the path further up.

mod ahead;
mod bucket;
mod class;
mod dedupe;
mod delete;
mod group;
mod merge;
mod merged;
mod place;
mod planner;
pub mod read;
mod replace;
mod split;
pub mod union;
pub mod values;
pub mod window;

pub(super) use bucket::Bucket;
#[cfg(test)]
pub(in crate::chain) use planner::COUNTERS_PER_UNIT;
pub use planner::PagePlanner;

#[cfg(test)]
mod tests;
