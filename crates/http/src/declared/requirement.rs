//! What each operation asks of its caller. What the route table does not have needs the
//! highest scope.

use super::operation::Operation;
use crate::access::Scope;
use axum::http::Method;
use std::collections::HashMap;

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
    /// Whether it hands out what has the secret key of a filter's hash.
    pub(crate) exports: bool,
    pub(crate) resource: ResourceScope,
}

impl RouteRequirement {
    pub(crate) fn of(operation: &Operation) -> RouteRequirement {
        let declared = &operation.declared;
        RouteRequirement {
            scope: declared.scope,
            exports: declared.exports,
            resource: match operation.path.contains("{key}") {
                true => ResourceScope::Filter,
                false if declared.is_narrowed => ResourceScope::Narrowed,
                false => ResourceScope::Server,
            },
        }
    }
}

/// What all operations ask for, by path template and method.
pub(crate) struct RouteRequirements(HashMap<&'static str, Vec<(Method, RouteRequirement)>>);

impl RouteRequirements {
    pub(crate) fn of(operations: &[Operation]) -> RouteRequirements {
        let mut by_path: HashMap<_, Vec<_>> = HashMap::new();
        for operation in operations {
            let required = (operation.method.clone(), RouteRequirement::of(operation));
            by_path.entry(operation.path).or_default().push(required);
        }
        RouteRequirements(by_path)
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
            exports: false,
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

#[cfg(test)]
mod tests;
