//! Everything at once, for as long as wanted: tenants with API keys, well-behaved
//! and hostile; filters that are larger than the cache, compacted, replaced and
//! ended; a server that is killed and started again.
//!
//! For a third of the time the server is killed every few seconds, and compared
//! with what it acknowledged. Then it lives on: its memory and its descriptors of
//! the last third of the time must be those of the third before.
//!
//! `CUCKOOD_SOAK_MINUTES` says for how long (default 1), `CUCKOOD_SOAK_SEED` repeats
//! the choices of an earlier run, `CUCKOOD_TEST_QUIET` says that the machine does
//! nothing else, so that times can be promised.

mod hostile;
mod hostile_redis;
mod polite;
mod replacing;
mod shrinking;
mod watched;

use crate::kill::{TIGHT, check};
use crate::load::{Life, Load};
use crate::ports::free_port;
use crate::random::{Random, from_environment, seed};
use crate::server::{Server, add_key};
use crate::writers::Extent;
use hostile::Hostile;
use hostile_redis::HostileRedis;
use polite::Polite;
use replacing::Replacing;
use serde_json::{Value, json};
use shrinking::Shrinking;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use watched::Watched;

/// What each client of the oracle waits for between two requests: it is to find
/// mistakes, not to take the machine.
const PAUSE: Duration = Duration::from_millis(50);

/// Clients of a well-behaved tenant.
const POLITE: u64 = 4;

/// Everybody who uses the server.
struct Tenants {
    oracle: Load,
    polite: Vec<Polite>,
    replacing: Replacing,
    shrinking: Shrinking,
    hostile: Hostile,
    hostile_redis: HostileRedis,
}

impl Tenants {
    /// Has everybody work until the server's life ends, which `meanwhile` decides.
    fn during(&mut self, server: &mut Server, meanwhile: impl FnOnce(&Server)) {
        let (client, base, port) = (server.client().clone(), server.url(""), server.port());
        let (polite, replacing) = (&mut self.polite, &mut self.replacing);
        let shrinking = &mut self.shrinking;
        let (hostile, hostile_redis) = (&self.hostile, &self.hostile_redis);
        self.oracle.during(&client, &base, |life: &Life| {
            thread::scope(|scope| {
                for polite in polite {
                    let base = base.as_str();
                    scope.spawn(move || polite.work(base, life));
                }
                scope.spawn(|| replacing.work(&base, life));
                scope.spawn(|| shrinking.work(&base, life));
                hostile.spawn(scope, &base, port, life);
                scope.spawn(|| hostile_redis.work(life));
                meanwhile(server);
                life.end();
                server.end();
            });
        });
    }

    fn verify(&mut self, server: &Server, extent: Extent) {
        self.oracle.verify(server, extent);
        for polite in &mut self.polite {
            polite.verify(server);
        }
        self.replacing.verify(server);
        self.shrinking.verify(server);
    }
}

/// A server on its ports, asked with the oracle's key.
fn start(ports: [u16; 2], data_dir: &Path, keys: &Path, key: &str) -> Server {
    let [port, redis_port] = ports;
    let keys = format!("--keys-file={}", keys.display());
    let redis = format!("--redis-listen=127.0.0.1:{redis_port}");
    // A refusal a line would fill the disk.
    let flags = [
        TIGHT,
        &[&keys, &redis, "--log=error", "--block-cache-bytes=32MiB"],
    ]
    .concat();
    Server::start_on(port, data_dir, &flags).with_key(key)
}

#[test]
#[ignore = "takes minutes, and the machine for itself: make soak"]
fn nothing_is_lost_nothing_grows_and_hostile_tenants_are_endured() {
    let minutes = from_environment("CUCKOOD_SOAK_MINUTES").unwrap_or(1);
    let seed = seed("CUCKOOD_SOAK_SEED");
    println!("CUCKOOD_SOAK_SEED={seed} CUCKOOD_SOAK_MINUTES={minutes}");
    let (mut random, started) = (Random(seed), Instant::now());
    let third = Duration::from_secs(20 * minutes);

    let folder = tempfile::tempdir().unwrap();
    let (data_dir, keys) = (folder.path().join("data"), folder.path().join("keys.json"));
    let oracle = add_key(&keys, "oracle", &["--scope=admin"]);
    let polite = add_key(&keys, "polite", &["--scope=write", "--prefix=polite:"]);
    let replacing = add_key(
        &keys,
        "replacing",
        &["--scope=admin", "--prefix=replacing:"],
    );
    let shrinking = add_key(
        &keys,
        "shrinking",
        &["--scope=admin", "--prefix=shrinking:"],
    );
    let hostile = add_key(&keys, "hostile", &["--scope=admin", "--prefix=hostile:"]);
    let ports = [free_port(), free_port()];
    let mut server = start(ports, &data_dir, &keys, &oracle);
    let mut tenants = Tenants {
        oracle: Load::new(&server, &mut random),
        polite: (0..POLITE)
            .map(|number| Polite::new(&server, number, &polite, random.next()))
            .collect(),
        replacing: Replacing::new(&server, &replacing, random.next()),
        shrinking: Shrinking::new(&server, &shrinking, random.next()),
        hostile: Hostile::new(&server, &hostile),
        hostile_redis: HostileRedis::new(&hostile, ports[1]),
    };
    tenants.oracle.pause = PAUSE;

    let (mut kills, mut slowest_start) = (0, Duration::ZERO);
    while started.elapsed() < third {
        let pause = Duration::from_millis(3000 + random.below(5000));
        tenants.during(&mut server, |_| thread::sleep(pause));
        kills += 1;
        let starting = Instant::now();
        server = start(ports, &data_dir, &keys, &oracle);
        slowest_start = slowest_start.max(starting.elapsed());
        tenants.verify(&server, Extent::Sample);
    }
    tenants.polite.iter_mut().for_each(Polite::forget_times);
    let mut watched = Watched::default();
    let mut counted = Value::Null;
    let ends = Instant::now() + 2 * third;
    tenants.during(&mut server, |server| {
        watched.watch(server, ends);
        counted = watched::counters(server);
    });
    kills += 1;
    server = start(ports, &data_dir, &keys, &oracle);
    tenants.verify(&server, Extent::All);
    tenants.hostile.leave(&server);
    tenants
        .polite
        .iter()
        .for_each(|polite| polite.leave(&server));
    tenants.replacing.leave(&server);
    tenants.shrinking.leave(&server);
    tenants.oracle.verify_all(&server);
    server.stop();
    check(&data_dir);

    let mut figures = tenants.oracle.figures();
    figures["test"] = json!("soak");
    figures["seed"] = json!(seed);
    figures["minutes"] = json!(minutes);
    figures["kills"] = json!(kills);
    figures["slowest_start_ms"] = json!(slowest_start.as_millis() as u64);
    figures["polite"] = polite::figures(&tenants.polite);
    figures["replaced"] = tenants.replacing.figures();
    figures["shrinking"] = tenants.shrinking.figures();
    figures["hostile"] = tenants.hostile.figures();
    figures["hostile_redis"] = tenants.hostile_redis.figures();
    figures["resources"] = watched.figures();
    figures["counted_since_the_last_kill"] = counted.clone();
    figures["seconds"] = json!(started.elapsed().as_secs());
    println!("{figures}");
    watched.assert_flat();
    tenants.hostile.assert_refused_in_words();
    tenants.hostile_redis.assert_refused_in_words();
    polite::assert_served(&tenants.polite);
    for (name, count) in counted.as_object().unwrap() {
        assert!(count.as_f64().unwrap() > 0.0, "{name}: that did not happen");
    }
    assert!(tenants.replacing.count() > 0);
}
