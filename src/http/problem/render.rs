//! An error as the client sees it (RFC 9457, problem details).

use super::causes;
use super::error::HttpError;
use super::fields::{FieldError, Place};
use crate::chain::params::Difference;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

impl HttpError {
    /// Seconds after which trying again makes sense, where it does.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            HttpError::RateLimited { seconds } => Some(*seconds),
            other => match other.code().status() {
                StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Some(1),
                _ => None,
            },
        }
    }

    /// What a client is told beside a 401, or a 403 for want of scope, about how
    /// to do better (RFC 6750).
    pub(crate) fn challenge(&self) -> Option<String> {
        const REALM: &str = r#"Bearer realm="cuckood""#;
        match self {
            HttpError::ApiKeyMissing => Some(REALM.to_owned()),
            HttpError::ApiKeyUnknown
            | HttpError::ApiKeyExpired
            | HttpError::ApiKeyRevoked
            | HttpError::ImportCutOff { .. } => Some(format!(r#"{REALM}, error="invalid_token""#)),
            HttpError::ScopeInsufficient { needs, .. } => Some(format!(
                r#"{REALM}, error="insufficient_scope", scope="{needs}""#
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
            status: code.status().as_u16(),
            detail: self.detail(),
            code: code.name().to_owned(),
            request_id: request_id.to_owned(),
            errors: self.errors(),
        }
    }

    /// The sentence for the client. Causes below the engine stay in the log.
    fn detail(&self) -> String {
        let said = match self {
            HttpError::Engine(error) => causes::engine(error).detail,
            HttpError::Import(error) => causes::import(error).detail,
            HttpError::Restore(error) => causes::restore(error).detail,
            HttpError::Backup(error) => causes::backup(error).detail,
            _ => None,
        };
        said.map_or_else(|| self.to_string(), Into::into)
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

/// Problem details of an error (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// A URN that names the kind of problem.
    #[schema(example = "urn:cuckood:problem:filter_not_found")]
    r#type: String,
    /// The kind of problem in a few words.
    #[schema(example = "The filter does not exist")]
    title: String,
    /// The HTTP status.
    #[schema(example = 404)]
    status: u16,
    /// What was wrong, what is allowed, what to do.
    #[schema(example = "the filter coupons does not exist")]
    detail: String,
    /// Stable name of the kind of problem, for programs.
    #[schema(example = "filter_not_found")]
    code: String,
    /// Identifies the request in the server's log; the same as the header `x-request-id`.
    #[schema(example = "f3b0c44298fc1c14")]
    request_id: String,
    /// The refused or differing fields, if any.
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
