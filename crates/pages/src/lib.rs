//! The pages of filters: where they are stored, how they are found in memory, and how
//! they get from one to the other.
//!
//! Nothing here knows lanes, commands, names of filters or what callers ask.
//!
//! | module | owns |
//! |---|---|
//! | [`page`] | how a page is named: plain numbers |
//! | [`store`] | page images, descriptions and the redo log: ids and bytes, in RocksDB |
//! | [`resident`] | pages in memory: frames, reading without a lock, bringing pages in, checkpoints |
//! | [`stored`] | pages as a snapshot of the store has them, images and log together |
//! | [`logged`] | what a redo record says about pages |
//! | [`disk`] | whether there is room for changes |

mod abort_on_panic;
pub mod disk;
pub mod logged;
pub mod page;
pub mod resident;
pub mod store;
pub mod stored;

pub use abort_on_panic::AbortOnPanic;

#[cfg(test)]
extern crate self as cuckood_pages;
#[cfg(test)]
#[path = "../tests/memory/mod.rs"]
mod memory;
