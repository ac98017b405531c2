//! Why a filter is not taken in.

use super::format::DumpError;
use crate::engine::error::EngineError;
use crate::store::StoreError;
use crate::store::disk::DiskShort;

/// Why a filter was not taken in. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The bytes are not right.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// It takes more bytes than a filter may on this server.
    #[error(
        "the filter takes {bytes} bytes, {bound} are allowed; start the server with a larger --max-filter-bytes"
    )]
    TooLarge {
        /// Bytes of its slots.
        bytes: u64,
        /// Bytes it may take.
        bound: u64,
    },
    /// It has, or may grow to, more sub-filters than a filter may on this
    /// server.
    #[error(
        "the filter may have {sub_filters} sub-filters, {bound} are allowed; start the server with a larger --max-chain-length"
    )]
    TooLong {
        /// Sub-filters that it has or may grow to.
        sub_filters: u64,
        /// Sub-filters that it may have.
        bound: u64,
    },
    /// There may not be so many filters, or so many bytes of them; or the lane of the
    /// filter does not take it.
    #[error(transparent)]
    Refused(EngineError),
    /// The disk is too full for it.
    #[error(transparent)]
    DiskShort(#[from] DiskShort),
    /// The store refused.
    #[error("the store refused it")]
    Store(#[from] StoreError),
}
