//! The mathematics of cuckoo filters: hashes, buckets, placement, kick-outs.
//!
//! Pure: no I/O, no clock, no randomness, nothing of the other rooms. The
//! source of the structure is Fan, Andersen, Kaminsky and Mitzenmacher,
//! "Cuckoo Filter: Practically Better Than Bloom" (CoNEXT 2014).
//!
//! - [`hash`]: item hashes that are part of the stored format
//! - [`bucket`]: finding, filling and clearing slots within a machine word
//! - [`layout`]: the seam between an item's hash and its candidate buckets
//! - [`classic`]: the layout of RedisBloom and Apache Kvrocks
//! - [`paged`]: the layout that keeps most items on one page
//! - [`kick`]: the search for a path of kick-outs

pub mod bucket;
pub mod candidates;
pub mod classic;
pub mod hash;
pub mod kick;
pub mod layout;
pub mod paged;
