//! The dearest request of everything: each route and each command, with the largest
//! legal values of every part, asked by 64 connections of one API key beside another
//! key that asks and adds one small thing each 10 ms. The memory of the server stays
//! within what `docs/limits.md` reckons from its flags, the other key hardly notices,
//! and no poll on an async thread takes long.
//!
//! `complete` fails if a route, a command, or something that can be given with one is in
//! no form of [`routes`] or [`commands`]. The whole `matrix` is for a machine that does
//! nothing else (`make dearest`). Without `CUCKOOD_DEAREST_SECONDS` it has the worst
//! asked, for 0.3 s each, and holds on a busy one:
//!
//! ```text
//! CUCKOOD_DEAREST_SECONDS=3 CUCKOOD_TEST_QUIET=1 cargo test --release --test dearest matrix -- --nocapture
//! ```
//!
//! Prints a line for each form: what was answered, refused for the time being, and cut
//! off; the median and p99.9 of the neighbour's requests since they were due, and p99.9 of
//! forced writes of 4 KiB to the same disk beside them: beside servers that write little,
//! the neighbour may see twice that. Then how long it took until it was answered quickly
//! again, and the most memory.
//! `CUCKOOD_DEAREST_ONLY` takes the forms that have one of some words in their names,
//! with commas between them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as the test does"
)]

mod asking;
mod beside;
#[path = "../cluster/broker.rs"]
#[expect(dead_code, reason = "the tests of clusters kill them")]
mod broker;
mod commands;
mod complete;
mod form;
mod matrix;
#[path = "../cluster/nats_server.rs"]
mod nats_server;
mod neighbours;
#[path = "../cluster/operator.rs"]
#[expect(dead_code, reason = "the tests of clusters need more of it")]
mod operator;
#[path = "../api/polls.rs"]
#[allow(dead_code, reason = "the metrics of these servers are asked for")]
mod polls;
#[path = "../blackbox/ports.rs"]
mod ports;
mod prepared;
#[path = "../blackbox/random.rs"]
#[expect(dead_code, reason = "other tests choose more")]
mod random;
#[path = "../redis/wire.rs"]
#[expect(dead_code, reason = "the tests of the Redis protocol need more of it")]
mod resp;
mod routes;
#[path = "../blackbox/server.rs"]
#[expect(dead_code, reason = "the other tests of the program need more of it")]
mod server;
#[path = "../blackbox/wire.rs"]
#[expect(dead_code, reason = "the other tests of the program need more of it")]
mod wire;
#[path = "../api/words.rs"]
mod words;
