//! A filter as a flat file, which is a dump as well: whoever has its bytes can ask it.
//!
//! Bytes in, bytes out. All numbers are little-endian. The sizes of all
//! parts follow from the description of the filter and from the number of its
//! counters, so a file is written in one pass, and any part of it by itself.
//!
//! | file | what it owns |
//! |---|---|
//! | `error.rs` | [`FileError`]: why bytes are refused |
//! | `header.rs` | [`Header`]: what a file says of its filter, written and read |
//! | `parts.rs` | [`Parts`]: where in the file everything lies |
//! | `sums.rs` | [`Sums`]: a checksum a block, and the digest |
//! | `view.rs` | [`FileView`]: questions, and the check of each block before the first |
//! | `write.rs` | [`FileWriter`]: a file from its first byte to its last |

mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz_targets;
mod header;
mod parts;
mod sums;
mod view;
mod write;

pub use error::{FILE_VERSION, FileError};
pub use header::{FileKey, Header, MAX_DESCRIPTION_BYTES, WindowAt};
pub use parts::{BLOCK_BYTES, CounterPlace, END_BYTES, FIXED_BYTES, Parts};
pub use sums::Sums;
pub use view::FileView;
pub use write::FileWriter;

#[cfg(test)]
mod tests;
