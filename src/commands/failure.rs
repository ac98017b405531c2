//! Why a command failed.

/// An error of any module; its text is what the user sees.
pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;
