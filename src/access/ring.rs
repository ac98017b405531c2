//! The keys that a running server knows, exchanged as a whole when their file
//! changes. Whoever asks never waits.

use super::file;
use super::token::TokenDigest;
use super::{AccessError, KeyName, Prefix, Scope};
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a key allows its callers.
pub struct Grant {
    digest: TokenDigest,
    /// What the key is called.
    pub name: KeyName,
    /// What it allows.
    pub scope: Scope,
    /// For which filters; `None`: all, and the server as a whole.
    pub prefix: Option<Prefix>,
}

type Grants = HashMap<[u8; 32], Arc<Grant>>;

/// The keys of a file.
pub struct KeyRing {
    path: PathBuf,
    grants: ArcSwap<Grants>,
}

impl KeyRing {
    /// Reads the keys of a file.
    ///
    /// # Errors
    /// See [`file::read`].
    pub fn open(path: &Path) -> Result<KeyRing, AccessError> {
        let grants = grants(path)?;
        Ok(KeyRing {
            path: path.to_owned(),
            grants: ArcSwap::from_pointee(grants),
        })
    }

    /// Reads them again. Callers whose key is gone are refused from then on;
    /// what they are being answered is finished.
    ///
    /// # Errors
    /// See [`file::read`]; the keys stay as they were.
    pub fn reload(&self) -> Result<(), AccessError> {
        self.grants.store(Arc::new(grants(&self.path)?));
        Ok(())
    }

    /// What the key allows that a caller sent, if it is one.
    pub fn find(&self, token: &str) -> Option<Arc<Grant>> {
        let digest = TokenDigest::of(token);
        let grant = self.grants.load().get(digest.bytes()).cloned()?;
        (grant.digest == digest).then_some(grant)
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.grants.load().len()
    }

    /// Whether there is none, so that nobody may do anything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn grants(path: &Path) -> Result<Grants, AccessError> {
    let entries = file::read(path)?.into_iter();
    // Every entry has a digest, or the file would have been refused.
    let grants = entries.filter_map(|entry| {
        let digest = entry.digest()?;
        let grant = Grant {
            digest,
            name: entry.name,
            scope: entry.scope,
            prefix: entry.prefix,
        };
        Some((*digest.bytes(), Arc::new(grant)))
    });
    Ok(grants.collect())
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
        let ring = KeyRing::open(&path).unwrap();
        let two = add("two", Scope::Admin);
        assert_eq!(ring.find(one.as_str()).unwrap().name.as_str(), "one");
        assert!(ring.find(two.as_str()).is_none());
        ring.reload().unwrap();
        assert_eq!(ring.find(two.as_str()).unwrap().scope, Scope::Admin);
        file::remove(&path, &"one".parse().unwrap()).unwrap();
        ring.reload().unwrap();
        assert!(ring.find(one.as_str()).is_none());
        assert_eq!(ring.len(), 1);
        for odd in ["", "cuckood_", "Bearer", &two.digest().to_string()] {
            assert!(ring.find(odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn a_broken_file_leaves_the_keys_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let name = "one".parse().unwrap();
        let token = file::add(&path, &name, Scope::Read, None, UNIX_EPOCH).unwrap();
        let ring = KeyRing::open(&path).unwrap();
        std::fs::write(&path, "{").unwrap();
        assert!(ring.reload().is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(ring.reload().is_err());
        assert!(ring.find(token.as_str()).is_some());
    }
}
