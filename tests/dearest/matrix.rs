//! The matrix: each form, or in the short test the worst, once, which must be answered,
//! and by 64 connections of one key beside the neighbour.

use crate::asking::{Caller, besiege, once};
use crate::beside::Neighbour;
use crate::form::Form;
use crate::prepared::World;
use crate::random::from_environment;
use crate::server::{Server, add_key, free_port};
use crate::{commands, routes};
use serde_json::json;
use std::env;
use std::thread;
use std::time::Duration;

/// Connections of the key that asks.
const CONNECTIONS: usize = 64;

/// The flags from which the bound of memory follows, and what `docs/limits.md` adds to
/// them, in MiB.
const CACHE: u64 = 128;
const BLOCK_CACHE: u64 = 16;
const BODIES: u64 = 128;
const COLD_READS: u64 = 16;
const FIXED: u64 = 256;
/// Of one lane.
const PLANS: u64 = 85 + CACHE / 12;
const BOUND: u64 =
    CACHE + CACHE / 8 + BLOCK_CACHE + BODIES + BODIES / 4 + COLD_READS + PLANS + FIXED;

/// What the neighbour may see at most, if that is more than ten times what it saw alone.
const MOST: Duration = Duration::from_millis(100);
const SLACK: u32 = 10;

/// A word of the names of the forms that are asked; all, if there is none.
const ONLY: &str = "CUCKOOD_DEAREST_ONLY";
/// Seconds for each form of the whole matrix; 0: each is asked once.
const SECONDS: &str = "CUCKOOD_DEAREST_SECONDS";

struct Besieged {
    server: Server,
    world: World,
    caller: Caller,
    neighbour: Neighbour,
    lasts: Duration,
    is_whole: bool,
}

impl Besieged {
    /// What is wrong with one form, if anything; prints a line.
    fn ask(&self, form: &Form, bar: Duration) -> Vec<String> {
        if !self.is_whole && !form.is_among_the_worst {
            return Vec::new();
        }
        let name = format!("{} ({})", form.door, form.what);
        let rounds = form.rounds(&self.world);
        if self.lasts.is_zero() {
            println!("{name}");
        }
        let mut wrong = Vec::new();
        let first = once(&self.caller, &rounds[..1], Duration::from_secs(30));
        let (answered, refused) = (first.answered.get(), first.refused.get());
        let is_legal = match form.is_refused {
            true => refused > 0 && answered == 0,
            false => answered > 0 && refused == 0,
        };
        if !is_legal || !first.wrong.borrow().is_empty() {
            let broken = first.broken.get();
            let said = &first.wrong.borrow();
            wrong.push(format!(
                "{name}: not legal: {answered} answered, {refused} refused, {broken} broken, {said:?}"
            ));
        }
        if self.lasts.is_zero() {
            return wrong;
        }
        let caller = &self.caller;
        let (asked, _, peak) = self.server.peak(|| {
            thread::scope(|scope| {
                let beside = scope.spawn(|| self.neighbour.during(self.lasts));
                let asked = besiege(caller, CONNECTIONS, &rounds, self.lasts);
                (asked, beside.join().unwrap())
            })
        });
        let (asked, times) = asked;
        let after = self.neighbour.until_quick(bar / 2);
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let load = std::fs::read_to_string("/proc/loadavg").unwrap();
        println!(
            "| {name} | {} | {} | {} | {:.1} | {:.1} | {:.0} | {peak} | {} |",
            asked.answered.get(),
            asked.refused.get(),
            asked.broken.get(),
            ms(times.at(0.5)),
            ms(times.at(0.999)),
            ms(after),
            load.split(' ').next().unwrap()
        );
        if times.at(0.999) > bar {
            wrong.push(format!(
                "{name}: the neighbour's p99.9 is {:?}",
                times.at(0.999)
            ));
        }
        if after > 2 * bar {
            wrong.push(format!("{name}: it went on for {after:?}"));
        }
        if peak > BOUND {
            wrong.push(format!("{name}: {peak} MiB, more than {BOUND} MiB"));
        }
        wrong.extend(
            asked
                .wrong
                .borrow()
                .iter()
                .take(2)
                .map(|it| format!("{name}: {it}")),
        );
        wrong
    }
}

#[test]
#[ignore = "takes the machine for itself: make dearest"]
fn the_dearest_of_everything_is_bounded_and_not_felt_by_others() {
    let seconds = from_environment(SECONDS);
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("keys.json");
    let greedy = add_key(&path, "greedy", &["--scope=admin"]);
    let modest = add_key(&path, "modest", &["--scope=write"]);
    let redis = free_port();
    let flags = [
        format!("--keys-file={}", path.display()),
        format!("--redis-listen=127.0.0.1:{redis}"),
        format!("--backup-dir={}", folder.path().join("backups").display()),
        format!("--cache-bytes={CACHE}MiB"),
        format!("--block-cache-bytes={BLOCK_CACHE}MiB"),
        format!("--max-buffered-bytes={BODIES}MiB"),
        format!("--max-cold-read-bytes={COLD_READS}MiB"),
        "--lanes=1".to_owned(),
        "--log=error".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::start(data.path(), &flags).with_key(&modest);
    server.create_filter("neighbour", &json!({"capacity": 1_000_000}));
    let world = World::prepare(&server, redis, &greedy, seconds.is_some());
    let besieged = Besieged {
        caller: Caller {
            port: server.port(),
            redis,
            key: greedy,
        },
        neighbour: Neighbour {
            port: server.port(),
            key: modest,
        },
        lasts: seconds.map_or(Duration::from_millis(300), Duration::from_secs),
        is_whole: seconds.is_some(),
        server,
        world,
    };
    let alone = besieged.neighbour.during(Duration::from_secs(1)).at(0.999);
    let bar = match env::var_os("CUCKOOD_TEST_QUIET").is_some() {
        true => MOST.max(SLACK * alone),
        false => SLACK * MOST.max(alone),
    };
    println!("alone: p99.9 {alone:?}, so at most {bar:?}; memory at most {BOUND} MiB");
    println!(
        "| form | answered | refused | broken | p50 ms | p99.9 ms | ms until quick | MiB | load |\n|---|---|---|---|---|---|---|---|---|"
    );
    let only = env::var(ONLY).unwrap_or_default();
    let mut wrong = Vec::new();
    for form in routes::forms().iter().chain(&commands::forms()) {
        if format!("{} ({})", form.door, form.what).contains(&only) {
            wrong.extend(besieged.ask(form, bar));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    besieged.server.stop();
}
