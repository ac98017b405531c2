//! The atomics that [`seqlock`](super::seqlock) is made of. They have a file
//! of their own so that its model, `tests/seqlock.rs`, can put loom's in their
//! place and check the code that runs.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
