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

mod cache;
mod checkpoint;
pub(crate) mod image;
mod loader;

pub(crate) use cache::{DrainPins, Frame, FrameIndex, PageCache, PageTable, ResidentPage, Words};
pub(crate) use checkpoint::{Bounds, Checkpointer, CutLog};
pub(crate) use image::PageImage;
pub(crate) use loader::{Images, Loader, Pins};
