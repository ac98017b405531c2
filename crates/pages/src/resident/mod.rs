//! The pages of all filters in memory: where they lie, how readers see them
//! whole, how they come from the store and how they get back there.
//!
//! Nothing here knows lanes, commands or what callers ask: this is the state
//! that they work on.
//!
//! | file | owns |
//! |---|---|
//! | `seqlock` | how words are read whole without a lock, and why that is right |
//! | `versions` | the versions of pages, which commits change |
//! | `frame`, `frames` | memory: words, what is known of the page in a frame, what all takes |
//! | `huge` | memory for frames |
//! | `geometry` | how many pages a sub-filter has, and what fits on one |
//! | `table` | which page of a sub-filter lies in which frame |
//! | `leaves` | the entries of resident pages, which tables share |
//! | `eviction` | which page leaves when another needs its frame |
//! | `cache` | pages in memory: reading, installing, counters |
//! | `flights` | which pages are being read |
//! | `pins` | what commands and plans keep in memory |
//! | `image` | the stored bytes of a page |
//! | `loader` | bringing pages in from the store, each once at a time |
//! | `parked` | what changed in pages that are neither in a frame nor stored as they are |
//! | `dirty` | pages of a lane that wait for a checkpoint, and the records that they need |
//! | `log` | how much the redo log holds |
//! | `bounds` | when images are written, and when commits wait |
//! | `checkpoint` | publishing commits, waiting for room; `slices`: writing pages back, cutting the log; `thread`: when |

mod atomics;
mod bounds;
mod cache;
mod checkpoint;
mod dirty;
mod eviction;
mod flights;
mod frame;
mod frames;
mod geometry;
mod huge;
pub mod image;
mod leaves;
mod loader;
mod log;
mod parked;
mod pins;
mod seqlock;
mod table;
mod versions;

pub use bounds::Bounds;
pub use cache::{PageCache, ResidentPage};
pub use checkpoint::{Applied, Checkpointer, CutLog, NoRoom, Publication};
pub use frame::{Frame, FrameIndex, Words};
pub use geometry::PageGeometry;
pub use loader::{Beside, Images, Loader};
pub use pins::{Pins, PlanPins};
pub use seqlock::{Version, WordsRead};
pub use table::PageTable;
pub use versions::Versions;
