//! Everything a request can fail with, and the kind of each.

use super::causes;
use super::codes::Code;
use super::fields::{FieldError, Place, excerpt, refusals};
use super::used_up::{self, Exhausted};
use crate::access::Scope;
use crate::access::keys::KeyEnd;
use crate::backup::BackupError;
use crate::chain::params::Difference;
use crate::engine::{EngineError, InvalidName, RestoreError, ValueField, allowed_values};
use crate::http::bounds::{MAX_HEAD_BYTES, MAX_HEADERS};
use axum::http::StatusCode;
use std::sync::Arc;

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
    #[error("the body ended early, or its encoding is damaged")]
    UnreadableBody,
    #[error("the request was refused with status {0}")]
    Framework(StatusCode),
    #[error(
        "the request has no API key, or more than one; send one header Authorization: Bearer with the key. The operator of the server creates keys (cuckood keys add)"
    )]
    ApiKeyMissing,
    #[error(
        "the server does not know the API key; it was removed, or belongs to another server. The operator of the server creates keys (cuckood keys add)"
    )]
    ApiKeyUnknown,
    #[error(
        "the API key has expired; use another one. The operator of the server creates keys (cuckood keys add)"
    )]
    ApiKeyExpired,
    #[error(
        "the API key was removed, or what it allows was changed, while the request was in progress; it was ended. Use another key, or send the request again if the key is still there"
    )]
    ApiKeyRevoked,
    #[error(
        "{end} while lines were imported; {committed_lines} lines of the import are committed: query it and resume after them, with another key"
    )]
    ImportCutOff { end: KeyEnd, committed_lines: u64 },
    #[error(
        "the scope of the API key is {has}, the request needs {needs}; use a key with that scope"
    )]
    ScopeInsufficient { has: Scope, needs: Scope },
    #[error(
        "the API key is restricted to filters whose keys start with {prefix}; use another API key, or such a filter"
    )]
    FilterForbidden { prefix: String },
    #[error(
        "the API key is restricted to filters whose keys start with {prefix}, and the request concerns the whole server; use an API key without a prefix"
    )]
    ServerForbidden { prefix: String },
    #[error(
        "the server does not answer to this host name: it answers to localhost, 127.0.0.1 and [::1], with --allow-anonymous to any address, and to the names in --allowed-host. Use one of these, or start the server with --allowed-host and the name"
    )]
    ForeignHost,
    #[error(
        "the request is one between pods of a cluster, and has not the key of this cluster: give all pods the same --cluster-key-file"
    )]
    ClusterKeyInvalid,
    #[error("the state of this pod can't take the place of the other's: {reason}")]
    HistoryDiffers { reason: String },
    #[error(
        "the server requires a client certificate (--tls-client-ca), also for /admin: present a certificate that an authority of that file signed"
    )]
    CertificateMissing,
    #[error(
        "the request comes from a web page of another origin; the server refuses such requests"
    )]
    ForeignOrigin,
    #[error("the path does not exist; /openapi.json and /docs list all paths")]
    UnknownRoute,
    #[error(
        "the path does not allow this method; the header Allow lists the methods that it allows"
    )]
    MethodNotAllowed,
    #[error(
        "no part of the body arrived for {idle_seconds} s, or the whole body took longer than {total_seconds} s (of a dump: it arrived slower than --min-restore-rate); send faster, or send smaller batches"
    )]
    BodyTimeout {
        idle_seconds: u64,
        total_seconds: u64,
    },
    #[error(
        "no part of the stream arrived for {idle_seconds} s; the lines before are committed: query how many, and resume after them"
    )]
    StreamStalled { idle_seconds: u64 },
    #[error(
        "one request of an import may last {seconds} s (--import-timeout-seconds); the lines that arrived are committed: query how many, and resume after them"
    )]
    ImportTimeout { seconds: u64 },
    #[error("the head of the request was not complete in time; send it without pauses")]
    HeadTimeout,
    #[error(
        "path, query string and headers have more than {} bytes or {} lines; send items in the body of a POST",
        MAX_HEAD_BYTES,
        MAX_HEADERS
    )]
    HeadTooLarge,
    #[error("the head of the request is not HTTP/1.1: a line is invalid")]
    UnreadableHead,
    #[error("the filter exists and differs in {}; leave these fields out, send the filter's values, or choose another key", names(.differences))]
    FilterDiffers { differences: Vec<Difference> },
    #[error("the filter exists, and If-None-Match: * demands a new one")]
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
        "the item has {given} bytes, in a query string {limit} are allowed; use {post} with the item in the body"
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
    #[error("the content encoding is not supported; allowed is gzip, or none")]
    UnsupportedContentEncoding,
    #[error(transparent)]
    InvalidKey(#[from] InvalidName),
    #[error("{}", refusals(.0))]
    InvalidFields(Vec<FieldError>),
    #[error(
        "the preference wait of the header Prefer is {given}, allowed is a number of seconds from 0.001, such as Prefer: wait=2.5"
    )]
    InvalidDeadline { given: String },
    #[error(
        "the header cuckood-min-position has {given}, allowed is what this cluster has given as cuckood-position, such as 1.3.4711, or several of these separated by commas"
    )]
    InvalidPosition { given: String },
    #[error(
        "the header cuckood-min-position is for pods of a cluster, and this server is in none; leave it out: answers here have everything that this server acknowledged"
    )]
    NoPositions,
    #[error("the header cuckood-consistency is {given}, allowed is local or strong")]
    InvalidConsistency { given: String },
    #[error(
        "the Idempotency-Key is given more than once, is empty, has more than 255 characters or one that is not visible ASCII; send one key, such as a UUID, new for each request that is not a retry"
    )]
    InvalidIdempotencyKey,
    #[error("the request takes no Idempotency-Key; leave it out: {instead}")]
    IdempotencyKeyNotTaken { instead: &'static str },
    #[error("an internal error occurred; the request id identifies it in the server's log")]
    Panicked,
    #[error(
        "the server could not create the answer; the request id identifies the error in the server's log"
    )]
    Unanswerable { cause: String },
    #[error("the server is replaying its log; try again in a moment")]
    Starting,
    #[error("{reason}")]
    PodNotReady { reason: String },
    #[error("the server is stopping; try again after its restart")]
    Draining,
    #[error("{0}")]
    UsedUp(Exhausted),
    #[error("a filter with this key exists; set replace=true to replace it, or choose another key")]
    FilterTaken,
    #[error(
        "the filter does not exist, or its ETag differs from If-Match; dump it again and compare"
    )]
    FilterChanged,
    #[error(transparent)]
    Restore(Arc<RestoreError>),
    #[error(
        "the API key exceeds its rate (--rate-limit); try again in {seconds} s, or send more items in one request"
    )]
    RateLimited { seconds: u64 },
    #[error("the server has no directory for backups; start it with --backup-dir")]
    BackupsOff,
    #[error(
        "the server is in no cluster; a pod of one is started with --log, --cluster and --advertise"
    )]
    NoCluster,
    #[error("the backup does not exist; GET /admin/backups lists all backups")]
    BackupNotFound,
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Engine(EngineError),
    /// What lines of an import failed with; those before are committed.
    #[error(transparent)]
    Import(EngineError),
}

impl From<RestoreError> for HttpError {
    fn from(error: RestoreError) -> Self {
        HttpError::Restore(Arc::new(error))
    }
}

impl From<KeyEnd> for HttpError {
    fn from(end: KeyEnd) -> Self {
        match end {
            KeyEnd::Expired => HttpError::ApiKeyExpired,
            KeyEnd::Revoked => HttpError::ApiKeyRevoked,
        }
    }
}

/// Refused parameters stand in the body, unless [`creating`](HttpError::creating)
/// says otherwise.
impl From<EngineError> for HttpError {
    fn from(error: EngineError) -> Self {
        HttpError::creating(error, |field| Place::Body(format!("/{field}")))
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

    /// A body of another media type than is taken here.
    pub(crate) fn media_type(given: Option<&str>, allowed: &'static str) -> Self {
        HttpError::UnsupportedMediaType {
            given: given.map_or_else(|| "not stated".to_owned(), excerpt),
            allowed,
        }
    }

    /// An error of the engine about a filter whose fields stand where `place_of`
    /// says.
    pub(crate) fn creating(error: EngineError, place_of: impl Fn(&str) -> Place) -> Self {
        let EngineError::InvalidParams(errors) = error else {
            return HttpError::Engine(error);
        };
        let refused = errors.into_iter().map(|error| FieldError {
            place: place_of(error.field),
            given: error.given,
            allowed: error.allowed,
        });
        HttpError::InvalidFields(refused.collect())
    }

    /// An error of the engine about values, each of which stands where `place_of`
    /// says.
    pub(crate) fn about_values(
        error: EngineError,
        place_of: impl Fn(usize, ValueField) -> Place,
    ) -> Self {
        let EngineError::ValueTooLarge {
            position,
            field,
            value,
            value_bits,
        } = error
        else {
            return HttpError::from(error);
        };
        HttpError::InvalidFields(vec![FieldError {
            place: place_of(position, field),
            given: value.to_string(),
            allowed: format!(
                "{}: the values of the filter have {value_bits} bits",
                allowed_values(value_bits)
            ),
        }])
    }

    /// An error of the engine about a question that goes back so many seconds, which
    /// stand where that says.
    pub(crate) fn about_window(error: EngineError, place: Place) -> Self {
        let EngineError::BeyondWindow {
            filter,
            within_seconds,
            window_seconds,
        } = error
        else {
            return HttpError::from(error);
        };
        HttpError::InvalidFields(vec![FieldError {
            place,
            given: within_seconds.to_string(),
            allowed: format!("1 to {window_seconds}, the window of the filter {filter}"),
        }])
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
            HttpError::ApiKeyExpired
            | HttpError::ImportCutOff {
                end: KeyEnd::Expired,
                ..
            } => Code::ApiKeyExpired,
            HttpError::ApiKeyRevoked
            | HttpError::ImportCutOff {
                end: KeyEnd::Revoked,
                ..
            } => Code::ApiKeyRevoked,
            HttpError::ScopeInsufficient { .. } => Code::ScopeInsufficient,
            HttpError::FilterForbidden { .. } => Code::FilterForbidden,
            HttpError::ServerForbidden { .. } => Code::ServerForbidden,
            HttpError::ForeignHost => Code::ForeignHost,
            HttpError::ClusterKeyInvalid => Code::ClusterKeyInvalid,
            HttpError::HistoryDiffers { .. } => Code::HistoryDiffers,
            HttpError::CertificateMissing => Code::CertificateMissing,
            HttpError::ForeignOrigin => Code::ForeignOrigin,
            HttpError::UnknownRoute => Code::UnknownRoute,
            HttpError::MethodNotAllowed => Code::MethodNotAllowed,
            HttpError::StreamStalled { .. } | HttpError::ImportTimeout { .. } => Code::BodyTimeout,
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
            HttpError::InvalidDeadline { .. } => Code::InvalidDeadline,
            HttpError::InvalidPosition { .. }
            | HttpError::NoPositions
            | HttpError::InvalidConsistency { .. } => Code::InvalidPosition,
            HttpError::InvalidIdempotencyKey => Code::InvalidIdempotencyKey,
            HttpError::IdempotencyKeyNotTaken { .. } => Code::IdempotencyKeyNotTaken,
            HttpError::Panicked | HttpError::Unanswerable { .. } => Code::Internal,
            HttpError::Starting => Code::Starting,
            HttpError::Draining => Code::Draining,
            HttpError::PodNotReady { .. } => Code::PodNotReady,
            HttpError::UsedUp(exhausted) => used_up::code(exhausted.used_up),
            HttpError::RateLimited { .. } => Code::RateLimited,
            HttpError::FilterTaken => Code::FilterTaken,
            HttpError::FilterChanged => Code::FilterChanged,
            HttpError::Restore(error) => causes::restore(error).code,
            HttpError::BackupsOff => Code::BackupsOff,
            HttpError::NoCluster => Code::NoCluster,
            HttpError::BackupNotFound => Code::BackupNotFound,
            HttpError::Backup(error) => causes::backup(error).code,
            HttpError::Engine(error) | HttpError::Import(error) => causes::engine(error).code,
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
}

fn names(differences: &[Difference]) -> String {
    let names: Vec<&str> = differences.iter().map(|d| d.field).collect();
    names.join(", ")
}
