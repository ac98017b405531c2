//! The program: reads the command line, and says how it ended.

use clap::Parser as _;
use cuckood::commands;
use cuckood::config::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    match commands::run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cuckood: {error}");
            ExitCode::FAILURE
        }
    }
}
