//! The settings of a server, checked together.

use super::access::{AccessConfig, ListenConfig};
use super::cluster::{ClusterConfig, ClusterSettings};
use super::errors::ConfigErrors;
use super::filters::FilterConfig;
use super::limits::{ConnectionConfig, RequestConfig};
use super::logs::LogConfig;
use super::machine::Machine;
use super::redis::RedisConfig;
use super::resources::ResourceConfig;
use super::storage::{BackupConfig, StorageConfig};
use crate::backup::BackupOptions;
use crate::engine::{Clock, EngineOptions};
use crate::redis::RedisOptions;
use crate::server::{HostPolicy, Limits, ServerOptions, TlsFiles};
use clap::Args;

/// The settings of a server, by subject. Sizes are bytes, or a number with KiB,
/// MiB, GiB or TiB.
#[derive(Debug, Args)]
pub struct ServeConfig {
    /// Addresses and certificates.
    #[command(flatten)]
    pub listen: ListenConfig,
    /// API keys, host names and rates.
    #[command(flatten)]
    pub access: AccessConfig,
    /// The data directory and its durability.
    #[command(flatten)]
    pub storage: StorageConfig,
    /// The backup directory.
    #[command(flatten)]
    pub backups: BackupConfig,
    /// Caches and writer threads.
    #[command(flatten)]
    pub resources: ResourceConfig,
    /// Defaults and bounds of filters.
    #[command(flatten)]
    pub filters: FilterConfig,
    /// Bounds of requests.
    #[command(flatten)]
    pub requests: RequestConfig,
    /// Bounds of connections, and how the server stops.
    #[command(flatten)]
    pub connections: ConnectionConfig,
    /// The listener of the Redis protocol.
    #[command(flatten)]
    pub redis: RedisConfig,
    /// The cluster that the server is a part of.
    #[command(flatten)]
    pub cluster: ClusterConfig,
    /// Logs and metrics.
    #[command(flatten)]
    pub logs: LogConfig,
}

/// Checked settings, in the form in which the modules take them.
#[derive(Debug)]
pub struct Settings {
    /// For the engine.
    pub engine: EngineOptions,
    /// For requests.
    pub limits: Limits,
    /// For connections.
    pub server: ServerOptions,
    /// For the Redis protocol.
    pub redis: RedisOptions,
    /// Where backups are written; `None`: nowhere.
    pub backups: Option<BackupOptions>,
    /// Host names by which the server may be called.
    pub hosts: HostPolicy,
    /// The files of TLS; `None`: no TLS.
    pub tls: Option<TlsFiles>,
    /// Bytes of the storage engine's own block cache.
    pub block_cache_bytes: u64,
    /// The server's part in a cluster; `None`: it is in none.
    pub cluster: Option<ClusterSettings>,
}

impl ServeConfig {
    /// Which log lines are written.
    pub fn log_levels(&self) -> String {
        let levels = self.cluster.brokers.levels();
        levels.unwrap_or_else(|| self.logs.log_level.clone())
    }

    /// Checks the settings together and fills in what depends on the machine.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn settings(&self, machine: &Machine) -> Result<Settings, ConfigErrors> {
        let resources = self.resources.on(machine);
        let mut errors = ConfigErrors::default();
        self.access.check(&self.listen, &mut errors);
        self.storage.check(&mut errors);
        self.backups.check(&self.storage.data_dir, &mut errors);
        resources.check(&mut errors);
        self.filters.check(&mut errors);
        self.requests.check(&mut errors);
        self.connections.check(&mut errors);
        self.redis.check(&self.access, &mut errors);
        self.logs.check(&mut errors);
        let cluster = self.cluster.check(self.resources.lanes, &mut errors);
        let open = self.filters.max_open_filters;
        let asked = self.requests.max_lookup_filters;
        if open < asked {
            errors.add(format!(
                "--max-open-filters is {open}, less than --max-lookup-filters {asked}: such a lookup can never be answered; increase it"
            ));
        }
        if !errors.0.is_empty() {
            return Err(errors);
        }
        let disk_reserve = self.storage.disk_reserve();
        Ok(Settings {
            engine: EngineOptions {
                clock: Clock::System,
                defaults: self.filters.defaults(),
                lanes: resources.lanes,
                cache_bytes: resources.cache_bytes,
                max_dirty_bytes: resources.max_dirty_bytes,
                max_log_bytes: self.storage.max_log_bytes.0,
                checkpoint_slice_bytes: self.storage.checkpoint_slice_bytes.0,
                max_probes: self.requests.max_probes,
                max_cold_read_bytes: self.requests.max_cold_read_bytes.0,
                read_patience: EngineOptions::READ_PATIENCE,
                key_share_percent: self.requests.key_share,
                max_open_filters: open,
                compaction_threshold_percent: self.filters.compaction_threshold,
                max_queued_commands: self.requests.max_queued_commands,
                max_queued_items: self.requests.max_queued_items,
                max_retry_bytes: self.requests.max_idempotency_bytes.0,
                max_imports: self.requests.max_imports,
                disk_reserve,
                spool: self.storage.data_dir.clone(),
                after_commit: None,
            },
            limits: self.requests.limits(),
            server: self.connections.options(),
            redis: self.redis.options(&self.filters),
            backups: self.backups.options(disk_reserve),
            hosts: self.access.hosts(self.cluster.host()),
            tls: self.listen.tls(),
            block_cache_bytes: resources.block_cache_bytes,
            cluster,
        })
    }
}
