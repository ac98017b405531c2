//! What each operation asks of its caller.
//!
//! Which scope it needs stands beside its handler, in the `security` of its
//! description, and is taken from there: what the document says is what is
//! enforced. An operation that says nothing needs the highest one.

use crate::access::Scope;
use crate::http::openapi::facts::{NARROWED, declares};
use axum::http::Method;
use std::collections::HashMap;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, PathItem};

/// Name of the security scheme in the description.
pub(crate) const SCHEME: &str = "api_key";

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

/// The scope that the description asks for: `None` if it says nothing that makes
/// sense, `Some(None)` if it asks for no key.
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

/// What all operations ask for, by path template and method.
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

    /// Asks for no key under this path.
    pub(crate) fn open(&mut self, path: &str) {
        for (_, requirement) in self.0.get_mut(path).into_iter().flatten() {
            requirement.scope = None;
        }
    }

    pub(crate) fn find(&self, path: &str, method: &Method) -> RouteRequirement {
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

pub(crate) fn methods(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
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

#[cfg(test)]
mod tests;
