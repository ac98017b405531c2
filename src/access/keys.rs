//! The keys that a running server knows, exchanged as a whole when their file
//! changes, and how often each may ask. Requests never wait for a reload.

use super::error::AccessError;
use super::file;
use super::grant::{KeyName, Prefix, Scope};
use super::token::TokenDigest;
use arc_swap::ArcSwap;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What a key allows its callers.
pub struct ApiKey {
    digest: TokenDigest,
    /// What the key is called.
    pub name: KeyName,
    /// What it allows.
    pub scope: Scope,
    /// For which filters; `None`: all, and the server as a whole.
    pub prefix: Option<Prefix>,
    /// What is left of what it may ask; `None`: as often as it likes. Outlives
    /// a change of the file.
    meter: Option<Arc<DefaultDirectRateLimiter>>,
}

impl ApiKey {
    /// Counts a request.
    ///
    /// # Errors
    /// It is one too many; how long to wait.
    pub fn count_request(&self) -> Result<(), Duration> {
        match &self.meter {
            None => Ok(()),
            Some(meter) => meter
                .check()
                .map_err(|early| early.wait_time_from(DefaultClock::default().now())),
        }
    }
}

type KeysByDigest = HashMap<[u8; 32], Arc<ApiKey>>;

/// The keys of a file.
pub struct ApiKeys {
    path: PathBuf,
    per_second: Option<NonZeroU32>,
    keys: ArcSwap<KeysByDigest>,
}

impl ApiKeys {
    /// Reads the keys of a file. Each may ask so many times a second, and as
    /// often at once; `None`: as often as it likes.
    ///
    /// # Errors
    /// See [`file::read`].
    pub fn open(path: &Path, per_second: Option<NonZeroU32>) -> Result<ApiKeys, AccessError> {
        let keys = ApiKeys {
            path: path.to_owned(),
            per_second,
            keys: ArcSwap::default(),
        };
        keys.reload()?;
        Ok(keys)
    }

    /// Reads them again. Callers whose key is gone are refused from then on;
    /// what they are being answered is finished.
    ///
    /// # Errors
    /// See [`file::read`]; the keys stay as they were.
    pub fn reload(&self) -> Result<(), AccessError> {
        let entries = file::read(&self.path)?.into_iter();
        let before = self.keys.load();
        // Every entry has a digest, or the file would have been refused.
        let keys = entries.filter_map(|entry| {
            let digest = entry.digest()?;
            let old = before.get(digest.bytes());
            let key = ApiKey {
                digest,
                name: entry.name,
                scope: entry.scope,
                prefix: entry.prefix,
                meter: match old {
                    Some(old) => old.meter.clone(),
                    None => self.meter(),
                },
            };
            Some((*digest.bytes(), Arc::new(key)))
        });
        self.keys.store(Arc::new(keys.collect()));
        Ok(())
    }

    fn meter(&self) -> Option<Arc<DefaultDirectRateLimiter>> {
        let quota = Quota::per_second(self.per_second?);
        Some(Arc::new(RateLimiter::direct(quota)))
    }

    /// What the key allows that a caller sent, if it is one.
    pub fn find(&self, token: &str) -> Option<Arc<ApiKey>> {
        let digest = TokenDigest::of(token);
        let key = self.keys.load().get(digest.bytes()).cloned()?;
        (key.digest == digest).then_some(key)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.keys.load().len()
    }

    /// Whether there is none, so that every request is refused.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
