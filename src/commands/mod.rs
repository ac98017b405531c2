//! What each subcommand of the program does. The only module that wires modules
//! together.
//!
//! | file | what it owns |
//! |---|---|
//! | `serve` | the server: from settings to store, engine and listeners, and back down |
//! | `logging` | the log lines of a server |
//! | `data` | `check` and `restore`: data directories of servers that do not run |
//! | `clients` | `healthcheck`, `backup`, `load`, `import-redis` |
//! | `keys` | `keys`: the file of API keys |

mod clients;
mod data;
mod failure;
mod keys;
mod logging;
mod serve;

use crate::config::Command;
use crate::http::openapi_document;
use failure::Failure;
use std::io::Write as _;

/// Does what the command line says.
///
/// # Errors
/// The error's text says what is wrong, and what to do.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve(config) => serve::run(&config),
        Command::Openapi => print_openapi(),
        Command::Check { data_dir } => data::run_check(&data_dir),
        Command::Backup {
            server,
            credentials,
        } => clients::run_backup(&server, &credentials),
        Command::Restore {
            backup,
            data_dir,
            unless_present,
        } => data::run_restore(&backup, &data_dir, unless_present),
        Command::Load(options) => clients::run_load(&options),
        Command::ImportRedis(options) => clients::run_import_redis(&options),
        Command::Keys { keys_file, command } => keys::run(&keys_file, command),
        Command::Healthcheck {
            listen,
            admin_listen,
            tls_cert,
        } => clients::run_healthcheck(admin_listen.unwrap_or(listen), tls_cert.is_some()),
    }
}

fn print_openapi() -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(openapi_document().as_bytes())?;
    Ok(out.flush()?)
}
