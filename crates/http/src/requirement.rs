//! What each operation asks of its caller, and whether its requests are audited. What
//! the route table does not have needs the highest scope.

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

/// What the route table declares of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteRequirement {
    /// `None`: nothing, not even a key.
    pub(crate) scope: Option<Scope>,
    /// Whether it hands out what has the secret key of a filter's hash.
    pub(crate) exports: bool,
    pub(crate) resource: ResourceScope,
    /// Its name in the audit log, where each request of it has a line.
    pub(crate) audited_as: Option<&'static str>,
}

/// For everybody, without a key.
pub(crate) const OPEN: RouteRequirement = RouteRequirement {
    scope: None,
    exports: false,
    resource: ResourceScope::Server,
    audited_as: None,
};

pub(crate) const READ: RouteRequirement = OPEN.needing(Scope::Read);
pub(crate) const WRITE: RouteRequirement = OPEN.needing(Scope::Write);
pub(crate) const ADMIN: RouteRequirement = OPEN.needing(Scope::Admin);

impl RouteRequirement {
    const fn needing(mut self, scope: Scope) -> RouteRequirement {
        self.scope = Some(scope);
        self
    }

    /// It answers about the filters of the caller's prefix alone, or about none.
    pub(crate) const fn narrowed(mut self) -> RouteRequirement {
        self.resource = ResourceScope::Narrowed;
        self
    }

    /// Each request of it has a line in the audit log, under this name.
    pub(crate) const fn audited(mut self, name: &'static str) -> RouteRequirement {
        self.audited_as = Some(name);
        self
    }
}

/// The operations of the API, by path template and method.
#[derive(Default)]
pub(crate) struct Operations(HashMap<&'static str, Vec<(Method, RouteRequirement)>>);

impl Operations {
    pub(crate) fn add(&mut self, method: Method, path: &'static str, mut asks: RouteRequirement) {
        if path.contains("{key}") {
            asks.resource = ResourceScope::Filter;
        }
        self.0.entry(path).or_default().push((method, asks));
    }

    /// Asks for no key under this path.
    pub(crate) fn open(&mut self, path: &str) {
        for (_, requirement) in self.0.get_mut(path).into_iter().flatten() {
            requirement.scope = None;
        }
    }

    /// What is declared for this very method.
    pub(crate) fn get(&self, path: &str, method: &Method) -> Option<RouteRequirement> {
        let mut methods = self.0.get(path)?.iter();
        methods
            .find(|(known, _)| known == method)
            .map(|(_, it)| *it)
    }

    pub(crate) fn find(&self, path: &str, method: &Method) -> RouteRequirement {
        let found = self.get(path, method).or_else(|| match *method {
            // The router answers it with the GET, less the body.
            Method::HEAD => self.get(path, &Method::GET),
            _ => None,
        });
        found.unwrap_or(ADMIN)
    }

    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Method, &'static str, RouteRequirement)> {
        let paths = self.0.iter();
        paths.flat_map(|(path, methods)| methods.iter().map(|(method, it)| (method, *path, *it)))
    }
}

#[cfg(test)]
mod tests;
