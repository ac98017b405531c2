//! An operation, and what the route table declares of it: what it asks of its caller,
//! and whether its requests are audited.

use crate::access::Scope;
use axum::http::Method;

/// An operation of the API.
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) declared: Declared,
}

/// What is declared of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Declared {
    pub(super) scope: Option<Scope>,
    pub(super) exports: bool,
    pub(super) is_narrowed: bool,
    /// Its name in the audit log, where each request of it has a line.
    pub(crate) audited_as: Option<&'static str>,
}

/// For everybody, without a key.
pub(crate) const OPEN: Declared = Declared {
    scope: None,
    exports: false,
    is_narrowed: false,
    audited_as: None,
};

pub(crate) const READ: Declared = OPEN.needing(Scope::Read);
pub(crate) const WRITE: Declared = OPEN.needing(Scope::Write);
pub(crate) const ADMIN: Declared = OPEN.needing(Scope::Admin);

impl Declared {
    const fn needing(self, scope: Scope) -> Declared {
        Declared {
            scope: Some(scope),
            ..self
        }
    }

    /// It hands out what has the secret key of a filter's hash.
    pub(crate) const fn exporting(self) -> Declared {
        Declared {
            exports: true,
            ..self
        }
    }

    /// It answers about the filters of the caller's prefix alone, or about none.
    pub(crate) const fn narrowed(self) -> Declared {
        Declared {
            is_narrowed: true,
            ..self
        }
    }

    /// Each request of it has a line in the audit log, under this name.
    pub(crate) const fn audited(self, name: &'static str) -> Declared {
        Declared {
            audited_as: Some(name),
            ..self
        }
    }
}
