//! One filter: a chain of sub-filters and the rules of adding, asking,
//! counting, deleting and growing, over pages it is handed.
//!
//! No I/O, no clock, no randomness, no order of a hash map: the same commands
//! in the same order give the same bytes. Where a word of a page is not at
//! hand, the answer is "not known", never a guess.
//!
//! - [`params`]: what a filter was asked to be
//! - [`meta`]: the persistent description of a chain
//! - [`read`]: exists and count
//! - [`plan`]: adds and deletes planned over an overlay of the pages

pub mod meta;
pub mod params;
pub mod plan;
pub mod read;
