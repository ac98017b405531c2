//! The caller of a request, as far as its API key tells.

use super::admission::budget::Holder;
use super::refusal::Refusal;
use crate::access::keys::{ApiKey, ApiKeys, KeyEnd};
use crate::access::refusals::OF_STRANGERS;
use crate::access::{Prefix, Scope};
use crate::engine::{Caller, FilterName};
use crate::share::Claimant;
use std::sync::Arc;
use std::time::Instant;

/// The caller of a request. Where no keys are asked for, all callers are the
/// same one.
#[derive(Clone, Default)]
pub struct Principal {
    key: Option<Arc<ApiKey>>,
    /// To whose account goes what the request holds.
    holder: Option<Holder>,
}

impl Principal {
    /// The caller with this key, which is one of `keys`.
    pub fn of(key: Arc<ApiKey>, keys: &ApiKeys) -> Principal {
        Principal {
            holder: Some(Claimant::of(key.name.shared(), keys.len() > 1)),
            key: Some(key),
        }
    }

    /// The name of its key, which is no secret.
    pub fn name(&self) -> Option<&str> {
        Some(self.key.as_ref()?.name.as_str())
    }

    /// Whether the log is to have one more line about what was refused to it.
    pub fn may_log_refusal(&self) -> bool {
        match &self.key {
            Some(key) => key.refusals.may_write(self.name()),
            None => OF_STRANGERS.may_write(None),
        }
    }

    /// Its key, if keys are asked for.
    pub fn key(&self) -> Option<&Arc<ApiKey>> {
        self.key.as_ref()
    }

    /// Why its key has ended, if it has.
    pub fn key_end(&self) -> Option<KeyEnd> {
        self.key.as_ref()?.end()
    }

    /// Waits for work, but not for longer than its key lives. For work that may
    /// take long and changes nothing by being dropped.
    ///
    /// # Errors
    /// Its key has expired, or was removed.
    pub async fn outlives<T>(&self, work: impl Future<Output = T>) -> Result<T, Refusal> {
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
    pub fn caller(&self, deadline: Option<Instant>) -> Caller {
        Caller {
            key: self.key.as_ref().map(|key| key.name.shared()),
            has_rivals: self.holder.as_ref().is_some_and(|it| it.terms.has_rivals),
            deadline,
            ..Caller::default()
        }
    }

    /// The prefix of the filters that start with `asked` and that the caller
    /// may know of; `None`: there are none.
    pub fn narrow(&self, asked: &str) -> Option<String> {
        match self.prefix() {
            None => Some(asked.to_owned()),
            Some(prefix) => prefix.narrow(asked),
        }
    }

    /// Whether the caller may know of this filter.
    pub fn covers(&self, name: &FilterName) -> bool {
        self.prefix()
            .is_none_or(|prefix| prefix.covers(name.as_str()))
    }

    /// Counts a request of it.
    ///
    /// # Errors
    /// [`Refusal::RateLimited`].
    pub fn count_request(&self) -> Result<(), Refusal> {
        let Some(key) = &self.key else {
            return Ok(());
        };
        key.count_request().map_err(|wait| {
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            Refusal::RateLimited {
                seconds: u64::try_from(seconds).unwrap_or(u64::MAX),
            }
        })
    }

    /// Refuses what the scope of its key does not allow: for requests that need
    /// more than their operation does.
    ///
    /// # Errors
    /// [`Refusal::ScopeInsufficient`].
    pub fn needs(&self, needs: Scope) -> Result<(), Refusal> {
        match &self.key {
            Some(key) if key.scope < needs => Err(Refusal::ScopeInsufficient {
                has: key.scope,
                needs,
            }),
            _ => Ok(()),
        }
    }

    /// Refuses what has the secret key of a filter's hash, unless its key allows that.
    ///
    /// # Errors
    /// [`Refusal::ExportNotAllowed`].
    pub fn needs_export(&self) -> Result<(), Refusal> {
        match self.may_export() {
            true => Ok(()),
            false => Err(Refusal::ExportNotAllowed),
        }
    }

    /// Whether it may fetch what has the secret key of a filter's hash.
    pub fn may_export(&self) -> bool {
        self.key.as_ref().is_none_or(|key| key.may_export())
    }

    /// To whose account goes what its requests hold; `None` where no keys are
    /// asked for.
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// The prefix of the filters that it may know of; `None`: of all.
    pub fn prefix(&self) -> Option<&Prefix> {
        self.key.as_ref()?.prefix.as_ref()
    }
}
