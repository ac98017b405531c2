//! The dearest request of everything: each route and each command, with the largest
//! legal values of every part, asked by 64 connections of one API key beside another
//! key that asks and adds one small thing each 10 ms. The memory of the server stays
//! within what `docs/limits.md` reckons from its flags, and the other key hardly
//! notices.
//!
//! `complete` fails if a route, a command, or something that can be given with one is in
//! no form of [`routes`] or [`commands`]. `matrix` is for a machine that does nothing
//! else (`make dearest`); without `CUCKOOD_DEAREST_SECONDS` it has the worst asked, for
//! 0.3 s each:
//!
//! ```text
//! CUCKOOD_DEAREST_SECONDS=3 CUCKOOD_TEST_QUIET=1 cargo test --release --test dearest matrix -- --ignored --nocapture
//! ```
//!
//! Prints a line for each form: what was answered, refused for the time being, and cut
//! off; the median and p99.9 of the neighbour's requests since they were due; how long
//! it took afterwards until it was answered quickly again; the most memory.
//! `CUCKOOD_DEAREST_ONLY` takes the forms that have a word in their names.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as the test does"
)]

mod asking;
mod beside;
mod commands;
mod complete;
mod form;
mod matrix;
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
