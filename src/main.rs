//! The program: settings, then logging, then the store, then the engine, then
//! the server. The only place that wires things.

use clap::Parser as _;
use cuckood::access::keys::ApiKeys;
use cuckood::access::{AccessError, file};
use cuckood::backup::{BackupError, Backups, archive::Progress, restore};
use cuckood::client;
use cuckood::config::{Cli, Command, KeysCommand, LogFormat, Machine, ServeConfig, Settings};
use cuckood::engine::Engine;
use cuckood::from_redis::{self, RedisImport};
use cuckood::http::{
    Access, App, ClientCertPolicy, Endpoint, ListenerRole, Tls, TlsError, TlsFiles,
    openapi_document, serve,
};
use cuckood::load::{LoadOptions, load};
use cuckood::metrics::Metrics;
use cuckood::remote::{Credentials, Remote};
use cuckood::store::metered::MeteredStore;
use cuckood::store::rocks::{RocksOptions, RocksStore};
use cuckood::store::{PageStore, StoreError};
use cuckood::watch::FileWatcher;
use std::error::Error;
use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(config) => run(&config),
        Command::Openapi => print_openapi(),
        Command::Check { data_dir } => check(&data_dir),
        Command::Backup {
            server,
            credentials,
        } => back_up(&server, &credentials.into()),
        Command::Restore {
            backup,
            data_dir,
            unless_present,
        } => match unless_present && holds_data(&data_dir) {
            true => kept(&data_dir),
            false => restore_backup(&backup, &data_dir),
        },
        Command::Load {
            url,
            credentials,
            filter,
            import_id,
            only_if_absent,
            ndjson,
            patience_seconds,
            files,
        } => load_files(&LoadOptions {
            url,
            credentials: credentials.into(),
            filter,
            files,
            import_id,
            only_if_absent,
            ndjson,
            patience: Duration::from_secs(patience_seconds),
        }),
        Command::ImportRedis {
            redis,
            key,
            url,
            credentials,
            filter,
            replace,
        } => import_redis(&RedisImport {
            redis,
            key,
            url,
            credentials: credentials.into(),
            filter,
            replace,
        }),
        Command::Keys { keys_file, command } => keys(&keys_file, command),
        Command::Healthcheck {
            listen,
            admin_listen,
            tls_cert,
        } => check_health(admin_listen.unwrap_or(listen), tls_cert.is_some()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cuckood: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(config: &ServeConfig) -> Result<(), Box<dyn Error + Send + Sync>> {
    let settings = config.settings(&Machine::detect())?;
    start_logging(config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve_until_stopped(config, settings))
}

/// Listens first, so that probes are answered while the log is replayed, and
/// opens the data directory beside that.
async fn serve_until_stopped(
    config: &ServeConfig,
    settings: Settings,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let metrics = Arc::new(Metrics::new()?);
    let endpoints = endpoints(config, settings.tls, &metrics).await?;
    let addresses: Vec<String> = endpoints
        .iter()
        .map(|endpoint| endpoint.listener.local_addr().map(|it| it.to_string()))
        .collect::<Result<_, _>>()?;
    let address = addresses.join(", ");
    let access = Access {
        hosts: settings.hosts,
        keys: match &config.access.keys_file {
            Some(path) => Some(known_keys(path, config.access.rate_limit, &metrics)?),
            None => None,
        },
    };
    let app = App::new(Arc::clone(&metrics), settings.limits, access);

    let stop = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        tracing::info!("stopping");
    };
    let server = tokio::spawn(serve(endpoints, Arc::clone(&app), settings.server, stop));

    let (store_options, engine_options) = (
        RocksOptions {
            wal_sync: config.storage.wal_sync,
            block_cache_bytes: usize::try_from(settings.block_cache_bytes).unwrap_or(usize::MAX),
            ..RocksOptions::default()
        },
        settings.engine,
    );
    let (data_dir, backup_options) = (config.storage.data_dir.clone(), settings.backups);
    let (engine, backups) =
        tokio::task::spawn_blocking(move || -> Result<_, Box<dyn Error + Send + Sync>> {
            let store: Arc<dyn PageStore> = Arc::new(RocksStore::open(data_dir, store_options)?);
            let backups = backup_options
                .map(|options| Backups::open(Arc::clone(&store), &options, Arc::clone(&metrics)))
                .transpose()?;
            let gauges = Arc::clone(&store);
            metrics.register_gauges(Box::new(move || gauges.gauges()))?;
            let reads = metrics.page_reads.with_label_values(&["store"]);
            let store = Arc::new(MeteredStore::new(store, Some(reads)));
            Ok((Engine::open(store, &engine_options, metrics)?, backups))
        })
        .await??;
    if let Some(backups) = &backups {
        app.offer_backups(backups.clone());
    }
    engine.survey_filters(config.logs.metrics_filter_names)?;
    app.open(engine.clone());
    tracing::info!(address, data_dir = %config.storage.data_dir.display(), "serving");

    let cut_off = server.await?;
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
    Ok(())
}

/// The listeners, one or two.
async fn endpoints(
    config: &ServeConfig,
    files: Option<TlsFiles>,
    metrics: &Arc<Metrics>,
) -> Result<Vec<Endpoint>, Box<dyn Error + Send + Sync>> {
    let (tls, operations_tls) = match files {
        Some(files) => {
            let [callers, operations] = certificates(files, metrics)?;
            (Some(callers), Some(operations))
        }
        None => (None, None),
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
    Ok(endpoints)
}

async fn bind(flag: &str, address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address)
        .await
        .map_err(|error| format!("{address} can't be listened on: {error}; choose another {flag}"))
}

/// TLS for callers and for operations, where probes and scrapers need no
/// certificate of theirs; from the same files, now and whenever these change.
fn certificates(files: TlsFiles, metrics: &Arc<Metrics>) -> Result<[Arc<Tls>; 2], TlsError> {
    let watch = FileWatcher::new("certificates", files.paths(), Arc::clone(metrics));
    let callers = Arc::new(Tls::open(files.clone())?);
    let operations = Arc::new(Tls::open_for(files, ClientCertPolicy::OptionalForScrapers)?);
    let both = (Arc::clone(&callers), Arc::clone(&operations));
    tokio::spawn(watch.follow(move || {
        both.0.reload()?;
        both.1.reload()?;
        Ok::<_, TlsError>(())
    }));
    Ok([callers, operations])
}

/// The keys of a file, now and whenever it changes.
fn known_keys(
    path: &Path,
    per_second: Option<NonZeroU32>,
    metrics: &Arc<Metrics>,
) -> Result<Arc<ApiKeys>, Box<dyn Error + Send + Sync>> {
    let watch = FileWatcher::new("keys", vec![path.to_owned()], Arc::clone(metrics));
    let keys = Arc::new(ApiKeys::open(path, per_second)?);
    if keys.is_empty() {
        return Err(format!(
            "the keys file {} has no key, so nobody could do anything: make one with cuckood keys add",
            path.display()
        )
        .into());
    }
    let known = metrics.api_keys.clone();
    known.set(keys.len() as i64);
    let again = Arc::clone(&keys);
    tokio::spawn(watch.follow(move || {
        again.reload()?;
        known.set(again.len() as i64);
        if again.is_empty() {
            tracing::warn!("the keys file has no key any more: nobody may do anything");
        }
        Ok::<_, AccessError>(())
    }));
    Ok(keys)
}

fn start_logging(config: &ServeConfig) -> Result<(), Box<dyn Error + Send + Sync>> {
    let filter = EnvFilter::try_new(&config.logs.log)
        .map_err(|error| format!("--log {}: {error}", config.logs.log))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter);
    let terminal = std::io::stdout().is_terminal();
    let human = match config.logs.log_format {
        LogFormat::Human => true,
        LogFormat::Json => false,
        LogFormat::Auto => terminal,
    };
    match human {
        true => lines.with_ansi(terminal).init(),
        false => lines.json().flatten_event(true).init(),
    }
    Ok(())
}

fn print_openapi() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut out = std::io::stdout().lock();
    out.write_all(openapi_document().as_bytes())?;
    Ok(out.flush()?)
}

fn keys(path: &Path, command: KeysCommand) -> Result<(), Box<dyn Error + Send + Sync>> {
    match command {
        KeysCommand::Add {
            name,
            scope,
            prefix,
        } => {
            let key = file::add(path, &name, scope, prefix, SystemTime::now())?;
            eprintln!(
                "{} has a key named {name}. This is the key; it is shown only now:",
                path.display()
            );
            println!("{}", key.as_str());
        }
        KeysCommand::List => {
            println!("{:<24} {:<6} {:<24} CREATED", "NAME", "SCOPE", "PREFIX");
            for key in file::read(path)? {
                let prefix = key.prefix.map_or_else(|| "-".to_owned(), String::from);
                let created_at = key.created_at.unwrap_or_else(|| "-".to_owned());
                println!(
                    "{:<24} {:<6} {prefix:<24} {created_at}",
                    key.name.as_str(),
                    key.scope.name()
                );
            }
        }
        KeysCommand::Remove { name } => {
            file::remove(path, &name)?;
            println!("{} has no key named {name} any more", path.display());
        }
    }
    Ok(())
}

/// Runs what one client does.
fn on_one_thread<T>(work: impl Future<Output = T>) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(work);
    // A thread may still wait for the standard input, or for Redis.
    runtime.shutdown_background();
    Ok(done)
}

fn check_health(listen: SocketAddr, by_tls: bool) -> Result<(), Box<dyn Error + Send + Sync>> {
    let scheme = if by_tls { "https" } else { "http" };
    let url = format!("{scheme}://{}", client::own_address(listen));
    let server = Remote::on_this_machine(&url)?;
    Ok(on_one_thread(client::is_alive(&server))??)
}

fn back_up(server: &str, credentials: &Credentials) -> Result<(), Box<dyn Error + Send + Sync>> {
    let url = match server.contains("://") {
        true => server.to_owned(),
        false => format!("http://{server}"),
    };
    let server = Remote::new(&url, credentials)?;
    let backup = on_one_thread(client::back_up(&server))??;
    println!("backup {} is complete: {} bytes", backup.id, backup.bytes);
    Ok(())
}

/// Whether RocksDB has made files there.
fn holds_data(data_dir: &Path) -> bool {
    data_dir.join("CURRENT").is_file()
}

fn kept(data_dir: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    println!("kept {} as it is: it holds data", data_dir.display());
    Ok(())
}

fn restore_backup(backup: &Path, data_dir: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut found = None;
    restore::restore(backup, data_dir, &Progress::default(), |restored| {
        let store = RocksStore::open(restored, RocksOptions::default())?;
        found = Some(cuckood::engine::check::check(&store)?);
        Ok::<(), BackupError>(())
    })?;
    if let Some(found) = found {
        println!("restored {}: {found}", data_dir.display());
    }
    Ok(())
}

fn check(data_dir: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    if !data_dir.is_dir() {
        return Err(Box::new(StoreError::Unusable {
            path: PathBuf::from(data_dir),
            reason: "there is no such directory".to_owned(),
        }));
    }
    if !holds_data(data_dir) {
        return Err(Box::new(StoreError::Unusable {
            path: PathBuf::from(data_dir),
            reason: "it holds no data of cuckood".to_owned(),
        }));
    }
    let store = RocksStore::open_to_read(data_dir, RocksOptions::default())?;
    println!("{}", cuckood::engine::check::check(&store)?);
    Ok(())
}

fn import_redis(options: &RedisImport) -> Result<(), Box<dyn Error + Send + Sync>> {
    let imported = on_one_thread(from_redis::import(options))??;
    println!("{}: {imported} items", options.filter);
    Ok(())
}

fn load_files(options: &LoadOptions) -> Result<(), Box<dyn Error + Send + Sync>> {
    Ok(on_one_thread(load(options))??)
}
