//! Filters that share a lane: what others ask of theirs must not be felt.
//!
//! Eight neighbours in the one lane of a server add an item each 10 ms, when it is
//! due, beside the dearest request that is legal, which is searched for, and beside
//! batches of as many items as a request may have; and the same in two lanes, beside
//! two such requests at once, in the long form. Prints a line of JSON for each number of lanes.
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
use std::collections::VecDeque;
use std::env;
use std::ops::Range;
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
    fill: Fill,
}

/// How full the filter is first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    Empty,
    Full,
    /// As full as it gets, but for the items of one request, which are deleted
    /// before each: searches for room are long, and find some.
    Nearly,
    /// With as many items as its capacity.
    Capacity,
    /// With the items of the next request, which deletes them.
    Grown,
}

fn works(capacity: u64) -> Vec<Work> {
    let work = |name, create, action, items| Work {
        name,
        create,
        action,
        items,
        fill: Fill::Full,
    };
    let chain = json!({"layout": "classic", "bucket_size": 2, "capacity": 1_000,
        "expansion": 1, "max_expansions": LONGEST_CHAIN - 1});
    let in_chain = MOST_LOOKS / LONGEST_CHAIN;
    let one_slot = json!({"layout": "classic", "bucket_size": 1, "max_iterations": 65_535,
        "capacity": capacity, "expansion": 0});
    let wide = json!({"layout": "classic", "bucket_size": 255, "capacity": capacity,
        "expansion": 0});
    let bits = |bits: u64| json!({"fingerprint_bits": bits, "capacity": capacity, "expansion": 0});
    // Filled to where pages begin to be split: from then on one for 20 adds with 32
    // bits, one for 128 with 12.
    let growing = |bits: u64| Work {
        name: match bits {
            32 => "adds that split pages, 32 bits",
            _ => "adds that split pages, 12 bits",
        },
        create: json!({"fingerprint_bits": bits, "capacity": capacity}),
        action: "items",
        items: (capacity / 40).min(10_000),
        fill: Fill::Capacity,
    };
    let emptied = Work {
        name: "deletes that merge pages",
        create: json!({"fingerprint_bits": 12, "capacity": 1_000}),
        action: "items/delete",
        items: MOST_ITEMS.min(capacity),
        fill: Fill::Grown,
    };
    // Some hundredths of the slots are free while their last items are added.
    let nearly = |name, create: Value| Work {
        name,
        items: (create["capacity"].as_u64().unwrap() / 40).min(MOST_ITEMS),
        create,
        action: "items",
        fill: Fill::Nearly,
    };
    // Larger ones take minutes to fill, item by item with a long search each.
    let large = (4 * capacity).min(1_000_000);
    let pages = |bits: u64| json!({"fingerprint_bits": bits, "capacity": large, "expansion": 0});
    let pairs = json!({"layout": "classic", "bucket_size": 2, "max_iterations": 500,
        "capacity": large, "expansion": 0});
    let fours = json!({"layout": "classic", "bucket_size": 4, "max_iterations": 65_535,
        "capacity": large, "expansion": 0});
    let unless_there = "items?only_if_absent=true";
    vec![
        work("full, one slot a bucket", one_slot, "items", MOST_ITEMS),
        work("full, wide buckets", wide, "items", MOST_ITEMS),
        work("full, 12 bits", bits(12), "items", MOST_ITEMS),
        work("full, 32 bits", bits(32), "items", MOST_ITEMS),
        work("adds to a chain", chain.clone(), "items", in_chain),
        work(
            "adds to a chain unless there",
            chain.clone(),
            unless_there,
            in_chain,
        ),
        work("deletes from a chain", chain, "items/delete", in_chain),
        growing(32),
        growing(12),
        emptied,
        nearly("nearly full, 16 bits", pages(16)),
        nearly("nearly full, 32 bits", pages(32)),
        nearly("nearly full, pairs", pairs),
        nearly("nearly full, fours", fours),
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

/// A filter of some work, and the items that are in it, oldest first.
struct Filter<'a> {
    work: &'a Work,
    key: String,
    items: VecDeque<Range<u64>>,
    next: u64,
}

impl Filter<'_> {
    /// Makes it, and fills it.
    fn prepare<'a>(http: &Client, server: &Server, key: String, work: &'a Work) -> Filter<'a> {
        server.create_filter(&key, &work.create);
        let mut filter = Filter {
            work,
            key,
            items: VecDeque::new(),
            next: 0,
        };
        if work.fill == Fill::Capacity {
            let mut left = work.create["capacity"].as_u64().unwrap();
            while left > 0 {
                filter.add(http, server, "items", left.min(20_000));
                left -= left.min(20_000);
            }
        }
        let mut has_room = matches!(work.fill, Fill::Full | Fill::Nearly);
        while has_room {
            let answer = filter.add(http, server, "items", 20_000);
            has_room = !answer.lines().any(|line| line.starts_with("full"));
        }
        filter
    }

    fn add(&mut self, http: &Client, server: &Server, action: &str, items: u64) -> String {
        let first = self.next;
        let body = lines(&mut self.next, items);
        self.items.push_back(first..self.next);
        let path = format!("/filters/{}/{action}", self.key);
        let (status, answer) = post(http, server, &path, body);
        assert_eq!(status, 200, "{}: {answer}", self.work.name);
        answer
    }

    /// Does the work once, and says how long that takes.
    fn work(&mut self, http: &Client, server: &Server) -> Duration {
        if self.work.fill == Fill::Nearly {
            let mut left = self.work.items;
            while left > 0
                && let Some(oldest) = self.items.pop_front()
            {
                let most = oldest.end.min(oldest.start + left);
                let mut from = oldest.start;
                let body = lines(&mut from, most - oldest.start);
                let path = format!("/filters/{}/items/delete", self.key);
                let (status, answer) = post(http, server, &path, body);
                assert_eq!(status, 200, "{}: {answer}", self.work.name);
                left -= most - oldest.start;
                if most < oldest.end {
                    self.items.push_front(most..oldest.end);
                }
            }
        }
        if self.work.fill == Fill::Grown {
            let first = self.next;
            while self.next - first < self.work.items {
                self.add(http, server, "items", 10_000);
            }
            self.next = first;
        }
        let began = Instant::now();
        self.add(http, server, self.work.action, self.work.items);
        began.elapsed()
    }
}

/// Times of the neighbours while something else is done again and again.
struct Beside {
    times: Vec<Duration>,
    /// Requests that were done meanwhile.
    requests: usize,
}

impl Beside {
    /// Beside work on these filters.
    fn of(server: &Server, lasts: Duration, filters: &mut [Filter<'_>]) -> Beside {
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
            let busy: Vec<_> = filters
                .iter_mut()
                .map(|filter| {
                    let over = &over;
                    scope.spawn(move || {
                        let (http, mut done) = (client_with(None), 0);
                        while !over.load(Ordering::Relaxed) {
                            filter.work(&http, server);
                            done += 1;
                        }
                        done
                    })
                })
                .collect();
            for neighbour in neighbours {
                neighbour.join().unwrap();
            }
            over.store(true, Ordering::Relaxed);
            busy.into_iter().map(|it| it.join().unwrap()).sum()
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
    let (capacity, lasts) = match is_long {
        true => (2_000_000, Duration::from_secs(60)),
        false => (100_000, Duration::from_secs(5)),
    };
    let works = works(capacity);
    let all: Vec<&Work> = works.iter().collect();
    let dearest = measure(1, &all, lasts);
    if is_long {
        measure(2, &[dearest], lasts);
    }
}

/// Measures neighbours beside the dearest of these works, which is returned, and
/// beside batches, in so many lanes.
fn measure<'a>(lanes: usize, works: &[&'a Work], lasts: Duration) -> &'a Work {
    let is_quiet = env::var_os("CUCKOOD_TEST_QUIET").is_some();
    let folder = tempfile::tempdir().unwrap();
    let count = lanes.to_string();
    let flags = ["--lanes", &count, "--cache-bytes", "1GiB"];
    let server = Server::start(folder.path(), &flags);
    let http = client_with(None);
    for neighbour in 0..NEIGHBOURS {
        let key = format!("neighbour{neighbour}");
        server.create_filter(&key, &json!({"capacity": 100_000}));
    }
    let mut costs = Vec::new();
    for (number, work) in works.iter().enumerate() {
        let key = format!("work{number}");
        let mut filter = Filter::prepare(&http, &server, key, work);
        costs.push((filter.work(&http, &server), number, filter));
    }
    let costs_ms: serde_json::Map<_, _> = costs
        .iter()
        .map(|it| (it.2.work.name.to_owned(), json!(it.0.as_millis() as u64)))
        .collect();
    let dearest = costs.into_iter().max_by_key(|it| (it.0, it.1)).unwrap();
    let (dearest_cost, _, filter) = dearest;
    let work = filter.work;
    let mut dearest = vec![filter];
    let batches = Work {
        name: "adds to a sized filter",
        create: json!({"capacity": 20 * MOST_ITEMS}),
        action: "items",
        items: MOST_ITEMS,
        fill: Fill::Empty,
    };
    let mut sized = Vec::new();
    for n in 0..lanes {
        sized.push(Filter::prepare(
            &http,
            &server,
            format!("sized{n}"),
            &batches,
        ));
        if n > 0 {
            let key = format!("more{n}");
            dearest.push(Filter::prepare(&http, &server, key, work));
        }
    }

    let refused_path = "/filters/x/items?create=true&layout=classic&bucket_size=1&capacity=2&expansion=1&max_expansions=65535";
    let began = Instant::now();
    let body = lines(&mut 0, MOST_ITEMS);
    let (status, answer) = post(&http, &server, refused_path, body);
    let refused_after = began.elapsed();
    assert_eq!(status, 422, "{answer}");
    assert!(answer.contains("--max-chain-length"), "{answer}");

    let alone = Beside::of(&server, lasts, &mut []);
    let beside_dearest = Beside::of(&server, lasts, &mut dearest);
    let beside_batches = Beside::of(&server, lasts, &mut sized);
    let figures = json!({"neighbours": NEIGHBOURS, "lanes": lanes, "costs_ms": costs_ms,
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
    work
}
