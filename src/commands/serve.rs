//! `serve`: settings, then listeners, then the store, then the engine.

use super::failure::{Failure, Result};
use super::logging;
use super::pod::Pod;
use crate::access::AccessError;
use crate::access::audit::ReloadAudit;
use crate::access::keys::ApiKeys;
use crate::backup::{BackupOptions, Backups, Snapshots};
use crate::client::operations::own_address;
use crate::cluster::{JoinError, Member, Membership};
use crate::config::{Machine, ServeConfig, Settings, same_call, unknown_variables};
use crate::engine::check::{check_while, read_all};
use crate::engine::{Engine, EngineOptions, ScrubOptions};
use crate::http::{Endpoint, serve};
use crate::metrics::Metrics;
use crate::redis::{self, RedisEndpoint};
use crate::server::admission::threads::async_threads;
use crate::server::{Access, App, ClientCertPolicy, ListenerRole, Tls, TlsError, TlsFiles};
use crate::store::PageStore;
use crate::store::rocks::{RocksOptions, RocksStore};
use crate::watch::FileWatcher;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Tasks that a thread works on before it asks the system which connections have
/// something to say. Each may take half a millisecond where callers ask much; by default
/// there are 61 of them.
const POLLS_BETWEEN_EVENTS: u32 = 8;

/// Serves until a signal says to stop.
pub(super) fn run(config: &ServeConfig) -> Result {
    let settings = config.settings(&Machine::detect());
    let logs = logging::start(&config.logs, &config.log_levels());
    for (variable, similar) in unknown_variables() {
        tracing::warn!(
            variable,
            similar,
            "the environment variable is ignored: no setting has its name"
        );
    }
    let settings = settings?;
    logs?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(async_threads())
        .event_interval(POLLS_BETWEEN_EVENTS)
        .build()?;
    let starts_again = runtime.block_on(serve_until_stopped(config, settings))?;
    drop(runtime);
    match starts_again {
        true => Err(start_again()),
        false => Ok(()),
    }
}

/// Puts a new process in the place of this one, under the same number: whoever
/// started it sees one that goes on. Returns only if that fails.
fn start_again() -> Failure {
    let error = match same_call() {
        Ok(mut call) => call.exec(),
        Err(error) => error,
    };
    format!("the server could not start again: {error}; start it").into()
}

/// Listens first, so that probes are answered while the log is replayed, and
/// opens the data directory beside that. Returns whether the server is to start again:
/// what its data directory lacks is taken at a start alone, and so is an epoch of the
/// cluster.
async fn serve_until_stopped(config: &ServeConfig, settings: Settings) -> Result<bool> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let metrics = Arc::new(Metrics::new()?);
    let scheme = settings.tls.as_ref().map_or("http", |_| "https");
    let (endpoints, redis_endpoint) = endpoints(config, settings.tls, &metrics).await?;
    let listeners = endpoints.iter().map(|endpoint| &endpoint.listener);
    let listeners = listeners.chain(redis_endpoint.as_ref().map(|it| &it.listener));
    let addresses: Vec<String> = listeners
        .map(|listener| listener.local_addr().map(|it| it.to_string()))
        .collect::<Result<_, _>>()?;
    let address = addresses.join(", ");
    let listens = endpoints.first().map(|it| it.listener.local_addr());
    let listens = own_address(listens.transpose()?.unwrap_or(config.listen.listen));
    let console = format!("{scheme}://{listens}/console");
    let keys = config.access.keys_file.as_deref();
    let access = Access {
        hosts: settings.hosts,
        keys: keys
            .map(|path| known_keys(path, config.access.rate_limit, &metrics))
            .transpose()?,
    };
    let app = App::new(Arc::clone(&metrics), settings.limits, access);

    let pod = match &settings.cluster {
        None => None,
        Some(cluster) => tokio::select! {
            pod = Pod::prepare(cluster, &config.storage.data_dir, &app, &metrics) => Some(pod?),
            _ = terminated.recv() => return Ok(false),
            _ = interrupted.recv() => return Ok(false),
        },
    };
    let (stopping, told) = watch::channel(false);
    let (start_again, to_start_again) = watch::channel(false);
    let mut is_behind = to_start_again.clone();
    let stop = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
            // An error would mean that nobody will ever say so.
            Ok(_) = is_behind.wait_for(|&it| it) => {}
        }
        tracing::info!("stopping");
        stopping.send_replace(true);
    };
    let redis_server = redis_endpoint.map(|endpoint| {
        let (app, server) = (Arc::clone(&app), settings.server.clone());
        let stop = when_told(told.clone());
        tokio::spawn(redis::serve(endpoint, app, settings.redis, server, stop))
    });
    let server = tokio::spawn(serve(endpoints, Arc::clone(&app), settings.server, stop));

    let data_dir = config.storage.data_dir.clone();
    let rocks = RocksOptions {
        wal_sync: config.storage.wal_sync,
        accept_lost_changes: config.storage.accept_lost_changes,
        block_cache_bytes: usize::try_from(settings.block_cache_bytes).unwrap_or(usize::MAX),
        ..RocksOptions::default()
    };
    let open_rocks = move || RocksStore::open(&data_dir, rocks.clone());
    let rocks = match &pod {
        None => Arc::new(tokio::task::spawn_blocking(open_rocks).await??),
        Some(pod) => tokio::select! {
            rocks = pod.open_store(&app, open_rocks) => match rocks? {
                Some(rocks) => rocks,
                None => {
                    start_again.send_replace(true);
                    server.await?;
                    return Ok(true);
                }
            },
            // Another pod's state may take its time.
            () = when_told(told.clone()) => {
                server.await?;
                return Ok(false);
            }
        },
    };
    let snapshots = settings.cluster.map(|it| it.snapshot_bytes_per_second);
    let membership = pod.as_ref().map(|it| it.membership.clone());
    let offering = Arc::clone(&app);
    let opening = tokio::task::spawn_blocking(move || {
        let offered = (settings.backups, snapshots);
        open(rocks, &settings.engine, offered, &offering, membership)
    });
    let (engine, member, backups) = opening.await??;
    engine.survey_filters(config.logs.metrics_filter_names)?;
    let scrub = ScrubOptions::at(config.storage.scrub_bytes_per_second.0);
    engine.scrub(scrub)?;
    let taking_part = pod
        .zip(member)
        .map(|(pod, member)| pod.take_part(&member, &app, &told, start_again));
    app.open(engine.clone());
    tracing::info!(address, console, data_dir = %config.storage.data_dir.display(), "serving");

    if let Some(taking_part) = taking_part {
        // Others lead from here on, and this pod forwards to them what comes still.
        when_told(told.clone()).await;
        taking_part.ended().await;
    }
    let mut cut_off = server.await?;
    if let Some(redis_server) = redis_server {
        cut_off += redis_server.await?;
    }
    if cut_off > 0 {
        tracing::warn!(
            connections = cut_off,
            "requests were cut off: they did not finish within --drain-timeout-seconds"
        );
    }
    tokio::task::spawn_blocking(move || {
        if let Some(backups) = backups {
            backups.stop();
        }
        engine.shutdown()
    })
    .await??;
    tracing::info!("stopped");
    Ok(*to_start_again.borrow())
}

/// Opens the engine, which replays its log, and the backups; offers backups, and
/// snapshots at so many bytes a second.
fn open(
    rocks: Arc<RocksStore>,
    options: &EngineOptions,
    (backups, snapshots): (Option<BackupOptions>, Option<u64>),
    app: &App,
    membership: Option<Membership>,
) -> Result<(Engine, Option<Member>, Option<Arc<Backups>>)> {
    let metrics = Arc::clone(&app.metrics);
    let reads = metrics.page_reads.with_label_values(&["store"]);
    let store = Arc::new(PageStore::open(rocks)?.counting_in(reads));
    let backups = backups
        .map(|options| {
            let (store, metrics) = (Arc::clone(&store), Arc::clone(&metrics));
            Backups::open(store, &options, metrics, |store, read| {
                check_while(store, read)?;
                read_all(store, read)
            })
        })
        .transpose()?;
    if let Some(backups) = &backups {
        app.offer_backups(backups.clone());
    }
    if let Some(rate) = snapshots {
        let (store, metrics) = (Arc::clone(&store), Arc::clone(&metrics));
        app.offer_snapshots(Snapshots::new(store, rate, options.disk_reserve, metrics));
    }
    let gauges = Arc::clone(&store);
    metrics.register_gauges(Box::new(move || gauges.gauges()))?;
    let member = membership
        .map(|it| Member::join(Arc::clone(&store), options, Arc::clone(&metrics), it))
        .transpose()?;
    let engine = match &member {
        Some(member) => member.engine().clone(),
        None if store.is_of_a_cluster()? => return Err(JoinError::OfACluster.into()),
        None => Engine::open(store, options, metrics)?,
    };
    Ok((engine, member, backups))
}

/// Waits until the server stops.
async fn when_told(mut told: watch::Receiver<bool>) {
    // An error means that it has stopped.
    let _ = told.wait_for(|&stopping| stopping).await;
}

/// The listeners: one or two of HTTP, and maybe one of the Redis protocol.
async fn endpoints(
    config: &ServeConfig,
    files: Option<TlsFiles>,
    metrics: &Arc<Metrics>,
) -> Result<(Vec<Endpoint>, Option<RedisEndpoint>)> {
    let tls = files
        .map(|files| certificates(files, metrics))
        .transpose()?;
    let (tls, operations_tls) = tls.unzip();
    let redis = match config.redis.redis_listen {
        None => None,
        Some(listen) => Some(RedisEndpoint {
            listener: bind("--redis-listen", listen).await?,
            tls: tls.clone(),
        }),
    };
    let mut endpoints = vec![Endpoint {
        listener: bind("--listen", config.listen.listen).await?,
        role: match config.listen.admin_listen {
            Some(_) => ListenerRole::Filters,
            None => ListenerRole::All,
        },
        tls,
    }];
    if let Some(listen) = config.listen.admin_listen {
        endpoints.push(Endpoint {
            listener: bind("--admin-listen", listen).await?,
            role: ListenerRole::Operations,
            tls: operations_tls,
        });
    }
    Ok((endpoints, redis))
}

async fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address)
        .await
        .map_err(|error| format!("{address} can't be listened on: {error}; choose another {flag}"))
}

/// TLS for callers and for operations, from the same files, read again when they
/// change. Probes and scrapers need no certificate.
fn certificates(files: TlsFiles, metrics: &Arc<Metrics>) -> Result<(Arc<Tls>, Arc<Tls>), TlsError> {
    let watch = FileWatcher::new("certificates", files.paths(), Arc::clone(metrics));
    let callers = Arc::new(Tls::open(files.clone())?);
    let operations = Arc::new(Tls::open_for(files, ClientCertPolicy::OptionalForScrapers)?);
    let both = (Arc::clone(&callers), Arc::clone(&operations));
    tokio::spawn(watch.follow(move || {
        both.0.reload()?;
        both.1.reload()?;
        Ok::<_, TlsError>(())
    }));
    Ok((callers, operations))
}

/// The keys of a file, read again when it changes.
fn known_keys(
    path: &Path,
    per_second: Option<NonZeroU32>,
    metrics: &Arc<Metrics>,
) -> Result<Arc<ApiKeys>> {
    let watch = FileWatcher::new("keys", vec![path.to_owned()], Arc::clone(metrics));
    let keys = Arc::new(ApiKeys::open(path, per_second)?);
    if keys.is_empty() {
        return Err(format!(
            "the keys file {} has no key, so every request would be refused: make one with cuckood keys add",
            path.display()
        )
        .into());
    }
    let known = metrics.api_keys.clone();
    known.set(keys.len() as i64);
    let again = Arc::clone(&keys);
    let audit = Arc::new(ReloadAudit::default());
    tokio::spawn(watch.follow(move || {
        let reloaded = again.reload();
        audit.log(&reloaded, again.len());
        reloaded?;
        known.set(again.len() as i64);
        if again.is_empty() {
            tracing::warn!("the keys file has no key any more: every request is refused");
        }
        Ok::<_, AccessError>(())
    }));
    Ok(keys)
}
