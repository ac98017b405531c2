//! The engine as its callers see it: against an exact model, under hand-driven
//! interleavings, with stores that fail, and across restarts.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what helps a test may fail as the test does"
)]

mod backups;
#[path = "../../crates/engine/tests/checked/mod.rs"]
mod checked;
mod checkpoints;
mod clocks;
mod compaction;
mod corrupt;
mod deadlines;
mod disk;
mod dumps;
mod every_command;
mod expiry;
mod faults;
mod forged_dumps;
mod gated;
mod growth;
mod growth_model;
mod imports;
mod interleavings;
#[path = "../api/listening.rs"]
mod listening;
mod lookup;
#[path = "../../crates/pages/tests/memory/mod.rs"]
mod memory;
mod merge;
#[path = "../../crates/pages/tests/metered/mod.rs"]
mod metered;
mod model;
mod old_data;
mod readers;
mod reads;
mod retries;
mod scrub;
mod slices;
mod support;
mod values;
mod waiting;
mod windows;
#[path = "../api/words.rs"]
mod words;
