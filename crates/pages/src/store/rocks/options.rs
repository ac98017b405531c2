//! How RocksDB uses memory and the disk.

use crate::store::kv::WalSync;

/// How the store uses memory and the disk.
#[derive(Clone, Debug)]
pub struct RocksOptions {
    /// When a commit is forced to the disk.
    pub wal_sync: WalSync,
    /// Bytes of blocks of table files kept in memory.
    pub block_cache_bytes: usize,
    /// Bytes of writes kept in memory before they become table files, all
    /// columns together.
    pub write_buffer_bytes: usize,
    /// Whether a directory is opened that has lost changes which were forced to
    /// the disk.
    pub accept_lost_changes: bool,
}

impl Default for RocksOptions {
    fn default() -> Self {
        RocksOptions {
            wal_sync: WalSync::Always,
            block_cache_bytes: 64 << 20,
            write_buffer_bytes: 128 << 20,
            accept_lost_changes: false,
        }
    }
}
