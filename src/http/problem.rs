//! Every error of the HTTP surface, and the one place that says which status
//! and which stable code it is answered with (RFC 9457, problem details).

use super::bounds::{MAX_HEAD_BYTES, MAX_HEADERS};
use crate::access::Scope;
use crate::backup::BackupError;
use crate::chain::params::{Difference, ParamsError};
use crate::engine::{DumpError, EngineError, InvalidName, RestoreError, StoreError};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Name of a kind of problem, the same in every version of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    MalformedJson,
    MalformedPath,
    MalformedQuery,
    UnreadableBody,
    BadRequest,
    ApiKeyMissing,
    ApiKeyUnknown,
    ForeignHost,
    CertificateMissing,
    ForeignOrigin,
    ScopeInsufficient,
    FilterForbidden,
    ServerForbidden,
    BackupsOff,
    UnknownRoute,
    FilterNotFound,
    BackupNotFound,
    MethodNotAllowed,
    BodyTimeout,
    HeadTimeout,
    HeadTooLarge,
    FilterDiffers,
    FilterTaken,
    BackupRunning,
    FilterExists,
    FilterChanged,
    BodyTooLarge,
    BatchTooLarge,
    TooManyPages,
    ItemTooLongForQuery,
    UnsupportedMediaType,
    UnsupportedContentEncoding,
    InvalidKey,
    InvalidFields,
    LookupTooLarge,
    CompactionRunning,
    CompactionNotFound,
    ImportNotFound,
    ImportRunning,
    ImportsFull,
    CorruptDump,
    NewerDump,
    FilterTooLarge,
    InvalidIdempotencyKey,
    IdempotencyKeyNotTaken,
    IdempotencyKeyReused,
    IdempotencyInFlight,
    IdempotencyFull,
    Internal,
    OutcomeUnknown,
    StorageFailed,
    Starting,
    Draining,
    Overloaded,
    NoRoom,
    OverQuota,
    TooManyFilters,
    RateLimited,
    DiskReserve,
    DiskFull,
}

/// Reasons under which requests are counted that were refused before any
/// filter was looked at: the values of the label `reason`.
pub(crate) const REJECTION_REASONS: [&str; 19] = [
    "rate_limited",
    "api_key_missing",
    "api_key_unknown",
    "scope_insufficient",
    "filter_forbidden",
    "server_forbidden",
    "foreign_host",
    "foreign_origin",
    "body_timeout",
    "body_too_large",
    "batch_too_large",
    "too_many_pages",
    "lookup_too_large",
    "starting",
    "draining",
    "overloaded",
    "idempotency_full",
    "imports_full",
    "disk_reserve",
];

impl Code {
    /// How it is written in answers and logs.
    pub(crate) fn name(self) -> &'static str {
        self.facts().1
    }

    pub(crate) fn status(self) -> StatusCode {
        self.facts().0
    }

    pub(crate) fn title(self) -> &'static str {
        self.facts().2
    }

    fn facts(self) -> (StatusCode, &'static str, &'static str) {
        use StatusCode as S;
        match self {
            Code::MalformedJson => (S::BAD_REQUEST, "malformed_json", "The body is not JSON"),
            Code::MalformedPath => (S::BAD_REQUEST, "malformed_path", "The path can't be read"),
            Code::MalformedQuery => (S::BAD_REQUEST, "malformed_query", "The query can't be read"),
            Code::UnreadableBody => (S::BAD_REQUEST, "unreadable_body", "The body can't be read"),
            Code::BadRequest => (S::BAD_REQUEST, "bad_request", "The request can't be read"),
            Code::ForeignHost => (S::FORBIDDEN, "foreign_host", "This host name is not served"),
            Code::CertificateMissing => (
                S::FORBIDDEN,
                "certificate_missing",
                "A certificate is asked for",
            ),
            Code::ForeignOrigin => (
                S::FORBIDDEN,
                "foreign_origin",
                "Web pages of other origins are refused",
            ),
            Code::ApiKeyMissing => (
                S::UNAUTHORIZED,
                "api_key_missing",
                "The request has no API key",
            ),
            Code::ApiKeyUnknown => (
                S::UNAUTHORIZED,
                "api_key_unknown",
                "The API key is not known here",
            ),
            Code::ScopeInsufficient => (
                S::FORBIDDEN,
                "scope_insufficient",
                "The API key does not allow this",
            ),
            Code::FilterForbidden => (
                S::FORBIDDEN,
                "filter_forbidden",
                "The API key is not for this filter",
            ),
            Code::ServerForbidden => (
                S::FORBIDDEN,
                "server_forbidden",
                "The API key is for some filters alone",
            ),
            Code::BackupsOff => (S::FORBIDDEN, "backups_off", "This server makes no backups"),
            Code::UnknownRoute => (
                S::NOT_FOUND,
                "unknown_route",
                "There is nothing under this path",
            ),
            Code::FilterNotFound => (S::NOT_FOUND, "filter_not_found", "There is no such filter"),
            Code::BackupNotFound => (S::NOT_FOUND, "backup_not_found", "There is no such backup"),
            Code::MethodNotAllowed => (
                S::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "This path does not take this method",
            ),
            Code::BodyTimeout => (
                S::REQUEST_TIMEOUT,
                "body_timeout",
                "The body came too slowly",
            ),
            Code::HeadTimeout => (
                S::REQUEST_TIMEOUT,
                "head_timeout",
                "The head of the request came too slowly",
            ),
            Code::HeadTooLarge => (
                S::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "head_too_large",
                "The head of the request is too large",
            ),
            Code::FilterDiffers => (
                S::CONFLICT,
                "filter_differs",
                "The filter exists with other parameters",
            ),
            Code::FilterTaken => (S::CONFLICT, "filter_taken", "There is a filter of this key"),
            Code::FilterChanged => (
                S::PRECONDITION_FAILED,
                "filter_changed",
                "The filter is not the one that was meant",
            ),
            Code::CorruptDump => (
                S::UNPROCESSABLE_ENTITY,
                "corrupt_dump",
                "The dump is damaged",
            ),
            Code::NewerDump => (
                S::UNPROCESSABLE_ENTITY,
                "newer_dump",
                "The dump is of a newer server",
            ),
            Code::FilterTooLarge => (
                S::UNPROCESSABLE_ENTITY,
                "filter_too_large",
                "The filter takes more bytes than it may",
            ),
            Code::BackupRunning => (S::CONFLICT, "backup_running", "A backup is being made"),
            Code::FilterExists => (
                S::PRECONDITION_FAILED,
                "filter_exists",
                "The filter exists already",
            ),
            Code::BodyTooLarge => (
                S::PAYLOAD_TOO_LARGE,
                "body_too_large",
                "The body is too large",
            ),
            Code::BatchTooLarge => (
                S::PAYLOAD_TOO_LARGE,
                "batch_too_large",
                "The batch has too many items",
            ),
            Code::TooManyPages => (
                S::PAYLOAD_TOO_LARGE,
                "too_many_pages",
                "The batch touches too many pages",
            ),
            Code::ItemTooLongForQuery => (
                S::URI_TOO_LONG,
                "item_too_long_for_query",
                "The item is too long for a query",
            ),
            Code::UnsupportedMediaType => (
                S::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "This media type is not taken",
            ),
            Code::UnsupportedContentEncoding => (
                S::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_content_encoding",
                "This content encoding is not taken",
            ),
            Code::InvalidKey => (
                S::UNPROCESSABLE_ENTITY,
                "invalid_key",
                "This can't be the key of a filter",
            ),
            Code::InvalidFields => (
                S::UNPROCESSABLE_ENTITY,
                "invalid_fields",
                "A field of the request is refused",
            ),
            Code::LookupTooLarge => (
                S::UNPROCESSABLE_ENTITY,
                "lookup_too_large",
                "The lookup asks too many filters",
            ),
            Code::InvalidIdempotencyKey => (
                S::UNPROCESSABLE_ENTITY,
                "invalid_idempotency_key",
                "The Idempotency-Key can't be one",
            ),
            Code::IdempotencyKeyNotTaken => (
                S::UNPROCESSABLE_ENTITY,
                "idempotency_key_not_taken",
                "An Idempotency-Key does nothing here",
            ),
            Code::IdempotencyKeyReused => (
                S::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "The Idempotency-Key was used for another request",
            ),
            Code::IdempotencyInFlight => (
                S::CONFLICT,
                "idempotency_in_flight",
                "The request with this Idempotency-Key is being worked on",
            ),
            Code::IdempotencyFull => (
                S::SERVICE_UNAVAILABLE,
                "idempotency_full",
                "No more answers can be kept for retries",
            ),
            Code::CompactionRunning => (
                S::CONFLICT,
                "compaction_running",
                "The filter is being compacted",
            ),
            Code::CompactionNotFound => (
                S::NOT_FOUND,
                "compaction_not_found",
                "Nothing is known of a compaction",
            ),
            Code::ImportNotFound => (
                S::NOT_FOUND,
                "import_not_found",
                "Nothing is known of this import",
            ),
            Code::ImportRunning => (
                S::CONFLICT,
                "import_running",
                "This import is being worked on",
            ),
            Code::ImportsFull => (
                S::SERVICE_UNAVAILABLE,
                "imports_full",
                "No more imports can be begun",
            ),
            Code::Internal => (
                S::INTERNAL_SERVER_ERROR,
                "internal",
                "The server made a mistake",
            ),
            Code::OutcomeUnknown => (
                S::INTERNAL_SERVER_ERROR,
                "outcome_unknown",
                "Whether the change took place is unknown",
            ),
            Code::StorageFailed => (
                S::INTERNAL_SERVER_ERROR,
                "storage_failed",
                "The storage failed",
            ),
            Code::Starting => (S::SERVICE_UNAVAILABLE, "starting", "The server is starting"),
            Code::Draining => (S::SERVICE_UNAVAILABLE, "draining", "The server is stopping"),
            Code::Overloaded => (
                S::SERVICE_UNAVAILABLE,
                "overloaded",
                "The server is overloaded",
            ),
            Code::TooManyFilters => (
                S::INSUFFICIENT_STORAGE,
                "too_many_filters",
                "There are as many filters as there may be",
            ),
            Code::RateLimited => (
                S::TOO_MANY_REQUESTS,
                "rate_limited",
                "The API key asks too often",
            ),
            Code::OverQuota => (
                S::INSUFFICIENT_STORAGE,
                "over_quota",
                "All filters together would take too many bytes",
            ),
            Code::DiskReserve => (
                S::INSUFFICIENT_STORAGE,
                "disk_reserve",
                "The server's disk is almost full",
            ),
            Code::DiskFull => (
                S::INSUFFICIENT_STORAGE,
                "disk_full",
                "The disk filled up; whether the change took place is unknown",
            ),
            Code::NoRoom => (
                S::INSUFFICIENT_STORAGE,
                "no_room",
                "The disk has no room for it",
            ),
        }
    }
}

/// Where in a request a refused field is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// JSON pointer (RFC 6901) into the body; empty = the body itself.
    Body(String),
    /// Name of a query parameter.
    Query(String),
}

/// One refused field: what was given, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    pub(crate) place: Place,
    pub(crate) given: String,
    pub(crate) allowed: String,
}

/// Everything a request can fail with.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("the body is not JSON: {reason}")]
    MalformedJson { reason: String },
    #[error("the path is not valid percent-encoded UTF-8")]
    MalformedPath,
    #[error("the query parameter {parameter} {reason}")]
    MalformedQuery {
        parameter: String,
        reason: &'static str,
    },
    #[error("the body broke off or its encoding is damaged")]
    UnreadableBody,
    #[error("the request was refused with status {0}")]
    Framework(StatusCode),
    #[error(
        "the request has no API key, or more than one; send one header, Authorization: Bearer and the key. Whoever runs the server makes keys (cuckood keys add)"
    )]
    ApiKeyMissing,
    #[error(
        "the API key is not known here; it may have been removed, or be meant for another server. Whoever runs the server makes keys (cuckood keys add)"
    )]
    ApiKeyUnknown,
    #[error("the scope of the API key is {has}, this needs {needs}; use a key that has it")]
    ScopeInsufficient { has: Scope, needs: Scope },
    #[error(
        "the API key is for filters whose keys start with {prefix}; use another key, or choose such a filter"
    )]
    FilterForbidden { prefix: String },
    #[error(
        "the API key is for filters whose keys start with {prefix}, and this concerns the server as a whole; use a key without a prefix"
    )]
    ServerForbidden { prefix: String },
    #[error(
        "the server was called by a name that is not its own: it answers to localhost, 127.0.0.1 and [::1], and to those that it was told. Call it by one of these, or start it with --allowed-host and the name"
    )]
    ForeignHost,
    #[error(
        "callers of this server show a certificate (--tls-client-ca), and so do those who ask for what is under /admin: show one that an authority of that file signed"
    )]
    CertificateMissing,
    #[error(
        "the request comes from a web page of another origin; such pages may not reach this server"
    )]
    ForeignOrigin,
    #[error("there is nothing under this path; /openapi.json and /docs list what there is")]
    UnknownRoute,
    #[error("this path does not take this method; the header Allow lists those that it takes")]
    MethodNotAllowed,
    #[error(
        "no piece of the body came for {idle_seconds} s, or all of it took longer than {total_seconds} s; send faster, or in smaller batches"
    )]
    BodyTimeout {
        idle_seconds: u64,
        total_seconds: u64,
    },
    #[error(
        "no piece of the stream came for {idle_seconds} s; what came before is committed: ask how many lines, and go on behind them"
    )]
    StreamStalled { idle_seconds: u64 },
    #[error("the head of the request was not complete in time; send it at once")]
    HeadTimeout,
    #[error(
        "path, query and headers have more than {} bytes or {} lines; items belong into the body of a POST",
        MAX_HEAD_BYTES,
        MAX_HEADERS
    )]
    HeadTooLarge,
    #[error("the head of the request is not HTTP/1.1: a line of it can't be read")]
    UnreadableHead,
    #[error("the filter exists and differs in {}; leave these fields out, send what it has, or choose another key", fields(.differences))]
    FilterDiffers { differences: Vec<Difference> },
    #[error("the filter exists, and If-None-Match: * asked for a new one")]
    FilterExists,
    #[error(
        "the body is larger than {limit} bytes (decompressed); send smaller batches, or start the server with a larger --max-body-bytes"
    )]
    BodyTooLarge { limit: usize },
    #[error(
        "the batch has more than {limit} items; send smaller batches, or start the server with a larger --max-batch-items"
    )]
    BatchTooLarge { limit: usize },
    #[error(
        "the item has {given} bytes, in a query {limit} are allowed; use {post} with the item in the body"
    )]
    ItemTooLongForQuery {
        given: usize,
        limit: usize,
        post: &'static str,
    },
    #[error("the media type is {given}, allowed is {allowed}")]
    UnsupportedMediaType {
        given: String,
        allowed: &'static str,
    },
    #[error("the content encoding is not taken; allowed is gzip, or none")]
    UnsupportedContentEncoding,
    #[error(transparent)]
    InvalidKey(#[from] InvalidName),
    #[error("{}", refusals(.0))]
    InvalidFields(Vec<FieldError>),
    #[error(
        "the Idempotency-Key is given more than once, is empty, has more than 255 characters or one that is not visible ASCII; send one key, such as a UUID, new for each request that is not a retry"
    )]
    InvalidIdempotencyKey,
    #[error("an Idempotency-Key does nothing here; leave it out: {instead}")]
    IdempotencyKeyNotTaken { instead: &'static str },
    #[error("the server made a mistake; the request id leads to its log")]
    Panicked,
    #[error("the server could not put the answer together; the request id leads to its log")]
    Unanswerable { cause: String },
    #[error("the server is replaying its log and serves in a moment")]
    Starting,
    #[error("the server is stopping; ask again when it is back")]
    Draining,
    #[error(
        "the server holds as many request bodies as it may (--max-buffered-bytes); try again in a moment"
    )]
    TooManyBodies,
    #[error(
        "the server holds as many answers that their clients have not read as it may (a quarter of --max-buffered-bytes, besides those); try again in a moment, or send fewer items at once"
    )]
    TooManyAnswers,
    #[error(
        "there is a filter of this key; say replace=true to put this one in its place, or choose another key"
    )]
    FilterTaken,
    #[error(
        "the filter is not there, or has another ETag than If-Match says; dump it again, and decide anew"
    )]
    FilterChanged,
    #[error(transparent)]
    Restore(Arc<RestoreError>),
    #[error(
        "the server works on {limit} requests already (--max-in-flight); try again in a moment"
    )]
    TooManyInFlight { limit: usize },
    #[error(
        "the API key asks more often than it may (--rate-limit); ask again in {seconds} s, or put more items into one request"
    )]
    RateLimited { seconds: u64 },
    #[error(
        "the API key has {limit} {what} under way, half of what there may be of all keys together; wait for some of them"
    )]
    KeyTakesTooMuch { limit: usize, what: &'static str },
    #[error("the server has {limit} streams of this kind under way; try again in a moment")]
    TooManyStreams { limit: usize },
    #[error("the server was started without a directory for backups; start it with --backup-dir")]
    BackupsOff,
    #[error("there is no backup of this name; GET /admin/backups lists what there is")]
    BackupNotFound,
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<RestoreError> for HttpError {
    fn from(error: RestoreError) -> Self {
        HttpError::Restore(Arc::new(error))
    }
}

impl HttpError {
    /// A refused field of the body, by JSON pointer.
    pub(crate) fn field(
        pointer: String,
        given: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        HttpError::InvalidFields(vec![FieldError {
            place: Place::Body(pointer),
            given: given.into(),
            allowed: allowed.into(),
        }])
    }

    /// A refused query parameter.
    pub(crate) fn parameter(
        name: &str,
        given: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        HttpError::InvalidFields(vec![FieldError {
            place: Place::Query(name.to_owned()),
            given: given.into(),
            allowed: allowed.into(),
        }])
    }

    /// An error of an add that creates its filter, whose fields stand
    /// somewhere else than those of a creation.
    pub(crate) fn creating(error: EngineError, place_of: impl Fn(&str) -> Place) -> Self {
        match error {
            EngineError::InvalidParams(errors) => HttpError::InvalidFields(
                errors
                    .into_iter()
                    .map(|error| FieldError {
                        place: place_of(error.field),
                        given: error.given,
                        allowed: error.allowed,
                    })
                    .collect(),
            ),
            other => HttpError::Engine(other),
        }
    }

    /// The stable code, and through it the status.
    pub(crate) fn code(&self) -> Code {
        match self {
            HttpError::MalformedJson { .. } => Code::MalformedJson,
            HttpError::MalformedPath => Code::MalformedPath,
            HttpError::MalformedQuery { .. } => Code::MalformedQuery,
            HttpError::UnreadableBody => Code::UnreadableBody,
            HttpError::Framework(status) if status.is_server_error() => Code::Internal,
            HttpError::Framework(_) => Code::BadRequest,
            HttpError::ApiKeyMissing => Code::ApiKeyMissing,
            HttpError::ApiKeyUnknown => Code::ApiKeyUnknown,
            HttpError::ScopeInsufficient { .. } => Code::ScopeInsufficient,
            HttpError::FilterForbidden { .. } => Code::FilterForbidden,
            HttpError::ServerForbidden { .. } => Code::ServerForbidden,
            HttpError::ForeignHost => Code::ForeignHost,
            HttpError::CertificateMissing => Code::CertificateMissing,
            HttpError::ForeignOrigin => Code::ForeignOrigin,
            HttpError::UnknownRoute => Code::UnknownRoute,
            HttpError::MethodNotAllowed => Code::MethodNotAllowed,
            HttpError::StreamStalled { .. } => Code::BodyTimeout,
            HttpError::BodyTimeout { .. } => Code::BodyTimeout,
            HttpError::HeadTimeout => Code::HeadTimeout,
            HttpError::HeadTooLarge => Code::HeadTooLarge,
            HttpError::UnreadableHead => Code::BadRequest,
            HttpError::FilterDiffers { .. } => Code::FilterDiffers,
            HttpError::FilterExists => Code::FilterExists,
            HttpError::BodyTooLarge { .. } => Code::BodyTooLarge,
            HttpError::BatchTooLarge { .. } => Code::BatchTooLarge,
            HttpError::ItemTooLongForQuery { .. } => Code::ItemTooLongForQuery,
            HttpError::UnsupportedMediaType { .. } => Code::UnsupportedMediaType,
            HttpError::UnsupportedContentEncoding => Code::UnsupportedContentEncoding,
            HttpError::InvalidKey(_) => Code::InvalidKey,
            HttpError::InvalidFields(_) => Code::InvalidFields,
            HttpError::InvalidIdempotencyKey => Code::InvalidIdempotencyKey,
            HttpError::IdempotencyKeyNotTaken { .. } => Code::IdempotencyKeyNotTaken,
            HttpError::Panicked | HttpError::Unanswerable { .. } => Code::Internal,
            HttpError::Starting => Code::Starting,
            HttpError::Draining => Code::Draining,
            HttpError::TooManyBodies
            | HttpError::TooManyAnswers
            | HttpError::TooManyStreams { .. }
            | HttpError::TooManyInFlight { .. } => Code::Overloaded,
            HttpError::RateLimited { .. } | HttpError::KeyTakesTooMuch { .. } => Code::RateLimited,
            HttpError::FilterTaken => Code::FilterTaken,
            HttpError::FilterChanged => Code::FilterChanged,
            HttpError::Restore(error) => match &**error {
                RestoreError::Dump(DumpError::Corrupt(_)) => Code::CorruptDump,
                RestoreError::Dump(DumpError::Newer { .. }) => Code::NewerDump,
                RestoreError::Dump(DumpError::Read(_)) => Code::UnreadableBody,
                RestoreError::TooLarge { .. } => Code::FilterTooLarge,
                RestoreError::DiskShort(_) => Code::DiskReserve,
                RestoreError::Store(StoreError::NoSpace { .. }) => Code::NoRoom,
                RestoreError::Store(_) => Code::StorageFailed,
            },
            HttpError::BackupsOff => Code::BackupsOff,
            HttpError::BackupNotFound => Code::BackupNotFound,
            HttpError::Backup(error) => match error {
                BackupError::Running { .. } => Code::BackupRunning,
                BackupError::NotFound { .. } => Code::BackupNotFound,
                BackupError::NoRoom { .. } => Code::NoRoom,
                BackupError::DiskShort(_) => Code::DiskReserve,
                BackupError::Store(error) if matches!(**error, StoreError::NoSpace { .. }) => {
                    Code::NoRoom
                }
                BackupError::Stopping => Code::Draining,
                BackupError::Store(error) if matches!(**error, StoreError::Unsupported { .. }) => {
                    Code::BackupsOff
                }
                BackupError::Store(_)
                | BackupError::Io { .. }
                | BackupError::Damaged { .. }
                | BackupError::Newer { .. }
                | BackupError::NotEmpty { .. } => Code::StorageFailed,
            },
            HttpError::Engine(error) => match error {
                EngineError::NotFound { .. } => Code::FilterNotFound,
                EngineError::InvalidParams(_) => Code::InvalidFields,
                EngineError::TooManyPages { .. } => Code::TooManyPages,
                EngineError::OverQuota { .. } => Code::OverQuota,
                EngineError::TooManyFiltersInAll { .. } => Code::TooManyFilters,
                EngineError::DiskShort(_) => Code::DiskReserve,
                EngineError::OutcomeUnknown(error) | EngineError::Store(error)
                    if matches!(**error, StoreError::NoSpace { .. }) =>
                {
                    Code::DiskFull
                }
                EngineError::TooManyFilters { .. } | EngineError::TooManyProbes { .. } => {
                    Code::LookupTooLarge
                }
                EngineError::Overloaded { .. } => Code::Overloaded,
                EngineError::CompactionRunning => Code::CompactionRunning,
                EngineError::CompactionNotFound => Code::CompactionNotFound,
                EngineError::ImportNotFound => Code::ImportNotFound,
                EngineError::ImportRunning => Code::ImportRunning,
                EngineError::ImportsFull => Code::ImportsFull,
                EngineError::RetryInFlight => Code::IdempotencyInFlight,
                EngineError::RetryConflict => Code::IdempotencyKeyReused,
                EngineError::RetriesFull => Code::IdempotencyFull,
                EngineError::Stopping => Code::Draining,
                EngineError::OutcomeUnknown(_) => Code::OutcomeUnknown,
                EngineError::Store(_) => Code::StorageFailed,
            },
        }
    }

    /// Seconds after which trying again makes sense, where it does.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            HttpError::RateLimited { seconds } => Some(*seconds),
            HttpError::KeyTakesTooMuch { .. } => Some(1),
            other => (other.code().status() == StatusCode::SERVICE_UNAVAILABLE).then_some(1),
        }
    }

    /// What a client is told beside a 401, or a 403 for want of scope, about how
    /// to do better (RFC 6750).
    pub(crate) fn challenge(&self) -> Option<String> {
        const REALM: &str = r#"Bearer realm="cuckood""#;
        match self {
            HttpError::ApiKeyMissing => Some(REALM.to_owned()),
            HttpError::ApiKeyUnknown => Some(format!(r#"{REALM}, error="invalid_token""#)),
            HttpError::ScopeInsufficient { needs, .. } => Some(format!(
                r#"{REALM}, error="insufficient_scope", scope="{needs}""#
            )),
            _ => None,
        }
    }

    /// What an answer of the framework's own says, so that it can be said in
    /// our shape; `None` for answers that are no errors.
    pub(crate) fn from_status(status: StatusCode) -> Option<HttpError> {
        if !status.is_client_error() && !status.is_server_error() {
            return None;
        }
        Some(match status {
            StatusCode::NOT_FOUND => HttpError::UnknownRoute,
            StatusCode::METHOD_NOT_ALLOWED => HttpError::MethodNotAllowed,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => HttpError::UnsupportedContentEncoding,
            other => HttpError::Framework(other),
        })
    }

    /// What the answer says about this error.
    pub(crate) fn problem(&self, request_id: &str) -> Problem {
        let code = self.code();
        Problem {
            r#type: format!("urn:cuckood:problem:{}", code.name()),
            title: code.title().to_owned(),
            status: code.status().as_u16(),
            detail: self.detail(),
            code: code.name().to_owned(),
            request_id: request_id.to_owned(),
            errors: self.errors(),
        }
    }

    /// The sentence for the client. Causes below the engine stay in the log.
    fn detail(&self) -> String {
        match self {
            HttpError::Engine(EngineError::InvalidParams(errors)) => {
                refusals(&errors.iter().map(field_error).collect::<Vec<_>>())
            }
            HttpError::Engine(EngineError::Overloaded { what }) => {
                format!("the server is overloaded ({what}); try again in a moment")
            }
            HttpError::Engine(EngineError::OutcomeUnknown(_)) if self.code() == Code::DiskFull => {
                "the disk filled up while the change was written, so it may or may not be there; \
                 make room on the disk of the data, then with an Idempotency-Key send it again, \
                 without one ask first"
                    .to_owned()
            }
            HttpError::Engine(EngineError::OutcomeUnknown(_)) => {
                "the storage failed while the change was written, so it may or may not be there; \
                 with an Idempotency-Key send it again in a moment, without one ask first"
                    .to_owned()
            }
            HttpError::Engine(EngineError::CompactionRunning) => {
                "the filter is being compacted already; GET /filters/{key}/compaction tells how far it is"
                    .to_owned()
            }
            HttpError::Engine(EngineError::CompactionNotFound) => {
                "the filter was not compacted since the server was started; POST /filters/{key}/compact \
                 begins it"
                    .to_owned()
            }
            HttpError::Engine(EngineError::ImportNotFound) => {
                "nothing of this import is committed, or its last commit is more than a week old; \
                 begin with its first line"
                    .to_owned()
            }
            HttpError::Engine(EngineError::ImportRunning) => {
                "another request for this import is being worked on; wait until it ends, or give \
                 this stream another import_id"
                    .to_owned()
            }
            HttpError::Engine(EngineError::ImportsFull) => {
                "the server keeps the progress of as many imports as it may (--max-imports), for a \
                 week each; try again later, or import more under fewer names"
                    .to_owned()
            }
            HttpError::Engine(EngineError::RetryInFlight) => {
                "a request with this Idempotency-Key is being worked on, or its outcome is not known yet; \
                 send it again in a moment"
                    .to_owned()
            }
            HttpError::Engine(EngineError::RetryConflict) => {
                "this Idempotency-Key was used for another request to the same path within 24 hours; \
                 send what was sent then, or use a new key"
                    .to_owned()
            }
            HttpError::Engine(EngineError::RetriesFull) => {
                "the server keeps as many answers for retries as it may (--max-idempotency-bytes), \
                 and none of them is 24 hours old; nothing was changed. Try again later, or send \
                 what may be done twice without a key"
                    .to_owned()
            }
            HttpError::Engine(EngineError::Store(_)) if self.code() == Code::DiskFull => {
                "the disk is full; nothing was changed: make room on the disk of the data, and \
                 send it again"
                    .to_owned()
            }
            HttpError::Engine(EngineError::Store(_)) => {
                "the storage could not be read; nothing was changed, and the request id leads to the server's log"
                    .to_owned()
            }
            HttpError::Restore(error) => match &**error {
                RestoreError::Store(StoreError::NoSpace { .. }) => {
                    "the disk filled up while it was taken in; nothing of it was kept: make room on the disk of the data, and send it again".to_owned()
                }
                RestoreError::Store(_) => {
                    "the storage refused it; nothing was changed, and the request id leads to the server's log".to_owned()
                }
                RestoreError::Dump(DumpError::Corrupt(_)) => {
                    format!("{error}; nothing of it was kept, send it again or make a new one")
                }
                other => other.to_string(),
            },
            HttpError::Backup(error) if self.code() == Code::StorageFailed => match error {
                BackupError::Store(_) | BackupError::Io { .. } => {
                    "the disk refused; the request id leads to the server's log".to_owned()
                }
                other => other.to_string(),
            },
            HttpError::Backup(BackupError::Store(_)) if self.code() == Code::NoRoom => {
                "the disk of the data filled up while a copy was frozen; nothing of it was kept: make room there".to_owned()
            }
            HttpError::Backup(BackupError::NoRoom { needed, free, .. }) => format!(
                "{needed} bytes are needed in the directory of backups, {free} are free: make room there, or keep fewer backups (--backup-keep)"
            ),
            other => other.to_string(),
        }
    }

    fn errors(&self) -> Vec<ProblemField> {
        match self {
            HttpError::InvalidFields(errors) => errors.iter().map(ProblemField::refused).collect(),
            HttpError::Engine(EngineError::InvalidParams(errors)) => errors
                .iter()
                .map(|error| ProblemField::refused(&field_error(error)))
                .collect(),
            HttpError::FilterDiffers { differences } => {
                differences.iter().map(ProblemField::differing).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn field_error(error: &ParamsError) -> FieldError {
    FieldError {
        place: Place::Body(format!("/{}", error.field)),
        given: error.given.clone(),
        allowed: error.allowed.clone(),
    }
}

fn fields(differences: &[Difference]) -> String {
    let names: Vec<&str> = differences.iter().map(|d| d.field).collect();
    names.join(", ")
}

fn refusals(errors: &[FieldError]) -> String {
    let sentences: Vec<String> = errors.iter().map(FieldError::sentence).collect();
    sentences.join("; ")
}

impl FieldError {
    fn sentence(&self) -> String {
        let name = match &self.place {
            Place::Body(pointer) if pointer.is_empty() => "the body",
            Place::Body(pointer) => pointer.as_str(),
            Place::Query(name) => name.as_str(),
        };
        format!("{name} is {}, allowed is {}", self.given, self.allowed)
    }
}

/// An error as the client sees it (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// A URN that names the kind of problem.
    #[schema(example = "urn:cuckood:problem:filter_not_found")]
    r#type: String,
    /// The kind of problem in a few words.
    #[schema(example = "There is no such filter")]
    title: String,
    /// The HTTP status.
    #[schema(example = 404)]
    status: u16,
    /// What was wrong, what is allowed, what to do.
    #[schema(example = "there is no filter coupons")]
    detail: String,
    /// Stable name of the kind of problem, for programs.
    #[schema(example = "filter_not_found")]
    code: String,
    /// Leads to the server's log; the same as the header `x-request-id`.
    #[schema(example = "f3b0c44298fc1c14")]
    request_id: String,
    /// The refused or differing fields, where there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    errors: Vec<ProblemField>,
}

/// One field of a refused request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemField {
    /// JSON pointer to the field in the body; empty = the body itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// Name of the query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    /// The whole sentence.
    detail: String,
    /// What was given.
    given: String,
    /// What is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<String>,
    /// What the existing filter has.
    #[serde(skip_serializing_if = "Option::is_none")]
    existing: Option<String>,
}

impl ProblemField {
    fn refused(error: &FieldError) -> ProblemField {
        let (pointer, parameter) = match &error.place {
            Place::Body(pointer) => (Some(pointer.clone()), None),
            Place::Query(name) => (None, Some(name.clone())),
        };
        ProblemField {
            pointer,
            parameter,
            detail: error.sentence(),
            given: error.given.clone(),
            allowed: Some(error.allowed.clone()),
            existing: None,
        }
    }

    fn differing(difference: &Difference) -> ProblemField {
        ProblemField {
            pointer: Some(format!("/{}", difference.field)),
            parameter: None,
            detail: format!(
                "{} was requested as {}, the filter has {}",
                difference.field, difference.requested, difference.existing
            ),
            given: difference.requested.clone(),
            allowed: None,
            existing: Some(difference.existing.clone()),
        }
    }
}

/// Carries the error to the boundary, which knows the request id and renders it.
impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let mut response = self.code().status().into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}
