//! What the errors of the engine and of backups are to a client.

use super::codes::Code;
use super::used_up;
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
        EngineError::InvalidParams(_)
        | EngineError::ValueTooLarge { .. }
        | EngineError::RowRefused(_)
        | EngineError::BeyondWindow { .. } => own(Code::InvalidFields),
        EngineError::NotForThisFilter { .. }
        | EngineError::ItemsExpire
        | EngineError::NoAttributes
        | EngineError::NoWindow { .. } => own(Code::NotForThisFilter),
        EngineError::OverShare { used_up, .. } => own(used_up::code(*used_up)),
        EngineError::OverKeyQuota { .. } | EngineError::OverKeptShare { .. } => {
            own(Code::OverKeyQuota)
        }
        EngineError::TooManyPages { .. } => own(Code::TooManyPages),
        EngineError::TooManyChangeProbes { .. }
        | EngineError::TooManyProbes { .. }
        | EngineError::TooManyValues { .. }
        | EngineError::TooManyWords { .. } => own(Code::TooCostly),
        EngineError::OverQuota { .. } => own(Code::OverQuota),
        EngineError::TooManyFiltersInAll { .. } => own(Code::TooManyFilters),
        EngineError::DiskShort(_) => own(Code::DiskReserve),
        EngineError::TooManyFilters { .. } => own(Code::LookupTooLarge),
        EngineError::Overloaded(bound) => said(
            Code::Overloaded,
            format!("the server is overloaded ({bound}); try again in a moment"),
        ),
        EngineError::CompactionRunning => said(
            Code::CompactionRunning,
            "a compaction of the filter is running; GET /filters/{key}/compaction reports its progress",
        ),
        EngineError::CompactionNotFound => said(
            Code::CompactionNotFound,
            "the filter was not compacted since the server started; POST /filters/{key}/compact starts a compaction",
        ),
        EngineError::ImportNotFound => said(
            Code::ImportNotFound,
            "the import has committed nothing, or its last commit is more than a week old; start with its first line",
        ),
        EngineError::ImportRunning => said(
            Code::ImportRunning,
            "another request of this import is running; wait until it ends, or use another import_id for this stream",
        ),
        EngineError::ImportsFull => said(
            Code::ImportsFull,
            "the stored progress of imports has reached its bound (--max-imports); it is kept for a week. Try again later, or import more lines under fewer names",
        ),
        EngineError::RetryInFlight => said(
            Code::IdempotencyInFlight,
            "a request with this Idempotency-Key is in progress, or its outcome is not known yet; send it again in a moment",
        ),
        EngineError::RetryConflict => said(
            Code::IdempotencyKeyReused,
            "this Idempotency-Key was used for another request to the same path within 24 hours; send the same request as then, or use a new key",
        ),
        EngineError::RetryFilterGone => said(
            Code::IdempotencyFilterGone,
            "the first request with this Idempotency-Key was done for a filter of this name that has since been deleted or replaced, or has expired; nothing was changed now. To do it for the filter that has the name now, send it with a new key",
        ),
        EngineError::RetriesFull => said(
            Code::IdempotencyFull,
            "the stored answers for retries have reached their bound (--max-idempotency-bytes), and none is 24 hours old; nothing was changed. Try again later, or send requests that may be applied twice without a key",
        ),
        EngineError::DeadlineExceeded => said(
            Code::DeadlineExceeded,
            "the request was not done before its deadline, and nothing was changed; send it again, with less work or a later deadline (the header Prefer: wait=SECONDS, up to the server's --request-timeout-seconds)",
        ),
        EngineError::OutcomeLate => said(
            Code::OutcomeUnknown,
            "the deadline passed while the change was being written, so the change may be committed or not; send the request again in a moment if it has an Idempotency-Key; otherwise ask for the items first",
        ),
        EngineError::LogSilent => said(
            Code::OutcomePending,
            "the commit log did not answer in time, so the change may be committed or not; send the request again if it has an Idempotency-Key, to any pod; otherwise ask for the items first",
        ),
        EngineError::LogUnavailable => said(
            Code::LogUnavailable,
            "the commit log does not answer; nothing was changed. Try again in a moment",
        ),
        EngineError::Behind => said(
            Code::PositionNotReached,
            "this pod has not applied the position of cuckood-min-position in time; try again, or ask another pod",
        ),
        EngineError::NotLeading => said(
            Code::NotLeading,
            "no pod that can be reached leads the lane of the filter at the moment; nothing was changed. Try again in a moment",
        ),
        EngineError::LaneHalted(_) => said(
            Code::LaneStopped,
            "changes to the filter have stopped, because this pod and the commit log differ; nothing was changed. The server's log says what to do",
        ),
        EngineError::TooLargeForLog { .. } => own(Code::TooCostly),
        EngineError::Stopping => own(Code::Draining),
        EngineError::OutcomeUnknown(error) if is_disk_full(error) => said(
            Code::DiskFull,
            "the disk filled up during the commit, so the change may be committed or not; free space on the disk of the data. Then send the request again if it has an Idempotency-Key; otherwise ask for the items first",
        ),
        EngineError::OutcomeUnknown(_) => said(
            Code::OutcomeUnknown,
            "the storage failed during the commit, so the change may be committed or not; send the request again in a moment if it has an Idempotency-Key; otherwise ask for the items first",
        ),
        EngineError::Store(error) if is_disk_full(error) => said(
            Code::DiskFull,
            "the disk is full; nothing was changed. Free space on the disk of the data and send the request again",
        ),
        EngineError::Store(_) => said(
            Code::StorageFailed,
            "the storage could not be read; nothing was changed. The request id identifies the error in the server's log",
        ),
    }
}

/// An error of the engine about lines of an import: those before are committed.
pub(super) fn import(error: &EngineError) -> Cause {
    let happened: Cow<'static, str> = match error {
        EngineError::DeadlineExceeded => {
            "the lines that arrived last were not committed in time (--request-timeout-seconds)"
                .into()
        }
        EngineError::LogSilent => {
            "the commit log took longer than a request may, so the lines that arrived last may be committed or not".into()
        }
        EngineError::OutcomeLate => {
            "the disk took longer than a request may (--request-timeout-seconds), so the lines that arrived last may be committed or not".into()
        }
        EngineError::OutcomeUnknown(error) if is_disk_full(error) => {
            "the disk filled up during a commit, so its lines may be committed or not; free space on the disk of the data".into()
        }
        EngineError::OutcomeUnknown(_) => {
            "the storage failed during a commit, so its lines may be committed or not".into()
        }
        EngineError::Store(error) if is_disk_full(error) => {
            "the disk is full; free space on the disk of the data".into()
        }
        EngineError::Store(_) => {
            "the storage could not be read; the request id identifies the error in the server's log".into()
        }
        EngineError::Overloaded(bound) => format!("the server is overloaded ({bound})").into(),
        EngineError::OverShare { .. } | EngineError::DiskShort(_) | EngineError::Stopping => {
            error.to_string().into()
        }
        _ => return engine(error),
    };
    said(
        engine(error).code,
        format!(
            "{happened}; the lines before are committed: query how many in a moment, and resume after them"
        ),
    )
}

/// An error of a dump that is taken in.
pub(super) fn restore(error: &RestoreError) -> Cause {
    match error {
        RestoreError::Dump(DumpError::Corrupt(_)) => said(
            Code::CorruptDump,
            format!("{error}; nothing was stored. Send the dump again, or create a new one"),
        ),
        RestoreError::Dump(DumpError::Newer { .. }) => own(Code::NewerDump),
        RestoreError::Dump(DumpError::Older { .. }) => own(Code::OlderDump),
        RestoreError::Dump(DumpError::Read(_)) => own(Code::UnreadableBody),
        RestoreError::TooLarge { .. } | RestoreError::TooLong { .. } => own(Code::FilterTooLarge),
        RestoreError::Refused(error) => engine(error),
        RestoreError::DiskShort(_) => own(Code::DiskReserve),
        RestoreError::Store(error) if is_disk_full(error) => said(
            Code::NoRoom,
            "the disk filled up during the restore; nothing was stored. Free space on the disk of the data and send the dump again",
        ),
        RestoreError::Store(_) => said(
            Code::StorageFailed,
            "the storage refused the filter; nothing was changed. The request id identifies the error in the server's log",
        ),
    }
}

/// An error of a backup.
pub(super) fn backup(error: &BackupError) -> Cause {
    const REFUSED: &str =
        "the disk failed; the request id identifies the error in the server's log";
    match error {
        BackupError::Running { .. } => own(Code::BackupRunning),
        BackupError::Giving => own(Code::PodNotReady),
        BackupError::NotFound { .. } => own(Code::BackupNotFound),
        BackupError::NoRoom { needed, free, .. } => said(
            Code::NoRoom,
            format!(
                "{needed} bytes are needed in the directory of backups, {free} are free: free space there, or keep fewer backups (--backup-keep)"
            ),
        ),
        BackupError::DiskShort(_) => own(Code::DiskReserve),
        BackupError::Stopping => own(Code::Draining),
        BackupError::Damaged { .. }
        | BackupError::Content(_)
        | BackupError::Newer { .. }
        | BackupError::NotEmpty { .. } => own(Code::StorageFailed),
        BackupError::Store(error) => match &**error {
            StoreError::NoSpace { .. } => said(
                Code::NoRoom,
                "the disk of the data filled up during the snapshot; nothing was stored. Free space there",
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
