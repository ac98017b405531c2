//! Which state of which filter a description is of.

use std::fmt;

/// Drawn at random when a filter is created or restored: whatever has another, be it of
/// the same name, is another filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lineage(pub [u8; 16]);

/// Names a state of a filter. A crash may take commits back, whose numbers come again:
/// then at another time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterVersion {
    /// The filter.
    pub lineage: Lineage,
    /// Commits that changed it.
    pub changes: u64,
    /// Milliseconds since 1970 of the last of these, or of when it came to be.
    pub changed_at_ms: u64,
}

impl FilterVersion {
    /// Reads what it is shown as; `None`: it is no version.
    pub fn parse(text: &str) -> Option<FilterVersion> {
        let mut numbers = text.splitn(3, '-');
        let mut number = || u128::from_str_radix(numbers.next()?, 16).ok();
        let version = FilterVersion {
            lineage: Lineage(number()?.to_be_bytes()),
            changes: number()?.try_into().ok()?,
            changed_at_ms: number()?.try_into().ok()?,
        };
        (version.to_string() == text).then_some(version)
    }
}

/// In hexadecimal digits: lineage, changes, and when that was.
impl fmt::Display for FilterVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lineage, changed) = (u128::from_be_bytes(self.lineage.0), self.changed_at_ms);
        write!(f, "{lineage:032x}-{:x}-{changed:x}", self.changes)
    }
}
