//! The program: reads the command line, and says how it ended.

use clap::Parser as _;
use cuckood::commands;
use cuckood::config::Cli;
use std::process::ExitCode;
use tikv_jemallocator::Jemalloc;

/// Of this program and of the storage engine in it. The system's allocator
/// keeps what many threads have freed in pieces between what they use, so the
/// memory of a server grows for hours that needs no more than before.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    commands::run(Cli::parse().command)
}
