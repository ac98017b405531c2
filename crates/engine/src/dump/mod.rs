//! Filters as streams of bytes: dumps out of a server and back into another.
//!
//! | file | owns |
//! |---|---|
//! | `read` | the pages of a filter as they were at one moment |
//! | `scandump` | the bytes of RedisBloom |
//! | `placed` | copies that are counted, put into free slots for RedisBloom |
//! | `write` | a dump of a filter as it was at one moment, while commits go on; where it goes |
//! | `spool` | a dump that comes, kept in a file until all of it was verified |
//! | `stage` | taking pages in under a number to which no name leads yet |
//! | `error` | why one is not taken in |
//! | `staged` | the way on which these come into the store |

pub(super) mod error;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz_targets;
pub(super) mod placed;
mod read;
pub mod scandump;
mod spool;
pub(super) mod stage;
pub(super) mod staged;
pub(super) mod write;
