//! The key by which the pods of a cluster know each other. It is for what they
//! ask of each other alone, and allows nothing that API keys allow.

use super::error::AccessError;
use super::token::TokenDigest;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::Path;

/// How long a key is, in characters.
const MIN_CHARACTERS: usize = 32;
const MAX_CHARACTERS: usize = 256;

/// Most keys of a file.
const MAX_KEYS: usize = 8;

/// The key that is sent, and those that are taken. No `Debug`: it is secret.
pub struct ClusterKey {
    sent: String,
    taken: Vec<TokenDigest>,
}

impl ClusterKey {
    /// Reads a file with a key on each line. The first one is sent, all are taken:
    /// so a key is replaced without a moment in which pods don't know each other.
    /// Empty lines, and those that begin with `#`, are passed over.
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
        let lines = text.lines().enumerate();
        let keys = lines.map(|(number, line)| (number + 1, line.trim()));
        let keys: Vec<(usize, &str)> = keys
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .collect();
        for (number, key) in &keys {
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
            [(_, first), ..] => Ok(ClusterKey {
                sent: (*first).to_owned(),
                taken: keys.iter().map(|(_, key)| TokenDigest::of(key)).collect(),
            }),
        }
    }

    /// The one of pods that have none of their own: what was chosen at random when
    /// the cluster was founded is known to whoever may read its log, and to nobody
    /// else.
    pub fn of_founding(founding: &[u8; 16]) -> ClusterKey {
        let mut hash = Sha256::new();
        hash.update(b"cuckood cluster key");
        hash.update(founding);
        let sent = hex::encode(hash.finalize());
        ClusterKey {
            taken: vec![TokenDigest::of(&sent)],
            sent,
        }
    }

    /// The key as it is sent.
    pub fn as_str(&self) -> &str {
        &self.sent
    }

    /// Whether what was sent is a key of the cluster. How long that takes tells
    /// nothing.
    pub fn is(&self, sent: &str) -> bool {
        let sent = TokenDigest::of(sent);
        let is_one = |found: bool, known: &TokenDigest| (*known == sent) | found;
        self.taken.iter().fold(false, is_one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "0123456789abcdef0123456789abcdef";
    const SECOND: &str = "fedcba9876543210fedcba9876543210";

    #[test]
    fn the_first_key_is_sent_and_all_are_taken() {
        let key = ClusterKey::parse(&format!("# new\n {FIRST} \n\n{SECOND}\n")).unwrap();
        assert_eq!(key.as_str(), FIRST);
        for (sent, is_one) in [(FIRST, true), (SECOND, true), ("# new", false), ("", false)] {
            assert_eq!(key.is(sent), is_one, "{sent}");
        }
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

    #[test]
    fn pods_of_one_founding_have_one_key_and_others_another() {
        let key = ClusterKey::of_founding(&[7; 16]);
        assert!(key.is(ClusterKey::of_founding(&[7; 16]).as_str()));
        assert!(!key.is(ClusterKey::of_founding(&[8; 16]).as_str()));
        assert!(!key.is(&hex::encode([7; 16])));
    }
}
