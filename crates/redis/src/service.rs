//! What all connections share: the application, who is connected, and what is
//! counted.

use super::commands::table::{TABLE, Verb};
use super::timings::{Ids, MOST_SLOW, SLOWER_THAN, Timings};
use super::transfers::Transfers;
use crate::chain::params::Defaults;
use crate::server::App;
use crate::server::options::CONNECTIONS_PART;
use parking_lot::Mutex;
use prometheus::{Histogram, IntCounter};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What clients take the server for: they look at versions to know what it can.
pub(crate) const REDIS_VERSION: &str = "7.4.0";

/// How a caller is called that has no key, and by what clients mean whatever
/// key there is.
pub(crate) const DEFAULT_USER: &str = "default";

/// The module that filters are of in redis, and its version.
pub(crate) const MODULE: (&str, i64) = ("bf", 80800);

/// What becomes of filters where there is no room: they stay.
const NO_EVICTION: &str = "noeviction";

/// Bytes of a page of memory, as the kernel counts them.
const KERNEL_PAGE_BYTES: u64 = 4096;

/// How the Redis listener is bounded. Each is a flag of the server.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// The port that clients are told.
    pub port: u16,
    /// Connections at the same time; further ones are told so and closed.
    pub max_connections: usize,
    /// Connections at the same time from one address, or from one /64 of IPv6;
    /// further ones are told so and closed, too.
    pub max_connections_per_address: usize,
    /// Longest silence between two commands; zero: any.
    pub idle_timeout: Duration,
    /// Whether `FLUSHALL` deletes all filters.
    pub allow_flush: bool,
    /// What new filters get.
    pub defaults: Defaults,
}

impl Default for RedisOptions {
    fn default() -> Self {
        RedisOptions {
            port: 6379,
            max_connections: 1024,
            max_connections_per_address: 1024 / CONNECTIONS_PART,
            idle_timeout: Duration::ZERO,
            allow_flush: false,
            defaults: Defaults::default(),
        }
    }
}

/// Why a connection, or what was sent on it, was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There are as many as there may be, in all or from its address.
    Connections,
    /// It showed no key that is known.
    Auth,
    /// It sent what is no command.
    Protocol,
    /// It spoke HTTP, or TLS where none is spoken.
    Foreign,
    /// It was silent for too long, or read nothing.
    Timeout,
}

impl Refused {
    /// How metrics name them, in their order.
    const NAMES: [&str; 5] = ["connections", "auth", "protocol", "foreign", "timeout"];
}

/// See the module.
pub(crate) struct Service {
    pub(crate) app: Arc<App>,
    pub(crate) options: RedisOptions,
    pub(crate) started: Instant,
    pub(crate) transfers: Transfers,
    clients: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    /// Numbers of connections.
    pub(crate) client_ids: Ids,
    connections: AtomicU64,
    /// Of each command those that were done and those that failed.
    counted: Vec<[IntCounter; 2]>,
    unknown: IntCounter,
    /// Runs of questions, and of changes.
    runs: [Histogram; 2],
    /// In the order of [`Refused`].
    refused: [IntCounter; Refused::NAMES.len()],
    last_foreign: Mutex<Option<Instant>>,
    pub(crate) timings: Timings,
    /// Questions about items of filters that are there, and of others.
    found: [AtomicU64; 2],
    pace: Mutex<Pace>,
}

/// How many commands there are in a second.
struct Pace {
    at: Instant,
    commands: u64,
    per_second: u64,
}

impl Service {
    pub(crate) fn new(app: Arc<App>, options: RedisOptions) -> Arc<Service> {
        let metrics = &app.metrics;
        let commands = &metrics.redis_commands;
        let of = |name: &str| {
            ["ok", "error"].map(|outcome| commands.with_label_values(&[name, outcome]))
        };
        let runs = ["questions", "changes"]
            .map(|kind| metrics.redis_run_seconds.with_label_values(&[kind]));
        Arc::new(Service {
            counted: TABLE.iter().map(|spec| of(spec.name)).collect(),
            unknown: commands.with_label_values(&["unknown", "error"]),
            runs,
            refused: Refused::NAMES.map(|why| metrics.redis_refused.with_label_values(&[why])),
            last_foreign: Mutex::default(),
            timings: Timings::new(),
            found: Default::default(),
            pace: Mutex::new(Pace {
                at: Instant::now(),
                commands: 0,
                per_second: 0,
            }),
            started: Instant::now(),
            transfers: Transfers::default(),
            clients: Mutex::default(),
            client_ids: Ids::default(),
            connections: AtomicU64::new(0),
            app,
            options,
        })
    }

    /// Counts a command, of which `None` is one that is not known.
    #[inline]
    pub(crate) fn count(&self, verb: Option<Verb>, is_success: bool) {
        match verb.and_then(|verb| self.counted.get(verb as usize)) {
            Some([done, _]) if is_success => done.inc(),
            Some([_, failed]) => failed.inc(),
            None => self.unknown.inc(),
        }
    }

    /// Observes how long a run took.
    #[inline]
    pub(crate) fn observe_run(&self, is_change: bool, took: Duration) {
        let [questions, changes] = &self.runs;
        let runs = if is_change { changes } else { questions };
        runs.observe(took.as_secs_f64());
    }

    /// Counts how many questions were about filters that are there, and about others.
    pub(crate) fn count_found(&self, hits: u64, misses: u64) {
        for (counter, count) in self.found.iter().zip([hits, misses]) {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    fn commands(&self) -> u64 {
        let known: u64 = self.counted.iter().flatten().map(IntCounter::get).sum();
        known + self.unknown.get()
    }

    /// How many commands there were in a second since this was asked last, a second ago
    /// or longer.
    fn commands_per_second(&self) -> u64 {
        let commands = self.commands();
        let mut pace = self.pace.lock();
        let seconds = pace.at.elapsed().as_secs_f64();
        if seconds >= 1.0 {
            let since = commands.saturating_sub(pace.commands) as f64;
            *pace = Pace {
                at: Instant::now(),
                commands,
                per_second: (since / seconds).round() as u64,
            };
        }
        pace.per_second
    }

    /// Counts a refusal.
    pub(crate) fn count_refused(&self, why: Refused) {
        if let Some(counter) = self.refused.get(why as usize) {
            counter.inc();
        }
    }

    /// Counts another protocol, and says so once a minute.
    pub(crate) fn count_foreign(&self, peer: SocketAddr) {
        self.count_refused(Refused::Foreign);
        let mut last = self.last_foreign.lock();
        let is_due = last.is_none_or(|last| last.elapsed() > Duration::from_secs(60));
        if is_due {
            *last = Some(Instant::now());
            tracing::warn!(
                %peer,
                "HTTP or TLS was spoken on --redis-listen; the connection was closed. It may be a wrong port, or a web page that tries to reach the server"
            );
        }
    }

    /// Notes a new connection.
    pub(crate) fn connect(self: &Arc<Self>, peer: SocketAddr, local: SocketAddr) -> Connected {
        let id = self.client_ids.next();
        let info = ClientInfo::new(id, peer, local);
        self.clients.lock().insert(id, Arc::clone(&info));
        self.connections.fetch_add(1, Ordering::Relaxed);
        self.app.metrics.redis_connections.inc();
        Connected {
            service: Arc::clone(self),
            info,
        }
    }

    /// Who is connected.
    pub(crate) fn clients(&self) -> Vec<Arc<ClientInfo>> {
        self.clients.lock().values().cloned().collect()
    }

    /// What `CONFIG GET` shows.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let (options, limits) = (&self.options, &self.app.admission.limits);
        let defaults = &options.defaults;
        let expansions = defaults.redisbloom_expansions() + 1;
        let (micros, millis) = (SLOWER_THAN.as_micros(), SLOWER_THAN.as_millis());
        let expansion = |of_layout: u64| defaults.expansion.unwrap_or(of_layout).to_string();
        vec![
            ("bf-error-rate", defaults.error_rate.to_string()),
            ("bf-initial-size", defaults.capacity.to_string()),
            ("bf-expansion-factor", expansion(2)),
            ("maxmemory", self.most_bytes().to_string()),
            ("maxmemory-policy", NO_EVICTION.to_owned()),
            ("slowlog-log-slower-than", micros.to_string()),
            ("slowlog-max-len", MOST_SLOW.to_string()),
            ("latency-monitor-threshold", millis.to_string()),
            ("databases", "1".to_owned()),
            ("save", String::new()),
            ("appendonly", "yes".to_owned()),
            ("maxclients", options.max_connections.to_string()),
            ("timeout", options.idle_timeout.as_secs().to_string()),
            ("proto-max-bulk-len", limits.max_body_bytes.to_string()),
            ("cf-bucket-size", defaults.bucket_size.to_string()),
            ("cf-initial-size", defaults.capacity.to_string()),
            ("cf-max-iterations", defaults.max_iterations.to_string()),
            ("cf-expansion-factor", expansion(1)),
            ("cf-max-expansions", expansions.to_string()),
        ]
    }

    /// Bytes of all filters beyond which none is created; zero: any.
    fn most_bytes(&self) -> u64 {
        self.options.defaults.max_total_bytes.unwrap_or_default()
    }

    /// What `INFO` says of memory.
    pub(crate) fn about_memory(&self) -> String {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let resident = statm
            .split(' ')
            .nth(1)
            .and_then(|it| it.parse::<u64>().ok());
        let bytes = resident.unwrap_or_default() * KERNEL_PAGE_BYTES;
        format!(
            "used_memory:{bytes}\r\nused_memory_rss:{bytes}\r\nmaxmemory:{}\r\nmaxmemory_policy:{NO_EVICTION}\r\n",
            self.most_bytes()
        )
    }

    /// What `INFO` says of what was done.
    pub(crate) fn about_stats(&self) -> String {
        let [hits, misses] = &self.found;
        let connections = self.connections.load(Ordering::Relaxed);
        let metrics = &self.app.metrics;
        format!(
            "total_connections_received:{connections}\r\ntotal_commands_processed:{}\r\ninstantaneous_ops_per_sec:{}\r\nkeyspace_hits:{}\r\nkeyspace_misses:{}\r\ntotal_net_input_bytes:{}\r\ntotal_net_output_bytes:{}\r\nexpired_keys:{}\r\n",
            self.commands(),
            self.commands_per_second(),
            hits.load(Ordering::Relaxed),
            misses.load(Ordering::Relaxed),
            metrics.redis_bytes.with_label_values(&["in"]).get(),
            metrics.redis_bytes.with_label_values(&["out"]).get(),
            metrics.filters_expired.get()
        )
    }
}

/// A connection that is open as long as this lives.
pub(crate) struct Connected {
    service: Arc<Service>,
    pub(crate) info: Arc<ClientInfo>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.service.clients.lock().remove(&self.info.id);
        self.service.app.metrics.redis_connections.dec();
    }
}

/// What is known of a connection, for lists.
pub(crate) struct ClientInfo {
    pub(crate) id: u64,
    pub(crate) peer: SocketAddr,
    local: SocketAddr,
    since: Instant,
    version: AtomicU8,
    pub(crate) texts: Mutex<Texts>,
}

/// What a client says of itself.
#[derive(Default)]
pub(crate) struct Texts {
    pub(crate) name: String,
    /// The name of the key that it has shown.
    pub(crate) user: Option<String>,
    pub(crate) library: String,
    pub(crate) library_version: String,
}

impl ClientInfo {
    /// Of commands that another pod has forwarded.
    pub(crate) fn of_a_pod(id: u64) -> Arc<ClientInfo> {
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        ClientInfo::new(id, nobody, nobody)
    }

    fn new(id: u64, peer: SocketAddr, local: SocketAddr) -> Arc<ClientInfo> {
        Arc::new(ClientInfo {
            id,
            peer,
            local,
            since: Instant::now(),
            version: AtomicU8::new(2),
            texts: Mutex::default(),
        })
    }

    /// Longest name, of a client or a library.
    pub(crate) const MAX_TEXT: usize = 128;

    pub(crate) fn name(&self) -> String {
        self.texts.lock().name.clone()
    }

    /// Whether it has shown the key of that name.
    pub(crate) fn is_of(&self, user: &str) -> bool {
        self.texts.lock().user.as_deref() == Some(user)
    }

    pub(crate) fn set_user(&self, user: &str) {
        self.texts.lock().user = Some(user.to_owned());
    }

    pub(crate) fn set_version(&self, version: u8) {
        self.version.store(version, Ordering::Relaxed);
    }

    /// The line of the list of clients.
    pub(crate) fn line(&self) -> String {
        let texts = self.texts.lock();
        format!(
            "id={} addr={} laddr={} fd=0 name={} age={} idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 user={} lib-name={} lib-ver={} resp={}\n",
            self.id,
            self.peer,
            self.local,
            texts.name,
            self.since.elapsed().as_secs(),
            texts.user.as_deref().unwrap_or("default"),
            texts.library,
            texts.library_version,
            self.version.load(Ordering::Relaxed)
        )
    }
}
