//! What errors are to a client: words that begin with a code by which clients
//! act. Those that RedisBloom has are its own, which mostly have no code.
//!
//! `TRYAGAIN` says that nothing was done, and that the same may be done in a
//! moment; some clients send it again by themselves. What may have been done is
//! `ERR`.

use super::table::Spec;
use crate::engine::{EngineError, Holds};
use crate::http::HttpError;
use crate::redis::protocol::batch::Words;

/// Of a word that is no integer where there must be one.
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
/// Of words that make no sense together.
pub(crate) const SYNTAX: &str = "ERR syntax error";
/// Of an option that there is none of, which is quoted behind it.
pub(crate) const UNSUPPORTED_OPTION: &str = "ERR Unsupported option";
/// Of a filter that is not there, where RedisBloom says it so.
pub(crate) const NOT_FOUND: &str = "ERR not found";
/// Of a client that must say first who it is.
pub(crate) const NO_AUTH: &str = "NOAUTH Authentication required.";
/// Of a key that is for other filters.
pub(crate) const NO_KEY: &str = "NOPERM No permissions to access a key";
/// Of what would make a filter under a key whose filter is on its way.
pub(crate) const IS_LOADING: &str = "TRYAGAIN a filter is being loaded under this key";
/// While the redo log is replayed.
pub(crate) const LOADING: &str = "LOADING cuckood is replaying its log";

/// Longest excerpt of what a client sent.
const EXCERPT_BYTES: usize = 128;

/// Of a command with too few words, or too many.
pub(crate) fn arity(spec: &Spec) -> String {
    format!("ERR wrong number of arguments for '{}' command", spec.name)
}

/// The same of a subcommand.
pub(crate) fn arity_of(command: &str, subcommand: &[u8]) -> String {
    let subcommand = excerpt(&subcommand.to_ascii_lowercase());
    format!("ERR wrong number of arguments for '{command}|{subcommand}' command")
}

/// Of a command that asks for too much at once.
pub(crate) fn too_long(spec: &Spec, words: usize, bytes: usize) -> String {
    format!(
        "ERR '{}' has {words} words and {bytes} bytes at most: send several commands",
        spec.name
    )
}

/// Of a subcommand that is none.
pub(crate) fn unknown_subcommand(words: Words<'_>) -> String {
    format!(
        "ERR unknown subcommand '{}'. Try {} HELP.",
        excerpt(words.get(1)),
        excerpt(&words.get(0).to_ascii_uppercase())
    )
}

/// Of a command that is none, in redis' words, by which clients know it.
pub(crate) fn unknown_command(words: Words<'_>) -> String {
    let mut arguments = String::new();
    for argument in words.from(1).iter() {
        let Some(left) = EXCERPT_BYTES
            .checked_sub(arguments.len())
            .filter(|&it| it > 0)
        else {
            break;
        };
        let argument = argument.get(..left).unwrap_or(argument);
        arguments += &format!("'{}' ", excerpt(argument));
    }
    format!(
        "ERR unknown command '{}', with args beginning with: {arguments}",
        excerpt(words.get(0))
    )
}

/// The beginning of what a client sent.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let bytes = bytes.get(..EXCERPT_BYTES).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

/// Of what a key does not allow.
pub(crate) fn no_permission(user: &str, spec: &Spec) -> String {
    format!(
        "NOPERM User {user} has no permissions to run the '{}' command",
        spec.name
    )
}

/// An error of the engine.
pub(crate) fn engine(error: &EngineError) -> String {
    let code = match error {
        EngineError::NotFound { .. } => return NOT_FOUND.to_owned(),
        EngineError::InvalidParams(refused) => {
            let refused: Vec<String> = refused.iter().map(ToString::to_string).collect();
            return format!("ERR {}", refused.join("; "));
        }
        EngineError::Overloaded(_)
        | EngineError::OverShare { .. }
        | EngineError::DeadlineExceeded
        | EngineError::RetryInFlight
        | EngineError::NotLeading
        | EngineError::LogUnavailable
        | EngineError::Behind
        | EngineError::Stopping => "TRYAGAIN",
        EngineError::OverQuota { .. }
        | EngineError::OverKeyQuota { .. }
        | EngineError::OverKeptShare { .. }
        | EngineError::TooManyFiltersInAll { .. } => "OOM",
        EngineError::DiskShort(_) => "MISCONF",
        EngineError::OutcomeUnknown(_) | EngineError::OutcomeLate | EngineError::LogSilent => {
            return format!(
                "ERR {error}: it may have been done or not; ask for the items before it is sent again"
            );
        }
        EngineError::NotForThisFilter {
            holds: Holds::Rows(_),
        } => {
            return "ERR the items of the filter have attributes; the Redis protocol has no commands for them: use the HTTP API".to_owned();
        }
        EngineError::NotForThisFilter {
            holds: Holds::Values(value_bits),
        } => {
            return format!(
                "ERR the items of the filter have values of {value_bits} bits; the Redis protocol has no commands for values: use the HTTP API"
            );
        }
        EngineError::NotForThisFilter { .. }
        | EngineError::ItemsExpire
        | EngineError::NoWindow { .. }
        | EngineError::NoAttributes
        | EngineError::RowRefused(_)
        | EngineError::BeyondWindow { .. }
        | EngineError::ValueTooLarge { .. }
        | EngineError::TooManyValues { .. }
        | EngineError::TooManyPages { .. }
        | EngineError::TooManyChangeProbes { .. }
        | EngineError::TooManyWords { .. }
        | EngineError::TooManyProbes { .. }
        | EngineError::TooManyFilters { .. }
        | EngineError::RetryConflict
        | EngineError::RetryFilterGone
        | EngineError::RetriesFull
        | EngineError::CompactionRunning
        | EngineError::CompactionNotFound
        | EngineError::ImportRunning
        | EngineError::ImportNotFound
        | EngineError::ImportsFull
        | EngineError::LaneHalted(_)
        | EngineError::TooLargeForLog { .. }
        | EngineError::Store(_) => "ERR",
    };
    format!("{code} {error}")
}

/// A refusal of what all listeners share: nothing was done.
pub(crate) fn shared(error: &HttpError) -> String {
    match error {
        HttpError::Engine(error) => engine(error),
        HttpError::Starting => LOADING.to_owned(),
        HttpError::UsedUp(_) | HttpError::RateLimited { .. } | HttpError::Draining => {
            format!("TRYAGAIN {error}")
        }
        other => format!("ERR {other}"),
    }
}

/// Whether what was refused as a whole may be done in parts.
pub(crate) fn is_too_much(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::TooManyPages { .. }
            | EngineError::TooManyChangeProbes { .. }
            | EngineError::TooManyWords { .. }
            | EngineError::TooManyProbes { .. }
    )
}
