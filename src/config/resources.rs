//! The memory and the threads of the engine.

use super::errors::ConfigErrors;
use super::machine::Machine;
use super::size::ByteSize;
use crate::engine::MAX_LANES;
use clap::Args;

/// Smallest cache: one lane's search for room must fit it, and some more.
const MIN_CACHE_BYTES: u64 = 32 << 20;
const MIN_DIRTY_BYTES: u64 = 1 << 20;

/// Caches and writer threads.
#[derive(Debug, Args)]
#[command(next_help_heading = "Memory and threads")]
pub struct ResourceConfig {
    /// Bytes of memory for pages of filters, at least 32MiB [default: a quarter of the memory of the machine or container].
    #[arg(long, env = "CUCKOOD_CACHE_BYTES")]
    pub cache_bytes: Option<ByteSize>,

    /// Bytes of pages that wait to be written, from 1MiB to a quarter of --cache-bytes; changes wait at the bound [default: a quarter of --cache-bytes].
    #[arg(long, env = "CUCKOOD_MAX_DIRTY_BYTES")]
    pub max_dirty_bytes: Option<ByteSize>,

    /// Bytes of memory for the storage engine's own block cache [default: a sixteenth of the memory of the machine or container].
    #[arg(long, env = "CUCKOOD_BLOCK_CACHE_BYTES")]
    pub block_cache_bytes: Option<ByteSize>,

    /// Writer threads, 1 to 256; each filter always has the same one [default: one per core].
    #[arg(long, env = "CUCKOOD_LANES")]
    pub lanes: Option<usize>,
}

/// The same on a certain machine.
pub(super) struct Resources {
    pub(super) cache_bytes: u64,
    pub(super) max_dirty_bytes: u64,
    pub(super) block_cache_bytes: u64,
    pub(super) lanes: usize,
}

impl ResourceConfig {
    pub(super) fn on(&self, machine: &Machine) -> Resources {
        let or = |given: Option<ByteSize>, share| given.map_or(share, |size| size.0);
        let cache_bytes = or(self.cache_bytes, machine.memory_bytes / 4);
        Resources {
            cache_bytes,
            max_dirty_bytes: or(self.max_dirty_bytes, cache_bytes / 4),
            block_cache_bytes: or(self.block_cache_bytes, machine.memory_bytes / 16),
            lanes: self.lanes.unwrap_or(machine.cores.min(MAX_LANES)),
        }
    }
}

impl Resources {
    pub(super) fn check(&self, errors: &mut ConfigErrors) {
        let (cache_bytes, max_dirty_bytes) = (self.cache_bytes, self.max_dirty_bytes);
        errors.refuse_zeros(&[("--lanes", self.lanes)]);
        if self.lanes > MAX_LANES {
            errors.add(format!("--lanes is more than {MAX_LANES}: decrease it"));
        }
        errors.refuse_below("--cache-bytes", cache_bytes, MIN_CACHE_BYTES);
        errors.refuse_below("--max-dirty-bytes", max_dirty_bytes, MIN_DIRTY_BYTES);
        if max_dirty_bytes > cache_bytes / 4 {
            errors.add(format!(
                "--max-dirty-bytes is {max_dirty_bytes}, more than a quarter of --cache-bytes {cache_bytes}: decrease it, or increase --cache-bytes"
            ));
        }
    }
}
