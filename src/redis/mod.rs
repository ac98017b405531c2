//! The Redis protocol: filters for every client of RedisBloom. Takes bytes
//! apart, asks the engine, writes replies. No rule about filters lives here.
//!
//! The caller's key, budgets and places are those of [`http`](crate::http): one
//! key has its share of the server, whichever protocol it speaks.
//!
//! | file | what it owns |
//! |---|---|
//! | `protocol/` | bytes: requests taken apart, replies put together; pure |
//! | `commands/` | words: which commands there are, and what their arguments mean |
//! | `session/` | one connection's conversation |
//! | `listen` | accepts connections and drains them |
//! | `connection` | one connection: reading, writing, its clocks and its memory |
//! | `service` | what all connections share |
//! | `passed` | commands that another pod of a cluster has passed on |
//! | `transfers` | dumps handed out and filters taken in, part by part |

mod clocks;
mod commands;
mod connection;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_targets;
mod listen;
mod passed;
mod protocol;
mod service;
mod session;
mod transfers;

pub use listen::{RedisEndpoint, serve};
pub use service::RedisOptions;
