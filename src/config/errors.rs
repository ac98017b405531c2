//! What is wrong with the settings, all of it at once.

use super::size::ByteSize;

/// Invalid settings: a line for each, which says what to do.
#[derive(Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ConfigErrors(pub Vec<String>);

impl ConfigErrors {
    pub(super) fn add(&mut self, error: impl Into<String>) {
        self.0.push(error.into());
    }

    /// Adds an error for each flag that is 0.
    pub(super) fn refuse_zeros<T: Default + PartialEq>(&mut self, flags: &[(&str, T)]) {
        for (flag, _) in flags.iter().filter(|(_, value)| *value == T::default()) {
            self.add(format!("{flag} is 0, it must be at least 1"));
        }
    }

    /// Adds an error if a size is too small.
    pub(super) fn refuse_below(&mut self, flag: &str, given: u64, least: u64) {
        if given < least {
            let least = ByteSize(least);
            self.add(format!(
                "{flag} is {given} bytes, it must be at least {least}"
            ));
        }
    }
}
