//! The Redis protocol over a real socket, as clients of RedisBloom speak it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers included"
)]

mod access;
mod agreement;
mod any_dump;
mod audit;
mod bloom;
mod bounds;
#[path = "../../crates/engine/tests/checked/mod.rs"]
mod checked;
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
mod looked_at;
#[path = "../../crates/pages/tests/memory/mod.rs"]
mod memory;
mod multiplied;
#[path = "../api/no_shares.rs"]
mod no_shares;
mod pipelines;
#[path = "../api/polls.rs"]
mod polls;
mod server;
mod shares;
mod transactions;
mod transcripts;
mod windows;
mod wire;
#[path = "../api/words.rs"]
mod words;
