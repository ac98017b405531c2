//! One line of the audit log for each request of an operation that declares
//! itself audited, once it is known what became of it: also of one that was
//! refused, and of one whose client did not wait for the answer.

use super::principal::Principal;
use super::requirement::methods;
use crate::access::audit::{Outcome, TARGET};
use crate::backup::BackupId;
use crate::engine::FilterName;
use crate::http::headers::IDEMPOTENCY_REPLAYED;
use crate::http::listen::observed::ConnectionObserver;
use crate::http::openapi::facts::{AUDITED, declares};
use crate::http::problem::{Code, HttpError};
use axum::extract::{FromRequestParts as _, RawPathParams, Request};
use axum::http::Method;
use axum::http::StatusCode;
use axum::response::Response;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::watch;
use utoipa::openapi::OpenApi;

/// The operations that are audited, a handful.
pub(crate) struct AuditedRoutes(Vec<AuditedRoute>);

struct AuditedRoute {
    method: Method,
    path: String,
    /// The name of the operation.
    action: Arc<str>,
}

impl AuditedRoutes {
    pub(crate) fn of(document: &OpenApi) -> AuditedRoutes {
        let mut routes = Vec::new();
        for (path, item) in &document.paths.paths {
            for (method, operation) in methods(item) {
                if declares(operation, AUDITED)
                    && let Some(action) = &operation.operation_id
                {
                    routes.push(AuditedRoute {
                        method,
                        path: path.clone(),
                        action: action.as_str().into(),
                    });
                }
            }
        }
        AuditedRoutes(routes)
    }

    /// How an operation is called that is audited.
    pub(super) fn action(&self, method: &Method, path: &str) -> Option<Arc<str>> {
        let found = self
            .0
            .iter()
            .find(|route| route.method == *method && route.path == path);
        found.map(|route| Arc::clone(&route.action))
    }
}

/// What is asked of the server, until it is known what becomes of it.
pub(super) struct Act {
    action: Arc<str>,
    filter: Option<FilterName>,
    backup: Option<BackupId>,
}

impl Act {
    /// What a request asks for.
    pub(super) async fn of(action: Arc<str>, request: Request) -> (Act, Request) {
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
        let outcome = answered.outcome().name();
        let error = answered.error.as_deref();
        tracing::info!(
            target: TARGET,
            action = &*self.action,
            caller = answered.caller.as_ref().and_then(Principal::name),
            filter = self.filter.as_ref().map(FilterName::as_str),
            backup = self.backup.as_ref().map(BackupId::as_str),
            note = answered.note.as_ref().map(|Note(note)| &**note),
            outcome,
            code = error.map(|error| error.code().name()),
            status = status.as_u16(),
            request_id,
            "request"
        );
    }
}

/// What a handler adds to the line about its success.
#[derive(Clone)]
pub(crate) struct Note(pub(crate) Cow<'static, str>);

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

    fn outcome(&self) -> Outcome {
        let Some(error) = &self.error else {
            return match self.is_replayed {
                true => Outcome::Replayed,
                false => Outcome::Done,
            };
        };
        match (&**error, error.code()) {
            (HttpError::Engine(error), _) if error.may_be_done() => Outcome::Unknown,
            (_, Code::Internal) => Outcome::Unknown,
            (_, Code::StorageFailed) => Outcome::Failed,
            _ => Outcome::Refused,
        }
    }
}

/// Tells a handler that is finished whatever becomes of its client whether this
/// one still waits.
#[derive(Clone)]
pub(crate) struct ClientPresence {
    waiting: watch::Receiver<()>,
    /// Of a request whose body is not read yet.
    connection: Option<ConnectionObserver>,
}

/// Held while the client waits.
pub(super) struct Waiting(#[expect(dead_code, reason = "dropped, it tells")] watch::Sender<()>);

impl ClientPresence {
    pub(super) fn of(request: &Request) -> (Waiting, ClientPresence) {
        let (sender, waiting) = watch::channel(());
        let presence = ClientPresence {
            waiting,
            connection: request.extensions().get().cloned(),
        };
        (Waiting(sender), presence)
    }

    /// Whether the client has gone.
    pub(crate) fn is_gone(&self) -> bool {
        let has_closed = |connection: &ConnectionObserver| connection.is_closed();
        self.waiting.has_changed().is_err() || self.connection.as_ref().is_some_and(has_closed)
    }
}
