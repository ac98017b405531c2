//! The command line: subcommands, and the flags of all of them but `serve`.

use super::serve::ServeConfig;
use crate::access::{KeyName, Prefix, Scope};
use crate::client::remote::{Credentials, Secret};
use clap::{Args, Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Named cuckoo filters over HTTP, durable in RocksDB: have we seen this?
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve filters.
    ///
    /// A size is a number of bytes, or a whole number with KiB, MiB, GiB or TiB.
    Serve(Box<ServeConfig>),
    /// Print the OpenAPI document.
    Openapi,
    /// Read a whole data directory and report whether it is intact. The server must be stopped.
    Check {
        /// Directory of the data.
        #[arg(long, env = "CUCKOOD_DATA_DIR", default_value = "./data")]
        data_dir: PathBuf,
    },
    /// Make a backup of a running server and wait until it is complete: exit code 0 if it is, 1 if not.
    Backup {
        /// Host name or address of the server with its port, or its URL. With --admin-listen, that address.
        #[arg(long, env = "CUCKOOD_SERVER", default_value = "127.0.0.1:8080")]
        server: String,
        /// API key and certificates.
        #[command(flatten)]
        credentials: CredentialArgs,
    },
    /// Make a data directory from a backup. Nothing is overwritten, and a damaged backup is refused.
    Restore {
        /// Archive of the backup: a file of the server's --backup-dir, or a downloaded one.
        #[arg(long)]
        backup: PathBuf,
        /// Directory to create; it must be missing or empty.
        #[arg(long, env = "CUCKOOD_DATA_DIR", default_value = "./data")]
        data_dir: PathBuf,
        /// Do nothing and exit with 0 if the directory already contains data: for jobs that run before every start.
        #[arg(long)]
        unless_present: bool,
    },
    /// Load files of any length, one item per line, into a filter of a running server.
    ///
    /// Shows a progress bar on a terminal. When the connection breaks or the server restarts, the command continues after the last committed line; so does the same command when it is run again, as long as the file has not changed.
    Load {
        /// Address of the server.
        #[arg(long, env = "CUCKOOD_URL", default_value = "http://127.0.0.1:8080")]
        url: String,
        /// API key and certificates.
        #[command(flatten)]
        credentials: CredentialArgs,
        /// Key of the filter; it must exist.
        #[arg(long)]
        filter: String,
        /// Name of the import, for one file only [default: one for each file, from its path, size and time of change].
        #[arg(long)]
        import_id: Option<String>,
        /// Do not add items that the filter already contains.
        #[arg(long)]
        only_if_absent: bool,
        /// Lines are JSON strings or integers.
        #[arg(long)]
        ndjson: bool,
        /// Seconds without progress, from 0, after which the command gives up.
        #[arg(long, default_value_t = 60)]
        patience_seconds: u64,
        /// Files, gzipped or not; - is standard input.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Fetch a cuckoo filter of RedisBloom from a running Redis into a running server, bit for bit.
    ///
    /// The filter in Redis must not be written to meanwhile. Shows a progress bar on a terminal.
    ImportRedis {
        /// Address of Redis.
        #[arg(long = "url", default_value = "redis://127.0.0.1:6379")]
        redis: String,
        /// Key of the filter in Redis.
        #[arg(long)]
        key: String,
        /// Address of the server.
        #[arg(
            long = "server",
            env = "CUCKOOD_URL",
            default_value = "http://127.0.0.1:8080"
        )]
        url: String,
        /// API key and certificates for that server.
        #[command(flatten)]
        credentials: CredentialArgs,
        /// Key of the filter to create.
        #[arg(long)]
        filter: String,
        /// Replace a filter that exists.
        #[arg(long)]
        replace: bool,
    },
    /// Create, list and remove API keys. A running server reads the file again when it changes.
    Keys {
        /// File of the keys.
        #[arg(
            long,
            env = "CUCKOOD_KEYS_FILE",
            default_value = "./keys.json",
            global = true
        )]
        keys_file: PathBuf,
        /// The operation.
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// Check that a running server is alive: exit code 0 if it is, 1 if not.
    Healthcheck {
        /// Address on which the server listens.
        #[arg(long, env = "CUCKOOD_LISTEN", default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// Second address of the server, if it has one; it is asked in place of --listen.
        #[arg(long, env = "CUCKOOD_ADMIN_LISTEN")]
        admin_listen: Option<SocketAddr>,
        /// Certificate of the server, if it has one; TLS is then spoken.
        #[arg(long, env = "CUCKOOD_TLS_CERT")]
        tls_cert: Option<PathBuf>,
    },
}

/// API key and certificates for a server elsewhere. TLS is spoken where its URL begins with https.
#[derive(Debug, Args)]
pub struct CredentialArgs {
    /// API key [default: none]. Prefer the variable or a file: other users of this machine can read command lines.
    #[arg(long, env = "CUCKOOD_API_KEY", hide_env_values = true, value_parser = secret)]
    pub api_key: Option<Secret>,

    /// File with the API key in its first line, in place of --api-key [default: none].
    #[arg(long, env = "CUCKOOD_API_KEY_FILE")]
    pub api_key_file: Option<PathBuf>,

    /// Certificate authorities, in PEM; one of them must have signed the server's certificate [default: those that this system trusts].
    #[arg(long, env = "CUCKOOD_CA_FILE")]
    pub ca_file: Option<PathBuf>,

    /// Certificate of this client, in PEM, for a server with --tls-client-ca; needs --client-key [default: none].
    #[arg(long, env = "CUCKOOD_CLIENT_CERT")]
    pub client_cert: Option<PathBuf>,

    /// Private key of --client-cert, in PEM.
    #[arg(long, env = "CUCKOOD_CLIENT_KEY")]
    pub client_key: Option<PathBuf>,
}

impl From<CredentialArgs> for Credentials {
    fn from(given: CredentialArgs) -> Credentials {
        Credentials {
            api_key: given.api_key,
            api_key_file: given.api_key_file,
            authorities: given.ca_file,
            certificate: given.client_cert,
            key: given.client_key,
        }
    }
}

/// Operations on API keys.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Create a key and print it. It is shown once: the file contains only its SHA-256.
    Add {
        /// Name of the key in lists and logs: 1 to 64 characters of A-Z a-z 0-9 . _ -
        name: KeyName,
        /// What the key allows: read (questions), write (also changes) or admin (also deleting filters, and backups).
        #[arg(long)]
        scope: Scope,
        /// Only for filters whose keys start with this [default: all filters].
        #[arg(long)]
        prefix: Option<Prefix>,
    },
    /// List the keys: name, scope, prefix, time of creation.
    List,
    /// Remove a key. Requests with it are refused within one or two seconds.
    Remove {
        /// Name of the key.
        name: KeyName,
    },
}

fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::from(text))
}
