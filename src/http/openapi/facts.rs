//! What a handler declares of its route beside what the document has fields for:
//! extensions of its description, which are taken out before the document is
//! handed out.

use crate::http::problem::Code;
use serde_json::Value;
use utoipa::openapi::path::Operation;

/// What the operation can fail with beside what all can: groups of kinds.
pub(crate) const FAILS: &str = "x-fails";

/// The operation answers about the filters of the caller's prefix alone, or
/// about none.
pub(crate) const NARROWED: &str = "x-narrowed";

/// Each request of it has a line in the audit log.
pub(crate) const AUDITED: &str = "x-audited";

/// The request takes as long as what it sends or gets: it can't say until when it
/// waits.
pub(crate) const STREAMED: &str = "x-streamed";

/// The body may be left out.
pub(crate) const BODY_IS_OPTIONAL: &str = "x-body-is-optional";

/// What any operation can fail with.
pub(super) const EVERY: &[Code] = &[
    Code::BadRequest,
    Code::ForeignHost,
    Code::ForeignOrigin,
    Code::HeadTimeout,
    Code::HeadTooLarge,
    Code::Internal,
];

/// Those that need an API key.
pub(super) const CALLER: &[Code] = &[
    Code::ApiKeyMissing,
    Code::ApiKeyUnknown,
    Code::ApiKeyExpired,
    Code::ApiKeyRevoked,
    Code::ScopeInsufficient,
    Code::RateLimited,
    Code::OverShare,
    Code::Overloaded,
    Code::InvalidDeadline,
];

/// Those that ask the engine.
pub(crate) const ENGINE: &[Code] = &[
    Code::MalformedQuery,
    Code::InvalidFields,
    Code::StorageFailed,
    Code::Starting,
    Code::Draining,
    Code::Overloaded,
    Code::DeadlineExceeded,
    Code::InvalidPosition,
    Code::PositionNotReached,
    Code::NotLeading,
    Code::LogUnavailable,
];

/// Those about the clock.
pub(crate) const CLOCK: &[Code] = &[
    Code::CertificateMissing,
    Code::MalformedQuery,
    Code::Starting,
    Code::Draining,
];

/// Those with the key of a filter in their path.
pub(crate) const KEYED: &[Code] = &[Code::MalformedPath, Code::InvalidKey];

/// Those whose filter must be there.
pub(crate) const MISSING: &[Code] = &[Code::FilterNotFound];

/// Those that read a body as a whole.
pub(crate) const BODY: &[Code] = &[
    Code::MalformedJson,
    Code::UnreadableBody,
    Code::BodyTimeout,
    Code::BodyTooLarge,
    Code::UnsupportedMediaType,
    Code::UnsupportedContentEncoding,
];

/// Those that read a body while it comes.
pub(crate) const STREAM: &[Code] = &[
    Code::UnreadableBody,
    Code::BodyTimeout,
    Code::UnsupportedMediaType,
    Code::UnsupportedContentEncoding,
    Code::IdempotencyKeyNotTaken,
];

/// Those with many items for one filter.
pub(crate) const BATCH: &[Code] = &[Code::BatchTooLarge, Code::TooCostly, Code::TooManyPages];

/// Those for filters with values, or for filters without.
pub(crate) const KIND: &[Code] = &[Code::NotForThisFilter];

/// Those with one item in the query.
pub(crate) const QUESTION: &[Code] = &[Code::ItemTooLongForQuery];

/// Those that look items up in all sub-filters of a filter.
pub(crate) const PROBES: &[Code] = &[Code::TooCostly];

/// Those that change a filter.
pub(crate) const CHANGE: &[Code] = &[
    Code::OutcomeUnknown,
    Code::OutcomePending,
    Code::LaneStopped,
    Code::DiskReserve,
    Code::DiskFull,
];

/// Those that may make a filter.
pub(crate) const QUOTA: &[Code] = &[Code::OverQuota, Code::OverKeyQuota, Code::TooManyFilters];

/// Those whose answers are kept for retries with the same `Idempotency-Key`.
pub(crate) const RETRIED: &[Code] = &[
    Code::InvalidIdempotencyKey,
    Code::IdempotencyKeyReused,
    Code::IdempotencyInFlight,
    Code::IdempotencyFull,
    Code::OverKeyQuota,
];

/// Those about backups.
pub(crate) const BACKUPS: &[Code] = &[
    Code::CertificateMissing,
    Code::MalformedQuery,
    Code::InvalidFields,
    Code::BackupsOff,
    Code::StorageFailed,
    Code::Starting,
    Code::Draining,
];

/// Whether the operation declares a fact that is one by being there.
pub(crate) fn declares(operation: &Operation, fact: &str) -> bool {
    let extensions = operation.extensions.as_ref();
    extensions.is_some_and(|declared| declared.contains_key(fact))
}

/// Whether the answers of the operation are kept for retries.
pub(super) fn is_retried(operation: &Operation) -> bool {
    declared_failures(operation).contains(&Code::IdempotencyInFlight)
}

/// Whether a request may say which positions its answer is to take into account.
pub(super) fn has_position(operation: &Operation) -> bool {
    declared_failures(operation).contains(&Code::PositionNotReached)
}

/// Whether it changes a filter.
pub(super) fn is_change(operation: &Operation) -> bool {
    declared_failures(operation).contains(&Code::OutcomePending)
}

/// Whether a request may say until when it waits.
pub(super) fn has_deadline(operation: &Operation) -> bool {
    !declares(operation, STREAMED) && declared_failures(operation).contains(&Code::DeadlineExceeded)
}

/// The kinds of problems that the operation declares.
pub(super) fn declared_failures(operation: &Operation) -> Vec<Code> {
    let declared = operation.extensions.as_ref().and_then(|it| it.get(FAILS));
    let groups = declared.and_then(Value::as_array).into_iter().flatten();
    let names = groups.filter_map(Value::as_array).flatten();
    names
        .filter_map(|name| Code::of_name(name.as_str()?))
        .collect()
}
