//! Filters that share a lane: what others ask of theirs must not be felt.
//!
//! Eight neighbours in the one lane of a server add an item each 10 ms, when it is
//! due, beside the dearest request that is legal, which is searched for, and beside
//! batches of as many items as a request may have. Prints one line of JSON.
//!
//! On a machine that does nothing else `CUCKOOD_TEST_QUIET` asserts the times that
//! are promised. Otherwise ten times as much is allowed: other tests and programs
//! take turns with the server, and its disk is theirs, too. `CUCKOOD_LONG` searches
//! in larger filters, and measures for longer:
//!
//! ```text
//! CUCKOOD_LONG=1 CUCKOOD_TEST_QUIET=1 cargo test --release --test blackbox neighbours -- --nocapture
//! ```

use crate::server::{Server, client_with};
use reqwest::StatusCode;
use reqwest::blocking::Client;
use serde_json::{Value, json};
use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NEIGHBOURS: usize = 8;
const PERIOD: Duration = Duration::from_millis(10);

/// Items of a request, at most.
const MOST_ITEMS: u64 = 250_000;

/// Sub-filters of a filter at most, and the items that may be looked for in so many.
const LONGEST_CHAIN: u64 = 64;
const MOST_LOOKS: u64 = 4_000_000;

/// What is promised: of 1,000 changes 999, and all.
const MOST: Duration = Duration::from_millis(50);
const ALL: Duration = Duration::from_millis(250);
const SLACK_ON_ANY: u32 = 10;

/// A filter, what is done to it again and again, and how many items at once.
struct Work {
    name: &'static str,
    create: Value,
    /// Where items are sent to, behind the filter's path.
    action: &'static str,
    items: u64,
    /// Whether the filter is filled up first.
    is_full: bool,
}

fn works(capacity: u64) -> Vec<Work> {
    let work = |name, create, action, items, is_full| Work {
        name,
        create,
        action,
        items,
        is_full,
    };
    let chain = json!({"layout": "classic", "bucket_size": 2, "capacity": 1_000,
        "expansion": 1, "max_expansions": LONGEST_CHAIN - 1});
    let in_chain = MOST_LOOKS / LONGEST_CHAIN;
    let one_slot = json!({"layout": "classic", "bucket_size": 1, "max_iterations": 65_535,
        "capacity": capacity, "expansion": 0});
    let wide = json!({"layout": "classic", "bucket_size": 255, "capacity": capacity,
        "expansion": 0});
    let bits = |bits: u64| json!({"fingerprint_bits": bits, "capacity": capacity, "expansion": 0});
    let promise = json!({"error_rate": 0.001, "capacity": 1_000, "expansion": 1,
        "max_expansions": LONGEST_CHAIN - 1});
    let unless_there = "items?only_if_absent=true";
    vec![
        work(
            "full, one slot a bucket",
            one_slot,
            "items",
            MOST_ITEMS,
            true,
        ),
        work("full, wide buckets", wide, "items", MOST_ITEMS, true),
        work("full, 8 bits", bits(8), "items", MOST_ITEMS, true),
        work("full, 32 bits", bits(32), "items", MOST_ITEMS, true),
        work("adds to a chain", chain.clone(), "items", in_chain, true),
        work(
            "adds to a chain unless there",
            chain.clone(),
            unless_there,
            in_chain,
            true,
        ),
        work(
            "deletes from a chain",
            chain,
            "items/delete",
            in_chain,
            true,
        ),
        work(
            "adds to a chain of pages",
            promise,
            unless_there,
            in_chain,
            true,
        ),
    ]
}

/// Lines of items that were not sent before.
fn lines(next: &mut u64, count: u64) -> String {
    let from = *next;
    *next += count;
    (from..*next).map(|n| format!("{n}\n")).collect()
}

fn post(http: &Client, server: &Server, path: &str, body: String) -> (StatusCode, String) {
    let request = http.post(server.url(path)).body(body);
    let request = request.header("content-type", "text/plain");
    let answer = request.header("accept", "text/plain").send().unwrap();
    (answer.status(), answer.text().unwrap())
}

/// Makes the filter of some work, and fills it.
fn prepare(http: &Client, server: &Server, key: &str, work: &Work, next: &mut u64) {
    server.create_filter(key, &work.create);
    let mut has_room = work.is_full;
    while has_room {
        let body = lines(next, 20_000);
        let (status, answer) = post(http, server, &format!("/filters/{key}/items"), body);
        assert_eq!(status, 200, "{}: {answer}", work.name);
        has_room = !answer.lines().any(|line| line.starts_with("full"));
    }
}

/// How long the work takes alone, once.
fn cost(http: &Client, server: &Server, key: &str, work: &Work, next: &mut u64) -> Duration {
    let body = lines(next, work.items);
    let began = Instant::now();
    let path = format!("/filters/{key}/{}", work.action);
    let (status, answer) = post(http, server, &path, body);
    assert_eq!(status, 200, "{}: {answer}", work.name);
    began.elapsed()
}

/// Times of the neighbours while something else is done again and again.
struct Beside {
    times: Vec<Duration>,
    /// Requests that were done meanwhile.
    requests: usize,
}

impl Beside {
    fn of(
        server: &Server,
        lasts: Duration,
        work: impl FnOnce(&AtomicBool) -> usize + Send,
    ) -> Beside {
        let times = Mutex::new(Vec::new());
        let over = AtomicBool::new(false);
        let begins = Instant::now();
        let requests = thread::scope(|scope| {
            let neighbours: Vec<_> = (0..NEIGHBOURS)
                .map(|neighbour| {
                    let times = &times;
                    scope.spawn(move || {
                        let http = client_with(None);
                        let path = format!("/filters/neighbour{neighbour}/items");
                        let mut due = begins + PERIOD * neighbour as u32 / NEIGHBOURS as u32;
                        let mut own = Vec::new();
                        while due < begins + lasts {
                            thread::sleep(due.saturating_duration_since(Instant::now()));
                            let item = format!("{:?}\n", due - begins);
                            let (status, answer) = post(&http, server, &path, item);
                            assert_eq!(status, 200, "{answer}");
                            own.push(due.elapsed());
                            due += PERIOD;
                        }
                        times.lock().unwrap().extend(own);
                    })
                })
                .collect();
            let busy = scope.spawn(|| work(&over));
            for neighbour in neighbours {
                neighbour.join().unwrap();
            }
            over.store(true, Ordering::Relaxed);
            busy.join().unwrap()
        });
        let mut times = times.into_inner().unwrap();
        times.sort_unstable();
        Beside { times, requests }
    }

    fn at(&self, part: f64) -> Duration {
        let last = self.times.len() - 1;
        self.times[(last as f64 * part) as usize]
    }

    fn json(&self) -> Value {
        let ms = |time: Duration| (time.as_secs_f64() * 10_000.0).round() / 10.0;
        json!({"adds": self.times.len(), "requests_beside": self.requests,
            "p50_ms": ms(self.at(0.5)), "p99_ms": ms(self.at(0.99)),
            "p99_9_ms": ms(self.at(0.999)), "slowest_ms": ms(self.at(1.0))})
    }
}

#[test]
fn neighbours_do_not_feel_what_others_ask_of_their_filters() {
    let is_long = env::var_os("CUCKOOD_LONG").is_some();
    let is_quiet = env::var_os("CUCKOOD_TEST_QUIET").is_some();
    let (capacity, lasts) = match is_long {
        true => (2_000_000, Duration::from_secs(60)),
        false => (100_000, Duration::from_secs(5)),
    };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--lanes", "1", "--cache-bytes", "512MiB"]);
    let http = client_with(None);
    for neighbour in 0..NEIGHBOURS {
        server.create_filter(
            &format!("neighbour{neighbour}"),
            &json!({"capacity": 100_000}),
        );
    }
    let mut next = 0;
    let works = works(capacity);
    let mut costs = Vec::new();
    for (number, work) in works.iter().enumerate() {
        let key = format!("work{number}");
        prepare(&http, &server, &key, work, &mut next);
        costs.push((cost(&http, &server, &key, work, &mut next), number));
    }
    let (dearest_cost, dearest) = *costs.iter().max().unwrap();
    let work = &works[dearest];
    server.create_filter("sized", &json!({"capacity": 20 * MOST_ITEMS}));

    let refused_path = "/filters/x/items?create=true&layout=classic&bucket_size=1&capacity=2&expansion=1&max_expansions=65535";
    let began = Instant::now();
    let (status, answer) = post(&http, &server, refused_path, lines(&mut next, MOST_ITEMS));
    let refused_after = began.elapsed();
    assert_eq!(status, 422, "{answer}");
    assert!(answer.contains("--max-chain-length"), "{answer}");

    let alone = Beside::of(&server, lasts, |_| 0);
    let mut repeat = |key: String, work: &Work| {
        let next = &mut next;
        let http = &http;
        let server = &server;
        Beside::of(server, lasts, |over| {
            let mut done = 0;
            while !over.load(Ordering::Relaxed) {
                cost(http, server, &key, work, next);
                done += 1;
            }
            done
        })
    };
    let beside_dearest = repeat(format!("work{dearest}"), work);
    let batches = Work {
        name: "adds to a sized filter",
        create: Value::Null,
        action: "items",
        items: MOST_ITEMS,
        is_full: false,
    };
    let beside_batches = repeat("sized".to_owned(), &batches);
    let figures = json!({"neighbours": NEIGHBOURS, "lanes": 1,
        "costs_ms": works.iter().zip(costs.iter())
            .map(|(work, (cost, _))| (work.name.to_owned(), json!(cost.as_millis() as u64)))
            .collect::<serde_json::Map<_, _>>(),
        "dearest": work.name, "dearest_ms": dearest_cost.as_millis() as u64,
        "refused_after_ms": refused_after.as_millis() as u64,
        "alone": alone.json(), "beside_dearest": beside_dearest.json(),
        "beside_250000_adds": beside_batches.json(),
        "slices": server.metric("cuckood_plan_slices_total")});
    println!("{figures}");
    assert!(
        server.metric("cuckood_plan_slices_total") > 0.0,
        "{figures}"
    );
    // On a machine that is busy with other things they wait when alone, too.
    let bound = |bar: Duration, alone: Duration| match is_quiet {
        true => bar,
        false => SLACK_ON_ANY * bar.max(alone),
    };
    for beside in [&beside_dearest, &beside_batches] {
        assert!(beside.requests > 0, "{figures}");
        let most = bound(MOST, alone.at(0.999));
        assert!(beside.at(0.999) < most, "{figures}");
        assert!(beside.at(1.0) < bound(ALL, alone.at(1.0)), "{figures}");
    }
}
