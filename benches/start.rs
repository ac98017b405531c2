//! From starting the program to the moment when it says that it is ready: with
//! many filters on disk after a clean stop, and after `kill -9` beside the
//! dirty pages and the log that cause the difference. Then many small filters:
//! how quickly they are made and listed, and what they take.
//!
//! `cargo bench --bench start`: 1,000 filters of 1,000 items and 5,000 small
//! ones, half a minute. `CUCKOOD_BENCH_FILTERS=10_000`,
//! `CUCKOOD_BENCH_ITEMS=100_000_000` (of all filters together) and
//! `CUCKOOD_BENCH_SMALL_FILTERS=100_000` for more.

mod support;

use cuckood::chain::params::FilterRequest;
use cuckood::engine::{AddOptions, Engine, FilterName};
use cuckood::metrics::Metrics;
use cuckood::store::PageStore;
use cuckood::store::WalSync;
use cuckood::store::rocks::{RocksOptions, RocksStore};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::engines::{batch, item};
use support::rounds::Spread;
use support::server::Server;
use support::{engines, machine, seed, setting};

const ROUNDS: usize = 5;

/// Clients that make filters at the same time.
const CLIENTS: u64 = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let seed = seed()?;
    let filters = setting("CUCKOOD_BENCH_FILTERS", 1_000)?;
    let items = setting("CUCKOOD_BENCH_ITEMS", 1_000_000)?;
    large(seed, filters, items)?;
    small(setting("CUCKOOD_BENCH_SMALL_FILTERS", 5_000)?)
}

fn large(seed: u64, filters: u64, items: u64) -> Result<(), Box<dyn Error>> {
    let folder = support::folder()?;
    let data = folder.path();
    let began = Instant::now();
    fill(data, seed, filters, items)?;
    println!(
        "\n{filters} filters with {items} items: {} MiB on disk, made in {:.0} s\n",
        machine::directory_bytes(data)? >> 20,
        began.elapsed().as_secs_f64()
    );
    println!(
        "| start | ready after, ms: median (min to max) | memory then, MiB | dirty pages, MiB | log, MiB |"
    );
    println!("|---|---|---|---|---|");
    let (mut times, mut memory) = (Vec::new(), 0);
    for _ in 0..ROUNDS {
        let (server, spent) = Server::start(data, &[])?;
        memory = machine::resident_bytes(&server.process());
        times.push(spent);
        server.stop()?;
    }
    print_start("after a clean stop", &times, memory, [0.0; 2]);
    // Items that a crash finds in the log, each in one of the filters.
    for adds in [100_000, 1_000_000, 4_000_000] {
        let (mut times, mut memory, mut dirt) = (Vec::new(), 0, [0.0; 2]);
        for round in 0..3 {
            let (server, _) = Server::start(data, &[])?;
            add_everywhere(&server, seed + 1 + round, filters, adds)?;
            dirt = [
                server.metric("cuckood_dirty_pages")? * 4096.0,
                server.metric("cuckood_log_bytes")?,
            ];
            server.kill()?;
            let (server, spent) = Server::start(data, &[])?;
            times.push(spent);
            memory = machine::resident_bytes(&server.process());
            server.stop()?;
        }
        print_start(&format!("killed after {adds} adds"), &times, memory, dirt);
    }
    Ok(())
}

fn print_start(what: &str, times: &[Duration], memory: u64, dirt: [f64; 2]) {
    let millis = times.iter().map(|time| time.as_secs_f64() * 1e3);
    let Spread { min, median, max } = Spread::of(millis.collect());
    let [pages, log] = dirt.map(|bytes| bytes / f64::from(1 << 20));
    println!(
        "| {what} | {median:.0} ({min:.0} to {max:.0}) | {} | {pages:.1} | {log:.1} |",
        memory >> 20
    );
}

/// Fills a data directory without a server, for speed, and stops cleanly.
fn fill(data: &Path, seed: u64, filters: u64, items: u64) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    let rocks = RocksStore::open(
        data,
        RocksOptions {
            wal_sync: WalSync::Never,
            ..RocksOptions::default()
        },
    )?;
    let engine = Engine::open(
        Arc::new(PageStore::open(Arc::new(rocks))?),
        &engines::options(1 << 30),
        Arc::new(Metrics::new()?),
    )?;
    let each = items / filters;
    let work: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let engine = engine.clone();
            runtime.spawn(async move {
                for filter in (client..filters).step_by(CLIENTS as usize) {
                    let name = FilterName::parse(&format!("filter-{filter:06}"));
                    let name = name.map_err(|error| error.to_string())?;
                    let request = FilterRequest {
                        // There is room for what is added after it.
                        capacity: Some(each * 5 / 4 + 10_000),
                        ..FilterRequest::default()
                    };
                    let options = AddOptions {
                        create: Some(request.into()),
                        ..AddOptions::default()
                    };
                    let items = batch(seed, filter * each..(filter + 1) * each);
                    let added = engine.add(&name, &items, &options, None).await;
                    added.map_err(|error| error.to_string())?;
                }
                Ok::<(), String>(())
            })
        })
        .collect();
    for client in work {
        runtime.block_on(client)??;
    }
    engine.shutdown()?;
    Ok(())
}

/// Adds so many items over HTTP, to one filter after the other.
fn add_everywhere(
    server: &Server,
    seed: u64,
    filters: u64,
    items: u64,
) -> Result<(), Box<dyn Error>> {
    let each = items.div_ceil(filters).max(100);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                scope.spawn(move || {
                    let mut connection = server.client().map_err(|error| error.to_string())?;
                    for filter in (client..items / each).step_by(4) {
                        let lines: Vec<String> = (0..each)
                            .map(|n| item(seed, filter * each + n))
                            .map(hex::encode)
                            .collect();
                        let target = format!("/filters/filter-{:06}/items", filter % filters);
                        let answer =
                            connection.ask("POST", &target, "text/plain", &lines.join("\n"));
                        match answer.map_err(|error| error.to_string())? {
                            (200, _) => {}
                            (status, text) => return Err(format!("{status}: {text}")),
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        Ok::<(), Box<dyn Error>>(())
    })
}

fn small(filters: u64) -> Result<(), Box<dyn Error>> {
    let folder = support::folder()?;
    let data = folder.path();
    let (server, _) = Server::start(data, &[])?;
    let before = machine::resident_bytes(&server.process());
    let started = Instant::now();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let server = &server;
                scope.spawn(move || {
                    let mut connection = server.client().map_err(|error| error.to_string())?;
                    for filter in (client..filters).step_by(CLIENTS as usize) {
                        let target = format!("/filters/small-{filter:06}");
                        let answer = connection.ask(
                            "PUT",
                            &target,
                            "application/json",
                            r#"{"capacity":1000}"#,
                        );
                        match answer.map_err(|error| error.to_string())? {
                            (201, _) => {}
                            (status, text) => return Err(format!("{status}: {text}")),
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        Ok::<(), Box<dyn Error>>(())
    })?;
    let made = filters as f64 / started.elapsed().as_secs_f64();
    let after = machine::resident_bytes(&server.process());
    println!(
        "\n{filters} small filters: {made:.0} made a second by {CLIENTS} clients, each forced to the disk; the server grew from {} to {} MiB, {} MiB on disk",
        before >> 20,
        after >> 20,
        machine::directory_bytes(data)? >> 20
    );
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let listed = list(&server)?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
        if listed != filters {
            return Err(format!("{listed} filters are listed").into());
        }
    }
    let Spread { min, median, max } = Spread::of(times);
    let pages = filters.div_ceil(1_000);
    println!(
        "all listed, 1,000 a page: {median:.0} ms ({min:.0} to {max:.0}), {:.1} ms a page",
        median / pages as f64
    );
    let stop = server.stop()?;
    let mut times = Vec::new();
    let mut memory = 0;
    for _ in 0..ROUNDS {
        let (server, spent) = Server::start(data, &[])?;
        times.push(spent.as_secs_f64() * 1e3);
        memory = machine::resident_bytes(&server.process());
        server.stop()?;
    }
    let Spread { min, median, max } = Spread::of(times);
    println!(
        "stopped in {:.0} ms; ready again after {median:.0} ms ({min:.0} to {max:.0}) with {} MiB",
        stop.as_secs_f64() * 1e3,
        memory >> 20
    );
    Ok(())
}

/// How many filters all pages of the list have.
fn list(server: &Server) -> Result<u64, Box<dyn Error>> {
    let mut connection = server.client()?;
    let (mut listed, mut cursor) = (0, String::new());
    loop {
        let target = match cursor.as_str() {
            "" => "/filters?limit=1000".to_owned(),
            cursor => format!("/filters?limit=1000&cursor={cursor}"),
        };
        let (status, text) = connection.ask("GET", &target, "", "")?;
        if status != 200 {
            return Err(format!("{status}: {text}").into());
        }
        let page: serde_json::Value = serde_json::from_str(&text)?;
        listed += page
            .get("filters")
            .and_then(|it| it.as_array())
            .map_or(0, Vec::len) as u64;
        match page.get("next_cursor").and_then(|it| it.as_str()) {
            Some(next) => cursor = next.to_owned(),
            None => return Ok(listed),
        }
    }
}
