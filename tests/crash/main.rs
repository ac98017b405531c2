//! What is promised about faults, on the real server: it is killed, its disk
//! forgets what was not forced to it, and its disk fills up, all of it under
//! load. Everything that was acknowledged is compared with what is there.
//!
//! - `kill` ends the server as `kill -9` does.
//! - `values` does so while values are added and deleted.
//! - `windows` does so while items that expire are added and seen again.
//! - `power` has the disk forget; `disk` is that disk.
//! - `full_disk` fills one (`small_disk`), `hang` has it answer nothing for a while.
//! - `soak` is everything at once for long, beside tenants that behave and one that
//!   does not.
//! - `load` is what goes on meanwhile: `scribe` checks every answer against an
//!   engine in memory that is fed the same commits, `writers` share filters and
//!   do without keys, `mayfly` makes filters that end, `piper` speaks the Redis
//!   protocol.
//!
//! Every test prints its seed, and one line of JSON with its figures.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as the test does"
)]

#[path = "../blackbox/besieging.rs"]
#[expect(dead_code, reason = "the test of slow clients needs more of it")]
mod besieging;
#[path = "../../crates/engine/tests/checked/mod.rs"]
mod checked;
mod disk;
mod full_disk;
mod hang;
mod kill;
mod load;
mod mayfly;
#[path = "../../crates/pages/tests/memory/mod.rs"]
mod memory;
mod model;
#[expect(dead_code, reason = "the tests of a cluster fill it")]
mod mount;
mod piper;
#[path = "../blackbox/ports.rs"]
mod ports;
mod power;
#[path = "../blackbox/random.rs"]
mod random;
mod required;
mod scribe;
#[path = "../blackbox/server.rs"]
#[expect(dead_code, reason = "the other tests of the program need more of it")]
mod server;
mod small_disk;
mod soak;
mod values;
mod windows;
#[path = "../api/words.rs"]
mod words;
mod writers;
