//! Why a filter is not taken in.

use crate::chain::meta::{META_VERSION, MetaError};
use crate::codes::Code;
use crate::error::EngineError;
use crate::store::StoreError;
use crate::store::disk::DiskShort;
use cuckood_filter::file::FileError;
use std::io;

/// Why bytes are no dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// They contradict the format, or were altered or cut off.
    #[error("the dump is corrupt: {0}")]
    Corrupt(String),
    /// They lack what a server needs.
    #[error("the key of its hash was left out of the dump: it can be asked, and not restored")]
    Keyless,
    /// A newer program wrote them.
    #[error("a newer server made the dump: {0}")]
    Newer(String),
    /// They could not be read.
    #[error("the dump could not be read: {0}")]
    Read(#[source] io::Error),
}

impl DumpError {
    pub(super) fn corrupt(what: impl Into<String>) -> DumpError {
        DumpError::Corrupt(what.into())
    }
}

impl From<io::Error> for DumpError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => DumpError::corrupt("it ends early"),
            _ => DumpError::Read(error),
        }
    }
}

impl From<FileError> for DumpError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Version { .. } | FileError::Features { .. } => {
                DumpError::Newer(error.to_string())
            }
            _ => DumpError::corrupt(error.to_string()),
        }
    }
}

impl From<MetaError> for DumpError {
    fn from(error: MetaError) -> Self {
        match error {
            MetaError::Newer { found } => DumpError::Newer(format!(
                "its description has version {found}, this server reads {META_VERSION} alone"
            )),
            MetaError::Corrupt(reason) => DumpError::corrupt(reason),
        }
    }
}

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
    #[error("{}", refused(.0))]
    Store(#[from] StoreError),
}

impl RestoreError {
    /// The kind of error that it is, in every protocol.
    pub fn code(&self) -> Code {
        match self {
            RestoreError::Dump(DumpError::Corrupt(_) | DumpError::Keyless) => Code::CorruptDump,
            RestoreError::Dump(DumpError::Newer(_)) => Code::NewerDump,
            RestoreError::Dump(DumpError::Read(_)) => Code::UnreadableBody,
            RestoreError::TooLarge { .. } | RestoreError::TooLong { .. } => Code::FilterTooLarge,
            RestoreError::Refused(error) => error.code(),
            RestoreError::DiskShort(_) => Code::DiskReserve,
            RestoreError::Store(error) if error.is_disk_full() => Code::NoRoom,
            RestoreError::Store(_) => Code::StorageFailed,
        }
    }
}

/// Of a filter that did not come from elsewhere: it is as it should be.
impl From<RestoreError> for EngineError {
    fn from(error: RestoreError) -> EngineError {
        match error {
            RestoreError::Refused(error) => error,
            RestoreError::DiskShort(short) => short.into(),
            RestoreError::Store(error) => error.into(),
            other => EngineError::from(StoreError::Corrupt {
                what: "a filter in memory".to_owned(),
                reason: other.to_string(),
            }),
        }
    }
}

fn refused(error: &StoreError) -> &'static str {
    match error.is_disk_full() {
        true => {
            "the disk filled up during the restore; nothing was stored. Free space on the disk of the data and send the dump again"
        }
        false => "the storage refused the filter; nothing was changed. The server's log says why",
    }
}
