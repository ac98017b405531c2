//! Finds the API key of a request and refuses what it does not allow, before
//! anything of the request is worked on.
//!
//! Then it sees to it that no key asks too often, and takes a slot among the
//! requests that are worked on. What is answered counts against its budget from
//! here on.
//!
//! A key with a prefix is for some filters alone. Operations on one filter are
//! refused for others; the list and the lookup answer as if there were no
//! others; everything that concerns the server as a whole is refused.

use super::ending;
use crate::access::Prefix;
use crate::access::keys::ApiKey;
use crate::admission::answers;
use crate::admission::deadline::Deadline;
use crate::bearer::paying_key;
use crate::cluster::answer::{answer, check_outside_cluster};
use crate::codes::Code;
use crate::layer::{InnerService, Middleware};
use crate::problem::{HttpError, Result};
use crate::requirement::{Operations, ResourceScope};
use crate::server::App;
use crate::server::admission::limits::Place;
use crate::server::principal::Principal;
use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request};
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use std::convert::Infallible;
use std::sync::Arc;

/// What is answered however busy the server is, so that one can see why.
const METRICS: &str = "/metrics";

/// The layer. See the module.
#[derive(Clone)]
pub(crate) struct AuthLayer {
    pub(crate) app: Arc<App>,
    pub(crate) operations: Arc<Operations>,
}

impl Middleware for AuthLayer {
    fn answer<S: InnerService>(
        self: Arc<Self>,
        request: Request,
        mut inner: S,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send {
        let (mut parts, body) = request.into_parts();
        async move {
            let mut principal = Principal::default();
            let answered = match self.admit(&mut parts, &mut principal).await {
                Ok(slot) => {
                    parts.extensions.insert(principal.clone());
                    let method = parts.method.clone();
                    let body = ending::request(principal.key(), body);
                    let request = Request::from_parts(parts, body);
                    let response = match self.app.cluster() {
                        None => match check_outside_cluster(request.headers()) {
                            Ok(()) => inner.call(request).await?,
                            Err(refused) => refused.into_response(),
                        },
                        // In a box, so that a server in no cluster does not pay for it.
                        Some(cluster) => {
                            let path = request.extensions().get::<MatchedPath>();
                            let path = path.map_or("", MatchedPath::as_str);
                            let requirement = self.operations.find(path, request.method());
                            let answered = answer(cluster, &self.app, requirement, request, inner);
                            Box::pin(answered).await.into_response()
                        }
                    };
                    let answered =
                        answers::charge(&self.app.admission, principal.holder(), &method, response)
                            .await;
                    drop(slot);
                    let ending = |body| ending::response(principal.key(), body);
                    answered.map(|response| response.map(ending))
                }
                Err(refused) => Err(refused),
            };
            let mut response = answered.into_response();
            if principal.name().is_some() {
                // For the log of failures.
                response.extensions_mut().insert(principal);
            }
            Ok(response)
        }
    }
}

impl AuthLayer {
    /// Finds the caller, and takes a slot for the request; `None`: it needs none.
    async fn admit(&self, parts: &mut Parts, principal: &mut Principal) -> Result<Option<Place>> {
        let path = parts.extensions.get::<MatchedPath>().cloned();
        let path = path.as_ref().map_or("", MatchedPath::as_str);
        let requirement = self.operations.find(path, &parts.method);
        let Some(scope) = requirement.scope else {
            // Probes get through to a server that is overloaded.
            return Ok(None);
        };
        if let Some(keys) = &self.app.access.keys {
            let key = paying_key(&parts.headers, keys).await?;
            if key.has_expired() {
                // Not its caller's any more: it is named all the same.
                *principal = Principal::of(key, keys);
                return Err(HttpError::Plain(Code::ApiKeyExpired));
            }
            *principal = Principal::of(Arc::clone(&key), keys);
            principal.count_request()?;
            principal.needs(scope)?;
            if requirement.exports {
                principal.needs_export()?;
            }
            check_prefix(&key, requirement.resource, parts).await?;
        }
        if path == METRICS {
            return Ok(None);
        }
        let deadline = Deadline::of(&parts.headers, self.app.admission.limits.request_timeout)?;
        parts.extensions.insert(deadline);
        let place = self.app.admission.place(scope, principal.holder());
        Ok(Some(place.await?))
    }
}

async fn check_prefix(key: &ApiKey, resource: ResourceScope, parts: &mut Parts) -> Result<()> {
    let Some(prefix) = &key.prefix else {
        return Ok(());
    };
    match resource {
        ResourceScope::Narrowed => Ok(()),
        ResourceScope::Server => Err(HttpError::ServerForbidden {
            prefix: prefix.to_string(),
        }),
        ResourceScope::Filter => {
            let params = RawPathParams::from_request_parts(parts, &())
                .await
                .map_err(|_| HttpError::Plain(Code::MalformedPath))?;
            let key = params.iter().find(|(name, _)| *name == "key");
            check_covers(Some(prefix), key.map_or("", |(_, key)| key))
        }
    }
}

/// # Errors
/// A key with this prefix is not for this filter.
pub(crate) fn check_covers(prefix: Option<&Prefix>, filter: &str) -> Result<()> {
    match prefix.filter(|it| !it.covers(filter)) {
        None => Ok(()),
        Some(prefix) => Err(HttpError::FilterForbidden {
            prefix: prefix.to_string(),
        }),
    }
}
