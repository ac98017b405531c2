//! The layout that grows and shrinks page by page.
//!
//! Linear hashing (Litwin, "Linear Hashing: A New Tool for File and Table
//! Addressing", VLDB 1980) under a cuckoo filter whose fingerprints shrink with
//! each doubling, as those of InfiniFilter do (Dayan, Bercea, Reviriego and
//! Pagh, SIGMOD 2023). A filter begins with P0 pages, its families. At level `L`
//! each of them has become `2^L` pages; below the pointer `S` they were split
//! once more already.
//!
//! | file | what it owns |
//! |---|---|
//! | [`code`] | what a slot holds, and what becomes of it a level deeper or less deep |
//! | `pages.rs` | [`Paged`]: how many pages, how they are numbered, their buckets |
//! | `items.rs` | from an item's hash to its two candidate buckets, and from one to the other |
//! | [`rate`] | the false-positive rate, now and at the end of a level |
//!
//! # What is known of an item
//!
//! An item's hash has 128 bits. Each part of its address comes from bits of its
//! own:
//!
//! | bits | what for |
//! |---|---|
//! | 0 to 8 | bucket within the page; with slots of 32 bits the first 8 of these |
//! | then 6 or 8 | anchor `A`: stays in the slot, decides the alternate bucket |
//! | then up to 64 | path `V`: its first bits lead to the page, the next stay in the slot |
//! | 64 to 127 | family: the 64 bits as a fraction of P0 |
//!
//! The path's last bits are those that decide the family least. A page is
//! `family + P0 * (the first bits of the path, the first of them lowest)`, so
//! that splitting page `S` of level `L` leaves what has a 0 where it is and
//! takes what has a 1 to `S + P0 * 2^L`, the page behind the last.

pub mod code;
mod items;
mod pages;
pub mod rate;

pub use items::{Candidate, SEARCH, WIDE_SEARCH};
pub use pages::{ANY_LEVEL, OfWidth, PAGE_BYTES, PAGE_WORDS, Paged, Pair};

#[cfg(test)]
mod tests;
