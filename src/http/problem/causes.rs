//! What the errors of the engine and of backups are to a client.

use super::codes::Code;
use crate::backup::BackupError;
use crate::engine::{DumpError, EngineError, RestoreError, StoreError};
use std::borrow::Cow;

/// The kind of an error, and the sentence about it.
pub(super) struct Cause {
    pub(super) code: Code,
    /// `None`: the error's own. Others are there where that says what a client
    /// can't act on, or names what is in the log alone.
    pub(super) detail: Option<Cow<'static, str>>,
}

fn own(code: Code) -> Cause {
    Cause { code, detail: None }
}

fn said(code: Code, detail: impl Into<Cow<'static, str>>) -> Cause {
    Cause {
        code,
        detail: Some(detail.into()),
    }
}

fn is_disk_full(error: &StoreError) -> bool {
    matches!(error, StoreError::NoSpace { .. })
}

/// An error of the engine.
pub(super) fn engine(error: &EngineError) -> Cause {
    match error {
        EngineError::NotFound { .. } => own(Code::FilterNotFound),
        EngineError::InvalidParams(_) => own(Code::InvalidFields),
        EngineError::TooManyPages { .. } => own(Code::TooManyPages),
        EngineError::OverQuota { .. } => own(Code::OverQuota),
        EngineError::TooManyFiltersInAll { .. } => own(Code::TooManyFilters),
        EngineError::DiskShort(_) => own(Code::DiskReserve),
        EngineError::TooManyFilters { .. } | EngineError::TooManyProbes { .. } => {
            own(Code::LookupTooLarge)
        }
        EngineError::Overloaded(bound) => said(
            Code::Overloaded,
            format!("the server is overloaded ({bound}); try again in a moment"),
        ),
        EngineError::CompactionRunning => said(
            Code::CompactionRunning,
            "the filter is being compacted already; GET /filters/{key}/compaction tells how far it is",
        ),
        EngineError::CompactionNotFound => said(
            Code::CompactionNotFound,
            "the filter was not compacted since the server was started; POST /filters/{key}/compact \
             begins it",
        ),
        EngineError::ImportNotFound => said(
            Code::ImportNotFound,
            "nothing of this import is committed, or its last commit is more than a week old; \
             begin with its first line",
        ),
        EngineError::ImportRunning => said(
            Code::ImportRunning,
            "another request for this import is being worked on; wait until it ends, or give \
             this stream another import_id",
        ),
        EngineError::ImportsFull => said(
            Code::ImportsFull,
            "the server keeps the progress of as many imports as it may (--max-imports), for a \
             week each; try again later, or import more under fewer names",
        ),
        EngineError::RetryInFlight => said(
            Code::IdempotencyInFlight,
            "a request with this Idempotency-Key is being worked on, or its outcome is not known yet; \
             send it again in a moment",
        ),
        EngineError::RetryConflict => said(
            Code::IdempotencyKeyReused,
            "this Idempotency-Key was used for another request to the same path within 24 hours; \
             send what was sent then, or use a new key",
        ),
        EngineError::RetriesFull => said(
            Code::IdempotencyFull,
            "the server keeps as many answers for retries as it may (--max-idempotency-bytes), \
             and none of them is 24 hours old; nothing was changed. Try again later, or send \
             what may be done twice without a key",
        ),
        EngineError::Stopping => own(Code::Draining),
        EngineError::OutcomeUnknown(error) if is_disk_full(error) => said(
            Code::DiskFull,
            "the disk filled up while the change was written, so it may or may not be there; \
             make room on the disk of the data, then with an Idempotency-Key send it again, \
             without one ask first",
        ),
        EngineError::OutcomeUnknown(_) => said(
            Code::OutcomeUnknown,
            "the storage failed while the change was written, so it may or may not be there; \
             with an Idempotency-Key send it again in a moment, without one ask first",
        ),
        EngineError::Store(error) if is_disk_full(error) => said(
            Code::DiskFull,
            "the disk is full; nothing was changed: make room on the disk of the data, and \
             send it again",
        ),
        EngineError::Store(_) => said(
            Code::StorageFailed,
            "the storage could not be read; nothing was changed, and the request id leads to the \
             server's log",
        ),
    }
}

/// An error of a dump that is taken in.
pub(super) fn restore(error: &RestoreError) -> Cause {
    match error {
        RestoreError::Dump(DumpError::Corrupt(_)) => said(
            Code::CorruptDump,
            format!("{error}; nothing of it was kept, send it again or make a new one"),
        ),
        RestoreError::Dump(DumpError::Newer { .. }) => own(Code::NewerDump),
        RestoreError::Dump(DumpError::Read(_)) => own(Code::UnreadableBody),
        RestoreError::TooLarge { .. } => own(Code::FilterTooLarge),
        RestoreError::DiskShort(_) => own(Code::DiskReserve),
        RestoreError::Store(error) if is_disk_full(error) => said(
            Code::NoRoom,
            "the disk filled up while it was taken in; nothing of it was kept: make room on the \
             disk of the data, and send it again",
        ),
        RestoreError::Store(_) => said(
            Code::StorageFailed,
            "the storage refused it; nothing was changed, and the request id leads to the server's \
             log",
        ),
    }
}

/// An error of a backup.
pub(super) fn backup(error: &BackupError) -> Cause {
    const REFUSED: &str = "the disk refused; the request id leads to the server's log";
    match error {
        BackupError::Running { .. } => own(Code::BackupRunning),
        BackupError::NotFound { .. } => own(Code::BackupNotFound),
        BackupError::NoRoom { needed, free, .. } => said(
            Code::NoRoom,
            format!(
                "{needed} bytes are needed in the directory of backups, {free} are free: make room there, or keep fewer backups (--backup-keep)"
            ),
        ),
        BackupError::DiskShort(_) => own(Code::DiskReserve),
        BackupError::Stopping => own(Code::Draining),
        BackupError::Damaged { .. } | BackupError::Newer { .. } | BackupError::NotEmpty { .. } => {
            own(Code::StorageFailed)
        }
        BackupError::Store(error) => match &**error {
            StoreError::NoSpace { .. } => said(
                Code::NoRoom,
                "the disk of the data filled up while a copy was frozen; nothing of it was kept: \
                 make room there",
            ),
            StoreError::Unsupported { .. } => own(Code::BackupsOff),
            _ => said(Code::StorageFailed, REFUSED),
        },
        BackupError::Directory { .. }
        | BackupError::NoClock
        | BackupError::NoName { .. }
        | BackupError::Io { .. } => said(Code::StorageFailed, REFUSED),
    }
}
