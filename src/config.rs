//! What the server can be told: flags and environment variables, read once,
//! here. Every setting has a default that makes sense.

use crate::access::{KeyName, Prefix, Scope};
use crate::backup::BackupOptions;
use crate::chain::params::{Defaults, FilterParams, FilterRequest, LayoutKind, ParamsError};
use crate::engine::{
    Clock, DiskReserve, EngineOptions, LookupBounds, MAX_LANES, MAX_NAMED_FILTERS,
};
use crate::http::{HostPolicy, Limits, ServerOptions, TlsFiles};
use crate::remote::{Credentials, Secret};
use crate::store::WalSync;
use axum::http::uri::Authority;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Named cuckoo filters over HTTP, durable in RocksDB: have we seen this?
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What the program does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve filters.
    Serve(Box<Config>),
    /// Print the OpenAPI document.
    Openapi,
    /// Read a data directory to its end and say whether all of it makes sense. The server must be stopped.
    Check {
        /// Directory that holds the data.
        #[arg(long, env = "CUCKOOD_DATA_DIR", default_value = "./data")]
        data_dir: PathBuf,
    },
    /// Ask a running server for a backup and wait until it is complete: exit code 0 if so, 1 if not.
    Backup {
        /// Name or address of the server, with its port, or its URL: of its --admin-listen, if it has one.
        #[arg(long, env = "CUCKOOD_SERVER", default_value = "127.0.0.1:8080")]
        server: String,
        /// Who we are, and whom we believe.
        #[command(flatten)]
        credentials: CredentialArgs,
    },
    /// Make a data directory of a backup. Nothing is overwritten, and a damaged backup is refused.
    Restore {
        /// Archive of the backup: a file of the server's --backup-dir, or one that was downloaded.
        #[arg(long)]
        backup: PathBuf,
        /// Directory to make; missing or empty.
        #[arg(long, env = "CUCKOOD_DATA_DIR", default_value = "./data")]
        data_dir: PathBuf,
        /// Do nothing, and call it a success, if the directory holds data already: for jobs that run before every start.
        #[arg(long)]
        unless_present: bool,
    },
    /// Load files of one item a line into a filter of a running server, however long they are.
    ///
    /// Shows a progress bar on a terminal. When the connection breaks or the server restarts, it goes on behind what is committed; so does the same command when it is run again, as long as the file did not change.
    Load {
        /// Address of the server.
        #[arg(long, env = "CUCKOOD_URL", default_value = "http://127.0.0.1:8080")]
        url: String,
        /// Who we are, and whom we believe.
        #[command(flatten)]
        credentials: CredentialArgs,
        /// Key of the filter, which must be there.
        #[arg(long)]
        filter: String,
        /// Name of the import [default: one for each file, from its path, size and time of change].
        #[arg(long)]
        import_id: Option<String>,
        /// Leave items that are found already.
        #[arg(long)]
        only_if_absent: bool,
        /// Lines are JSON strings or integers.
        #[arg(long)]
        ndjson: bool,
        /// How long the server may be away, in seconds, before this gives up.
        #[arg(long, default_value_t = 60)]
        patience_seconds: u64,
        /// Files, gzipped or not; - is the standard input.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Fetch a cuckoo filter of RedisBloom from a running Redis into a running server, bit for bit.
    ///
    /// Nothing may be written to the filter in Redis meanwhile. Shows a progress bar on a terminal.
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
        /// Who we are there, and whom we believe.
        #[command(flatten)]
        credentials: CredentialArgs,
        /// Key of the filter here.
        #[arg(long)]
        filter: String,
        /// Take the place of a filter that is there.
        #[arg(long)]
        replace: bool,
    },
    /// Make, list and remove API keys. A server that uses the file notices by itself.
    Keys {
        /// File that lists the keys.
        #[arg(
            long,
            env = "CUCKOOD_KEYS_FILE",
            default_value = "./keys.json",
            global = true
        )]
        keys_file: PathBuf,
        /// What to do.
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// Ask a running server whether it is alive: exit code 0 if so, 1 if not.
    Healthcheck {
        /// Address on which the server listens.
        #[arg(long, env = "CUCKOOD_LISTEN", default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// The other address on which it listens, if it does: then that one is asked.
        #[arg(long, env = "CUCKOOD_ADMIN_LISTEN")]
        admin_listen: Option<SocketAddr>,
        /// The server's certificate, if it has one: then it is asked by TLS.
        #[arg(long, env = "CUCKOOD_TLS_CERT")]
        tls_cert: Option<PathBuf>,
    },
}

/// How a server elsewhere is spoken to. A URL that begins with https is asked by TLS.
#[derive(Debug, Args)]
pub struct CredentialArgs {
    /// API key. Better in the variable or a file: other users of this machine can read command lines.
    #[arg(long, env = "CUCKOOD_API_KEY", hide_env_values = true, value_parser = secret)]
    pub api_key: Option<Secret>,

    /// File that holds the API key.
    #[arg(long, env = "CUCKOOD_API_KEY_FILE")]
    pub api_key_file: Option<PathBuf>,

    /// Authorities, in PEM, one of which signed the server's certificate [default: those that this system trusts].
    #[arg(long, env = "CUCKOOD_CA_FILE")]
    pub ca_file: Option<PathBuf>,

    /// Our own certificate, in PEM, for a server that wants one.
    #[arg(long, env = "CUCKOOD_CLIENT_CERT")]
    pub client_cert: Option<PathBuf>,

    /// Its private key, in PEM.
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

/// What to do about API keys.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a key and print it. It is shown once: the file keeps its SHA-256 alone.
    Add {
        /// What people and logs call the key: 1 to 64 characters of A-Z a-z 0-9 . _ -
        name: KeyName,
        /// What it allows: read (questions), write (changes, too) or admin (also to delete filters, and backups).
        #[arg(long)]
        scope: Scope,
        /// Only for filters whose keys start with this.
        #[arg(long)]
        prefix: Option<Prefix>,
    },
    /// List the keys: name, scope, prefix, time of making.
    List,
    /// Remove a key. Callers who have it are refused within a second or two.
    Remove {
        /// Its name.
        name: KeyName,
    },
}

/// The settings of a server. Sizes are bytes, or a number with KiB, MiB, GiB or TiB.
#[derive(Debug, Args)]
pub struct Config {
    /// Address and port to listen on. Any but a loopback address needs --keys-file or --allow-anonymous.
    #[arg(long, env = "CUCKOOD_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,

    /// File of API keys, made by `cuckood keys add`; read again when it changes. With it every caller needs a key.
    #[arg(long, env = "CUCKOOD_KEYS_FILE")]
    pub keys_file: Option<PathBuf>,

    /// Second address to listen on, for those who run the server: /metrics, which needs no key there, probes, and /admin, which is then served there alone.
    #[arg(long, env = "CUCKOOD_ADMIN_LISTEN")]
    pub admin_listen: Option<SocketAddr>,

    /// Certificate of the server, in PEM, with those that lead to an authority; read again when it changes. With it only TLS is spoken.
    #[arg(long, env = "CUCKOOD_TLS_CERT", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// Its private key, in PEM.
    #[arg(long, env = "CUCKOOD_TLS_KEY", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Authorities, in PEM: callers must show a certificate that one of them signed. Not on --admin-listen, so that probes and scrapers get through.
    #[arg(long, env = "CUCKOOD_TLS_CLIENT_CA", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,

    /// Let anybody who reaches the server do everything, under any host name.
    #[arg(long, env = "CUCKOOD_ALLOW_ANONYMOUS")]
    pub allow_anonymous: bool,

    /// Host name by which the server may be called beside the local ones; may be given several times, or with commas. With --keys-file or --allow-anonymous it may be called by any, unless this is given.
    #[arg(
        long = "allowed-host",
        env = "CUCKOOD_ALLOWED_HOST",
        value_delimiter = ','
    )]
    pub allowed_hosts: Vec<String>,

    /// Directory that holds the data; created if it is missing.
    #[arg(long, env = "CUCKOOD_DATA_DIR", default_value = "./data")]
    pub data_dir: PathBuf,

    /// Filters that are series of their own in the metrics, the largest, at most 1000; their keys become labels.
    #[arg(long, env = "CUCKOOD_METRICS_FILTER_NAMES", default_value_t = 0)]
    pub metrics_filter_names: usize,

    /// Directory for backups, which must not lie in --data-dir; created if it is missing. Without it no backups can be made.
    #[arg(long, env = "CUCKOOD_BACKUP_DIR")]
    pub backup_dir: Option<PathBuf>,

    /// Complete backups that are kept; older ones are dropped when a new one is complete.
    #[arg(long, env = "CUCKOOD_BACKUP_KEEP", default_value_t = 7)]
    pub backup_keep: usize,

    /// When a change is forced to the disk: `always` (before it is answered), `interval:<ms>`, or `never` (when the system likes).
    #[arg(long, env = "CUCKOOD_WAL_SYNC", default_value = "always", value_parser = wal_sync)]
    pub wal_sync: WalSync,

    /// Memory for pages of filters [default: a quarter of the machine's or the container's memory].
    #[arg(long, env = "CUCKOOD_CACHE_BYTES")]
    pub cache_bytes: Option<ByteSize>,

    /// Memory for pages that wait to be written, at most a quarter of --cache-bytes; changes wait at the bound [default: that quarter].
    #[arg(long, env = "CUCKOOD_MAX_DIRTY_BYTES")]
    pub max_dirty_bytes: Option<ByteSize>,

    /// Redo log to replay after a crash, at most; changes wait at the bound.
    #[arg(long, env = "CUCKOOD_MAX_LOG_BYTES", default_value = "64MiB")]
    pub max_log_bytes: ByteSize,

    /// Page images written at once in the background; more holds up the changes' own writes.
    #[arg(long, env = "CUCKOOD_CHECKPOINT_SLICE_BYTES", default_value = "256KiB")]
    pub checkpoint_slice_bytes: ByteSize,

    /// Memory for the storage engine's own block cache [default: a sixteenth of the machine's or the container's memory].
    #[arg(long, env = "CUCKOOD_BLOCK_CACHE_BYTES")]
    pub block_cache_bytes: Option<ByteSize>,

    /// Writer threads, 1 to 256; a filter always has the same one [default: one per core].
    #[arg(long, env = "CUCKOOD_LANES")]
    pub lanes: Option<usize>,

    /// Filters held open at the same time; more can exist.
    #[arg(long, env = "CUCKOOD_MAX_OPEN_FILTERS", default_value_t = 10_000)]
    pub max_open_filters: usize,

    /// Percent of a filter's items, 0 to 100: once more of them were deleted, the filter is compacted in the background; 0: only when asked for.
    #[arg(long, env = "CUCKOOD_COMPACTION_THRESHOLD", default_value_t = 10, value_parser = clap::value_parser!(u8).range(..=100))]
    pub compaction_threshold: u8,

    /// Requests with changes that may wait in front of one writer; more are answered 503.
    #[arg(long, env = "CUCKOOD_MAX_QUEUED_COMMANDS", default_value_t = 1024)]
    pub max_queued_commands: usize,

    /// Items of those requests; more are answered 503.
    #[arg(long, env = "CUCKOOD_MAX_QUEUED_ITEMS", default_value_t = 1_000_000)]
    pub max_queued_items: usize,

    /// Answers kept on disk for requests with an Idempotency-Key, for 24 hours; beyond it such requests are answered 503.
    #[arg(long, env = "CUCKOOD_MAX_IDEMPOTENCY_BYTES", default_value = "256MiB")]
    pub max_idempotency_bytes: ByteSize,

    /// Imports whose progress is kept, for a week after their last commit; new ones beyond are answered 503.
    #[arg(long, env = "CUCKOOD_MAX_IMPORTS", default_value_t = 10_000)]
    pub max_imports: u64,

    /// Capacity of a filter created without one, in items.
    #[arg(long, env = "CUCKOOD_DEFAULT_CAPACITY", default_value_t = Defaults::default().capacity)]
    pub default_capacity: u64,

    /// Layout of a filter whose fields don't tell: paged or classic.
    #[arg(long, env = "CUCKOOD_DEFAULT_LAYOUT", value_enum, default_value_t = DefaultLayout::Paged)]
    pub default_layout: DefaultLayout,

    /// Error rate of a paged filter created without that field (2e-8 to 0.5).
    #[arg(long, env = "CUCKOOD_DEFAULT_ERROR_RATE", default_value_t = Defaults::default().error_rate)]
    pub default_error_rate: f64,

    /// Slots per bucket of a classic filter created without that field (1 to 255).
    #[arg(long, env = "CUCKOOD_DEFAULT_BUCKET_SIZE", default_value_t = Defaults::default().bucket_size)]
    pub default_bucket_size: u64,

    /// Longest kick-out path of a classic filter created without that field (1 to 65535).
    #[arg(long, env = "CUCKOOD_DEFAULT_MAX_ITERATIONS", default_value_t = Defaults::default().max_iterations)]
    pub default_max_iterations: u64,

    /// Growth factor of a filter created without that field (0 to 32768; 0 = never grow) [default: 2 for paged, 1 for classic].
    #[arg(long, env = "CUCKOOD_DEFAULT_EXPANSION")]
    pub default_expansion: Option<u64>,

    /// Most expansions of a filter created without that field (0 to 65535).
    #[arg(long, env = "CUCKOOD_DEFAULT_MAX_EXPANSIONS", default_value_t = Defaults::default().max_expansions)]
    pub default_max_expansions: u64,

    /// Bytes that one filter may take, all its sub-filters together; stored with each filter when it is created.
    #[arg(long, env = "CUCKOOD_MAX_FILTER_BYTES", default_value = "16GiB")]
    pub max_filter_bytes: ByteSize,

    /// Bytes that all filters together may take when another is created; more are answered 507 [default: no bound].
    #[arg(long, env = "CUCKOOD_MAX_TOTAL_BYTES")]
    pub max_total_bytes: Option<ByteSize>,

    /// Bytes of the data's disk that changes leave alone; with less free they are answered 507, and taken again once there is more [default: 1GiB, or a twentieth of a smaller disk].
    #[arg(long, env = "CUCKOOD_DISK_RESERVE")]
    pub disk_reserve: Option<ByteSize>,

    /// Filters that there may be when another is created; more are answered 507 [default: no bound].
    #[arg(long, env = "CUCKOOD_MAX_FILTERS")]
    pub max_filters: Option<u64>,

    /// Largest request body, before and after decompression; larger ones are answered 413.
    #[arg(long, env = "CUCKOOD_MAX_BODY_BYTES", default_value = "32MiB")]
    pub max_body_bytes: ByteSize,

    /// All request bodies in memory at the same time; more are answered 503.
    #[arg(long, env = "CUCKOOD_MAX_BUFFERED_BYTES", default_value = "256MiB")]
    pub max_buffered_bytes: ByteSize,

    /// Items of one batch; larger ones are answered 413.
    #[arg(long, env = "CUCKOOD_MAX_BATCH_ITEMS", default_value_t = Limits::default().max_batch_items)]
    pub max_batch_items: usize,

    /// Requests that are worked on at the same time; more are answered 503. Probes and what is on --admin-listen without a key do not count.
    #[arg(long, env = "CUCKOOD_MAX_IN_FLIGHT", default_value_t = Limits::default().max_in_flight)]
    pub max_in_flight: usize,

    /// Requests a second that each API key may send, and as many at once; more are answered 429 [default: no bound].
    #[arg(long, env = "CUCKOOD_RATE_LIMIT", requires = "keys_file")]
    pub rate_limit: Option<NonZeroU32>,

    /// Filters that one lookup may ask; more are answered 422.
    #[arg(long, env = "CUCKOOD_MAX_LOOKUP_FILTERS", default_value_t = Limits::default().lookup.max_filters)]
    pub max_lookup_filters: usize,

    /// Items of one lookup times the filters it asks; more is answered 422.
    #[arg(long, env = "CUCKOOD_MAX_LOOKUP_PROBES", default_value_t = Limits::default().lookup.max_probes)]
    pub max_lookup_probes: usize,

    /// Connections open at the same time; further ones wait.
    #[arg(long, env = "CUCKOOD_MAX_CONNECTIONS", default_value_t = ServerOptions::default().max_connections)]
    pub max_connections: usize,

    /// Longest time for the head of a request, in seconds; beyond it 408.
    #[arg(long, env = "CUCKOOD_HEADER_TIMEOUT_SECONDS", default_value_t = ServerOptions::default().header_timeout.as_secs())]
    pub header_timeout_seconds: u64,

    /// Longest silence of a connection between requests, in seconds; then it is closed.
    #[arg(long, env = "CUCKOOD_IDLE_TIMEOUT_SECONDS", default_value_t = ServerOptions::default().idle_timeout.as_secs())]
    pub idle_timeout_seconds: u64,

    /// Longest time that a client may leave an answer unread, in seconds; then it is cut off.
    #[arg(long, env = "CUCKOOD_WRITE_TIMEOUT_SECONDS", default_value_t = ServerOptions::default().write_timeout.as_secs())]
    pub write_timeout_seconds: u64,

    /// Longest pause within a request body, in seconds; beyond it 408.
    #[arg(long, env = "CUCKOOD_BODY_IDLE_TIMEOUT_SECONDS", default_value_t = Limits::default().body_idle_timeout.as_secs())]
    pub body_idle_timeout_seconds: u64,

    /// Longest time for a whole request body, in seconds; beyond it 408.
    #[arg(long, env = "CUCKOOD_BODY_TIMEOUT_SECONDS", default_value_t = Limits::default().body_timeout.as_secs())]
    pub body_timeout_seconds: u64,

    /// Seconds in which requests are still accepted after a stop was asked for, while /readyz says no.
    #[arg(long, env = "CUCKOOD_DRAIN_DELAY_SECONDS", default_value_t = 0)]
    pub drain_delay_seconds: u64,

    /// Seconds that requests under way may take to finish after that.
    #[arg(long, env = "CUCKOOD_DRAIN_TIMEOUT_SECONDS", default_value_t = ServerOptions::default().drain_timeout.as_secs())]
    pub drain_timeout_seconds: u64,

    /// How log lines are written; `auto` is `human` on a terminal and `json` otherwise.
    #[arg(long, env = "CUCKOOD_LOG_FORMAT", default_value = "auto")]
    pub log_format: LogFormat,

    /// Which log lines are written, as `level` or `module=level,…`.
    #[arg(long, env = "CUCKOOD_LOG", default_value = "info")]
    pub log: String,
}

/// See [`LayoutKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DefaultLayout {
    /// One page a question, and an error rate that holds while the filter grows.
    Paged,
    /// Bit-compatible with RedisBloom and Apache Kvrocks.
    Classic,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Human on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Settings that are checked, in the form in which the parts take them.
#[derive(Debug)]
pub struct Settings {
    /// For the engine.
    pub engine: EngineOptions,
    /// For requests.
    pub limits: Limits,
    /// For connections.
    pub server: ServerOptions,
    /// Where backups go, if any.
    pub backups: Option<BackupOptions>,
    /// By which names the server answers.
    pub hosts: HostPolicy,
    /// What TLS is spoken with, if it is.
    pub tls: Option<TlsFiles>,
    /// Bytes of the storage engine's own block cache.
    pub block_cache_bytes: u64,
}

/// Settings that can't be served with: all of them, each with what to do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ConfigErrors(pub Vec<String>);

impl Config {
    /// Checks the settings together and fills in what depends on the machine.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn settings(&self, machine: &Machine) -> Result<Settings, ConfigErrors> {
        let mut errors = Vec::new();
        let is_open = self.allow_anonymous || self.keys_file.is_some();
        let listens = [
            ("--listen", Some(self.listen)),
            ("--admin-listen", self.admin_listen),
        ];
        for (flag, listen) in listens {
            if let Some(listen) = listen.filter(|it| !is_open && !it.ip().is_loopback()) {
                errors.push(format!(
                    "{flag} {listen} can be reached from other machines, and there are no API keys: make one with cuckood keys add and say --keys-file, listen on 127.0.0.1, or say --allow-anonymous"
                ));
            }
        }
        if self.allow_anonymous && self.keys_file.is_some() {
            errors.push(
                "--allow-anonymous contradicts --keys-file: leave one of them out".to_owned(),
            );
        }
        for host in self.allowed_hosts.iter().filter(|host| !is_host(host)) {
            errors.push(format!(
                "--allowed-host is {host:?}, allowed is a name or an address without a port, such as filters.example.org or [fd00::1]"
            ));
        }
        for (flag, value) in [
            ("--lanes", self.lanes.unwrap_or(1)),
            ("--max-open-filters", self.max_open_filters),
            ("--max-queued-commands", self.max_queued_commands),
            ("--max-queued-items", self.max_queued_items),
            ("--max-batch-items", self.max_batch_items),
            ("--max-lookup-filters", self.max_lookup_filters),
            ("--max-lookup-probes", self.max_lookup_probes),
            ("--backup-keep", self.backup_keep),
            ("--max-connections", self.max_connections),
            ("--max-in-flight", self.max_in_flight),
        ] {
            if value == 0 {
                errors.push(format!("{flag} is 0, it must be at least 1"));
            }
        }
        for (flag, value) in [
            ("--header-timeout-seconds", self.header_timeout_seconds),
            ("--idle-timeout-seconds", self.idle_timeout_seconds),
            ("--write-timeout-seconds", self.write_timeout_seconds),
            (
                "--body-idle-timeout-seconds",
                self.body_idle_timeout_seconds,
            ),
            ("--body-timeout-seconds", self.body_timeout_seconds),
        ] {
            if value == 0 {
                errors.push(format!("{flag} is 0, it must be at least 1"));
            }
        }

        let cache_bytes = self
            .cache_bytes
            .map_or(machine.memory_bytes / 4, ByteSize::bytes);
        let max_dirty_bytes = self
            .max_dirty_bytes
            .map_or(cache_bytes / 4, ByteSize::bytes);
        let at_least = |flag: &str, given: u64, low: u64, errors: &mut Vec<String>| {
            if given < low {
                errors.push(format!(
                    "{flag} is {given} bytes, it must be at least {}",
                    ByteSize(low)
                ));
            }
        };
        at_least("--cache-bytes", cache_bytes, MIN_CACHE_BYTES, &mut errors);
        at_least(
            "--max-dirty-bytes",
            max_dirty_bytes,
            MIN_DIRTY_BYTES,
            &mut errors,
        );
        at_least(
            "--max-log-bytes",
            self.max_log_bytes.0,
            MIN_LOG_BYTES,
            &mut errors,
        );
        at_least(
            "--checkpoint-slice-bytes",
            self.checkpoint_slice_bytes.0,
            MIN_SLICE_BYTES,
            &mut errors,
        );
        at_least(
            "--max-body-bytes",
            self.max_body_bytes.0,
            1 << 10,
            &mut errors,
        );
        if max_dirty_bytes > cache_bytes / 4 {
            errors.push(format!(
                "--max-dirty-bytes is {max_dirty_bytes}, more than a quarter of --cache-bytes {cache_bytes}: make it smaller, or the cache larger"
            ));
        }
        if self.metrics_filter_names > MAX_NAMED_FILTERS {
            errors.push(format!(
                "--metrics-filter-names is more than {MAX_NAMED_FILTERS}, make it smaller: each is several series"
            ));
        }
        if self.lanes.is_some_and(|lanes| lanes > MAX_LANES) {
            errors.push(format!("--lanes is more than {MAX_LANES}, make it smaller"));
        }
        if self.max_buffered_bytes < self.max_body_bytes {
            errors.push(format!(
                "--max-buffered-bytes is {}, less than --max-body-bytes {}: a body of that size could never be read; make it larger",
                self.max_buffered_bytes, self.max_body_bytes
            ));
        }
        if self.max_queued_items < self.max_batch_items {
            errors.push(format!(
                "--max-queued-items is {}, less than --max-batch-items {}: such a batch could never be queued; make it larger",
                self.max_queued_items, self.max_batch_items
            ));
        }
        if self.max_open_filters < self.max_lookup_filters {
            errors.push(format!(
                "--max-open-filters is {}, less than --max-lookup-filters {}: such a lookup could never be answered; make it larger",
                self.max_open_filters, self.max_lookup_filters
            ));
        }
        if self
            .backup_dir
            .as_ref()
            .is_some_and(|backups| backups.starts_with(&self.data_dir))
        {
            errors.push(
                "--backup-dir lies in --data-dir, which nothing but the server's data may be in: choose another, best on another disk"
                    .to_owned(),
            );
        }
        let disk_reserve = self
            .disk_reserve
            .map_or(DiskReserve::Usual, |bytes| DiskReserve::Bytes(bytes.0));
        let defaults = Defaults {
            capacity: self.default_capacity,
            layout: match self.default_layout {
                DefaultLayout::Paged => LayoutKind::Paged,
                DefaultLayout::Classic => LayoutKind::Classic,
            },
            error_rate: self.default_error_rate,
            bucket_size: self.default_bucket_size,
            max_iterations: self.default_max_iterations,
            expansion: self.default_expansion,
            max_expansions: self.default_max_expansions,
            max_filter_bytes: self.max_filter_bytes.0,
            max_total_bytes: self.max_total_bytes.map(|bytes| bytes.0),
            max_filters: self.max_filters,
        };
        // The defaults of both layouts: a request may ask for either.
        let mut refused: Vec<ParamsError> = LayoutKind::ALL
            .into_iter()
            .filter_map(|layout| {
                let request = FilterRequest {
                    layout: Some(layout),
                    ..FilterRequest::default()
                };
                FilterParams::resolve(&request, &defaults).err()
            })
            .flatten()
            .collect();
        refused.sort_by_key(|error| error.field);
        refused.dedup_by_key(|error| error.field);
        for error in refused {
            let flag = error.field.replace('_', "-");
            errors.push(format!(
                "--default-{flag} is {}, allowed is {}",
                error.given, error.allowed
            ));
        }
        if !errors.is_empty() {
            return Err(ConfigErrors(errors));
        }

        Ok(Settings {
            engine: EngineOptions {
                clock: Clock::System,
                defaults,
                lanes: self.lanes.unwrap_or(machine.cores.min(MAX_LANES)),
                cache_bytes,
                max_dirty_bytes,
                max_log_bytes: self.max_log_bytes.0,
                checkpoint_slice_bytes: self.checkpoint_slice_bytes.0,
                max_open_filters: self.max_open_filters,
                compaction_threshold_percent: self.compaction_threshold,
                max_queued_commands: self.max_queued_commands,
                max_queued_items: self.max_queued_items,
                max_retry_bytes: self.max_idempotency_bytes.0,
                max_imports: self.max_imports,
                disk_reserve,
            },
            limits: Limits {
                max_body_bytes: self.max_body_bytes.in_memory(),
                max_buffered_bytes: self.max_buffered_bytes.in_memory(),
                max_batch_items: self.max_batch_items,
                max_in_flight: self.max_in_flight,
                lookup: LookupBounds {
                    max_filters: self.max_lookup_filters,
                    max_probes: self.max_lookup_probes,
                },
                body_idle_timeout: Duration::from_secs(self.body_idle_timeout_seconds),
                body_timeout: Duration::from_secs(self.body_timeout_seconds),
            },
            server: ServerOptions {
                max_connections: self.max_connections,
                header_timeout: Duration::from_secs(self.header_timeout_seconds),
                idle_timeout: Duration::from_secs(self.idle_timeout_seconds),
                write_timeout: Duration::from_secs(self.write_timeout_seconds),
                drain_delay: Duration::from_secs(self.drain_delay_seconds),
                drain_timeout: Duration::from_secs(self.drain_timeout_seconds),
            },
            backups: self.backup_dir.as_ref().map(|directory| BackupOptions {
                directory: directory.clone(),
                keep: self.backup_keep,
                disk_reserve,
            }),
            tls: self
                .tls_cert
                .clone()
                .zip(self.tls_key.clone())
                .map(|(certificate, key)| TlsFiles {
                    certificate,
                    key,
                    client_authorities: self.tls_client_ca.clone(),
                }),
            hosts: match (self.allowed_hosts.as_slice(), is_open) {
                ([], true) => HostPolicy::Any,
                ([], false) => HostPolicy::LocalOnly,
                (hosts, _) => HostPolicy::LocalAnd(hosts.to_vec()),
            },
            block_cache_bytes: self
                .block_cache_bytes
                .map_or(machine.memory_bytes / 16, ByteSize::bytes),
        })
    }
}

fn secret(text: &str) -> Result<Secret, String> {
    Ok(Secret::from(text))
}

/// Whether a URL can name a server so.
fn is_host(text: &str) -> bool {
    text.parse::<Authority>()
        .is_ok_and(|authority| authority.host() == text)
}

/// Smallest cache: one lane's search for room must fit it, and some more.
const MIN_CACHE_BYTES: u64 = 32 << 20;
const MIN_DIRTY_BYTES: u64 = 1 << 20;
const MIN_LOG_BYTES: u64 = 64 << 10;
/// One page.
const MIN_SLICE_BYTES: u64 = 4 << 10;

/// A number of bytes, written as such or with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u32); 4] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl ByteSize {
    fn bytes(self) -> u64 {
        self.0
    }

    fn in_memory(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let (digits, shift) = UNITS
            .iter()
            .find_map(|&(unit, shift)| Some((text.strip_suffix(unit)?, shift)))
            .unwrap_or((text, 0));
        let size = digits
            .trim_end()
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(1 << shift));
        size.map(ByteSize).ok_or_else(|| {
            "a size is a whole number of bytes, or one with KiB, MiB, GiB or TiB, such as 512MiB".to_owned()
        })
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in UNITS {
            if self.0 >= 1 << shift && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

fn wal_sync(text: &str) -> Result<WalSync, String> {
    let interval = || {
        let milliseconds = text.strip_prefix("interval:")?.parse().ok()?;
        (milliseconds > 0).then_some(WalSync::Interval(Duration::from_millis(milliseconds)))
    };
    match text {
        "always" => Ok(WalSync::Always),
        "never" => Ok(WalSync::Never),
        _ => interval().ok_or_else(|| {
            "allowed is always, never, or interval:<milliseconds> such as interval:100".to_owned()
        }),
    }
}

/// What the program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Memory that may be used: the machine's, or less if the control group says so.
    pub memory_bytes: u64,
    /// Processor cores that may be used.
    pub cores: usize,
}

/// Memory that is assumed where the system does not say.
const UNKNOWN_MEMORY_BYTES: u64 = 1 << 30;

impl Machine {
    /// Asks the system.
    pub fn detect() -> Machine {
        let machine = memory_total(Path::new("/proc/meminfo"));
        let group = group_limit(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"));
        Machine {
            memory_bytes: [machine, group]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(UNKNOWN_MEMORY_BYTES),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn memory_total(meminfo: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(meminfo).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The smallest `memory.max` of this process's control group (version 2) and
/// the groups around it; `None` if nothing limits it.
fn group_limit(membership: &Path, root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(membership).ok()?;
    let group = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    root.join(group)
        .ancestors()
        .take_while(|group| group.starts_with(root))
        .filter_map(|group| std::fs::read_to_string(group.join("memory.max")).ok())
        .filter_map(|limit| limit.trim().parse().ok())
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        memory_bytes: 4 << 30,
        cores: 2,
    };

    fn config(flags: &[&str]) -> Config {
        let line = ["cuckood", "serve"].iter().chain(flags);
        match Cli::try_parse_from(line).unwrap().command {
            Command::Serve(config) => *config,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_flag_at_all_is_sensible() {
        let settings = config(&[]).settings(&MACHINE).unwrap();
        assert_eq!(settings.engine.cache_bytes, 1 << 30);
        assert_eq!(settings.engine.max_dirty_bytes, 256 << 20);
        assert_eq!(settings.engine.lanes, 2);
        assert_eq!(settings.engine.disk_reserve, DiskReserve::Usual);
        assert_eq!(settings.engine.defaults, Defaults::default());
        assert_eq!(settings.limits.max_body_bytes, 32 << 20);
        assert_eq!(settings.hosts, HostPolicy::LocalOnly);
    }

    #[test]
    fn bad_combinations_are_refused_all_at_once() {
        let errors = config(&[
            "--listen=0.0.0.0:80",
            "--max-body-bytes=1GiB",
            "--cache-bytes=1MiB",
            "--default-bucket-size=256",
            "--max-batch-items=2000000",
            "--max-open-filters=999",
            "--backup-dir=./data/backups",
            "--backup-keep=0",
            "--max-connections=0",
        ])
        .settings(&MACHINE)
        .unwrap_err();
        for flag in [
            "--listen",
            "--max-buffered-bytes",
            "--cache-bytes",
            "--default-bucket-size",
            "--max-queued-items",
            "--max-open-filters",
            "--backup-dir",
            "--backup-keep",
            "--max-connections",
        ] {
            assert!(
                errors.0.iter().any(|error| error.starts_with(flag)),
                "{flag}: {errors}"
            );
        }
    }

    #[test]
    fn any_address_is_listened_on_when_that_was_asked_for() {
        let settings = config(&["--listen=0.0.0.0:80", "--allow-anonymous"]).settings(&MACHINE);
        assert_eq!(settings.unwrap().hosts, HostPolicy::Any);
    }

    #[test]
    fn any_address_is_listened_on_when_there_are_keys() {
        let flags = ["--listen=0.0.0.0:80", "--keys-file=keys.json"];
        let settings = config(&flags).settings(&MACHINE).unwrap();
        assert_eq!(settings.hosts, HostPolicy::Any);
        let both = config(&["--keys-file=keys.json", "--allow-anonymous"]);
        let errors = both.settings(&MACHINE).unwrap_err();
        assert!(errors.to_string().contains("--allow-anonymous contradicts"));
    }

    #[test]
    fn names_to_be_called_by_are_listed() {
        let hosts = |flags: &[&str]| config(flags).settings(&MACHINE).map(|it| it.hosts);
        let listed = |names: &[&str]| {
            HostPolicy::LocalAnd(names.iter().copied().map(str::to_owned).collect())
        };
        assert_eq!(
            hosts(&["--allowed-host=a.example,b", "--allowed-host=[fd00::1]"]),
            Ok(listed(&["a.example", "b", "[fd00::1]"]))
        );
        assert_eq!(
            hosts(&["--keys-file=keys.json", "--allowed-host=a"]),
            Ok(listed(&["a"]))
        );
        for wrong in ["", "a:80", "http://a", "a/b", "u@a"] {
            assert!(
                hosts(&[&format!("--allowed-host={wrong}")]).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512MiB", 512 << 20),
            ("1 GiB", 1 << 30),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5GiB", "1MB", "16777216TiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
        assert_eq!(ByteSize(512 << 20).to_string(), "512MiB");
        assert_eq!(ByteSize(1025).to_string(), "1025");
    }

    #[test]
    fn wal_sync_has_three_forms() {
        assert_eq!(wal_sync("always"), Ok(WalSync::Always));
        assert_eq!(wal_sync("never"), Ok(WalSync::Never));
        assert_eq!(
            wal_sync("interval:20"),
            Ok(WalSync::Interval(Duration::from_millis(20)))
        );
        for text in ["", "interval", "interval:0", "interval:-1", "sometimes"] {
            assert!(wal_sync(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_tightest_group_around_the_process_limits_its_memory() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let membership = root.join("cgroup");
        std::fs::write(&membership, "0::/outer/inner\n").unwrap();
        std::fs::create_dir_all(root.join("outer/inner")).unwrap();
        assert_eq!(group_limit(&membership, root), None);
        std::fs::write(root.join("outer/inner/memory.max"), "max\n").unwrap();
        std::fs::write(root.join("outer/memory.max"), "536870912\n").unwrap();
        assert_eq!(group_limit(&membership, root), Some(512 << 20));
    }

    #[test]
    fn the_machines_memory_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let meminfo = directory.path().join("meminfo");
        std::fs::write(&meminfo, "MemTotal:       16000 kB\nMemFree:  1 kB\n").unwrap();
        assert_eq!(memory_total(&meminfo), Some(16000 * 1024));
        assert_eq!(memory_total(&directory.path().join("none")), None);
    }
}
