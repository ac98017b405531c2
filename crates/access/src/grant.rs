//! What a key is called, what it allows, and for which filters.

use crate::engine::FilterName;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

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
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Scope, GrantError> {
        let known = Scope::ALL.into_iter().find(|scope| scope.name() == text);
        known.ok_or_else(|| GrantError::BadScope {
            given: text.to_owned(),
        })
    }
}

/// Longest name of a key, in bytes.
const MAX_NAME_LENGTH: usize = 64;

/// What a key is called: 1 to 64 characters of `A-Z a-z 0-9 . _ -`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyName(Arc<str>);

impl KeyName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same without a copy.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl FromStr for KeyName {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<KeyName, GrantError> {
        let fits = (1..=MAX_NAME_LENGTH).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        match fits {
            true => Ok(KeyName(text.into())),
            false => Err(GrantError::BadName),
        }
    }
}

/// How the keys of the filters start that an API key is for; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Prefix(String);

impl Prefix {
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

impl FromStr for Prefix {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Prefix, GrantError> {
        match !text.is_empty() && FilterName::can_start_with(text) {
            true => Ok(Prefix(text.to_owned())),
            false => Err(GrantError::BadPrefix),
        }
    }
}

/// Longest description of a key, in characters.
const MAX_DESCRIPTION_LENGTH: usize = 200;

/// What a key is for, in words for people: 1 to 200 characters on one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Description(String);

impl FromStr for Description {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Description, GrantError> {
        let fits = (1..=MAX_DESCRIPTION_LENGTH).contains(&text.chars().count());
        match fits && !text.chars().any(char::is_control) {
            true => Ok(Description(text.to_owned())),
            false => Err(GrantError::BadDescription),
        }
    }
}

/// The moment from which on a key is refused, by the wall clock; written as in
/// RFC 3339, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyExpiry(SystemTime);

impl KeyExpiry {
    /// So long after that moment; `None`: no date can say it.
    pub fn after(now: SystemTime, lifetime: Duration) -> Option<KeyExpiry> {
        KeyExpiry::at(now.checked_add(lifetime)?)
    }

    /// The second of that moment.
    fn at(moment: SystemTime) -> Option<KeyExpiry> {
        let seconds = moment.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let is_date = seconds <= LAST_SECOND;
        is_date.then(|| KeyExpiry(UNIX_EPOCH + Duration::from_secs(seconds)))
    }

    /// Whether it is over at that moment.
    pub fn is_over(self, now: SystemTime) -> bool {
        self.0 <= now
    }

    /// Milliseconds since 1970.
    pub(super) fn millis(self) -> u64 {
        let since = self.0.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The end of the year 9999, the last one with four digits.
const LAST_SECOND: u64 = 253_402_300_799;

impl FromStr for KeyExpiry {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<KeyExpiry, GrantError> {
        let moment = humantime::parse_rfc3339(text).ok();
        let expiry = moment.and_then(KeyExpiry::at);
        expiry.ok_or_else(|| GrantError::BadExpiry {
            given: text.to_owned(),
        })
    }
}

/// What is written as a text, in the keys file and on the command line.
macro_rules! texts {
    ($($name:ident: $text:expr;)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let text: fn(&$name) -> _ = $text;
                fmt::Display::fmt(&text(self), f)
            }
        }

        impl From<$name> for String {
            fn from(it: $name) -> String {
                it.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = GrantError;

            fn try_from(text: String) -> Result<$name, GrantError> {
                text.parse()
            }
        }
    )*};
}

texts! {
    KeyName: |it| Arc::clone(&it.0);
    Prefix: |it| it.0.clone();
    Description: |it| it.0.clone();
    KeyExpiry: |it| humantime::format_rfc3339_seconds(it.0);
}

/// Why a text is no scope, name, prefix, description or expiry.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
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
        "a prefix is the start of a filter's key: 1 to 255 visible ASCII characters, no blanks"
    )]
    BadPrefix,
    /// That is too long for a description, or not one line.
    #[error("a description is one line of 1 to 200 characters")]
    BadDescription,
    /// That is no date.
    #[error("{given:?} is not a time in UTC as RFC 3339 writes it, such as 2027-01-31T00:00:00Z")]
    BadExpiry {
        /// The given value.
        given: String,
    },
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
    fn a_description_is_one_line() {
        let longest = "ä".repeat(MAX_DESCRIPTION_LENGTH);
        for text in ["shop, ask: Ada", &longest] {
            assert_eq!(text.parse::<Description>().unwrap().to_string(), text);
        }
        for text in ["", "a\nb", "a\u{1b}[31m", &format!("{longest}n")] {
            assert!(text.parse::<Description>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_expiry_is_a_moment_in_utc() {
        let text = "2027-01-31T00:00:00Z";
        let expiry: KeyExpiry = text.parse().unwrap();
        assert_eq!(expiry.to_string(), text);
        assert_eq!(expiry.millis(), 1_801_353_600_000);
        let moment = UNIX_EPOCH + Duration::from_millis(expiry.millis());
        assert!(expiry.is_over(moment));
        assert!(!expiry.is_over(moment - Duration::from_millis(1)));
        let day = Duration::from_secs(86_400);
        let later = KeyExpiry::after(moment + Duration::from_millis(7), day);
        assert_eq!(later.unwrap().to_string(), "2027-02-01T00:00:00Z");
        assert_eq!(KeyExpiry::after(moment, Duration::MAX), None);
        assert_eq!(KeyExpiry::after(moment, Duration::from_secs(1 << 40)), None);
        for text in ["", "2027-01-31", "2027-01-31T00:00:00+01:00", "tomorrow"] {
            assert!(text.parse::<KeyExpiry>().is_err(), "{text}");
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
        for text in ["", "a b", "ä", &"a".repeat(256)] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }
}
