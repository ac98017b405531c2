//! The redo record: which slots of which pages one commit set to what, which
//! counters beside them, which pages it set as a whole, and which are no more.
//!
//! A record is a list of sections, each of one filter and of entries of one
//! kind; a section lists pages in ascending order, a page lists its entries in
//! ascending order. Numbers are written
//! as differences to the one before, so that a slot written at random costs
//! about four bytes. Values are absolute: applying a record twice is applying
//! it once. What a page or a slot means is not known here.
//!
//! The bytes are tabulated in `docs/format.md`. The envelope with version and
//! checksum is put around a record by [`format`](super::format).
//!
//! | file | what it owns |
//! |---|---|
//! | `entry.rs` | entries, and what is wrong with bytes that are no record |
//! | `writer.rs` | [`RedoBuilder`] |
//! | `reader.rs` | [`RedoReader`] |

mod entry;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use entry::{CounterWrite, RedoError, RedoWrite, SlotWrite, WholeWrite};
pub use reader::{RedoReader, check};
pub use writer::RedoBuilder;
