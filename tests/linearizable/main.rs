//! Whether what many clients see of a few filters could have happened in one
//! order: each operation at some moment between its request and its answer
//! (Herlihy and Wing's linearizability).
//!
//! - `checker` decides that, exactly, for the history of one item, and is shown
//!   to refuse what it must.
//! - `clients` makes histories, on the real server, over HTTP;
//! - `pipelines` does so over the Redis protocol.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as the test does"
)]

mod checker;
mod clients;
mod pipelines;
#[path = "../blackbox/ports.rs"]
mod ports;
#[path = "../blackbox/random.rs"]
mod random;
#[path = "../blackbox/server.rs"]
#[expect(dead_code, reason = "the other tests of the program need more of it")]
mod server;
#[path = "../api/words.rs"]
mod words;
