//! The API over a real socket: one module per resource.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers included"
)]

mod audit;
mod backups;
mod bodies;
#[path = "../../crates/engine/tests/checked/mod.rs"]
mod checked;
mod compaction;
mod connections;
mod console;
mod deadlines;
mod disk;
mod disk_shares;
mod dumps;
mod expiry;
mod faults;
mod filters;
#[path = "../engine/gated.rs"]
#[expect(dead_code, reason = "the engine's tests need more of it")]
mod gated;
mod growth;
mod idempotency;
mod imports;
mod items;
mod kept_shares;
mod key_ends;
mod keys;
mod limits;
mod lines;
mod listeners;
mod listening;
mod lookup;
#[path = "../../crates/pages/tests/memory/mod.rs"]
mod memory;
mod merge;
mod no_shares;
mod ops;
mod origin;
mod pki;
mod polls;
mod program;
mod rows;
mod server;
mod shares;
mod tenants;
mod tls;
mod unread;
mod values;
mod windows;
mod words;
