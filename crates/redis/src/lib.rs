//! The Redis protocol: filters for every client of RedisBloom. Takes bytes
//! apart, asks the engine, writes replies. No rule about filters lives here.
//!
//! The caller's key, budgets and places are those of [`server`]: one
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
//! | `forwarded` | commands that another pod of a cluster has forwarded |
//! | `timings` | how long commands take |
//! | `transfers` | dumps handed out and filters taken in, part by part |

mod clocks;
mod commands;
mod connection;
mod forwarded;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz_targets;
mod listen;
mod protocol;
mod service;
mod session;
mod timings;
mod transfers;

use cuckood_filter::chain;
use {
    cuckood_access as access, cuckood_codes as codes, cuckood_engine as engine,
    cuckood_metrics as metrics, cuckood_server as server,
};

pub use listen::{RedisEndpoint, serve};
pub use service::RedisOptions;
