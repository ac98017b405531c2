//! API keys: what they are, what each allows, and the file that lists them.
//!
//! A key is 256 random bits. The file keeps its SHA-256 alone, so it
//! gives no access to the server; a key that is lost is replaced, never found.
//! Each key has a name for lists and logs, a scope, and maybe a prefix: then it
//! is for filters whose own keys start with that.
//!
//! | file | what it owns |
//! |---|---|
//! | `grant` | what a key is called and allows |
//! | [`token`] | the key itself and its digest |
//! | [`file`](mod@file) | reads, checks and writes the file |
//! | [`keys`] | what a running server holds, and can hold anew |
//! | [`audit`] | the lines that say who did what |
//! | [`refusals`] | how many lines say what was refused |
//! | [`mac`] | keyed hashes: who made a message, for those who share a secret |
//! | [`cluster_key`] | the key by which pods of a cluster know each other |
//! | `error` | what can be wrong |
//!
//! Which routes need a key, and which scope, is decided in `http`.

pub mod audit;
pub mod cluster_key;
mod error;
pub mod file;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz_targets;
mod grant;
pub mod keys;
pub mod mac;
pub mod refusals;
pub mod token;

use cuckood_engine as engine;

pub use error::AccessError;
pub use grant::{Description, GrantError, KeyExpiry, KeyName, Prefix, Scope};
