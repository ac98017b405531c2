//! Fields that are refused: all of them are found before anything is said.

use std::ops::RangeInclusive;

/// One field that was refused, in words for the sender of the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {given}, allowed is {allowed}")]
pub struct ParamsError {
    /// Name of the field as users write it.
    pub field: &'static str,
    /// The given value.
    pub given: String,
    /// What is allowed, and what to do.
    pub allowed: String,
}

/// The fields that were refused so far.
#[derive(Debug, Default)]
pub(super) struct Refusals(Vec<ParamsError>);

impl Refusals {
    /// Refuses a field.
    pub(super) fn add(
        &mut self,
        field: &'static str,
        given: impl ToString,
        allowed: impl Into<String>,
    ) {
        self.0.push(ParamsError {
            field,
            given: given.to_string(),
            allowed: allowed.into(),
        });
    }

    /// Makes sure that none was refused.
    ///
    /// # Errors
    /// All that were.
    pub(super) fn none(&mut self) -> Result<(), Vec<ParamsError>> {
        match std::mem::take(&mut self.0) {
            none if none.is_empty() => Ok(()),
            refused => Err(refused),
        }
    }

    /// Checks a range and hands the value on.
    pub(super) fn within(
        &mut self,
        field: &'static str,
        given: u64,
        range: RangeInclusive<u64>,
    ) -> u64 {
        if !range.contains(&given) {
            let allowed = format!("{} to {}", range.start(), range.end());
            self.add(field, given, allowed);
        }
        given
    }
}

/// Narrows a value whose range was checked before.
pub(super) fn narrow<T: TryFrom<u64> + Default>(checked: u64) -> T {
    T::try_from(checked).unwrap_or_default()
}
