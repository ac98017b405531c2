//! An error as the client sees it (RFC 9457, problem details).

use super::error::HttpError;
use super::fields::{FieldError, FieldPlace};
use crate::backup::BackupError;
use crate::chain::params::Difference;
use crate::codes::{Code, Retry};
use crate::engine::{DumpError, EngineError, RestoreError};
use crate::server::refusal::Refusal;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;

impl HttpError {
    /// Seconds after which trying again makes sense, where it does.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            HttpError::Refused(Refusal::RateLimited { seconds })
            | HttpError::Engine(
                EngineError::RetriesFull {
                    first_ends_in: seconds,
                    ..
                }
                | EngineError::RetriesOverShare {
                    first_ends_in: seconds,
                    ..
                },
            ) => Some(*seconds),
            other => match (other.code().retry(), other.code().status()) {
                (Retry::Soon, _) | (Retry::Indeterminate, 503) => Some(1),
                _ => None,
            },
        }
    }

    /// What a client is told beside a 401, or a 403 for want of scope, about how
    /// to do better (RFC 6750).
    pub(crate) fn challenge(&self) -> Option<String> {
        const REALM: &str = r#"Bearer realm="cuckood""#;
        match (self, self.code()) {
            (_, Code::ApiKeyMissing) => Some(REALM.to_owned()),
            (_, Code::ApiKeyUnknown | Code::ApiKeyExpired | Code::ApiKeyRevoked) => {
                Some(format!(r#"{REALM}, error="invalid_token""#))
            }
            (HttpError::Refused(Refusal::ScopeInsufficient { needs, .. }), _) => Some(format!(
                r#"{REALM}, error="insufficient_scope", scope="{needs}""#
            )),
            (HttpError::Refused(Refusal::ExportNotAllowed), _) => Some(format!(
                r#"{REALM}, error="insufficient_scope", scope="export""#
            )),
            _ => None,
        }
    }

    /// What the answer says about this error.
    pub(crate) fn problem(&self, request_id: &str) -> Problem {
        let code = self.code();
        Problem {
            r#type: format!("urn:cuckood:problem:{}", code.name()),
            title: code.title().to_owned(),
            status: code.status(),
            detail: self.detail(),
            code: code.name().to_owned(),
            request_id: request_id.to_owned(),
            errors: self.errors(),
        }
    }

    /// The sentence for the client. Causes below the engine stay in the log.
    fn detail(&self) -> String {
        match self {
            HttpError::Engine(error) if error.may_be_done() => format!(
                "{error}; send the request again in a moment if it has an Idempotency-Key; otherwise ask for the items first"
            ),
            HttpError::Import(error) if stops_an_import(error) => format!(
                "{}; the lines before are committed: query how many in a moment, and resume after them",
                of_import(error)
            ),
            HttpError::Restore(error) => match &**error {
                RestoreError::Dump(DumpError::Corrupt(_)) => {
                    format!("{error}; nothing was stored. Send the dump again, or create a new one")
                }
                error => error.to_string(),
            },
            HttpError::Backup(error) => of_backup(error),
            other => other.to_string(),
        }
    }

    fn errors(&self) -> Vec<ProblemField> {
        match self {
            HttpError::InvalidFields(errors) => errors.iter().map(ProblemField::refused).collect(),
            HttpError::FilterDiffers { differences } => {
                differences.iter().map(ProblemField::differing).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Whether lines of the same import may have been committed before.
fn stops_an_import(error: &EngineError) -> bool {
    let has_begun = !matches!(
        error,
        EngineError::ImportsFull | EngineError::OverKeptShare { .. }
    );
    has_begun && matches!(error.code().status(), 429 | 500..)
}

/// What happened to the lines of an import that arrived last.
fn of_import(error: &EngineError) -> Cow<'static, str> {
    match error {
        EngineError::DeadlineExceeded => {
            "the lines that arrived last were not committed in time (--request-timeout-seconds)"
                .into()
        }
        EngineError::NotLeading => "no pod that can be reached leads the lane of the filter".into(),
        EngineError::LogUnavailable => "the commit log does not answer".into(),
        EngineError::LaneHalted(halt) => format!(
            "changes to the filter have stopped, because {}; the server's log says what to do",
            halt.in_short()
        )
        .into(),
        EngineError::Store(error) if error.is_disk_full() => {
            "the disk is full; free space on the disk of the data".into()
        }
        EngineError::Store(_) => "the storage could not be read; the server's log says why".into(),
        error => error.to_string().into(),
    }
}

/// What is said of a backup. Paths are in the log alone.
fn of_backup(error: &BackupError) -> String {
    match error {
        BackupError::NoRoom { needed, free, .. } => format!(
            "{needed} bytes are needed in the directory of backups, {free} are free: free space there, or keep fewer backups (--backup-keep)"
        ),
        BackupError::Store(error) if error.is_disk_full() => {
            "the disk of the data filled up during the snapshot; nothing was stored. Free space there".to_owned()
        }
        error if error.is_of_the_disk() => {
            "the disk failed; the request id identifies the error in the server's log".to_owned()
        }
        error => error.to_string(),
    }
}

/// Problem details of an error (RFC 9457).
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Problem {
    /// A URN that names the kind of problem.
    r#type: String,
    /// The kind of problem in a few words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What was wrong, what is allowed, what to do.
    detail: String,
    /// Stable name of the kind of problem, for programs.
    code: String,
    /// Identifies the request in the server's log; the same as the header `x-request-id`.
    request_id: String,
    /// The refused or differing fields, if any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schema(required = false))]
    errors: Vec<ProblemField>,
}

/// One field of a refused request.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct ProblemField {
    /// JSON pointer to the field in the body; empty = the body itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// Name of the query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    /// The whole sentence.
    detail: String,
    /// The given value.
    given: String,
    /// What is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<String>,
    /// The value of the existing filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    existing: Option<String>,
}

impl ProblemField {
    fn refused(error: &FieldError) -> ProblemField {
        let (pointer, parameter) = match &error.place {
            FieldPlace::Body(pointer) => (Some(pointer.clone()), None),
            FieldPlace::Query(name) => (None, Some(name.clone())),
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
        let mut response = self.status().into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}
