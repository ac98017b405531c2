//! API keys: what they are, what each allows, and the file that lists them.
//!
//! A key is 256 random bits. The file keeps its SHA-256 alone, so it
//! gives no access to the server; a key that is lost is replaced, never found.
//! Each key has a name for lists and logs, a scope, and maybe a prefix: then it
//! is for filters whose own keys start with that.
//!
//! - [`token`] is the key itself and its digest.
//! - [`file`](mod@file) reads, checks and writes the file.
//! - [`keys`] is what a running server holds, and can hold anew.
//!
//! Which routes need a key, and which scope, is decided in `http`.

pub mod file;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_targets;
pub mod keys;
pub mod token;

use crate::engine::FilterName;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// What a key allows; each allows what those before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Questions.
    Read,
    /// And changes.
    Write,
    /// And what can't be taken back, and what concerns the server as a whole.
    Admin,
}

impl Scope {
    /// All of them, the least first.
    pub const ALL: [Scope; 3] = [Scope::Read, Scope::Write, Scope::Admin];

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
            Scope::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = AccessError;

    fn from_str(text: &str) -> Result<Scope, AccessError> {
        let known = Scope::ALL.into_iter().find(|scope| scope.name() == text);
        known.ok_or_else(|| AccessError::BadScope {
            given: text.to_owned(),
        })
    }
}

/// Longest name of a key, in bytes.
const MAX_NAME_LENGTH: usize = 64;

/// What a key is called: 1 to 64 characters of `A-Z a-z 0-9 . _ -`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyName(String);

impl KeyName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for KeyName {
    type Err = AccessError;

    fn from_str(text: &str) -> Result<KeyName, AccessError> {
        let fits = (1..=MAX_NAME_LENGTH).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        match fits {
            true => Ok(KeyName(text.to_owned())),
            false => Err(AccessError::BadName),
        }
    }
}

impl TryFrom<String> for KeyName {
    type Error = AccessError;

    fn try_from(text: String) -> Result<KeyName, AccessError> {
        text.parse()
    }
}

impl From<KeyName> for String {
    fn from(name: KeyName) -> String {
        name.0
    }
}

/// How the keys of the filters start that an API key is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix(String);

impl Prefix {
    /// The prefix as text; never empty.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a filter of this key is among them.
    pub fn covers(&self, key: &str) -> bool {
        key.starts_with(&self.0)
    }

    /// The prefix of those filters that start with `asked` and are among them;
    /// `None`: there can be none.
    pub fn narrow(&self, asked: &str) -> Option<String> {
        if asked.starts_with(&self.0) {
            return Some(asked.to_owned());
        }
        self.0.starts_with(asked).then(|| self.0.clone())
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Prefix {
    type Err = AccessError;

    fn from_str(text: &str) -> Result<Prefix, AccessError> {
        // What starts a filter's key is one itself, but for the empty one.
        FilterName::parse(text).map_err(|_| AccessError::BadPrefix)?;
        Ok(Prefix(text.to_owned()))
    }
}

impl TryFrom<String> for Prefix {
    type Error = AccessError;

    fn try_from(text: String) -> Result<Prefix, AccessError> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> String {
        prefix.0
    }
}

/// What can be wrong with keys and their file.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The file can't be read.
    #[error("the keys file {path} can't be read: {source}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The file can't be written.
    #[error("the keys file {path} can't be written: {source}")]
    Unwritable {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// What is in the file is not what should be.
    #[error("the keys file {path} is invalid: {reason}")]
    Malformed {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A newer program wrote it.
    #[error(
        "the keys file {path} has version {found}, this program knows 1: a newer cuckood wrote it"
    )]
    Newer {
        /// Which.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// There is a key of that name.
    #[error("a key named {name} exists in {path}: choose another name, or remove that key first")]
    NameTaken {
        /// The name.
        name: KeyName,
        /// Where.
        path: PathBuf,
    },
    /// There is no key of that name.
    #[error("there is no key named {name} in {path}; cuckood keys list lists all keys")]
    NameUnknown {
        /// The name.
        name: KeyName,
        /// Where.
        path: PathBuf,
    },
    /// There are as many keys as there may be.
    #[error(
        "there are {} keys in {path}, the largest number allowed: remove some",
        file::MAX_KEYS
    )]
    TooMany {
        /// Where.
        path: PathBuf,
    },
    /// The system gives no random bits.
    #[error("the operating system provides no random bits: {0}")]
    NoRandomness(getrandom::Error),
    /// That is no scope.
    #[error("{given} is not a scope; allowed is read, write or admin")]
    BadScope {
        /// The given value.
        given: String,
    },
    /// That can't be the name of a key.
    #[error("the name of a key is 1 to 64 characters of A-Z a-z 0-9 . _ -")]
    BadName,
    /// No filter's key starts with that.
    #[error(
        "a prefix is the start of a filter's key: 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -"
    )]
    BadPrefix,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scope_allows_what_those_before_it_do() {
        assert!(Scope::Read < Scope::Write && Scope::Write < Scope::Admin);
        for scope in Scope::ALL {
            assert_eq!(scope.name().parse::<Scope>().unwrap(), scope);
        }
        assert!("root".parse::<Scope>().is_err());
    }

    #[test]
    fn names_are_short_and_plain() {
        let longest = "n".repeat(MAX_NAME_LENGTH);
        for name in ["a", "shop.web-1_b", &longest] {
            assert_eq!(name.parse::<KeyName>().unwrap().as_str(), name);
        }
        for name in ["", "a b", "a:b", "ä", &format!("{longest}n")] {
            assert!(name.parse::<KeyName>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_prefix_narrows_what_is_asked_for() {
        let prefix: Prefix = "shop:".parse().unwrap();
        assert!(prefix.covers("shop:") && prefix.covers("shop:a"));
        assert!(!prefix.covers("shop") && !prefix.covers("a:shop:"));
        for (asked, narrowed) in [
            ("", Some("shop:")),
            ("sh", Some("shop:")),
            ("shop:", Some("shop:")),
            ("shop:a", Some("shop:a")),
            ("shoq", None),
            ("a", None),
        ] {
            assert_eq!(prefix.narrow(asked).as_deref(), narrowed, "{asked}");
        }
        for text in ["", "a/b", "a b"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }
}
