//! The rows of the table.

mod cluster;
mod growth;

use self::cluster::Pods;
use crate::Options;
use crate::client::{Client, ClientError};
use crate::rounds::{Measure, Measured, Row, RowResult, Wanted};
use crate::servers::{Server, batches};
use crate::wire::{Form, Wire, command, get};
use rocksdb::{DB, WriteOptions};
use serde_json::json;
use std::cell::{Cell, OnceCell};
use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;

/// Items of a batch.
pub(crate) const BATCH: usize = 1_000;

/// Requests that are made beforehand and sent in turn.
const POOL: usize = 4_096;

/// The filter that is asked, and those that are added to.
const ASKED: &str = "load-asked";
const ADDED: &str = "load-added";
const REDIS_ASKED: &str = "cuckood:load:asked";
const REDIS_ADDED: &str = "cuckood:load:added";

/// An item that was added, twelve bytes long up to ten million.
pub(crate) fn present(number: u64) -> String {
    format!("user-{number:07}")
}

/// One that was not.
pub(crate) fn absent(number: u64) -> String {
    format!("none-{number:07}")
}

/// Every second one is there; they are spread over the whole filter.
pub(crate) fn mixed(items: u64) -> impl FnMut() -> String {
    let mut number = 0u64;
    move || {
        number += 1;
        let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % items;
        match number.is_multiple_of(2) {
            true => present(spread),
            false => absent(spread),
        }
    }
}

/// Measures and prints the rows that are wanted.
pub(crate) fn measure(options: &Options) -> Result<Vec<RowResult>, Box<dyn Error>> {
    if options.rows == [0] {
        return Ok(Vec::new());
    }
    let folder = tempfile::tempdir_in("target")?;
    let cuckood = Server::cuckood(&folder.path().join("always"), &["--wal-sync", "always"])?;
    let unforced = Server::cuckood(&folder.path().join("never"), &["--wal-sync", "never"])?;
    let bare = Server::bare()?;
    if options.rows.iter().any(|row| [1, 2, 5].contains(row)) {
        let fields = json!({"capacity": options.items});
        cuckood.create(ASKED, &fields)?;
        cuckood.fill(ASKED, (0..options.items).map(present))?;
        if cuckood.found(ASKED, (0..BATCH as u64).map(present))? != BATCH {
            return Err("an added item is missing".into());
        }
        if let Some(redis) = options.redis {
            fill_redis(redis, options.items)?;
        }
    }
    // Rows of clusters alone need brokers.
    let (many, one) = (OnceCell::new(), OnceCell::new());
    let bench = Bench {
        options,
        folder: folder.path(),
        cuckood: &cuckood,
        unforced: &unforced,
        bare: &bare,
    };
    println!("| row | what | | median | min | max | server's processor time for one | bar |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut results = Vec::new();
    for number in &options.rows {
        let row = match number {
            1 => bench.one_exists()?,
            2 => bench.many_exist()?,
            3 => bench.add_many()?,
            4 => bench.add_one()?,
            5 => bench.pipelines()?,
            6 => bench.grown_exists()?,
            7 => bench.growing_adds()?,
            8 | 9 => bench.cluster_adds(pods_of(&many, folder.path(), 16)?, *number)?,
            10 | 11 => bench.cluster_questions(pods_of(&many, folder.path(), 16)?, *number)?,
            12 => bench.following(pods_of(&one, folder.path(), 1)?)?,
            other => return Err(format!("there is no row {other} here").into()),
        };
        let result = row.run(options.rounds)?;
        print!("{result}");
        results.push(result);
    }
    Ok(results)
}

/// Those pods; they start when they are first wanted.
fn pods_of<'p>(
    pods: &'p OnceCell<Pods>,
    folder: &Path,
    lanes: u32,
) -> Result<&'p Pods, Box<dyn Error>> {
    if pods.get().is_none() {
        let _ = pods.set(Pods::start(folder, lanes)?);
    }
    Ok(pods.get().ok_or("there are no pods")?)
}

struct Bench<'a> {
    options: &'a Options,
    folder: &'a Path,
    cuckood: &'a Server,
    unforced: &'a Server,
    bare: &'a Server,
}

impl<'a> Bench<'a> {
    fn scaled(&self, requests: usize) -> usize {
        (requests * self.options.percent / 100).max(1)
    }

    /// The same requests again and again; `each` is what one counts for.
    fn repeated(
        &self,
        target: Target<'a>,
        connections: usize,
        requests: Vec<Vec<u8>>,
        total: usize,
        each: usize,
    ) -> Result<Measure<'a>, Box<dyn Error>> {
        // Nobody keeps connections open that say nothing.
        let mut client = None;
        let total = self.scaled(total);
        Ok(Box::new(move || {
            let client = connected(&mut client, &target, connections)?;
            target.measured(
                total * each,
                (each, || Ok(client.closed(&requests, total)?.rate())),
            )
        }))
    }

    /// The bare handler's constant answer.
    fn bare_handler(
        &self,
        connections: usize,
        requests: usize,
    ) -> Result<(String, Measure<'a>), Box<dyn Error>> {
        let constant = (0..POOL).map(|_| get("/constant")).collect();
        let bare = Target::Ours(self.bare);
        let measure = self.repeated(bare, connections, constant, requests, 1)?;
        Ok(("bare handler".to_owned(), measure))
    }

    /// Other requests in every round.
    fn fresh(
        &self,
        target: Target<'a>,
        connections: usize,
        mut make: impl FnMut() -> Vec<u8> + 'a,
        total: usize,
        each: usize,
    ) -> Result<Measure<'a>, Box<dyn Error>> {
        // Nobody keeps connections open that say nothing.
        let mut client = None;
        let total = self.scaled(total);
        Ok(Box::new(move || {
            let requests: Vec<Vec<u8>> = (0..total).map(|_| make()).collect();
            let client = connected(&mut client, &target, connections)?;
            target.measured(
                total * each,
                (each, || Ok(client.closed(&requests, total)?.rate())),
            )
        }))
    }

    /// Questions about one item each, over HTTP.
    fn single_questions(&self) -> Vec<Vec<u8>> {
        let mut item = mixed(self.options.items);
        (0..POOL)
            .map(|_| get(&format!("/filters/{ASKED}/exists?item={}", item())))
            .collect()
    }

    fn one_exists(&self) -> Result<Row<'a>, Box<dyn Error>> {
        const CONNECTIONS: usize = 50;
        const REQUESTS: usize = 100_000;
        let ask = self.single_questions();
        let mut variants = vec![
            (
                "cuckood".to_owned(),
                self.repeated(Target::Ours(self.cuckood), CONNECTIONS, ask, REQUESTS, 1)?,
            ),
            self.bare_handler(CONNECTIONS, REQUESTS)?,
            (
                "cuckood, CF.EXISTS".to_owned(),
                self.questions(1, CONNECTIONS, REQUESTS)?,
            ),
        ];
        if let Some(redis) = self.options.redis {
            let mut item = mixed(self.options.items);
            let ask = (0..POOL)
                .map(|_| command("CF.EXISTS", REDIS_ASKED, &[], [item()].into_iter()))
                .collect();
            let redis = Target::Redis(redis, 1);
            variants.push((
                "Redis, CF.EXISTS".to_owned(),
                self.repeated(redis, CONNECTIONS, ask, REQUESTS, 1)?,
            ));
        }
        Ok(Row {
            number: 1,
            what: "GET exists, 50 connections",
            unit: "requests",
            ratios: ratios(&[(0, 1, Some(0.9)), (2, 0, Some(1.25))], variants.len(), 2),
            variants,
        })
    }

    fn many_exist(&self) -> Result<Row<'a>, Box<dyn Error>> {
        const CONNECTIONS: usize = 4;
        const REQUESTS: usize = 8_000;
        let mut variants = Vec::new();
        let path = format!("/filters/{ASKED}/exists");
        for (form, name, bare) in [
            (Form::Json, "JSON", "/json"),
            (Form::Lines, "text", "/lines"),
        ] {
            for (server, of, path) in [
                (self.cuckood, "cuckood", path.as_str()),
                (self.bare, "bare handler", bare),
            ] {
                let requests = batches(path, form, POOL / 4, BATCH, mixed(self.options.items));
                variants.push((
                    format!("{of}, {name}"),
                    self.repeated(Target::Ours(server), CONNECTIONS, requests, REQUESTS, BATCH)?,
                ));
            }
        }
        if let Some(redis) = self.options.redis {
            let mut item = mixed(self.options.items);
            let requests = (0..POOL / 4)
                .map(|_| command("CF.MEXISTS", REDIS_ASKED, &[], (0..BATCH).map(|_| item())))
                .collect();
            let redis = Target::Redis(redis, 1);
            variants.push((
                "Redis, CF.MEXISTS".to_owned(),
                self.repeated(redis, CONNECTIONS, requests, REQUESTS, BATCH)?,
            ));
        }
        Ok(Row {
            number: 2,
            what: "POST exists, 1,000 items, 4 connections",
            unit: "items",
            ratios: ratios(&[(0, 1, Some(0.6)), (2, 3, Some(0.6))], variants.len(), 0),
            variants,
        })
    }

    fn add_many(&self) -> Result<Row<'a>, Box<dyn Error>> {
        const CONNECTIONS: usize = 4;
        const REQUESTS: usize = 1_000;
        let mut variants = Vec::new();
        for (server, name) in [
            (self.cuckood, "cuckood, --wal-sync always"),
            (self.unforced, "cuckood, --wal-sync never"),
        ] {
            server.create(ADDED, &json!({"capacity": 20_000_000}))?;
            let mut number = 0;
            let path = format!("/filters/{ADDED}/items");
            let make = move || {
                let first = number;
                number += BATCH as u64;
                crate::wire::post(&path, Form::Json, (first..number).map(present))
            };
            variants.push((
                name.to_owned(),
                self.fresh(Target::Ours(server), CONNECTIONS, make, REQUESTS, BATCH)?,
            ));
        }
        variants.push((
            "the same bytes put into RocksDB and forced, one thread".to_owned(),
            self.puts(self.redo_bytes()?, self.scaled(REQUESTS / 2), BATCH)?,
        ));
        if let Some(redis) = self.options.redis {
            let number = Cell::new(0);
            let make = move || {
                let first = number.replace(number.get() + BATCH as u64);
                let items = (0..BATCH as u64).map(|n| present(first + n));
                let items: Vec<String> = items.collect();
                command(
                    "CF.INSERT",
                    REDIS_ADDED,
                    &["NOCREATE", "ITEMS"],
                    items.into_iter(),
                )
            };
            reserve_redis(redis, REDIS_ADDED, 20_000_000)?;
            let redis = Target::Redis(redis, 1);
            variants.push((
                "Redis, CF.INSERT".to_owned(),
                self.fresh(redis, CONNECTIONS, make, REQUESTS, BATCH)?,
            ));
        }
        Ok(Row {
            number: 3,
            what: "POST items, 1,000 a request, 4 connections",
            unit: "items",
            ratios: ratios(&[(0, 2, Some(0.4)), (0, 1, None)], variants.len(), 0),
            variants,
        })
    }

    fn add_one(&self) -> Result<Row<'a>, Box<dyn Error>> {
        const CONNECTIONS: usize = 64;
        const REQUESTS: usize = 50_000;
        let key = format!("{ADDED}-one");
        self.cuckood
            .create(&key, &json!({"capacity": 20_000_000}))?;
        let mut number = 0;
        let path = format!("/filters/{key}/items");
        let make = move || {
            number += 1;
            crate::wire::post(&path, Form::Json, std::iter::once(present(number)))
        };
        let mut variants = vec![
            (
                "cuckood".to_owned(),
                self.fresh(Target::Ours(self.cuckood), CONNECTIONS, make, REQUESTS, 1)?,
            ),
            (
                "a put into RocksDB, forced, one thread".to_owned(),
                self.puts(16, self.scaled(REQUESTS / 50), 1)?,
            ),
            self.bare_handler(CONNECTIONS, REQUESTS)?,
            (
                "cuckood, CF.ADD".to_owned(),
                self.single_adds(&key, CONNECTIONS, REQUESTS)?,
            ),
        ];
        if let Some(redis) = self.options.redis {
            let key = format!("{REDIS_ADDED}:one");
            reserve_redis(redis, &key, 20_000_000)?;
            let mut number = 0;
            let make = move || {
                number += 1;
                command("CF.ADD", &key, &[], std::iter::once(present(number)))
            };
            let redis = Target::Redis(redis, 1);
            variants.push((
                "Redis, CF.ADD".to_owned(),
                self.fresh(redis, CONNECTIONS, make, REQUESTS, 1)?,
            ));
        }
        Ok(Row {
            number: 4,
            what: "POST items, one a request, 64 connections",
            unit: "requests",
            // One of the two is enough: the lower one.
            ratios: ratios(
                &[(0, 1, Some(10.0)), (0, 2, Some(0.5)), (3, 0, Some(1.1))],
                variants.len(),
                3,
            ),
            variants,
        })
    }

    /// Questions over the Redis protocol, so many in a pipeline.
    fn questions(
        &self,
        pipeline: usize,
        connections: usize,
        total: usize,
    ) -> Result<Measure<'a>, Box<dyn Error>> {
        let target = Target::OurRedis(self.cuckood, pipeline);
        let asked = pipelines(ASKED, pipeline, self.options.items);
        self.repeated(target, connections, asked, total / pipeline, pipeline)
    }

    /// Adds over the Redis protocol, one after the other.
    fn single_adds(
        &self,
        key: &str,
        connections: usize,
        total: usize,
    ) -> Result<Measure<'a>, Box<dyn Error>> {
        let key = format!("{key}-redis");
        self.cuckood
            .create(&key, &json!({"capacity": 20_000_000}))?;
        let mut number = 0;
        let make = move || {
            number += 1;
            command("CF.ADD", &key, &[], std::iter::once(present(number)))
        };
        let target = Target::OurRedis(self.cuckood, 1);
        self.fresh(target, connections, make, total, 1)
    }

    fn pipelines(&self) -> Result<Row<'a>, Box<dyn Error>> {
        const CONNECTIONS: usize = 50;
        const REQUESTS: usize = 100_000;
        let ask = self.single_questions();
        let mut variants = vec![
            (
                "cuckood, GET exists".to_owned(),
                self.repeated(Target::Ours(self.cuckood), CONNECTIONS, ask, REQUESTS, 1)?,
            ),
            (
                "cuckood, 16 CF.EXISTS at once".to_owned(),
                self.questions(16, CONNECTIONS, 8 * REQUESTS)?,
            ),
            (
                "cuckood, 128 CF.EXISTS at once".to_owned(),
                self.questions(128, CONNECTIONS, 24 * REQUESTS)?,
            ),
        ];
        if let Some(redis) = self.options.redis {
            let asked = pipelines(REDIS_ASKED, 128, self.options.items);
            let target = Target::Redis(redis, 128);
            variants.push((
                "Redis, 128 CF.EXISTS at once".to_owned(),
                self.repeated(target, CONNECTIONS, asked, 24 * REQUESTS / 128, 128)?,
            ));
        }
        Ok(Row {
            number: 5,
            what: "CF.EXISTS in pipelines, 50 connections",
            unit: "questions",
            ratios: ratios(&[(1, 0, Some(5.0)), (2, 0, Some(15.0))], variants.len(), 2),
            variants,
        })
    }

    /// Bytes that the log takes for a batch.
    fn redo_bytes(&self) -> Result<usize, Box<dyn Error>> {
        const NAME: &str = "cuckood_log_written_bytes_total";
        const BATCHES: usize = 100;
        let key = "load-measured";
        self.cuckood.create(key, &json!({"capacity": 20_000_000}))?;
        let before = self.cuckood.metric(NAME)?;
        let mut number = 0;
        let path = format!("/filters/{key}/items");
        let requests = batches(&path, Form::Json, BATCHES, BATCH, || {
            number += 1;
            present(number)
        });
        Client::new(Wire::Http, &[self.cuckood.address], 1)?.closed(&requests, BATCHES)?;
        Ok(((self.cuckood.metric(NAME)? - before) / BATCHES as f64) as usize)
    }

    /// Puts of so many bytes, each forced to the disk before the next.
    fn puts(&self, bytes: usize, count: usize, each: usize) -> Result<Measure<'a>, Box<dyn Error>> {
        let database = DB::open_default(self.folder.join(format!("puts-{bytes}")))?;
        let mut forced = WriteOptions::default();
        forced.set_sync(true);
        let value = vec![0xa5; bytes];
        let mut number = 0u64;
        Ok(Box::new(move || {
            let started = Instant::now();
            for _ in 0..count {
                number += 1;
                database.put_opt(number.to_be_bytes(), &value, &forced)?;
            }
            Ok(Measured {
                rate: (count * each) as f64 / started.elapsed().as_secs_f64(),
                processor: None,
            })
        }))
    }
}

/// What is driven.
#[derive(Clone)]
enum Target<'a> {
    /// A process of ours.
    Ours(&'a Server),
    /// Several, each as much as the others.
    All(Vec<&'a Server>),
    /// One, while what it costs another one is measured.
    One {
        asked: &'a Server,
        measured: &'a Server,
    },
    /// The same over the Redis protocol, so many commands at once.
    OurRedis(&'a Server, usize),
    /// A Redis server somewhere, so many commands at once.
    Redis(SocketAddr, usize),
}

fn connected<'c>(
    client: &'c mut Option<Client>,
    target: &Target<'_>,
    connections: usize,
) -> Result<&'c mut Client, ClientError> {
    if client.is_none() {
        let addresses = target.addresses();
        *client = Some(Client::new(target.wire(), &addresses, connections)?);
    }
    client.as_mut().ok_or(ClientError::Closed)
}

impl Target<'_> {
    fn wire(&self) -> Wire {
        match self {
            Target::Ours(_) | Target::All(_) | Target::One { .. } => Wire::Http,
            Target::OurRedis(_, commands) | Target::Redis(_, commands) => Wire::Resp(*commands),
        }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Target::Ours(server) => vec![server.address],
            Target::All(servers) => servers.iter().map(|it| it.address).collect(),
            Target::One { asked, .. } => vec![asked.address],
            Target::OurRedis(server, _) => vec![server.redis],
            Target::Redis(address, _) => vec![*address],
        }
    }

    /// Whose processor time counts.
    fn measured_servers(&self) -> &[&Server] {
        match self {
            Target::Ours(server) | Target::OurRedis(server, _) => std::slice::from_ref(server),
            Target::One { measured, .. } => std::slice::from_ref(measured),
            Target::All(servers) => servers,
            Target::Redis(..) => &[],
        }
    }

    /// Runs a round of so many in all; `run` returns requests a second.
    fn measured(
        &self,
        total: usize,
        (each, run): (usize, impl FnOnce() -> Result<f64, ClientError>),
    ) -> Result<Measured, Box<dyn Error>> {
        let processor = || {
            let servers = self.measured_servers().iter();
            servers
                .map(|it| it.processor_seconds())
                .sum::<Result<f64, _>>()
        };
        let before = processor()?;
        let rate = run()? * each as f64;
        let taken = processor()? - before;
        let is_known = !self.measured_servers().is_empty();
        Ok(Measured {
            rate,
            processor: is_known.then_some(taken * 1e9 / total as f64),
        })
    }
}

/// The ratios that the row wants; and to Redis, if it is the last variant.
fn ratios(wanted: &[(usize, usize, Option<f64>)], variants: usize, of: usize) -> Vec<Wanted> {
    let named = wanted.iter().flat_map(|&(of, to, _)| [of, to]).max();
    let redis = (named < Some(variants - 1)).then_some((of, variants - 1, None));
    let all = wanted.iter().copied().chain(redis);
    all.map(|(of, to, bar)| Wanted { of, to, bar }).collect()
}

/// Pipelines of so many questions each.
fn pipelines(key: &str, pipeline: usize, items: u64) -> Vec<Vec<u8>> {
    let mut item = mixed(items);
    let mut one = || command("CF.EXISTS", key, &[], std::iter::once(item()));
    (0..POOL / 4)
        .map(|_| (0..pipeline).flat_map(|_| one()).collect())
        .collect()
}

fn reserve_redis(redis: SocketAddr, key: &str, capacity: u64) -> Result<(), Box<dyn Error>> {
    let requests = [
        command("DEL", key, &[], std::iter::empty::<String>()),
        command(
            "CF.RESERVE",
            key,
            &[],
            std::iter::once(capacity.to_string()),
        ),
    ];
    Client::new(Wire::Resp(1), &[redis], 1)?.closed(&requests, requests.len())?;
    Ok(())
}

fn fill_redis(redis: SocketAddr, items: u64) -> Result<(), Box<dyn Error>> {
    reserve_redis(redis, REDIS_ASKED, items)?;
    let mut client = Client::new(Wire::Resp(1), &[redis], 1)?;
    for first in (0..items).step_by(100_000) {
        let requests: Vec<Vec<u8>> = (first..items.min(first + 100_000))
            .step_by(BATCH)
            .map(|from| {
                let numbers = from..items.min(from + BATCH as u64);
                let items: Vec<String> = numbers.map(present).collect();
                command(
                    "CF.INSERT",
                    REDIS_ASKED,
                    &["NOCREATE", "ITEMS"],
                    items.into_iter(),
                )
            })
            .collect();
        client.closed(&requests, requests.len())?;
    }
    Ok(())
}
