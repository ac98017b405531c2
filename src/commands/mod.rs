//! What each subcommand of the program does. The only module that wires modules
//! together.
//!
//! | file | what it owns |
//! |---|---|
//! | `serve` | the server: from settings to store, engine and listeners, and back down |
//! | `logging` | the log lines of a server |
//! | `data` | `check` and `restore`: data directories of servers that do not run |
//! | `clients` | `filter`, `healthcheck`, `backup`, `load`, `import-redis` |
//! | `build` | a file of a filter from lists of items |
//! | `merge` | one file of several |
//! | `cluster`, `epoch`, `pod` | `cluster`; a server's part in a cluster |
//! | `brokers` | whether brokers may be used |
//! | `announcing` | what a pod and the others tell each other while it serves |
//! | `snapshot` | takes the state of another pod at a start |
//! | `fallen_behind` | which other pod has what this one lacks and the log has no more |
//! | `last_announced` | which pods are alive, as far as their announcements say |
//! | `settings` | whether the brokers' settings are still what they must be |
//! | `trimming` | trims the commit log of a cluster |
//! | `keys` | `keys`: the file of API keys |
//! | `random` | numbers that nobody can foresee |

mod announcing;
mod brokers;
mod build;
mod clients;
mod cluster;
mod data;
mod epoch;
mod failure;
mod fallen_behind;
mod keys;
mod last_announced;
mod logging;
mod merge;
mod pod;
mod random;
mod serve;
mod settings;
mod snapshot;
mod trimming;

use crate::config::{Cli, Command};
use crate::http::OPENAPI_DOCUMENT;
use clap::CommandFactory as _;
use clap_complete::Shell;
use failure::Result;
use std::io::Write as _;
use std::process::ExitCode;

/// Does what the command line says; what went wrong goes to the standard error.
/// The exit code is 1 for errors; [`filter`](Command::Filter) has its own.
pub fn run(command: Command) -> ExitCode {
    let failed = match command {
        Command::Filter(_) => 2,
        _ => 1,
    };
    execute(command).unwrap_or_else(|error| {
        eprintln!("cuckood: {error}");
        ExitCode::from(failed)
    })
}

pub(crate) fn execute(command: Command) -> Result<ExitCode> {
    match command {
        Command::Serve(config) => serve::run(&config)?,
        Command::Openapi => print_openapi()?,
        Command::Check { data_dir, repair } => data::run_check(&data_dir, repair)?,
        Command::Backup { server } => clients::run_backup(&server)?,
        Command::Restore {
            backup,
            data_dir,
            unless_present,
        } => data::run_restore(&backup, &data_dir, unless_present)?,
        Command::Filter(options) => return clients::run_filter(&options),
        Command::Build(options) => build::run(&options)?,
        Command::Merge(options) => merge::run(&options)?,
        Command::Load(options) => clients::run_load(&options)?,
        Command::ImportRedis(options) => clients::run_import_redis(&options)?,
        Command::Cluster { command } => cluster::run(command)?,
        Command::Keys { keys_file, command } => keys::run(&keys_file, command)?,
        Command::Completions { shell } => print_completions(shell)?,
        Command::Healthcheck {
            listen,
            admin_listen,
            tls_cert,
        } => clients::run_healthcheck(admin_listen.unwrap_or(listen), tls_cert.is_some())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_completions(shell: Shell) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cuckood", &mut script);
    Ok(std::io::stdout().write_all(&script)?)
}

fn print_openapi() -> Result {
    let mut out = std::io::stdout().lock();
    out.write_all(OPENAPI_DOCUMENT.as_bytes())?;
    Ok(out.flush()?)
}
