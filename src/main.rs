//! The program: reads the command line, and says how it ended.

use cuckood::commands;
use cuckood::config::Cli;
use std::process::ExitCode;
use tikv_jemallocator::Jemalloc;

/// Of this program and of the storage engine in it. The system's allocator
/// keeps what many threads have freed in pieces between what they use, so the
/// memory of a server grows for hours that needs no more than before.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// What is freed goes back to the system within 100 ms: the memory of large requests is
/// bounded by what they hold, not by what they held in the last ten seconds. At once
/// would cost every commit the pages of what it needs anew: a fifth of an add.
#[allow(
    unsafe_code,
    reason = "the name by which jemalloc looks for its options"
)]
#[unsafe(export_name = "malloc_conf")]
static ALLOCATOR_OPTIONS: &[u8; 36] = b"dirty_decay_ms:100,muzzy_decay_ms:0\0";

fn main() -> ExitCode {
    commands::run(Cli::read().command)
}
