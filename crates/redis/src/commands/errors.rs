//! What errors are to a client: words that begin with a code by which clients
//! act. Those that RedisBloom has are its own, which mostly have no code.
//!
//! `TRYAGAIN` says that nothing was done, and that the same may be done in a
//! moment; some clients send it again by themselves. What may have been done is
//! `ERR`.

use super::table::Spec;
use crate::codes::{Code, Retry};
use crate::engine::{EngineError, Holds};
use crate::protocol::pipeline::Words;
use crate::server::refusal::Refusal;

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
    let name = spec.name;
    format!("ERR '{name}' has {words} words and {bytes} bytes at most: send several commands")
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
        arguments += &format!("'{}' ", excerpt(argument.get(..left).unwrap_or(argument)));
    }
    let command = excerpt(words.get(0));
    format!("ERR unknown command '{command}', with args beginning with: {arguments}")
}

/// The beginning of what a client sent.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..EXCERPT_BYTES).unwrap_or(bytes)).into_owned()
}

/// Of what a key does not allow: it begins as redis does.
pub(crate) fn no_permission(user: &str, command: &str, needs: &str, has: &str) -> String {
    format!(
        "NOPERM User {user} has no permissions to run the '{command}' command: it needs the scope {needs}, the API key has {has}"
    )
}

/// An error of the engine.
pub(crate) fn engine(error: &EngineError) -> String {
    match error {
        EngineError::NotFound { .. } => NOT_FOUND.to_owned(),
        EngineError::NotForThisFilter {
            holds: Holds::Rows(_),
        } => {
            "ERR the items of the filter have attributes; the Redis protocol has no commands for them: use the HTTP API".to_owned()
        }
        EngineError::NotForThisFilter {
            holds: Holds::Values(value_bits),
        } => format!(
            "ERR the items of the filter have values of {value_bits} bits; the Redis protocol has no commands for values: use the HTTP API"
        ),
        error if error.may_be_done() => {
            format!("ERR {error}; ask for the items before it is sent again")
        }
        error => format!("{} {error}", first_word(error.code())),
    }
}

/// A refusal of what all protocols share: nothing was done.
pub(crate) fn shared(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Engine(error) => engine(error),
        refusal => format!("{} {refusal}", first_word(refusal.code())),
    }
}

/// The word by which clients know what to do about an error.
pub(crate) fn first_word(code: Code) -> &'static str {
    match (code, code.status(), code.retry()) {
        (Code::Starting, ..) => "LOADING",
        (_, 401, _) => "NOAUTH",
        (_, 403, _) => "NOPERM",
        (Code::OverQuota | Code::OverKeyQuota | Code::TooManyFilters, ..) => "OOM",
        (Code::DiskReserve | Code::DiskFull | Code::NoRoom, ..) => "MISCONF",
        (_, _, Retry::Soon) => "TRYAGAIN",
        (_, _, Retry::Never | Retry::Indeterminate) => "ERR",
    }
}

/// Whether an error reply says that the command was not begun: its caller, its words, or
/// what the server has room for do not allow it. Redis counts these apart.
pub(crate) fn is_rejection(reply: &[u8]) -> bool {
    const BEGINS: [&str; 7] = [
        "-NOAUTH ",
        "-NOPERM ",
        "-OOM ",
        "-MISCONF ",
        "-LOADING ",
        "-TRYAGAIN ",
        "-ERR wrong number of arguments ",
    ];
    BEGINS.iter().any(|it| reply.starts_with(it.as_bytes()))
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
