//! Finds the API key of a request and refuses what it does not allow, before
//! anything of the request is worked on.
//!
//! Which scope an operation needs stands beside its handler, in the `security`
//! of its description, and is taken from there: what the document says is what
//! is enforced. An operation that says nothing needs the highest one.
//!
//! Then it sees to it that no key asks too often, and takes a slot among the
//! requests that are worked on. What is answered counts against its budget from
//! here on.
//!
//! A key with a prefix is for some filters alone. Operations on one filter are
//! refused for others; the list and the lookup answer as if there were no
//! others; everything that concerns the server as a whole is refused.

use super::layer::{InnerService, Middleware};
use super::principal::Principal;
use crate::access::Scope;
use crate::access::keys::ApiKey;
use crate::http::App;
use crate::http::admission::answers;
use crate::http::admission::concurrency::Slot;
use crate::http::openapi::facts::{NARROWED, declares};
use crate::http::problem::HttpError;
use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse as _, Response};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, PathItem};

/// Name of the security scheme in the description.
pub(crate) const SCHEME: &str = "api_key";

/// What is answered however busy the server is, so that one can see why.
const METRICS: &str = "/metrics";

/// What an operation is about, as far as prefixes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceScope {
    /// The filter of the path.
    Filter,
    /// The filters that the caller may know of.
    Narrowed,
    /// The server as a whole.
    Server,
}

/// What an operation asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteRequirement {
    /// `None`: nothing, not even a key.
    pub(crate) scope: Option<Scope>,
    pub(crate) resource: ResourceScope,
}

impl RouteRequirement {
    pub(crate) fn of(path: &str, operation: &Operation) -> RouteRequirement {
        let resource = if path.contains("{key}") {
            ResourceScope::Filter
        } else if declares(operation, NARROWED) {
            ResourceScope::Narrowed
        } else {
            ResourceScope::Server
        };
        let scope = scope_of(operation).unwrap_or(Some(Scope::Admin));
        RouteRequirement { scope, resource }
    }
}

/// What the description says about who may call: `None` if nothing that makes
/// sense, `Some(None)` if everybody.
fn scope_of(operation: &Operation) -> Option<Option<Scope>> {
    let security = serde_json::to_value(operation.security.as_ref()?).ok()?;
    let [requirement] = security.as_array()?.as_slice() else {
        return None;
    };
    let requirement = requirement.as_object()?;
    if requirement.is_empty() {
        return Some(None);
    }
    match requirement.get(SCHEME)?.as_array()?.as_slice() {
        [scope] => scope.as_str()?.parse().ok().map(Some),
        _ => None,
    }
}

/// The needs of all operations, by path template and method.
pub(crate) struct RouteRequirements(HashMap<String, Vec<(Method, RouteRequirement)>>);

impl RouteRequirements {
    pub(crate) fn of(document: &OpenApi) -> RouteRequirements {
        let paths = document.paths.paths.iter();
        RouteRequirements(
            paths
                .map(|(path, item)| {
                    let requirements = methods(item)
                        .map(|(method, operation)| (method, RouteRequirement::of(path, operation)))
                        .collect();
                    (path.clone(), requirements)
                })
                .collect(),
        )
    }

    /// Asks nobody for a key who comes for this.
    pub(crate) fn open(&mut self, path: &str) {
        for (_, requirement) in self.0.get_mut(path).into_iter().flatten() {
            requirement.scope = None;
        }
    }

    fn find(&self, path: &str, method: &Method) -> RouteRequirement {
        const UNKNOWN: RouteRequirement = RouteRequirement {
            scope: Some(Scope::Admin),
            resource: ResourceScope::Server,
        };
        let Some(requirements) = self.0.get(path) else {
            return UNKNOWN;
        };
        let of = |method: &Method| requirements.iter().find(|(known, _)| known == method);
        let asked = of(method).or_else(|| match *method {
            // The router answers it with the GET, less the body.
            Method::HEAD => of(&Method::GET),
            _ => None,
        });
        asked.map_or(UNKNOWN, |(_, requirement)| *requirement)
    }
}

fn methods(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    [
        (Method::GET, &item.get),
        (Method::HEAD, &item.head),
        (Method::PUT, &item.put),
        (Method::POST, &item.post),
        (Method::PATCH, &item.patch),
        (Method::DELETE, &item.delete),
    ]
    .into_iter()
    .filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

/// The layer, and what it needs to know.
pub(crate) struct AuthLayer {
    pub(crate) app: Arc<App>,
    pub(crate) requirements: RouteRequirements,
}

/// Lets requests in whose key allows what they ask for.
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
                    let response = inner.call(Request::from_parts(parts, body)).await?;
                    let answered = answers::charge(&self.app.admission, &method, response).await;
                    drop(slot);
                    answered
                }
                Err(refused) => Err(refused),
            };
            let mut response = answered.into_response();
            if principal.has_key() {
                // For the log of failures.
                response.extensions_mut().insert(principal);
            }
            Ok(response)
        }
    }
}

impl AuthLayer {
    /// Finds out who asks, and takes a slot for the request; `None`: it needs
    /// none.
    async fn admit(
        &self,
        parts: &mut Parts,
        principal: &mut Principal,
    ) -> Result<Option<Slot>, HttpError> {
        let path = parts.extensions.get::<MatchedPath>().cloned();
        let path = path.as_ref().map_or("", MatchedPath::as_str);
        let requirement = self.requirements.find(path, &parts.method);
        let Some(scope) = requirement.scope else {
            // Probes get through to a server that is overloaded.
            return Ok(None);
        };
        if let Some(keys) = &self.app.access.keys {
            let token = bearer(&parts.headers).ok_or(HttpError::ApiKeyMissing)?;
            let key = keys.find(token).ok_or(HttpError::ApiKeyUnknown)?;
            *principal = Principal::of(Arc::clone(&key), keys);
            check_key(&key, scope, requirement.resource, parts).await?;
        }
        if path == METRICS {
            return Ok(None);
        }
        let slot = self.app.admission.request(principal.shares()).await?;
        Ok(Some(slot))
    }
}

async fn check_key(
    key: &ApiKey,
    scope: Scope,
    resource: ResourceScope,
    parts: &mut Parts,
) -> Result<(), HttpError> {
    key.count_request().map_err(|wait| {
        let seconds = wait.as_millis().div_ceil(1000).max(1);
        HttpError::RateLimited {
            seconds: u64::try_from(seconds).unwrap_or(u64::MAX),
        }
    })?;
    if key.scope < scope {
        return Err(HttpError::ScopeInsufficient {
            has: key.scope,
            needs: scope,
        });
    }
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

/// The key of a request: one header, and the one scheme.
fn bearer(headers: &HeaderMap) -> Option<&str> {
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
    use crate::http::routes;
    use axum::http::HeaderValue;
    use std::collections::BTreeMap;

    /// As the design has it: whoever adds a route adds its line here.
    const SCOPES: &str = "
        GET /filters read
        PUT /filters/{key} write
        GET /filters/{key} read
        HEAD /filters/{key} read
        PATCH /filters/{key} write
        DELETE /filters/{key} admin
        POST /filters/{key}/items write
        POST /filters/{key}/items/delete write
        POST /filters/{key}/import write
        GET /filters/{key}/imports/{id} read
        GET /filters/{key}/exists read
        POST /filters/{key}/exists read
        GET /filters/{key}/count read
        POST /filters/{key}/count read
        GET /filters/{key}/locate read
        POST /preview read
        POST /lookup read
        GET /filters/{key}/dump read
        PUT /filters/{key}/dump write
        POST /filters/{key}/compact admin
        GET /filters/{key}/compaction read
        POST /admin/backups admin
        GET /admin/backups admin
        GET /admin/backups/{id} admin
        GET /admin/backups/{id}/status admin
        GET /livez none
        GET /readyz none
        GET /metrics read
        GET /openapi.json none
    ";

    #[test]
    fn every_operation_says_who_may_call_it() {
        let document = routes::table().into_openapi();
        let mut found = BTreeMap::new();
        for (path, item) in &document.paths.paths {
            for (method, operation) in methods(item) {
                let scope = scope_of(operation);
                assert!(scope.is_some(), "{method} {path} has no security");
                let scope = RouteRequirement::of(path, operation)
                    .scope
                    .map_or("none", Scope::name);
                found.insert(format!("{method} {path}"), scope.to_owned());
            }
        }
        let expected = SCOPES
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        let expected = expected.map(|line| {
            let (operation, scope) = line.rsplit_once(' ').unwrap();
            (operation.to_owned(), scope.to_owned())
        });
        assert_eq!(found, expected.collect());
    }

    #[test]
    fn what_is_not_described_needs_the_highest_scope() {
        let requirements = RouteRequirements::of(&routes::table().into_openapi());
        let scope = |path: &str, method| requirements.find(path, &method).scope;
        assert_eq!(scope("/nobody/knows", Method::GET), Some(Scope::Admin));
        assert_eq!(scope("/filters", Method::HEAD), Some(Scope::Read));
        assert_eq!(scope("/filters", Method::DELETE), Some(Scope::Admin));
        assert_eq!(scope_of(&Operation::new()), None);
        assert_eq!(
            RouteRequirement::of("/new", &Operation::new()).scope,
            Some(Scope::Admin)
        );
    }

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
