//! Which layout places a filter's fingerprints, and how.

use super::error_rate::ErrorRate;
use super::window::Window;
use crate::cuckoo::paged::code::SlotCode;

/// Which layout places the fingerprints of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutKind {
    /// Bit-compatible with RedisBloom and Apache Kvrocks.
    Classic,
    /// Made for pages, with a false-positive rate that holds while the filter grows.
    Paged,
}

impl LayoutKind {
    /// All of them.
    pub const ALL: [LayoutKind; 2] = [LayoutKind::Paged, LayoutKind::Classic];

    /// Its name in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            LayoutKind::Classic => "classic",
            LayoutKind::Paged => "paged",
        }
    }
}

/// How the fingerprints are placed, by layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// See [`classic`](crate::cuckoo::classic).
    Classic(ClassicPlacement),
    /// See [`paged`](crate::cuckoo::paged).
    Paged(PagedPlacement),
}

/// How the layout `classic` places fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicPlacement {
    /// Slots per bucket.
    pub bucket_size: u8,
    /// Longest kick-out path.
    pub max_iterations: u16,
}

/// How the layout `paged` places fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedPlacement {
    /// How a slot is divided.
    pub code: SlotCode,
    /// The promise, unless the width was asked for.
    pub error_rate: Option<ErrorRate>,
    /// How many times its capacity the filter may have until then.
    pub promised_growth: u32,
    /// Values that an item is expected to have; 0: slots have none.
    pub values_per_item: u16,
    /// Where items expire. The value of a slot is an epoch then.
    pub window: Option<Window>,
}
