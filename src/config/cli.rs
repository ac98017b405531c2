//! The command line: the subcommands, and the flags of the small ones.

use super::cluster::BrokerConfig;
use super::files::{BuildOptions, MergeOptions};
use super::serve::ServeConfig;
use crate::access::file::NewKey;
use crate::access::{Description, KeyExpiry, KeyName, Prefix, Scope};
use crate::client::filter::FilterOptions;
use crate::client::from_redis::RedisImport;
use crate::client::load::LoadOptions;
use crate::client::remote::{Credentials, SERVER, ServerAddress};
use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use std::any::TypeId;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

/// Named cuckoo filters over HTTP, durable in RocksDB: have we seen this?
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The flags of `serve` that its short help shows, so that it fits on a screen.
const MOST_ASKED_FOR: &str = "listen admin_listen redis_listen tls_cert tls_key keys_file \
    allow_anonymous data_dir backup_dir cache_bytes log cluster advertise";

impl Cli {
    /// The command line of this process, which ends if it is none.
    pub fn read() -> Cli {
        let short = |flag: Arg| {
            let id = flag.get_id().as_str();
            if !MOST_ASKED_FOR.split(' ').any(|it| it == id) {
                return flag.hide_short_help(true);
            }
            let whole = flag.get_help().map(ToString::to_string);
            let whole = whole.unwrap_or_default();
            let end = whole.find([';', '.', ',', '(']).unwrap_or(whole.len());
            let first = whole[..end].trim_end().to_owned();
            flag.help(first).long_help(whole).hide_env_values(true)
        };
        let command = Cli::command().mut_subcommand("filter", without_files);
        let command = command.mut_subcommand("serve", |serve| {
            serve
                .mut_args(short)
                .after_help(
                    "These flags are needed most; --help explains all. Each is also an environment variable.",
                )
                .after_long_help("Each flag is also an environment variable.")
        });
        let matches = each_flag(without_empty_server(command), &says_what_is_allowed).get_matches();
        let mut read = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        read.ask_what_is_named(&matches);
        read
    }

    /// Who names the brokers asks them, whatever server the environment names.
    fn ask_what_is_named(&mut self, matches: &ArgMatches) {
        if let Command::Cluster {
            command: ClusterCommand::Status { server, .. },
        } = &mut self.command
        {
            let mut status = matches;
            while let Some((_, below)) = status.subcommand() {
                status = below;
            }
            let source = ["log", "server"].map(|flag| status.value_source(flag));
            if source == [ValueSource::CommandLine, ValueSource::EnvVariable].map(Some) {
                *server = None;
            }
        }
    }
}

/// Leaves the flags for files out of the help of operations that ask a server alone. They
/// are taken still, to say so.
fn without_files(filter: clap::Command) -> clap::Command {
    let flags = filter.get_arguments().cloned();
    let flags = flags.filter(|it| ["in_file", "key_file"].contains(&it.get_id().as_str()));
    let hidden: Vec<Arg> = flags.map(|it| it.hide(true)).collect();
    filter.mut_subcommands(|operation| match operation.get_name() {
        "info" | "exists" | "count" | "values" => operation,
        _ => operation.args(hidden.clone()),
    })
}

/// An empty variable names no server.
fn without_empty_server(command: clap::Command) -> clap::Command {
    let names_none = std::env::var_os(SERVER).is_some_and(|it| it.is_empty());
    let unset = |arg: Arg| match arg.get_env() {
        Some(name) if name == SERVER => arg.env(Resettable::Reset),
        _ => arg,
    };
    match names_none {
        true => each_flag(command, &unset),
        false => command,
    }
}

/// Changes what the command, and those below it, take.
pub(super) fn each_flag(command: clap::Command, change: &dyn Fn(Arg) -> Arg) -> clap::Command {
    let command = command.mut_args(change);
    command.mut_subcommands(|below| each_flag(below, change))
}

/// Has a number be the value of the flag before it, also a negative one, and has errors
/// say what is allowed. It takes the place of clap's parsers, which are known by what they
/// return: a parser of our own must not return one of these types.
pub(super) fn says_what_is_allowed(arg: Arg) -> Arg {
    const NUMBER: &str = "allowed are whole numbers without a sign, up to 18446744073709551615";
    const FRACTION: &str = "it is not a number such as 0.001";
    const ADDRESS: &str = "allowed is an address with a port, such as 127.0.0.1:8080";
    let is_flag = !arg.is_positional() && arg.get_action().takes_values();
    let kind = arg.get_value_parser().type_id();
    let arg = arg.allow_negative_numbers(is_flag);
    if kind == TypeId::of::<u64>() {
        arg.value_parser(allowed::<u64>(NUMBER))
    } else if kind == TypeId::of::<usize>() {
        arg.value_parser(allowed::<usize>(NUMBER))
    } else if kind == TypeId::of::<f64>() {
        arg.value_parser(allowed::<f64>(FRACTION))
    } else if kind == TypeId::of::<SocketAddr>() {
        arg.value_parser(allowed::<SocketAddr>(ADDRESS))
    } else {
        arg
    }
}

fn allowed<T: FromStr>(said: &'static str) -> impl Fn(&str) -> Result<T, &'static str> + Clone {
    move |text| text.parse().map_err(|_| said)
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
        /// Remove what belongs to no filter first: pages that nothing can reach, and entries of lists that can't be read. No filter is changed.
        #[arg(long)]
        repair: bool,
    },
    /// Make a backup of a running server and wait until it is complete: exit code 0 if it is, 1 if not.
    Backup {
        /// The server; with --admin-listen, that address.
        #[command(flatten)]
        server: ServerAddress,
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
    /// List, create, describe and delete filters of a running server, and add, ask for, count and delete items.
    ///
    /// Exit code 0: done. 1: `exists -q` found an item absent, or `add` found a filter full. 2: an error.
    Filter(FilterOptions),
    /// Load files of any length, one item per line, into a filter of a running server.
    ///
    /// Shows a progress bar on a terminal. When the connection breaks or the server restarts, the command continues after the last committed line; so does the same command when it is run again, as long as the file has not changed.
    Load(LoadOptions),
    /// Make the file of a filter from lists of items, without a server.
    ///
    /// It can be asked as it is (`cuckood filter exists --file`), and restored into a server (`cuckood filter restore`). Takes as much memory as the file has bytes. A line that says no item ends the command, and nothing is written.
    Build(BuildOptions),
    /// Make one file of the files of several filters, which finds what any of them found, without a server.
    ///
    /// The filters must be siblings: of one key, size and width of slots. An item that is in two of them counts twice. Takes as much memory as the file has bytes.
    Merge(MergeOptions),
    /// Fetch a cuckoo filter of RedisBloom from a running Redis into a running server, bit for bit.
    ///
    /// The filter in Redis must not be written to meanwhile. Shows a progress bar on a terminal.
    ImportRedis(RedisImport),
    /// Found a cluster of servers, or say how one is.
    Cluster {
        /// The operation.
        #[command(subcommand)]
        command: ClusterCommand,
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
    /// Print what a shell needs to complete this command line.
    ///
    /// For bash: cuckood completions bash > /etc/bash_completion.d/cuckood
    Completions {
        /// The shell.
        shell: Shell,
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

/// Operations on clusters.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Make the log of a new cluster. Once for each cluster, before its first server starts.
    Found {
        /// The brokers.
        #[command(flatten)]
        brokers: BrokerConfig,

        /// Lanes of the cluster, 1 to 256, fixed for ever: so many changes are made at the same time, and lanes spread over the servers.
        #[arg(long, default_value_t = 8)]
        lanes: u32,

        /// Brokers that keep each change, 1, 3 or 5; of 3 one may fail, of 5 two.
        #[arg(long, default_value_t = 3, value_parser = copies)]
        copies: u8,

        /// Change nothing if the cluster is founded, with as many lanes: the command may then be run again.
        #[arg(long)]
        unless_founded: bool,
    },
    /// Print the lanes of a cluster with their leaders, and its servers with how far they are: as the brokers say it, or with --server as one of the servers does.
    Status {
        /// The brokers.
        #[command(flatten)]
        brokers: BrokerConfig,

        /// Host name or address of a server of the cluster with its port, or its URL; it is asked in place of the brokers.
        #[arg(long, env = SERVER)]
        server: Option<String>,

        /// API key and certificates for that server.
        #[command(flatten)]
        credentials: Credentials,

        /// As JSON, for programs.
        #[arg(long)]
        json: bool,
    },
    /// Begin a new epoch of a cluster whose log was lost or set back, from what one server has.
    ///
    /// Everything that the other servers have and this one has not is given up.
    NewEpoch {
        /// The brokers.
        #[command(flatten)]
        brokers: BrokerConfig,

        /// The server.
        #[command(flatten)]
        from: EpochSource,

        /// Brokers that keep each change, 1, 3 or 5; of 3 one may fail, of 5 two.
        #[arg(long, default_value_t = 3, value_parser = copies)]
        copies: u8,

        /// Only print where the server stands, and what it lacks.
        #[arg(long)]
        dry_run: bool,

        /// Begin it even if the server lacks changes that were acknowledged: they are lost then.
        #[arg(long)]
        give_up_changes: bool,
    },
}

/// The server whose state an epoch begins with.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct EpochSource {
    /// Address of a server that runs, as it advertises it, such as http://pod-0:8080.
    #[arg(long)]
    pub from: Option<String>,

    /// Data directory of a server that does not run.
    #[arg(long)]
    pub from_data_dir: Option<PathBuf>,
}

fn copies(text: &str) -> Result<u8, &'static str> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        "5" => Ok(5),
        _ => Err("allowed is 1, 3 or 5"),
    }
}

/// Operations on API keys.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Create a key and print it. It is shown once: the file contains only its SHA-256.
    Add(NewKeyOptions),
    /// List the keys: name, scope (with +export), prefix, time of creation, expiry, description.
    List,
    /// Remove a key. Within two seconds requests with it are refused, and its dumps, downloads, imports and restores under way end.
    Remove {
        /// Name of the key.
        name: KeyName,
    },
}

/// What a key is to be that is created.
#[derive(Debug, Args)]
pub struct NewKeyOptions {
    /// Name of the key in lists and logs: 1 to 64 characters of A-Z a-z 0-9 . _ -
    name: KeyName,

    /// What the key allows: read (questions), write (also changes) or admin (also deleting and replacing filters, changing their expiry, and backups).
    #[arg(long)]
    scope: Scope,

    /// The key may also fetch dumps (and CF.SCANDUMP): they hold the secret key of a filter's hash. A key of the scope admin may in any case.
    #[arg(long)]
    export: bool,

    /// Only for filters whose keys start with this [default: all filters].
    #[arg(long)]
    prefix: Option<Prefix>,

    /// What the key is for, in words for people: one line of 1 to 200 characters [default: none].
    #[arg(long)]
    description: Option<Description>,

    /// When the key expires, in UTC as RFC 3339 writes it, such as 2027-01-31T00:00:00Z [default: never].
    #[arg(long, conflicts_with = "expires_in")]
    expires_at: Option<KeyExpiry>,

    /// After how long the key expires, such as 90d or 12h [default: never].
    #[arg(long)]
    expires_in: Option<humantime::Duration>,
}

impl NewKeyOptions {
    /// The key that is to be created now.
    ///
    /// # Errors
    /// It would expire when no date can say it.
    pub fn new_key(self, now: SystemTime) -> Result<NewKey, String> {
        let expires_at = match self.expires_in {
            None => self.expires_at,
            Some(lifetime) => Some(KeyExpiry::after(now, *lifetime).ok_or_else(|| {
                format!("--expires-in {lifetime} ends after the year 9999: leave it out for a key that never expires")
            })?),
        };
        Ok(NewKey {
            name: self.name,
            scope: self.scope,
            export: self.export,
            prefix: self.prefix,
            description: self.description,
            expires_at,
        })
    }
}
