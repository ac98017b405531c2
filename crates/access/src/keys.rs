//! The keys that a running server knows, exchanged as a whole when their file
//! changes, and how often each may ask. Requests never wait for a reload.
//!
//! What takes long for a caller waits beside it for the end of its key, see
//! [`ApiKey::ended`].

use super::error::AccessError;
use super::file;
use super::file::KeyEntry;
use super::grant::{KeyExpiry, KeyName, Prefix, Scope};
use super::refusals::RefusalLines;
use super::token::TokenDigest;
use arc_swap::ArcSwap;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::time::timeout;

/// Why it is over with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyEnd {
    /// Its time is over.
    #[error("the API key has expired")]
    Expired,
    /// It was removed from the file, or something else is allowed with it.
    #[error("the API key was removed, or what it allows was changed")]
    Revoked,
}

/// When keys without an expiry expire.
const NEVER: u64 = u64::MAX;

/// How often a caller that waits for the end of a key looks at the clock, which
/// may be set, and at the expiry, which may be changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a key allows its callers.
pub struct ApiKey {
    digest: TokenDigest,
    /// What the key is called.
    pub name: KeyName,
    /// What it allows.
    pub scope: Scope,
    export: bool,
    /// For which filters; `None`: all, and the server as a whole.
    pub prefix: Option<Prefix>,
    /// In milliseconds since 1970.
    expires_at_ms: AtomicU64,
    revoked: watch::Sender<bool>,
    /// What is left of what it may ask; `None`: as often as it likes. Outlives
    /// a change of the file.
    meter: Option<Arc<DefaultDirectRateLimiter>>,
    /// What its requests used of the server's threads.
    pub used: Arc<AtomicU64>,
    /// The lines of the log about what was refused to it.
    pub refusals: Arc<RefusalLines>,
}

impl ApiKey {
    /// Whether its time is over.
    pub fn has_expired(&self) -> bool {
        // Most keys never expire: no need to know the time.
        let expires_at_ms = self.expires_at_ms.load(Ordering::Relaxed);
        expires_at_ms != NEVER && expires_at_ms <= now_ms()
    }

    /// Whether it is over with the key, and why.
    pub fn end(&self) -> Option<KeyEnd> {
        if *self.revoked.borrow() {
            return Some(KeyEnd::Revoked);
        }
        self.has_expired().then_some(KeyEnd::Expired)
    }

    /// Waits until it is over with the key.
    pub async fn ended(&self) -> KeyEnd {
        let mut revoked = self.revoked.subscribe();
        loop {
            if let Some(end) = self.end() {
                return end;
            }
            let left = self
                .expires_at_ms
                .load(Ordering::Relaxed)
                .saturating_sub(now_ms());
            let look = LOOK_EVERY.min(Duration::from_millis(left.max(1)));
            // Whatever comes first is seen above.
            let _ = timeout(look, revoked.changed()).await;
        }
    }

    /// Whether the same is allowed with it as an entry says, apart from its
    /// expiry.
    fn allows_the_same_as(&self, entry: &KeyEntry) -> bool {
        self.name == entry.name
            && (self.scope, self.export) == (entry.scope, entry.export)
            && self.prefix == entry.prefix
    }

    /// Whether it allows fetching what has the secret key of a filter's hash.
    pub fn may_export(&self) -> bool {
        self.export || self.scope == Scope::Admin
    }

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

fn now_ms() -> u64 {
    // Before 1970 no key has expired.
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(NEVER)
}

/// What a change of the file did to the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyChanges {
    /// Keys that are new.
    pub added: Vec<KeyName>,
    /// Keys that are gone.
    pub removed: Vec<KeyName>,
    /// Keys with which something else is allowed, or that expire at another time.
    pub changed: Vec<KeyName>,
}

type KeysByDigest = HashMap<TokenDigest, Arc<ApiKey>>;

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

    /// Reads them again; says what is different. It is over with keys that are
    /// gone, or with which something else is allowed: their callers are refused,
    /// or told anew what they may, and what takes long for them ends.
    ///
    /// # Errors
    /// See [`file::read`]; the keys stay as they were.
    pub fn reload(&self) -> Result<KeyChanges, AccessError> {
        let entries = file::read(&self.path)?;
        let before = self.keys.load_full();
        let mut changes = KeyChanges::default();
        let mut keys = KeysByDigest::with_capacity(entries.len());
        for entry in entries {
            // Every entry has a digest, or the file would have been refused.
            let Some(digest) = entry.digest() else {
                continue;
            };
            let key = match before.get(&digest) {
                Some(old) if old.allows_the_same_as(&entry) => {
                    let expires_at_ms = expires_at_ms(&entry);
                    let was = old.expires_at_ms.swap(expires_at_ms, Ordering::Relaxed);
                    if was != expires_at_ms {
                        changes.changed.push(entry.name);
                    }
                    Arc::clone(old)
                }
                Some(old) => {
                    changes.changed.push(entry.name.clone());
                    Arc::new(self.key(digest, entry, Some(old)))
                }
                None => {
                    changes.added.push(entry.name.clone());
                    Arc::new(self.key(digest, entry, None))
                }
            };
            keys.insert(digest, key);
        }
        let keys = Arc::new(keys);
        self.keys.store(Arc::clone(&keys));
        // Whoever found an old key before is told now.
        for (digest, old) in &*before {
            let new = keys.get(digest);
            if new.is_none() {
                changes.removed.push(old.name.clone());
            }
            if !new.is_some_and(|new| Arc::ptr_eq(new, old)) {
                old.revoked.send_replace(true);
            }
        }
        changes.removed.sort();
        Ok(changes)
    }

    fn key(&self, digest: TokenDigest, entry: KeyEntry, old: Option<&Arc<ApiKey>>) -> ApiKey {
        let quota = self.per_second.map(Quota::per_second);
        ApiKey {
            digest,
            expires_at_ms: AtomicU64::new(expires_at_ms(&entry)),
            revoked: watch::Sender::new(false),
            name: entry.name,
            scope: entry.scope,
            export: entry.export,
            prefix: entry.prefix,
            meter: match old {
                Some(old) => old.meter.clone(),
                None => quota.map(|it| Arc::new(RateLimiter::direct(it))),
            },
            used: old.map_or_else(Arc::default, |old| Arc::clone(&old.used)),
            refusals: old.map_or_else(Arc::default, |old| Arc::clone(&old.refusals)),
        }
    }

    /// What the key allows that a caller sent, if it is one; it may have expired.
    pub fn find(&self, token: &str) -> Option<Arc<ApiKey>> {
        self.keys.load().get(&TokenDigest::of(token)).cloned()
    }

    /// What a key that a caller showed before allows now; `None`: it is no key any
    /// more. It may have expired.
    pub fn renewed(&self, shown: &ApiKey) -> Option<Arc<ApiKey>> {
        self.keys.load().get(&shown.digest).cloned()
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

fn expires_at_ms(entry: &KeyEntry) -> u64 {
    entry.expires_at.map_or(NEVER, KeyExpiry::millis)
}

#[cfg(test)]
mod tests;
