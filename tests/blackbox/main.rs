//! The server as its users meet it: a process that is started, asked over a
//! socket, stopped, and killed. Nothing here knows what is inside.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as the test does"
)]

mod backup;
mod besieging;
mod filter;
mod huge;
mod import_redis;
mod keys;
mod load;
mod memory;
mod memory_redis;
mod metrics;
mod overload;
#[path = "../api/pki.rs"]
mod pki;
mod ports;
mod random;
mod redeeming;
#[path = "../redis/wire.rs"]
#[expect(dead_code, reason = "the tests of the Redis protocol need more of it")]
mod resp;
mod retries;
mod scrub;
mod secrets;
#[expect(dead_code, reason = "tests of other programs need more of it")]
mod server;
mod slow;
mod start;
mod stop;
mod tls;
mod tour;
mod unread;
mod wire;
#[path = "../api/words.rs"]
mod words;
