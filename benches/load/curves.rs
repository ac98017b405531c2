//! What is drawn: a figure over a range, points of all lines taking turns.

use crate::Options;
use crate::client::Client;
use crate::rounds::{Spread, short};
use crate::rows::{mixed, present};
use crate::servers::{Server, batches};
use crate::wire::{Form, Wire, get};
use serde::Serialize;
use serde_json::json;
use std::error::Error;
use std::net::SocketAddr;

/// One picture.
#[derive(Serialize)]
pub(crate) struct Curve {
    /// What the file is called.
    pub(crate) name: &'static str,
    /// What the axes show.
    pub(crate) x: &'static str,
    /// What the axes show.
    pub(crate) y: &'static str,
    /// Whether the axis is logarithmic.
    pub(crate) x_is_log: bool,
    /// What is in it.
    pub(crate) lines: Vec<Line>,
}

/// One line of a picture.
#[derive(Serialize)]
pub(crate) struct Line {
    /// What it shows.
    pub(crate) name: String,
    /// In the order of their first coordinates.
    pub(crate) points: Vec<(f64, f64)>,
}

/// What can be drawn.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Plot {
    /// Throughput by the size of a batch.
    Batch,
    /// Latency by load.
    Latency,
    /// What an item costs by the size of the filter.
    Size,
    /// Nothing.
    None,
}

/// Measures what is wanted, and prints it.
pub(crate) fn measure(options: &Options) -> Result<Vec<Curve>, Box<dyn Error>> {
    let mut curves = Vec::new();
    for plot in &options.plots {
        let folder = tempfile::tempdir_in("target")?;
        let cuckood = Server::cuckood(folder.path(), &[])?;
        let bench = Bench {
            options,
            cuckood,
            rounds: options.rounds.min(3),
        };
        let curve = match plot {
            Plot::Batch => bench.by_batch()?,
            Plot::Latency => bench.by_load()?,
            Plot::Size => bench.by_size()?,
            Plot::None => continue,
        };
        println!("\n{}: {} by {}", curve.name, curve.y, curve.x);
        for line in &curve.lines {
            let points: Vec<String> = line
                .points
                .iter()
                .map(|&(x, y)| format!("{}: {}", short(x), short(y)))
                .collect();
            println!("  {}: {}", line.name, points.join(", "));
        }
        curves.push(curve);
    }
    Ok(curves)
}

struct Bench<'a> {
    options: &'a Options,
    cuckood: Server,
    rounds: usize,
}

impl Bench<'_> {
    fn scaled(&self, requests: usize) -> usize {
        (requests * self.options.percent / 100).max(1)
    }

    fn filled(&self, key: &str, items: u64) -> Result<(), Box<dyn Error>> {
        self.cuckood.create(key, &json!({"capacity": items}))?;
        self.cuckood.fill(key, (0..items).map(present))
    }

    /// Items a second, by how many a request brings.
    fn by_batch(&self) -> Result<Curve, Box<dyn Error>> {
        const SIZES: [usize; 5] = [1, 10, 100, 1_000, 10_000];
        const CONNECTIONS: usize = 16;
        const ITEMS: usize = 3_000_000;
        let asked = self.options.items.min(10_000_000);
        self.filled("by-batch", asked)?;
        self.cuckood
            .create("added", &json!({"capacity": 50_000_000}))?;
        let mut asked_rates = vec![Vec::new(); SIZES.len()];
        let mut added_rates = asked_rates.clone();
        let mut added = 0;
        for _ in 0..self.rounds {
            let rates = asked_rates.iter_mut().zip(&mut added_rates);
            for (&size, (asked_rates, added_rates)) in SIZES.iter().zip(rates) {
                let total = self.scaled((ITEMS / size).min(50_000)).max(2 * CONNECTIONS);
                let path = "/filters/by-batch/exists";
                let pool = (200_000 / size).max(1);
                let ask = batches(path, Form::Json, pool, size, mixed(asked));
                asked_rates.push(self.rate(CONNECTIONS, &ask, total, size)?);
                let add = batches("/filters/added/items", Form::Json, total, size, || {
                    added += 1;
                    present(added)
                });
                added_rates.push(self.rate(CONNECTIONS, &add, total, size)?);
            }
        }
        let line = |name: &str, rates: &[Vec<f64>]| Line {
            name: name.to_owned(),
            points: SIZES
                .iter()
                .zip(rates)
                .map(|(&size, rates)| (size as f64, Spread::of(rates).median))
                .collect(),
        };
        Ok(Curve {
            name: "throughput-by-batch",
            x: "items a request",
            y: "items a second",
            x_is_log: true,
            lines: vec![
                line("exists", &asked_rates),
                line("add, forced to the disk", &added_rates),
            ],
        })
    }

    fn rate(
        &self,
        connections: usize,
        requests: &[Vec<u8>],
        total: usize,
        each: usize,
    ) -> Result<f64, Box<dyn Error>> {
        let mut client = Client::new(Wire::Http, &[self.cuckood.address], connections)?;
        // The first request of a connection is not like others.
        client.closed(&[get("/livez")], connections)?;
        Ok(client.closed(requests, total)?.rate() * each as f64)
    }

    /// Latency of one question, by how many are asked a second.
    fn by_load(&self) -> Result<Curve, Box<dyn Error>> {
        const SHARES: [f64; 6] = [0.05, 0.2, 0.4, 0.6, 0.8, 0.9];
        const CONNECTIONS: usize = 100;
        const REQUESTS: usize = 50_000;
        const PERCENTILES: [(f64, &str); 3] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")];
        let asked = self.options.items.min(1_000_000);
        self.filled("by-load", asked)?;
        let bare = Server::bare()?;
        let mut item = mixed(asked);
        let ask: Vec<Vec<u8>> = (0..4_096)
            .map(|_| get(&format!("/filters/by-load/exists?item={}", item())))
            .collect();
        let constant = vec![get("/constant")];
        let sides: [(&str, SocketAddr, &[Vec<u8>]); 2] = [
            ("cuckood", self.cuckood.address, &ask),
            ("bare handler", bare.address, &constant),
        ];
        // What both can do: rates are shares of the lower one.
        let mut most = f64::INFINITY;
        for (_, address, requests) in sides {
            let mut client = Client::new(Wire::Http, &[address], CONNECTIONS)?;
            client.closed(requests, self.scaled(REQUESTS / 2))?;
            most = most.min(client.closed(requests, self.scaled(REQUESTS))?.rate());
        }
        let mut found = vec![vec![Vec::new(); SHARES.len()]; sides.len() * PERCENTILES.len()];
        for _ in 0..self.rounds {
            for (at, share) in SHARES.into_iter().enumerate() {
                for (side, (_, address, requests)) in sides.into_iter().enumerate() {
                    let mut client = Client::new(Wire::Http, &[address], CONNECTIONS)?;
                    let rate = most * share;
                    // About a second each, and enough for the last percentile.
                    let total = self.scaled(rate as usize).max(20_000);
                    // The first request of a connection is not like others.
                    client.closed(requests, CONNECTIONS)?;
                    let mut round = client.open(requests, rate, total)?;
                    for (kind, (percentile, _)) in PERCENTILES.into_iter().enumerate() {
                        let lines = found.get_mut(side * PERCENTILES.len() + kind);
                        if let Some(values) = lines.and_then(|line| line.get_mut(at)) {
                            values.push(round.percentile(percentile));
                        }
                    }
                }
            }
        }
        let names = sides
            .iter()
            .flat_map(|(side, ..)| PERCENTILES.map(|(_, name)| format!("{side}, {name}")));
        Ok(Curve {
            name: "latency-by-load",
            x: "questions a second",
            y: "microseconds until the answer",
            x_is_log: false,
            lines: names
                .zip(&found)
                .map(|(name, values)| Line {
                    name,
                    points: SHARES
                        .iter()
                        .zip(values)
                        .map(|(share, values)| (most * share, Spread::of(values).median))
                        .collect(),
                })
                .collect(),
        })
    }

    /// What one item of a batch costs, by how many the filter has.
    fn by_size(&self) -> Result<Curve, Box<dyn Error>> {
        const CONNECTIONS: usize = 4;
        const REQUESTS: usize = 4_000;
        const BATCH: usize = 1_000;
        let sizes: Vec<u64> = [100_000, 1_000_000, 10_000_000, 100_000_000]
            .into_iter()
            .filter(|&size| size <= self.options.items)
            .collect();
        let mut asks = Vec::new();
        for &size in &sizes {
            let key = format!("by-size-{size}");
            self.filled(&key, size)?;
            let path = format!("/filters/{key}/exists");
            asks.push(batches(&path, Form::Json, 1_024, BATCH, mixed(size)));
        }
        let mut costs = vec![Vec::new(); sizes.len()];
        for _ in 0..self.rounds {
            for (requests, costs) in asks.iter().zip(&mut costs) {
                let total = self.scaled(REQUESTS);
                costs.push(1e9 / self.rate(CONNECTIONS, requests, total, BATCH)?);
            }
        }
        Ok(Curve {
            name: "cost-by-size-served",
            x: "items in the filter",
            y: "nanoseconds an item asked about, 1,000 a request",
            x_is_log: true,
            lines: vec![Line {
                name: "exists, over HTTP".to_owned(),
                points: sizes
                    .iter()
                    .zip(&costs)
                    .map(|(&size, costs)| (size as f64, Spread::of(costs).median))
                    .collect(),
            }],
        })
    }
}
