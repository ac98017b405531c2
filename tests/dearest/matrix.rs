//! The matrix: each form, or in the short test the worst, once, which must be answered,
//! and by 64 connections of one key beside the neighbour: of a server alone; and of a pod
//! that does not lead, where all questions are strong, so that it passes everything on.

use crate::asking::{Caller, besiege, once};
use crate::beside::Neighbour;
use crate::broker::Brokers;
use crate::form::Form;
use crate::nats_server;
use crate::operator::{flags, found};
use crate::polls::long_polls;
use crate::ports::free_port;
use crate::prepared::World;
use crate::random::from_environment;
use crate::server::{Server, add_key, client_with};
use crate::{commands, routes};
use reqwest::blocking::Client;
use serde_json::json;
use std::env;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Connections of the key that asks.
const CONNECTIONS: usize = 64;

/// The flags from which the bound of memory follows, and what `docs/limits.md` adds to
/// them, in MiB.
const CACHE: u64 = 128;
/// Of a pod: a batch may touch a part of it that is divided by the lanes at work, of which
/// there are two at least.
const CACHE_OF_A_POD: u64 = 256;
const BLOCK_CACHE: u64 = 16;
const BODIES: u64 = 128;
const COLD_READS: u64 = 16;
const FIXED: u64 = 256;
/// Of one lane, without its part of the cache.
const PLANS: u64 = 85;

/// MiB of a server with such a cache and one lane.
fn bound(cache: u64) -> u64 {
    let plans = PLANS + cache / 12;
    cache + cache / 4 + BLOCK_CACHE + BODIES + BODIES / 4 + COLD_READS + plans + FIXED
}

/// Items of a batch, at most; and such that all changes fit a record of the commit log.
const MANY: usize = 250_000;
const MANY_OF_A_POD: usize = 50_000;

/// What the neighbour may see at most, if that is more than ten times what it saw alone.
const MOST: Duration = Duration::from_millis(100);
const SLACK: u32 = 10;

/// Bytes that the servers may write in a second, so that the disk is as it would be
/// without them; of their log alone no more, since others share its disk.
const MUCH: u64 = 4 << 20;

/// Requests of the neighbour that say what one of a thousand takes.
const ENOUGH: usize = 3_000;

/// What is more where others work, too.
const BUSY: u32 = 20;

/// What earlier requests hold is given back within so long: a command of 250,000 words
/// goes on to its deadline, also for a client that is gone.
const LEFT_BEHIND: Duration = Duration::from_secs(70);

/// Words of the names of the forms that are asked; all, if there is none.
const ONLY: &str = "CUCKOOD_DEAREST_ONLY";
/// Seconds for each form of the whole matrix; 0: each is asked once.
const SECONDS: &str = "CUCKOOD_DEAREST_SECONDS";

/// What a pod needs more: records of the commit log that are not yet applied, of one lane.
const OF_A_POD: u64 = 6;

/// Those that took long: of which server, at what, and how many.
type Polls = Vec<(usize, String, u64)>;

struct Besieged {
    /// The last one is asked.
    servers: Vec<Server>,
    /// MiB of each at most.
    bound: u64,
    world: World,
    caller: Caller,
    admin: Client,
    neighbour: Neighbour,
    lasts: Duration,
    is_whole: bool,
}

impl Besieged {
    /// Polls of each server that took long so far.
    fn long_polls(&self) -> Polls {
        let of = |(number, server): (usize, &Server)| {
            let asked = self.admin.get(server.url("/metrics"));
            let long = long_polls(&asked.send().unwrap().text().unwrap());
            long.into_iter()
                .map(move |(what, count)| (number, what, count))
        };
        self.servers.iter().enumerate().flat_map(of).collect()
    }

    /// Bytes that the servers have written to disks.
    fn written(&self) -> u64 {
        self.servers.iter().map(Server::written).sum()
    }

    /// Bytes that they have logged.
    fn logged(&self) -> u64 {
        self.servers.iter().map(Server::logged).sum()
    }

    /// Does something, and returns the MiB that the largest of the servers had.
    fn peak<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        match &self.servers[..] {
            [alone] => {
                let (outcome, _, peak) = alone.peak(work);
                (outcome, peak)
            }
            [leads, asked] => {
                let ((outcome, _, one), _, other) = leads.peak(|| asked.peak(work));
                (outcome, one.max(other))
            }
            _ => unreachable!("one server, or two"),
        }
    }

    /// What there is beyond those.
    fn longer_polls(&self, name: &str, before: &[(usize, String, u64)]) -> Option<String> {
        let mut polls = self.long_polls();
        polls.retain(|it| !before.contains(it));
        (!polls.is_empty()).then(|| format!("{name}: long polls, now in all {polls:?}"))
    }

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
        let (polls, logged) = (self.long_polls(), self.logged());
        let mut wrong = Vec::new();
        let longest = if self.is_whole { 30 } else { 5 };
        let ask_once = || once(&self.caller, &rounds[..1], Duration::from_secs(longest));
        let mut first = ask_once();
        // What was asked for the form before may hold for a while what this one needs.
        let began = Instant::now();
        while !form.is_refused && first.refused.get() > 0 && began.elapsed() < LEFT_BEHIND {
            thread::sleep(Duration::from_millis(200));
            first = ask_once();
        }
        let (answered, refused) = (first.answered.get(), first.refused.get());
        let is_legal = match form.is_refused {
            true => refused > 0 && answered == 0,
            // Beside other work it may take longer.
            false => (answered > 0 || !self.is_whole) && refused == 0,
        };
        if !is_legal || !first.wrong.borrow().is_empty() {
            let broken = first.broken.get();
            let said = &first.wrong.borrow();
            wrong.push(format!(
                "{name}: not legal: {answered} answered, {refused} refused, {broken} broken, {said:?}"
            ));
        }
        if self.lasts.is_zero() {
            wrong.extend(self.longer_polls(&name, &polls));
            return wrong;
        }
        let besiege = || {
            self.peak(|| {
                thread::scope(|scope| {
                    let beside = scope.spawn(|| self.neighbour.during(self.lasts));
                    let asked = besiege(&self.caller, CONNECTIONS, &rounds, self.lasts);
                    (asked, beside.join().unwrap())
                })
            })
        };
        let before = self.written();
        let ((asked, mut times), mut peak) = besiege();
        // Of few requests, the slowest one would decide: the machine's disk has its moments.
        while times.at(0.999) > bar && times.count() < ENOUGH {
            let ((_, more), peaked) = besiege();
            times.extend(more);
            peak = peak.max(peaked);
        }
        // What the disk is late with that the servers hardly use is not their doing.
        let disk = times.disk_at(0.999);
        let seconds = times.count() as u64 / 200 + 1;
        let bar = match self.written().saturating_sub(before) / seconds > MUCH {
            true => bar,
            false => bar.max(2 * disk),
        };
        let after = self.neighbour.until_quick(bar / 2);
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let load = std::fs::read_to_string("/proc/loadavg").unwrap();
        let slowest = times.slowest().map(ms);
        println!(
            "| {name} | {} | {} | {} | {:.1} | {:.1} | {:.0}, {:.0} of {} | {:.0} | {:.0} | {peak} | {} |",
            asked.answered.get(),
            asked.refused.get(),
            asked.broken.get(),
            ms(times.at(0.5)),
            ms(times.at(0.999)),
            slowest[0],
            slowest[1],
            times.count(),
            ms(disk),
            ms(after),
            load.split(' ').next().unwrap()
        );
        if times.at(0.999) > bar {
            wrong.push(format!(
                "{name}: the neighbour's p99.9 is {:?}",
                times.at(0.999)
            ));
        }
        let logged = self.logged() - logged;
        if logged / seconds > MUCH {
            wrong.push(format!("{name}: {logged} bytes were logged in {seconds} s"));
        }
        if times.at(0.5) > bar / 4 {
            wrong.push(format!("{name}: its median is {:?}", times.at(0.5)));
        }
        if after > 2 * bar {
            wrong.push(format!("{name}: it went on for {after:?}"));
        }
        // A virtual machine's processor stands still now and then, and the poll's clock
        // goes on: what is the server's doing is seen again.
        if let Some(once) = self.longer_polls(&name, &polls) {
            println!("{once}; it is asked again");
            let polls = self.long_polls();
            besiege();
            wrong.extend(self.longer_polls(&name, &polls));
        }
        if peak > self.bound {
            wrong.push(format!("{name}: {peak} MiB, more than {} MiB", self.bound));
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

/// What servers of a test have in common, and the two who ask.
struct Setting {
    folder: TempDir,
    greedy: String,
    modest: String,
}

impl Setting {
    fn new() -> Setting {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        Setting {
            greedy: add_key(&path, "greedy", &["--scope=admin"]),
            modest: add_key(&path, "modest", &["--scope=write", "--export"]),
            folder,
        }
    }

    /// Starts a server in a directory of this name, whose port of the Redis protocol is
    /// this one.
    fn start(&self, name: &str, redis: u16, cache: u64, more: &[String]) -> Server {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let flags = [
            format!("--keys-file={}", path("keys.json")),
            format!("--redis-listen=127.0.0.1:{redis}"),
            format!("--backup-dir={}", path(&format!("{name}-backups"))),
            format!("--cache-bytes={cache}MiB"),
            format!("--block-cache-bytes={BLOCK_CACHE}MiB"),
            format!("--max-buffered-bytes={BODIES}MiB"),
            format!("--max-cold-read-bytes={COLD_READS}MiB"),
            "--log-level=error".to_owned(),
        ];
        let flags: Vec<&str> = flags.iter().chain(more).map(String::as_str).collect();
        let port = free_port();
        let advertised = format!("--advertise=http://127.0.0.1:{port}");
        let of_a_pod = more.iter().any(|it| it.starts_with("--cluster="));
        let advertised = of_a_pod.then_some(advertised.as_str());
        let flags: Vec<&str> = flags.into_iter().chain(advertised).collect();
        let data = self.folder.path().join(name);
        Server::start_on(port, &data, &flags).with_key(&self.modest)
    }

    /// Asks everything of the last one.
    fn besiege(
        self,
        servers: Vec<Server>,
        redis: u16,
        consistency: &'static str,
        forms: &[Form],
        many: usize,
        bound: u64,
    ) {
        let seconds = from_environment(SECONDS);
        let asked = servers.last().unwrap();
        asked.create_filter("neighbour", &json!({"capacity": 1_000_000}));
        let besieged = Besieged {
            admin: client_with(Some(&self.greedy)),
            world: World::prepare(asked, redis, &self.greedy, many, seconds.is_some()),
            caller: Caller {
                port: asked.port(),
                redis,
                key: self.greedy,
                consistency,
            },
            neighbour: Neighbour {
                port: asked.port(),
                key: self.modest,
                disk: self.folder.path().to_owned(),
            },
            lasts: seconds.map_or(Duration::from_millis(300), Duration::from_secs),
            is_whole: seconds.is_some(),
            bound,
            servers,
        };
        let alone = besieged.neighbour.during(Duration::from_secs(1)).at(0.999);
        let bar = match env::var_os("CUCKOOD_TEST_QUIET").is_some() {
            true => MOST.max(SLACK * alone),
            false => BUSY * MOST.max(alone),
        };
        println!("alone: p99.9 {alone:?}, so at most {bar:?}; memory at most {bound} MiB");
        println!(
            "| form | answered | refused | broken | p50 ms | p99.9 ms | slowest question, addition ms | disk p99.9 ms | ms until quick | MiB | load |\n|---|---|---|---|---|---|---|---|---|---|---|"
        );
        let only = env::var(ONLY).unwrap_or_default();
        let mut wrong = Vec::new();
        for form in forms {
            let name = format!("{} ({})", form.door, form.what);
            if only.split(',').any(|only| name.contains(only)) {
                let found = besieged.ask(form, bar);
                found.iter().for_each(|it| println!("{it}"));
                wrong.extend(found);
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        besieged.servers.into_iter().rev().for_each(Server::stop);
    }
}

#[test]
fn the_dearest_of_everything_is_bounded_and_not_felt_by_others() {
    let (setting, redis) = (Setting::new(), free_port());
    let server = setting.start("data", redis, CACHE, &["--lanes=1".to_owned()]);
    let forms: Vec<Form> = routes::forms()
        .into_iter()
        .chain(commands::forms())
        .collect();
    setting.besiege(vec![server], redis, "local", &forms, MANY, bound(CACHE));
}

#[test]
fn the_dearest_of_everything_that_a_pod_passes_on_is_bounded_and_not_felt_by_others() {
    if !nats_server::is_there() {
        return;
    }
    let setting = Setting::new();
    let brokers = Brokers::start(1, "always");
    found(&brokers, 1);
    let key = setting.folder.path().join("cluster.key");
    std::fs::write(&key, "k".repeat(40)).unwrap();
    let mut of_a_pod = flags(&brokers);
    of_a_pod.push(format!("--cluster-key-file={}", key.display()));
    // The first one leads the only lane.
    let start = |name: &str| {
        let redis = free_port();
        (setting.start(name, redis, CACHE_OF_A_POD, &of_a_pod), redis)
    };
    let [(leads, _), (asked, redis)] = ["leads", "asked"].map(start);
    let mut forms = routes::of_positions();
    forms.extend(routes::forms());
    forms.extend(commands::forms());
    let bound = bound(CACHE_OF_A_POD) + OF_A_POD;
    setting.besiege(
        vec![leads, asked],
        redis,
        "strong",
        &forms,
        MANY_OF_A_POD,
        bound,
    );
}
