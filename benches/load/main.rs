//! The whole server under load, over real sockets, against a bare HTTP handler
//! and against RocksDB alone, in the same run.
//!
//! `cargo bench --bench load` starts the servers, lets what is compared take
//! turns, prints one table, and writes `report.json` and the plots into a
//! folder. `--redis HOST:PORT` has a Redis server with the commands of
//! RedisBloom take part; its keys `cuckood:load:*` are written anew.
//!
//! A neighbour's noise meets all variants of a round alike: the median of the
//! rounds' ratios is what to quote, not a rate.

mod bare;
#[path = "../../tests/cluster/broker.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests need more of it, and may fail there"
)]
mod broker;
mod client;
mod curves;
#[path = "../support/legend.rs"]
mod legend;
#[path = "../../tests/cluster/nats_server.rs"]
#[expect(dead_code, reason = "tests are skipped without brokers")]
mod nats_server;
#[path = "../../tests/cluster/operator.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    reason = "tests need more of it, and may fail there"
)]
mod operator;
mod plots;
#[path = "../../tests/blackbox/ports.rs"]
#[expect(
    clippy::unwrap_used,
    reason = "what helps a test may fail as the test does"
)]
mod ports;
mod rounds;
mod rows;
mod servers;
mod wire;

use clap::Parser as _;
use serde::Serialize;
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What to measure, and how long.
#[derive(clap::Parser)]
struct Options {
    /// What `cargo bench` says to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
    /// Rounds that count, beside one that warms up.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Items in the filter that is asked.
    #[arg(long, default_value_t = 10_000_000)]
    items: u64,
    /// Requests of a round, in hundredths of what is usual.
    #[arg(long, default_value_t = 100)]
    percent: usize,
    /// Rows of the table to measure; 0 for none. Those from 8 on are about three pods of
    /// a cluster, and need `nats-server`.
    #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5,6,7")]
    rows: Vec<u32>,
    /// Plots to measure and draw.
    #[arg(
        long,
        value_delimiter = ',',
        value_enum,
        default_value = "batch,latency,size"
    )]
    plots: Vec<curves::Plot>,
    /// A Redis server with the commands of RedisBloom, to take part.
    #[arg(long)]
    redis: Option<SocketAddr>,
    /// Where the report and the plots go.
    #[arg(long, default_value = "target/load")]
    out: PathBuf,
    /// Serve as the bare handler.
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(clap::Subcommand)]
enum Role {
    /// The handler that cuckood is compared with.
    Bare,
}

#[derive(Serialize)]
struct Report {
    rows: Vec<rounds::RowResult>,
    curves: Vec<curves::Curve>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if options.role.is_some() {
        return bare::serve();
    }
    std::fs::create_dir_all(&options.out)?;
    let rows = rows::measure(&options)?;
    let curves = curves::measure(&options)?;
    for name in plots::draw(&curves, &options.out)? {
        println!("drawn: {}", name.display());
    }
    let report = options.out.join("report.json");
    let contents = serde_json::to_vec_pretty(&Report { rows, curves })?;
    std::fs::write(&report, contents)?;
    println!("written: {}", report.display());
    Ok(())
}
