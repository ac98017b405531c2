//! `kill -9` in the middle of a load, again and again.
//!
//! `CUCKOOD_CRASH_CYCLES` sets how often (default 20), `CUCKOOD_CRASH_SEED`
//! repeats the choices of an earlier run; when exactly the kill hits a request
//! is up to the machine.

use crate::load::{Life, Load};
use crate::piper::Piper;
use crate::ports::free_port;
use crate::random::{Random, from_environment, seed};
use crate::server::{Server, cuckood};
use crate::writers::Extent;
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Bounds so small that checkpoints run all the time, the log is truncated
/// behind them, and the pages of the largest filter do not fit in memory.
pub(crate) const TIGHT: &[&str] = &[
    "--max-log-bytes=64KiB",
    "--max-dirty-bytes=4MiB",
    "--checkpoint-slice-bytes=64KiB",
    "--cache-bytes=32MiB",
    "--max-idempotency-bytes=1GiB",
    // Only when asked for: no other engine can know when the server begins.
    "--compaction-threshold=0",
];

/// The bound of the log in [`TIGHT`].
const MAX_LOG_BYTES: f64 = 64.0 * 1024.0;

#[test]
fn what_was_acknowledged_survives_kill_9_in_the_middle_of_a_load() {
    let cycles = from_environment("CUCKOOD_CRASH_CYCLES").unwrap_or(20);
    let seed = seed("CUCKOOD_CRASH_SEED");
    println!("CUCKOOD_CRASH_SEED={seed} CUCKOOD_CRASH_CYCLES={cycles}");
    let (mut random, started) = (Random(seed), Instant::now());

    let data = tempfile::tempdir().unwrap();
    let data_dir = data.path().join("data");
    let redis_port = free_port();
    let redis_listen = format!("--redis-listen=127.0.0.1:{redis_port}");
    let flags = &[TIGHT, &[&*redis_listen]].concat();
    let mut server = Server::start(&data_dir, flags);
    let mut load = Load::new(&server, &mut random);
    let mut pipers = [0, 1].map(|number| Piper::new(&server, number, random.next()));
    let (mut truncations, mut interruptions) = (0, 0);
    let mut slowest_start = Duration::ZERO;
    for cycle in 1..=cycles {
        let pause = Duration::from_millis(200 + random.below(1000));
        let (client, base) = (server.client().clone(), server.url(""));
        let pipers = &mut pipers;
        let mut during = |life: &Life| {
            thread::sleep(pause);
            // More was logged than the log may hold, so its start is gone.
            if server.metric("cuckood_log_written_bytes_total") > MAX_LOG_BYTES {
                truncations += 1;
            }
            life.end();
            server.end();
        };
        load.during(&client, &base, |life| {
            thread::scope(|scope| {
                for piper in pipers.iter_mut() {
                    scope.spawn(|| piper.load(redis_port, life));
                }
                during(life);
            });
        });
        // Recovery is interrupted, too, before it may finish.
        while random.below(2) == 0 {
            let interrupted = Server::spawn(free_port(), &data_dir, flags);
            thread::sleep(Duration::from_millis(random.below(150)));
            interrupted.kill();
            interruptions += 1;
        }
        let starting = Instant::now();
        server = Server::start(&data_dir, flags);
        slowest_start = slowest_start.max(starting.elapsed());
        let extent = match cycle % 25 {
            0 => Extent::All,
            _ => Extent::Sample,
        };
        load.verify(&server, extent);
        pipers.iter_mut().for_each(|it| it.verify(redis_port));
        if extent == Extent::All {
            println!("cycle {cycle}: {}", load.figures());
        }
    }
    assert!(
        truncations > 0,
        "the log was never truncated: the bounds are too wide to test that"
    );
    load.verify_all(&server);
    server.stop();
    check(&data_dir);
    let server = Server::start(&data_dir, flags);
    load.verify_all(&server);
    pipers.iter_mut().for_each(|it| it.verify(redis_port));
    let cut: u64 = pipers.iter().map(|it| it.cut).sum();
    assert!(
        cycles < 20 || load.replayed() > 0 && cut > 0,
        "no change was made and not answered: the kills hit nothing"
    );
    assert!(
        cycles < 20 || load.has_split_and_merged(),
        "the tide never turned"
    );
    let mut figures = load.figures();
    figures["test"] = json!("kill");
    figures["seed"] = json!(seed);
    figures["cycles"] = json!(cycles);
    figures["commands_answered"] = json!(pipers.iter().map(|it| it.answered).sum::<u64>());
    figures["pipelines_cut"] = json!(cut);
    figures["recoveries_interrupted"] = json!(interruptions);
    figures["cycles_that_truncated_the_log"] = json!(truncations);
    figures["slowest_start_ms"] = json!(slowest_start.as_millis() as u64);
    figures["seconds"] = json!(started.elapsed().as_secs());
    println!("{figures}");
}

pub(crate) fn check_command(data_dir: &Path) -> Command {
    let mut check = cuckood();
    check.arg("check").arg("--data-dir").arg(data_dir);
    check
}

/// Reads the whole data directory with the program's own check.
pub(crate) fn check(data_dir: &Path) {
    let check = check_command(data_dir).output().unwrap();
    assert!(
        check.status.success(),
        "{}",
        String::from_utf8_lossy(&check.stderr)
    );
}
