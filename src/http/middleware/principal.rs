//! The caller of a request, as far as its API key tells.

use crate::access::keys::{ApiKey, ApiKeys, KeyEnd};
use crate::access::{Prefix, Scope};
use crate::engine::{Caller, FilterName};
use crate::http::admission::budget::Holder;
use crate::http::admission::deadline::Deadline;
use crate::http::problem::HttpError;
use crate::share::{Claimant, Terms};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::sync::Arc;

/// The caller of a request. Where no keys are asked for, all callers are the
/// same one.
#[derive(Clone, Default)]
pub(crate) struct Principal {
    key: Option<Arc<ApiKey>>,
    /// To whose account goes what the request holds.
    holder: Option<Holder>,
}

impl Principal {
    /// The caller with this key, which is one of `keys`.
    pub(crate) fn of(key: Arc<ApiKey>, keys: &ApiKeys) -> Principal {
        let terms = Terms {
            has_rivals: keys.len() > 1,
            most: None,
        };
        Principal {
            holder: Some(Claimant {
                holder: key.name.shared(),
                terms,
            }),
            key: Some(key),
        }
    }

    /// The name of its key, which is no secret.
    pub(crate) fn name(&self) -> Option<&str> {
        Some(self.key.as_ref()?.name.as_str())
    }

    /// Its key, if keys are asked for.
    pub(crate) fn key(&self) -> Option<&Arc<ApiKey>> {
        self.key.as_ref()
    }

    /// Why its key has ended, if it has.
    pub(crate) fn key_end(&self) -> Option<KeyEnd> {
        self.key.as_ref()?.end()
    }

    /// Waits for work, but not for longer than its key lives. For work that may
    /// take long and changes nothing by being dropped.
    ///
    /// # Errors
    /// [`HttpError::ApiKeyExpired`], [`HttpError::ApiKeyRevoked`].
    pub(crate) async fn outlives<T>(&self, work: impl Future<Output = T>) -> Result<T, HttpError> {
        let Some(key) = &self.key else {
            return Ok(work.await);
        };
        tokio::select! {
            biased;
            end = key.ended() => Err(end.into()),
            done = work => Ok(done),
        }
    }

    /// What the engine knows of it.
    pub(crate) fn caller(&self, deadline: Option<Deadline>) -> Caller {
        Caller {
            key: self.key.as_ref().map(|key| key.name.shared()),
            has_rivals: self.holder.as_ref().is_some_and(|it| it.terms.has_rivals),
            deadline: deadline.map(|deadline| deadline.0),
            ..Caller::default()
        }
    }

    /// The prefix of the filters that start with `asked` and that the caller
    /// may know of; `None`: there are none.
    pub(crate) fn narrow(&self, asked: &str) -> Option<String> {
        match self.prefix() {
            None => Some(asked.to_owned()),
            Some(prefix) => prefix.narrow(asked),
        }
    }

    /// Whether the caller may know of this filter.
    pub(crate) fn covers(&self, name: &FilterName) -> bool {
        self.prefix()
            .is_none_or(|prefix| prefix.covers(name.as_str()))
    }

    /// Refuses what the scope of its key does not allow: for requests that need
    /// more than their operation does.
    ///
    /// # Errors
    /// [`HttpError::ScopeInsufficient`].
    pub(crate) fn needs(&self, needs: Scope) -> Result<(), HttpError> {
        match &self.key {
            Some(key) if key.scope < needs => Err(HttpError::ScopeInsufficient {
                has: key.scope,
                needs,
            }),
            _ => Ok(()),
        }
    }

    /// To whose account goes what its requests hold; `None` where no keys are
    /// asked for.
    pub(crate) fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// The same of a request.
    pub(crate) fn holder_of(parts: &Parts) -> Option<Holder> {
        parts.extensions.get::<Principal>()?.holder.clone()
    }

    pub(crate) fn prefix(&self) -> Option<&Prefix> {
        self.key.as_ref()?.prefix.as_ref()
    }
}

impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpError> {
        // A route beside the layer would be a mistake: it answers nothing.
        let principal = parts.extensions.get::<Principal>().cloned();
        principal.ok_or_else(|| HttpError::Unanswerable {
            cause: "a request came past the check of its key".to_owned(),
        })
    }
}
