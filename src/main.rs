//! The program: settings, then logging, then the store, then the engine, then
//! the server. The only place that wires things.

use clap::Parser as _;
use cuckood::backup::{BackupError, Backups, archive::Progress, restore};
use cuckood::config::{Cli, Command, Config, LogFormat, Machine, Settings};
use cuckood::engine::Engine;
use cuckood::http::{App, openapi_document, serve};
use cuckood::metrics::Metrics;
use cuckood::store::metered::MeteredStore;
use cuckood::store::rocks::{RocksOptions, RocksStore};
use cuckood::store::{PageStore, StoreError};
use std::error::Error;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// How long `healthcheck` waits for an answer.
const HEALTHCHECK_TIMEOUT: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(config) => run(&config),
        Command::Openapi => print_openapi(),
        Command::Check { data_dir } => check(&data_dir),
        Command::Restore { backup, data_dir } => restore_backup(&backup, &data_dir),
        Command::Healthcheck { listen } => healthcheck(listen),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cuckood: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(config: &Config) -> Result<(), Box<dyn Error + Send + Sync>> {
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
    config: &Config,
    settings: Settings,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let listener = TcpListener::bind(config.listen).await.map_err(|error| {
        format!(
            "{} can't be listened on: {error}; choose another --listen",
            config.listen
        )
    })?;
    let address = listener.local_addr()?;
    let metrics = Arc::new(Metrics::new()?);
    let app = App::new(Arc::clone(&metrics), settings.limits, settings.hosts);

    let stop = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        tracing::info!("stopping");
    };
    let server = tokio::spawn(serve(listener, Arc::clone(&app), settings.server, stop));

    let (store_options, engine_options) = (
        RocksOptions {
            wal_sync: config.wal_sync,
            block_cache_bytes: usize::try_from(settings.block_cache_bytes).unwrap_or(usize::MAX),
            ..RocksOptions::default()
        },
        settings.engine,
    );
    let (data_dir, backup_options) = (config.data_dir.clone(), settings.backups);
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
    app.open(engine.clone());
    tracing::info!(%address, data_dir = %config.data_dir.display(), "serving");

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

fn start_logging(config: &Config) -> Result<(), Box<dyn Error + Send + Sync>> {
    let filter = EnvFilter::try_new(&config.log)
        .map_err(|error| format!("--log {}: {error}", config.log))?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter);
    let terminal = std::io::stdout().is_terminal();
    let human = match config.log_format {
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
    if !data_dir.join("CURRENT").is_file() {
        return Err(Box::new(StoreError::Unusable {
            path: PathBuf::from(data_dir),
            reason: "it holds no data of cuckood".to_owned(),
        }));
    }
    let store = RocksStore::open(data_dir, RocksOptions::default())?;
    println!("{}", cuckood::engine::check::check(&store)?);
    Ok(())
}

/// Asks `/livez`, without the weight of an HTTP client.
fn healthcheck(listen: SocketAddr) -> Result<(), Box<dyn Error + Send + Sync>> {
    // A server that listens on all addresses is asked on this machine's own.
    let address = match (listen.ip().is_unspecified(), listen) {
        (true, SocketAddr::V4(_)) => SocketAddr::from(([127, 0, 0, 1], listen.port())),
        (true, SocketAddr::V6(_)) => {
            SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, listen.port()))
        }
        (false, _) => listen,
    };
    let mut stream = TcpStream::connect_timeout(&address, HEALTHCHECK_TIMEOUT)?;
    stream.set_read_timeout(Some(HEALTHCHECK_TIMEOUT))?;
    stream.write_all(
        format!("GET /livez HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer)?;
    match answer.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => Err(format!("{address} did not answer 200 to /livez").into()),
    }
}
