//! The name of a filter.

use std::fmt;

/// Most characters of a filter's name.
pub const MAX_NAME_LENGTH: usize = 255;

/// Name of a filter, the key in the URL: 1 to 255 characters of
/// `A-Z a-z 0-9 . _ : ~ -`. Valid by construction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilterName(String);

/// A text that can't name a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a filter key has 1 to 255 characters of A-Z a-z 0-9 . _ : ~ -; this one {problem}")]
pub struct InvalidName {
    /// What is wrong with it.
    pub problem: String,
}

impl FilterName {
    /// Checks a text that names a filter.
    ///
    /// # Errors
    /// Says which character or length is refused.
    pub fn parse(text: &str) -> Result<FilterName, InvalidName> {
        FilterName::of(text.to_owned())
    }

    /// [`parse`](Self::parse), keeping the text.
    ///
    /// # Errors
    /// As there.
    pub fn of(text: String) -> Result<FilterName, InvalidName> {
        if text.is_empty() {
            return Err(InvalidName {
                problem: "is empty".to_owned(),
            });
        }
        if text.len() > MAX_NAME_LENGTH {
            return Err(InvalidName {
                problem: format!("has {} bytes", text.len()),
            });
        }
        match text.chars().find(|&c| !is_name_character(c)) {
            None => Ok(FilterName(text)),
            Some(refused) => Err(InvalidName {
                problem: format!("has {refused:?}"),
            }),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '~' | '-')
}

impl fmt::Display for FilterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for FilterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
