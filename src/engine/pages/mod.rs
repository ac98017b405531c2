//! The pages of all filters in memory: where they lie, how readers see them
//! whole, how they come from the store and how they get back there.
//!
//! Nothing here knows lanes, commands or what callers ask: this is the state
//! that they work on.
//!
//! | file | owns |
//! |---|---|
//! | `cache` | frames, the tables that say which page lies in which, pins and eviction |
//! | `image` | what the stored bytes of a page hold |
//! | `loader` | bringing pages in from the store |
//! | `checkpoint` | dirty pages, the redo log behind them, and writing them back |

mod atomics;
mod cache;
mod checkpoint;
mod eviction;
mod frame;
mod frames;
pub(crate) mod image;
mod loader;
mod pins;
mod seqlock;
mod table;
mod versions;

pub(crate) use cache::{PageCache, ResidentPage};
pub(crate) use checkpoint::{Bounds, Checkpointer, CutLog};
pub(crate) use frame::{Frame, FrameIndex, Words};
pub(crate) use image::PageImage;
pub(crate) use loader::{Images, Loader};
pub(crate) use pins::{DrainPins, Pins};
pub(crate) use seqlock::{Version, WordsRead};
pub(crate) use table::PageTable;
pub(crate) use versions::Versions;
