//! Why something was refused that is the same for whatever protocol it came by.

use super::used_up::Exhausted;
use crate::access::Scope;
use crate::access::keys::KeyEnd;
use crate::codes::Code;
use crate::engine::EngineError;

/// See the module.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no more to tell than its kind.
    #[error("{}", .0.sentence())]
    Plain(Code),
    /// A bound was reached.
    #[error(transparent)]
    UsedUp(Exhausted),
    /// The API key asks too often.
    #[error(
        "the API key exceeds its rate (--rate-limit); try again in {seconds} s, or send more items in one request"
    )]
    RateLimited {
        /// When it may ask again.
        seconds: u64,
    },
    /// The API key does not allow it.
    #[error(
        "the scope of the API key is {has}, the request needs {needs}; use a key with that scope"
    )]
    ScopeInsufficient {
        /// The scope of the key.
        has: Scope,
        /// The scope that is needed.
        needs: Scope,
    },
    /// The API key does not allow fetching what has the secret key of a filter's hash.
    #[error(
        "the API key has no right to export, which dumps need since they hold the secret key of the filter's hash; use a key that was added with --export, or one of the scope admin"
    )]
    ExportNotAllowed,
    /// The pod takes no part in its cluster, and why.
    #[error("{0}")]
    TakesNoPart(&'static str),
    /// The engine refuses it.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl Refusal {
    /// The kind of error that it is.
    pub fn code(&self) -> Code {
        match self {
            Refusal::Plain(code) => *code,
            Refusal::UsedUp(exhausted) => exhausted.code(),
            Refusal::RateLimited { .. } => Code::RateLimited,
            Refusal::ScopeInsufficient { .. } | Refusal::ExportNotAllowed => {
                Code::ScopeInsufficient
            }
            Refusal::TakesNoPart(_) => Code::Starting,
            Refusal::Engine(error) => error.code(),
        }
    }
}

impl From<KeyEnd> for Refusal {
    fn from(end: KeyEnd) -> Refusal {
        Refusal::Plain(match end {
            KeyEnd::Expired => Code::ApiKeyExpired,
            KeyEnd::Revoked => Code::ApiKeyRevoked,
        })
    }
}
