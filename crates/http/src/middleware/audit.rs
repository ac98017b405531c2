//! One line of the audit log for each request of an operation that is
//! declared audited, once it is known what became of it: also of one that was
//! refused, and of one whose client did not wait for the answer.

use crate::access::audit::{AuditOutcome, TARGET};
use crate::backup::BackupId;
use crate::codes::Code;
use crate::engine::FilterName;
use crate::headers::IDEMPOTENCY_REPLAYED;
use crate::problem::HttpError;
use crate::server::principal::Principal;
use axum::extract::{FromRequestParts as _, RawPathParams, Request};
use axum::http::StatusCode;
use axum::response::Response;
use std::borrow::Cow;
use std::sync::Arc;

/// What is asked of the server, until it is known what becomes of it.
pub(super) struct Act {
    action: &'static str,
    filter: Option<FilterName>,
    backup: Option<BackupId>,
}

impl Act {
    /// What a request asks for.
    pub(super) async fn of(action: &'static str, request: Request) -> (Act, Request) {
        let (mut parts, body) = request.into_parts();
        let mut act = Act {
            action,
            filter: None,
            backup: None,
        };
        // What can't be a name is not written down.
        let params = RawPathParams::from_request_parts(&mut parts, &()).await;
        for (name, value) in params.iter().flatten() {
            match name {
                "key" => act.filter = FilterName::parse(value).ok(),
                "id" => act.backup = BackupId::parse(value),
                _ => {}
            }
        }
        (act, Request::from_parts(parts, body))
    }

    /// Writes the line.
    pub(super) fn log(&self, request_id: &str, status: StatusCode, answered: &Answered) {
        let outcome = answered.outcome();
        let changes_nothing = matches!(outcome, AuditOutcome::Refused | AuditOutcome::Replayed);
        let caller = answered.caller.clone().unwrap_or_default();
        if changes_nothing && !caller.may_log_refusal() {
            return;
        }
        let error = answered.error.as_deref();
        tracing::info!(
            target: TARGET,
            action = self.action,
            caller = caller.name(),
            filter = self.filter.as_ref().map(FilterName::as_str),
            backup = self.backup.as_ref().map(BackupId::as_str),
            note = answered.note.as_ref().map(|Note(note)| &**note),
            outcome = outcome.name(),
            code = error.map(|error| error.code().name()),
            status = status.as_u16(),
            request_id,
            "request"
        );
    }
}

/// What a handler adds to the line about its success.
#[derive(Clone)]
struct Note(Cow<'static, str>);

/// An answer of which the line says more.
pub(crate) fn noted(mut response: Response, note: impl Into<Cow<'static, str>>) -> Response {
    response.extensions_mut().insert(Note(note.into()));
    response
}

/// What became of a request.
pub(super) struct Answered {
    caller: Option<Principal>,
    note: Option<Note>,
    is_replayed: bool,
    error: Option<Arc<HttpError>>,
}

impl Answered {
    pub(super) fn of(response: &Response, error: Option<&Arc<HttpError>>) -> Answered {
        let extensions = response.extensions();
        Answered {
            caller: extensions.get::<Principal>().cloned(),
            note: extensions.get::<Note>().cloned(),
            is_replayed: response.headers().contains_key(IDEMPOTENCY_REPLAYED),
            error: error.map(Arc::clone),
        }
    }

    fn outcome(&self) -> AuditOutcome {
        let Some(error) = &self.error else {
            return match self.is_replayed {
                true => AuditOutcome::Replayed,
                false => AuditOutcome::Done,
            };
        };
        match (&**error, error.code()) {
            (HttpError::Engine(error), _) if error.may_be_done() => AuditOutcome::Unknown,
            (_, Code::Internal) => AuditOutcome::Unknown,
            (_, Code::StorageFailed) => AuditOutcome::Failed,
            _ => AuditOutcome::Refused,
        }
    }
}
