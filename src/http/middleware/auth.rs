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
use super::layer::{InnerService, Middleware};
use super::principal::Principal;
use super::requirement::{ResourceScope, RouteRequirements};
use crate::access::keys::{ApiKey, ApiKeys};
use crate::http::App;
use crate::http::admission::answers;
use crate::http::admission::deadline::Deadline;
use crate::http::admission::limits::Place;
use crate::http::cluster::answer::check_outside_cluster;
use crate::http::problem::HttpError;
use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use std::convert::Infallible;
use std::sync::Arc;

/// What is answered however busy the server is, so that one can see why.
const METRICS: &str = "/metrics";

/// The layer. See the module.
pub(crate) struct AuthLayer {
    pub(crate) app: Arc<App>,
    pub(crate) requirements: RouteRequirements,
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
                    let body = match principal.key() {
                        None => body,
                        Some(key) => ending::request(key, body),
                    };
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
                            let requirement = self.requirements.find(path, request.method());
                            let answered = cluster.answer(&self.app, requirement, request, inner);
                            Box::pin(answered).await?
                        }
                    };
                    let answered =
                        answers::charge(&self.app.admission, principal.holder(), &method, response)
                            .await;
                    drop(slot);
                    match principal.key() {
                        None => answered,
                        Some(key) => answered
                            .map(|response| response.map(|body| ending::response(key, body))),
                    }
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
    async fn admit(
        &self,
        parts: &mut Parts,
        principal: &mut Principal,
    ) -> Result<Option<Place>, HttpError> {
        let path = parts.extensions.get::<MatchedPath>().cloned();
        let path = path.as_ref().map_or("", MatchedPath::as_str);
        let requirement = self.requirements.find(path, &parts.method);
        let Some(scope) = requirement.scope else {
            // Probes get through to a server that is overloaded.
            return Ok(None);
        };
        if let Some(keys) = &self.app.access.keys {
            let key = key_of(&parts.headers, keys)?;
            if key.has_expired() {
                // Not its caller's any more: it is named all the same.
                *principal = Principal::of(key, keys);
                return Err(HttpError::ApiKeyExpired);
            }
            *principal = Principal::of(Arc::clone(&key), keys);
            count(&key)?;
            principal.needs(scope)?;
            check_prefix(&key, requirement.resource, parts).await?;
        }
        if path == METRICS {
            return Ok(None);
        }
        let longest = self.app.admission.limits.request_timeout;
        let deadline = Deadline::of(&parts.headers, longest)?;
        parts.extensions.insert(deadline);
        let place = self.app.admission.place(scope, principal.holder());
        place.await.map(Some)
    }
}

fn count(key: &ApiKey) -> Result<(), HttpError> {
    key.count_request().map_err(|wait| {
        let seconds = wait.as_millis().div_ceil(1000).max(1);
        HttpError::RateLimited {
            seconds: u64::try_from(seconds).unwrap_or(u64::MAX),
        }
    })
}

async fn check_prefix(
    key: &ApiKey,
    resource: ResourceScope,
    parts: &mut Parts,
) -> Result<(), HttpError> {
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
                .map_err(|_| HttpError::MalformedPath)?;
            let key = params.iter().find(|(name, _)| *name == "key");
            match key.is_some_and(|(_, key)| prefix.covers(key)) {
                true => Ok(()),
                false => Err(HttpError::FilterForbidden {
                    prefix: prefix.to_string(),
                }),
            }
        }
    }
}

/// The key of a request among those that are known; it may have expired.
///
/// # Errors
/// It has none, or one that is not known.
pub(crate) fn key_of(headers: &HeaderMap, keys: &ApiKeys) -> Result<Arc<ApiKey>, HttpError> {
    let token = bearer(headers).ok_or(HttpError::ApiKeyMissing)?;
    keys.find(token).ok_or(HttpError::ApiKeyUnknown)
}

/// What a request shows as its key: one header, and the one scheme.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_key_comes_in_one_header_of_one_form() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_static(value));
            }
            bearer(&headers).map(str::to_owned)
        };
        for value in ["Bearer k", "bearer k", "BEARER  k "] {
            assert_eq!(of(&[value]).as_deref(), Some("k"), "{value}");
        }
        for values in [
            &[][..],
            &["k"],
            &["Bearer"],
            &["Bearer "],
            &["Basic k"],
            &["Bearer k", "Bearer k"],
        ] {
            assert_eq!(of(values), None, "{values:?}");
        }
    }
}
