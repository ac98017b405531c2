//! The Redis protocol over a real socket, as clients of RedisBloom speak it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers included"
)]

mod access;
mod any_dump;
mod audit;
mod bounds;
mod dumps;
#[path = "../engine/gated.rs"]
#[expect(dead_code, reason = "the engine's tests need more of it")]
mod gated;
mod handshakes;
mod key_ends;
mod keyed;
mod keyspace;
mod limits;
#[path = "../api/listening.rs"]
mod listening;
mod multiplied;
#[path = "../api/no_shares.rs"]
mod no_shares;
mod pipelines;
mod server;
mod shares;
mod transactions;
mod transcripts;
mod windows;
mod wire;
#[path = "../api/words.rs"]
mod words;
