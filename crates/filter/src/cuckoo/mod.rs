//! The mathematics of cuckoo filters: hashes, buckets, layouts, kick-outs.
//!
//! Pure: no I/O, no clock, no randomness, nothing of the other rooms. The
//! source of the structure is Fan, Andersen, Kaminsky and Mitzenmacher,
//! "Cuckoo Filter: Practically Better Than Bloom" (CoNEXT 2014).
//!
//! | file | what it owns |
//! |---|---|
//! | [`hash`] | item hashes, which are part of the stored format |
//! | [`candidates`] | an item's fingerprint and its two candidate buckets |
//! | [`bucket`] | finding, filling and clearing slots within a machine word |
//! | [`layout`] | what is asked of either layout: slots, buckets, pages |
//! | [`classic`] | the layout of RedisBloom and Apache Kvrocks |
//! | [`paged`] | the layout that grows by splitting pages, and keeps both buckets of most items on one page |
//! | [`kick`] | the search for a path of kick-outs |
//!
//! An item goes through them in this order:
//!
//! 1. [`HashId::hash`](hash::HashId::hash): 64 or 128 bits, all that the filter
//!    ever knows of it.
//! 2. [`Classic::candidates`](classic::Classic::candidates) or
//!    [`Paged::candidates`](paged::Paged::candidates): what its slot is to hold,
//!    and its two candidate buckets. The second follows from the first and the
//!    fingerprint, and the first from the second.
//! 3. The page of a bucket, and its first slot there.
//! 4. [`bucket::find`]: which slots of a word hold a fingerprint, or none.
//! 5. [`KickSearch`](kick::KickSearch), only if all candidate slots are in use.

pub mod bucket;
pub mod candidates;
pub mod classic;
pub mod hash;
pub mod kick;
pub mod layout;
pub mod paged;
