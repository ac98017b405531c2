//! Everything a request can fail with, and the kind of each.

use super::fields::{FieldError, FieldPlace, excerpt, refusals};
use crate::access::keys::KeyEnd;
use crate::backup::BackupError;
use crate::chain::params::Difference;
use crate::codes::Code;
use crate::engine::{EngineError, FilterName, InvalidName, RestoreError};
use crate::server::refusal::Refusal;
use axum::http::StatusCode;
use axum::response::Response;
use std::sync::Arc;
use tokio::task::JoinError;

/// Everything a request can fail with.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// There is no more to tell than its kind.
    #[error("{}", .0.sentence())]
    Plain(Code),
    /// What is refused whatever protocol it comes by.
    #[error(transparent)]
    Refused(Refusal),
    #[error("the body is not JSON: {reason}")]
    MalformedJson { reason: String },
    #[error("the query parameter {parameter} {reason}")]
    MalformedQuery {
        parameter: String,
        reason: &'static str,
    },
    #[error("the request was refused with status {0}")]
    Framework(StatusCode),
    #[error(
        "{end} while lines were imported; {committed_lines} lines of the import are committed: query it and resume after them, with another key"
    )]
    ImportCutOff { end: KeyEnd, committed_lines: u64 },
    #[error(
        "the API key is restricted to filters whose keys start with {prefix}; use another API key, or such a filter"
    )]
    FilterForbidden { prefix: String },
    #[error(
        "the API key is restricted to filters whose keys start with {prefix}, and the request concerns the whole server; use an API key without a prefix"
    )]
    ServerForbidden { prefix: String },
    #[error("the state of this pod can't take the place of the other's: {reason}")]
    HistoryDiffers { reason: String },
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
    #[error("the filter exists and differs in {}; leave these fields out, send the filter's values, or choose another key", names(.differences))]
    FilterDiffers { differences: Vec<Difference> },
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
    #[error("the media type is {given}, allowed is {allowed}; with curl: -H 'content-type: {}'", first_of(.allowed))]
    UnsupportedMediaType {
        given: String,
        allowed: &'static str,
    },
    #[error(
        "the dump has {bytes} bytes, and none in the given Range; ask for some of these, or leave Range out"
    )]
    RangeBeyondEnd { bytes: u64 },
    #[error("{method} does not go there: {meant}; the header Allow lists the methods of this path")]
    MethodMistaken { method: String, meant: String },
    #[error(
        "the filter {name} does not exist; create it first, with PUT /filters/{name} and its capacity{also}"
    )]
    NothingToAddTo {
        name: FilterName,
        also: &'static str,
    },
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
        "the header Idempotency-Key-Lifetime is {given}, allowed is one whole number of seconds from 1 to 86400; without it the answer is kept for 24 hours"
    )]
    InvalidIdempotencyLifetime { given: String },
    #[error("the request takes no Idempotency-Key; leave it out: {instead}")]
    IdempotencyKeyNotTaken { instead: &'static str },
    #[error(
        "the server could not create the answer; the request id identifies the error in the server's log"
    )]
    Unanswerable { cause: String },
    #[error("{reason}")]
    PodNotReady { reason: String },
    #[error(transparent)]
    Restore(Arc<RestoreError>),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    Engine(EngineError),
    /// What lines of an import failed with; those before are committed.
    #[error(transparent)]
    Import(EngineError),
}

/// What a handler answers, or what it is made of.
pub(crate) type Result<T = Response, E = HttpError> = std::result::Result<T, E>;

impl From<RestoreError> for HttpError {
    fn from(error: RestoreError) -> Self {
        HttpError::Restore(Arc::new(error))
    }
}

/// Work that panicked, or that a stop cut short.
impl From<JoinError> for HttpError {
    fn from(_: JoinError) -> Self {
        HttpError::Plain(Code::Internal)
    }
}

impl From<Refusal> for HttpError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Plain(code) => HttpError::Plain(code),
            Refusal::Engine(error) => HttpError::from(error),
            refusal => HttpError::Refused(refusal),
        }
    }
}

impl From<KeyEnd> for HttpError {
    fn from(end: KeyEnd) -> Self {
        Refusal::from(end).into()
    }
}

/// Refused parameters stand in the body, unless [`creating`](HttpError::creating)
/// says otherwise.
impl From<EngineError> for HttpError {
    fn from(error: EngineError) -> Self {
        HttpError::creating(error, |field| FieldPlace::Body(format!("/{field}")))
    }
}

impl HttpError {
    /// A refused field of the body, by JSON pointer.
    pub(crate) fn field(
        pointer: String,
        given: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        HttpError::refused(FieldPlace::Body(pointer), given, allowed)
    }

    /// A refused field.
    pub(crate) fn refused(
        place: FieldPlace,
        given: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        HttpError::InvalidFields(vec![FieldError::new(place, given, allowed)])
    }

    /// A refused query parameter.
    pub(crate) fn parameter(
        name: &str,
        given: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        HttpError::refused(FieldPlace::Query(name.to_owned()), given, allowed)
    }

    /// No answer can be made, for a cause that the log has.
    pub(crate) fn unanswerable(cause: impl ToString) -> Self {
        let cause = cause.to_string();
        HttpError::Unanswerable { cause }
    }

    /// A body of another media type than is taken here.
    pub(crate) fn media_type(given: Option<&str>, allowed: &'static str) -> Self {
        let shown = given.map_or_else(|| "not stated".to_owned(), excerpt);
        // A charset was all that was wrong.
        let is_charset = given.is_some_and(|it| it.contains(';'));
        let given = match is_charset {
            true => format!("{shown} (texts are UTF-8)"),
            false => shown,
        };
        HttpError::UnsupportedMediaType { given, allowed }
    }

    /// An error of the engine about adding, which `also` may create the filter.
    pub(crate) fn adding(self, also: &'static str) -> Self {
        match self {
            HttpError::Engine(EngineError::NotFound { name })
            | HttpError::Import(EngineError::NotFound { name }) => {
                HttpError::NothingToAddTo { name, also }
            }
            other => other,
        }
    }

    /// An error of the engine about a filter whose fields stand where `place_of`
    /// says.
    pub(crate) fn creating(error: EngineError, place_of: impl Fn(&str) -> FieldPlace) -> Self {
        let EngineError::InvalidParams(errors) = error else {
            return HttpError::Engine(error);
        };
        let refused = errors.into_iter();
        let refused = refused.map(|it| FieldError::new(place_of(it.field), it.given, it.allowed));
        HttpError::InvalidFields(refused.collect())
    }

    /// An error of the engine about a question that goes back so many seconds, which
    /// stand where that says.
    pub(crate) fn about_window(error: EngineError, place: FieldPlace) -> Self {
        let EngineError::BeyondWindow {
            filter,
            within_seconds,
            window_seconds,
        } = error
        else {
            return HttpError::from(error);
        };
        let allowed = format!("1 to {window_seconds}, the window of the filter {filter}");
        HttpError::refused(place, within_seconds.to_string(), allowed)
    }

    /// The stable code, and through it the status.
    pub(crate) fn code(&self) -> Code {
        match self {
            HttpError::Plain(code) => *code,
            HttpError::Refused(refusal) => refusal.code(),
            HttpError::Engine(error) | HttpError::Import(error) => error.code(),
            HttpError::Restore(error) => error.code(),
            HttpError::Backup(error) => error.code(),
            HttpError::MalformedJson { .. } => Code::MalformedJson,
            HttpError::MalformedQuery { .. } => Code::MalformedQuery,
            HttpError::Framework(status) if status.is_server_error() => Code::Internal,
            HttpError::Framework(_) => Code::BadRequest,
            HttpError::ImportCutOff { end, .. } => Refusal::from(*end).code(),
            HttpError::FilterForbidden { .. } => Code::FilterForbidden,
            HttpError::ServerForbidden { .. } => Code::ServerForbidden,
            HttpError::HistoryDiffers { .. } => Code::HistoryDiffers,
            HttpError::BodyTimeout { .. }
            | HttpError::StreamStalled { .. }
            | HttpError::ImportTimeout { .. } => Code::BodyTimeout,
            HttpError::FilterDiffers { .. } => Code::FilterDiffers,
            HttpError::BodyTooLarge { .. } => Code::BodyTooLarge,
            HttpError::BatchTooLarge { .. } => Code::BatchTooLarge,
            HttpError::ItemTooLongForQuery { .. } => Code::ItemTooLongForQuery,
            HttpError::UnsupportedMediaType { .. } => Code::UnsupportedMediaType,
            HttpError::RangeBeyondEnd { .. } => Code::RangeBeyondEnd,
            HttpError::MethodMistaken { .. } => Code::MethodNotAllowed,
            HttpError::NothingToAddTo { .. } => Code::FilterNotFound,
            HttpError::InvalidKey(_) => Code::InvalidKey,
            HttpError::InvalidFields(_) => Code::InvalidFields,
            HttpError::InvalidDeadline { .. } => Code::InvalidDeadline,
            HttpError::InvalidPosition { .. }
            | HttpError::NoPositions
            | HttpError::InvalidConsistency { .. } => Code::InvalidPosition,
            HttpError::InvalidIdempotencyLifetime { .. } => Code::InvalidIdempotencyLifetime,
            HttpError::IdempotencyKeyNotTaken { .. } => Code::IdempotencyKeyNotTaken,
            HttpError::Unanswerable { .. } => Code::Internal,
            HttpError::PodNotReady { .. } => Code::PodNotReady,
        }
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        // The table has no other than those of HTTP.
        StatusCode::from_u16(self.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// What an answer of the framework's own says, so that it can be said in
    /// our shape; `None` for answers that are no errors.
    pub(crate) fn from_status(status: StatusCode) -> Option<HttpError> {
        if !status.is_client_error() && !status.is_server_error() {
            return None;
        }
        Some(match status {
            StatusCode::NOT_FOUND => HttpError::Plain(Code::UnknownRoute),
            StatusCode::METHOD_NOT_ALLOWED => HttpError::Plain(Code::MethodNotAllowed),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                HttpError::Plain(Code::UnsupportedContentEncoding)
            }
            other => HttpError::Framework(other),
        })
    }
}

/// The first of the media types that are allowed.
fn first_of(allowed: &str) -> &str {
    allowed.split([',', ' ']).next().unwrap_or_default()
}

fn names(differences: &[Difference]) -> String {
    let names: Vec<&str> = differences.iter().map(|d| d.field).collect();
    names.join(", ")
}
