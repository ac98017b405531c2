//! One filter: a chain of sub-filters and the rules of adding, asking,
//! counting, deleting and growing, over pages it is handed.
//!
//! No I/O, no clock, no randomness, no order of a hash map: the same commands
//! in the same order give the same bytes. Where a word of a page is not at
//! hand, the answer is "not known", never a guess.
//!
//! - [`params`]: what a filter was asked to be
//! - [`meta`]: the persistent description of a chain
//! - [`counters`]: the copies of hot items, beside the page
//! - [`read`]: exists and count
//! - [`locate`]: in which slots an item lies
//! - [`forecast`]: how large and how wrong a filter will be, before it is made
//! - [`plan`]: adds and deletes planned over an overlay of the pages
//! - [`resident`]: all of it at work, on pages that are plain memory

pub mod address;
pub mod counters;
pub mod forecast;
pub mod locate;
pub mod meta;
pub mod pages;
pub mod params;
pub mod plan;
pub mod read;
pub mod resident;
