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
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Semaphore;

/// What the callers of a key have under way on a server.
#[derive(Debug, Default)]
pub struct ConcurrencyShares {
    /// Requests that are worked on.
    pub requests: ConcurrencyShare,
    /// Answers that are made while they are sent.
    pub dumps: ConcurrencyShare,
    /// Filters that are restored while they come.
    pub restores: ConcurrencyShare,
}

/// How much of one kind that is.
#[derive(Debug, Default)]
pub struct ConcurrencyShare(OnceLock<Arc<Semaphore>>);

impl ConcurrencyShare {
    /// What is left of it. How much it may be is the server's to say, and the
    /// same every time.
    pub fn of(&self, limit: usize) -> &Arc<Semaphore> {
        self.0.get_or_init(|| Arc::new(Semaphore::new(limit)))
    }
}

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
    /// What its callers have under way. Outlives a change of the file, too.
    pub shares: Arc<ConcurrencyShares>,
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
                shares: old.map(|old| Arc::clone(&old.shares)).unwrap_or_default(),
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
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn a_key_is_found_until_it_is_removed_and_the_file_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let add = |name: &str, scope| {
            file::add(&path, &name.parse().unwrap(), scope, None, UNIX_EPOCH).unwrap()
        };
        let one = add("one", Scope::Read);
        let keys = ApiKeys::open(&path, None).unwrap();
        let two = add("two", Scope::Admin);
        assert_eq!(keys.find(one.as_str()).unwrap().name.as_str(), "one");
        assert!(keys.find(two.as_str()).is_none());
        keys.reload().unwrap();
        assert_eq!(keys.find(two.as_str()).unwrap().scope, Scope::Admin);
        file::remove(&path, &"one".parse().unwrap()).unwrap();
        keys.reload().unwrap();
        assert!(keys.find(one.as_str()).is_none());
        assert_eq!(keys.len(), 1);
        for odd in ["", "cuckood_", "Bearer", &two.digest().to_string()] {
            assert!(keys.find(odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn a_broken_file_leaves_the_keys_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let name = "one".parse().unwrap();
        let token = file::add(&path, &name, Scope::Read, None, UNIX_EPOCH).unwrap();
        let keys = ApiKeys::open(&path, None).unwrap();
        std::fs::write(&path, "{").unwrap();
        assert!(keys.reload().is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(keys.reload().is_err());
        assert!(keys.find(token.as_str()).is_some());
    }

    #[test]
    fn a_key_asks_so_many_times_at_once_and_then_waits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let add = |name: &str| {
            file::add(&path, &name.parse().unwrap(), Scope::Read, None, UNIX_EPOCH).unwrap()
        };
        let (one, two) = (add("one"), add("two"));
        let keys = ApiKeys::open(&path, NonZeroU32::new(3)).unwrap();
        let ask = |token: &str| keys.find(token).unwrap().count_request();
        for _ in 0..3 {
            assert_eq!(ask(one.as_str()), Ok(()));
        }
        let wait = ask(one.as_str()).unwrap_err();
        assert!(
            wait > Duration::ZERO && wait <= Duration::from_millis(334),
            "{wait:?}"
        );
        // Another key has its own measure, and a change of the file gives none.
        assert_eq!(ask(two.as_str()), Ok(()));
        add("three");
        keys.reload().unwrap();
        assert!(ask(one.as_str()).is_err());
    }

    #[test]
    fn what_a_key_takes_is_known_after_a_change_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let name = "one".parse().unwrap();
        let token = file::add(&path, &name, Scope::Read, None, UNIX_EPOCH).unwrap();
        let keys = ApiKeys::open(&path, None).unwrap();
        let left = || Arc::clone(keys.find(token.as_str()).unwrap().shares.requests.of(3));
        let taken = left().try_acquire_owned().unwrap();
        keys.reload().unwrap();
        assert_eq!(left().available_permits(), 2);
        drop(taken);
        assert_eq!(left().available_permits(), 3);
    }
}
