//! Why a command failed.

/// An error of any module; its text is what the user sees.
pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What becomes of a command, or of a part of it.
pub(super) type Result<T = (), E = Failure> = std::result::Result<T, E>;
