//! Why a command was not done.

use crate::commands::errors;
use crate::engine::EngineError;
use crate::server::refusal::Refusal;
use std::borrow::Cow;

/// What the client is told, and whether the connection ends with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) words: Cow<'static, str>,
    pub(super) ends: bool,
}

/// What becomes of a command, or of a part of it.
pub(super) type Result<T = (), E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// The same, and the connection ends with it.
    pub(super) fn and_end(self) -> Failure {
        Failure { ends: true, ..self }
    }
}

impl From<&'static str> for Failure {
    fn from(words: &'static str) -> Failure {
        Failure {
            words: words.into(),
            ends: false,
        }
    }
}

impl From<String> for Failure {
    fn from(words: String) -> Failure {
        Failure {
            words: words.into(),
            ends: false,
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        let failure = Failure::from(errors::engine(&error));
        match error {
            // The client is told that the log says why.
            EngineError::Store(error) => {
                tracing::error!(%error, "a command failed");
                failure
            }
            // Whoever answers next may not be this server.
            EngineError::Stopping => failure.and_end(),
            _ => failure,
        }
    }
}

impl From<Refusal> for Failure {
    fn from(error: Refusal) -> Failure {
        errors::shared(&error).into()
    }
}
