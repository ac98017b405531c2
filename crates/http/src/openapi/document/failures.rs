//! What operations can fail with: what they declare, and what follows from it.

use crate::codes::Code;
use serde_json::Value;
use utoipa::openapi::path::Operation;

/// What the operation can fail with beside what all can: groups of kinds.
pub(super) const FAILS: &str = "x-fails";

/// The request takes as long as what it sends or gets: it can't say until when it
/// waits.
pub(super) const STREAMED: &str = "x-streamed";

/// The body may be left out.
pub(super) const BODY_IS_OPTIONAL: &str = "x-body-is-optional";

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
pub(super) const ENGINE: &[Code] = &[
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

/// Those with the key of a filter in their path.
pub(super) const KEYED: &[Code] = &[Code::MalformedPath, Code::InvalidKey];

/// Those whose filter must be there.
pub(super) const MISSING: &[Code] = &[Code::FilterNotFound];

/// Those that read a body while it comes.
pub(super) const STREAM: &[Code] = &[
    Code::UnreadableBody,
    Code::BodyTimeout,
    Code::UnsupportedMediaType,
    Code::UnsupportedContentEncoding,
    Code::IdempotencyKeyNotTaken,
];

/// Those that change a filter.
pub(super) const CHANGE: &[Code] = &[
    Code::OutcomeUnknown,
    Code::OutcomePending,
    Code::LaneStopped,
    Code::DiskReserve,
    Code::DiskFull,
];

/// Those that may make a filter.
pub(super) const QUOTA: &[Code] = &[Code::OverQuota, Code::OverKeyQuota, Code::TooManyFilters];

/// Those about the clock.
pub(super) const CLOCK: &[Code] = &[
    Code::CertificateMissing,
    Code::MalformedQuery,
    Code::Starting,
    Code::Draining,
];

/// Those that read a body as a whole.
pub(super) const BODY: &[Code] = &[
    Code::MalformedJson,
    Code::UnreadableBody,
    Code::BodyTimeout,
    Code::BodyTooLarge,
    Code::UnsupportedMediaType,
    Code::UnsupportedContentEncoding,
];

/// Those with many items for one filter.
pub(super) const BATCH: &[Code] = &[Code::BatchTooLarge, Code::TooCostly, Code::TooManyPages];

/// Those for filters with values, or for filters without.
pub(super) const KIND: &[Code] = &[Code::NotForThisFilter];

/// Those with one item in the query.
pub(super) const QUESTION: &[Code] = &[Code::ItemTooLongForQuery];

/// Those that look items up in all sub-filters of a filter.
pub(super) const PROBES: &[Code] = &[Code::TooCostly];

/// Those whose answers are kept for retries with the same `Idempotency-Key`.
pub(super) const RETRIED: &[Code] = &[
    Code::InvalidIdempotencyKey,
    Code::InvalidIdempotencyLifetime,
    Code::IdempotencyKeyReused,
    Code::IdempotencyInFlight,
    Code::IdempotencyFull,
];

/// Those about backups.
pub(super) const BACKUPS: &[Code] = &[
    Code::CertificateMissing,
    Code::MalformedQuery,
    Code::InvalidFields,
    Code::BackupsOff,
    Code::StorageFailed,
    Code::Starting,
    Code::Draining,
];

/// Whether the operation declares a fact that is one by being there.
pub(super) fn declares(operation: &Operation, fact: &str) -> bool {
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
