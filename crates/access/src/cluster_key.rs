//! The key by which the pods of a cluster know each other. It is for what they
//! tell and ask each other alone, and allows nothing that API keys allow. It is never
//! sent: who has it can tell so, by keys that are derived from it.

use super::error::AccessError;
use crate::mac::{MacKeys, NoKey};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::Path;

/// How long a key is, in characters.
const MIN_CHARACTERS: usize = 32;
const MAX_CHARACTERS: usize = 256;

/// Most keys of a file.
const MAX_KEYS: usize = 8;

/// Stands for the key of pods that have none of their own: so that one is replaced, too.
/// What was chosen at random when the cluster was founded is known to whoever may read its
/// log, and to nobody else.
const OF_FOUNDING: &str = "founding";

/// The key of a cluster, or several. No `Debug`: it is secret.
#[derive(Clone)]
pub struct ClusterKey(Vec<String>);

impl ClusterKey {
    /// That of pods that have none of their own.
    pub fn of_founding() -> ClusterKey {
        ClusterKey(vec![OF_FOUNDING.to_owned()])
    }

    /// Reads a file with a key on each line. The first one is used, all are believed:
    /// so a key is replaced without a moment in which pods don't know each other. The word
    /// `founding` stands for the one of pods that have no file. Empty lines, and those that begin with `#`, are passed over.
    ///
    /// # Errors
    /// There is none, or one is too short to be secret.
    pub fn read(path: &Path) -> Result<ClusterKey, AccessError> {
        let text =
            fs::read_to_string(path).map_err(|source| AccessError::ClusterKeyUnreadable {
                path: path.to_owned(),
                source,
            })?;
        ClusterKey::parse(&text).map_err(|reason| AccessError::ClusterKeyMalformed {
            path: path.to_owned(),
            reason,
        })
    }

    fn parse(text: &str) -> Result<ClusterKey, String> {
        let lines = (1..).zip(text.lines().map(str::trim));
        let keys: Vec<(usize, &str)> = lines
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .collect();
        for (number, key) in keys.iter().filter(|(_, key)| *key != OF_FOUNDING) {
            if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!(
                    "line {number} has characters other than visible ASCII"
                ));
            }
            if !(MIN_CHARACTERS..=MAX_CHARACTERS).contains(&key.len()) {
                return Err(format!(
                    "the key on line {number} has {} characters, allowed are {MIN_CHARACTERS} to {MAX_CHARACTERS}; make one with `openssl rand -hex 32`",
                    key.len()
                ));
            }
        }
        match keys.as_slice() {
            [] => Err("it has no key; make one with `openssl rand -hex 32`".to_owned()),
            [_, ..] if keys.len() > MAX_KEYS => Err(format!(
                "it has {} keys, allowed are {MAX_KEYS}",
                keys.len()
            )),
            keys => Ok(ClusterKey(
                keys.iter().map(|(_, key)| (*key).to_owned()).collect(),
            )),
        }
    }

    /// Whether nobody knows it who merely reads the log.
    pub fn is_secret(&self) -> bool {
        self.0.iter().all(|it| it != OF_FOUNDING)
    }

    /// Keys for one purpose of one founding of the cluster.
    ///
    /// # Errors
    /// Never, for keys that were read.
    pub fn derive(
        &self,
        cluster: &str,
        founding: &[u8; 16],
        purpose: &str,
    ) -> Result<MacKeys, NoKey> {
        let purpose = format!("cuckood {purpose} {cluster}");
        let mut hash = Sha256::new();
        hash.update(b"cuckood cluster key");
        hash.update(founding);
        let of_founding = hex::encode(hash.finalize());
        let secrets = self.0.iter().map(|it| match it.as_str() {
            OF_FOUNDING => of_founding.as_str(),
            secret => secret,
        });
        MacKeys::derive(secrets, founding, &purpose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "0123456789abcdef0123456789abcdef";
    const SECOND: &str = "fedcba9876543210fedcba9876543210";

    fn tells(key: &ClusterKey, founding: u8, cluster: &str) -> [u8; 32] {
        let keys = key.derive(cluster, &[founding; 16], "test").unwrap();
        keys.first().unwrap().tag(&[b"said"])
    }

    fn believes(key: &ClusterKey, tag: &[u8]) -> bool {
        let keys = key.derive("shop", &[7; 16], "test").unwrap();
        keys.of(&[b"said"], tag).is_some()
    }

    #[test]
    fn the_first_key_is_used_and_all_are_believed() {
        let both = ClusterKey::parse(&format!("# new\n {FIRST} \n\n{SECOND}\n")).unwrap();
        let first = ClusterKey::parse(FIRST).unwrap();
        let founding = ClusterKey::parse(&format!("{FIRST}\nfounding")).unwrap();
        assert!(believes(
            &founding,
            &tells(&ClusterKey::of_founding(), 7, "shop")
        ));
        assert!(!founding.is_secret() && first.is_secret());
        let second = ClusterKey::parse(SECOND).unwrap();
        assert_eq!(tells(&both, 7, "shop"), tells(&first, 7, "shop"));
        assert!(believes(&both, &tells(&second, 7, "shop")));
        assert!(!believes(&first, &tells(&second, 7, "shop")));
    }

    #[test]
    fn what_one_cluster_tells_another_one_does_not_believe() {
        for key in [ClusterKey::parse(FIRST).unwrap(), ClusterKey::of_founding()] {
            assert!(believes(&key, &tells(&key, 7, "shop")));
            assert!(!believes(&key, &tells(&key, 8, "shop")));
            assert!(!believes(&key, &tells(&key, 7, "shop2")));
        }
        assert!(!believes(
            &ClusterKey::of_founding(),
            &tells(&ClusterKey::parse(FIRST).unwrap(), 7, "shop")
        ));
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        for (text, words) in [
            ("", "it has no key"),
            ("# nothing\n", "it has no key"),
            ("short", "the key on line 1 has 5 characters"),
            (
                &format!("{FIRST}\n{}", "k".repeat(257)),
                "the key on line 2 has 257",
            ),
            (&format!("{FIRST}\u{e4}"), "other than visible ASCII"),
            (&format!("{FIRST}\n").repeat(9), "it has 9 keys"),
        ] {
            let refused = ClusterKey::parse(text).err().unwrap();
            assert!(refused.contains(words), "{text:?}: {refused}");
        }
    }
}
