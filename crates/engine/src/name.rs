//! The name of a filter.

use std::fmt;

/// Most characters of a filter's name.
pub const MAX_NAME_LENGTH: usize = 255;

/// Name of a filter, the key in the URL: 1 to 255 visible ASCII characters, blanks
/// not among them. Not `.` and not `..`, which clients take out of a URL even
/// where they are percent-encoded. Valid by construction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilterName(String);

/// A text that can't name a filter, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a filter key has 1 to 255 visible ASCII characters, no blanks, and is neither . nor ..; this one {0}"
)]
pub struct InvalidName(pub String);

impl FilterName {
    /// Checks a text that names a filter.
    ///
    /// # Errors
    /// Says which character or length is refused.
    pub fn parse(text: &str) -> Result<FilterName, InvalidName> {
        check(text)?;
        Ok(FilterName(text.to_owned()))
    }

    /// [`parse`](Self::parse), keeping the text.
    ///
    /// # Errors
    /// As there.
    pub fn of(text: String) -> Result<FilterName, InvalidName> {
        check(&text)?;
        Ok(FilterName(text))
    }

    /// Whether the name of a filter can start so.
    pub fn can_start_with(text: &str) -> bool {
        text.len() <= MAX_NAME_LENGTH && text.chars().all(|c| c.is_ascii_graphic())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Nothing is looked at of a text that is far too long.
fn check(text: &str) -> Result<(), InvalidName> {
    let problem = match text {
        "" => "is empty".to_owned(),
        _ if text.len() > MAX_NAME_LENGTH => format!("has {} bytes", text.len()),
        "." | ".." => format!("is {text}"),
        _ => match text.chars().find(|c| !c.is_ascii_graphic()) {
            Some(refused) => format!("has {refused:?}"),
            None => return Ok(()),
        },
    };
    Err(InvalidName(problem))
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
