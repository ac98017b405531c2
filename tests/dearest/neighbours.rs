//! Filters that share a lane: what others ask of theirs must not be felt.
//!
//! Eight neighbours in each lane of a server add an item each 10 ms, when it is
//! due, beside the dearest request that is legal, which is searched for, and the one
//! beside which they had to wait longest; beside batches of as many items as a request
//! may have; beside as many copies of items that are counted, and as many as a drain
//! takes on pages that have thousands; beside filters that are made with as many items
//! as one slice takes; and beside a chain that grows, shrinks and is compacted. In one
//! lane, and where times are asserted in two, beside two such requests at once. Prints a line of
//! JSON for each number of lanes.
//!
//! On a machine that does nothing else `CUCKOOD_TEST_QUIET` asserts the times that
//! are promised. Otherwise ten times as much is allowed, times what the server's threads
//! waited for a processor: other tests and programs take turns with it, and its disk is
//! theirs, too. `CUCKOOD_LONG` searches
//! in larger filters, and measures for longer:
//!
//! ```text
//! CUCKOOD_LONG=1 CUCKOOD_TEST_QUIET=1 cargo test --release --test dearest neighbours -- --nocapture
//! ```

mod works;

use crate::server::{Server, client_with};
use foldhash::fast::FixedState;
use reqwest::StatusCode;
use reqwest::blocking::Client;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::env;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use works::{Fill, MOST_ITEMS, Work, others, works};

/// In each lane.
const NEIGHBOURS: usize = 8;
const LANE_SEED: u64 = 0x6c61_6e65;
const PERIOD: Duration = Duration::from_millis(10);

/// Keys of so many filters for each lane. The server has a filter in the lane that
/// its key's hash says.
fn neighbours(lanes: usize) -> Vec<String> {
    let mut of_lane = vec![0; lanes];
    let has_room = |key: &String| {
        let lane = FixedState::with_seed(LANE_SEED).hash_one(key.as_str()) % lanes as u64;
        of_lane[lane as usize] += 1;
        of_lane[lane as usize] <= NEIGHBOURS
    };
    (0..)
        .map(|n| format!("neighbour{n}"))
        .filter(has_room)
        .take(lanes * NEIGHBOURS)
        .collect()
}

/// What is promised: of 1,000 changes 999, and all.
const MOST: Duration = Duration::from_millis(50);
const ALL: Duration = Duration::from_millis(250);
const SLACK_ON_ANY: u32 = 10;

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
        match work.fill {
            Fill::Counted => (0..2).for_each(|_| filter.add_the_same(http, server)),
            Fill::Shrinking => {
                filter.add(http, server, "items", work.items / 10);
            }
            _ => {}
        }
        let times = match work.fill {
            Fill::Capacity => 1,
            Fill::Twice => 2,
            _ => 0,
        };
        for _ in 0..times {
            filter.next = 0;
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

    /// Adds the items of every other request.
    fn add_the_same(&mut self, http: &Client, server: &Server) {
        (self.next, self.items) = (0, VecDeque::new());
        self.add(http, server, self.work.action, self.work.items);
    }

    fn delete(&self, http: &Client, server: &Server, items: Range<u64>) {
        let mut from = items.start;
        let body = lines(&mut from, items.end - items.start);
        let path = format!("/filters/{}/items/delete", self.key);
        let (status, answer) = post(http, server, &path, body);
        assert_eq!(status, 200, "{}: {answer}", self.work.name);
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

    /// Makes the filter anew if it has its capacity: what comes then splits its pages,
    /// and is refused if it is that much at once.
    fn empty_when_full(&mut self, http: &Client, server: &Server) {
        if self.next + self.work.items > self.work.create["capacity"].as_u64().unwrap() {
            self.remove(http, server);
            server.create_filter(&self.key, &self.work.create);
            self.next = 0;
        }
    }

    fn remove(&self, http: &Client, server: &Server) {
        let url = server.url(&format!("/filters/{}", self.key));
        let removed = http.delete(url).send().unwrap().status();
        assert_eq!(removed, 204, "{}", self.key);
    }

    /// Deletes as many of the oldest items as one request adds.
    fn delete_oldest(&mut self, http: &Client, server: &Server) {
        let mut left = self.work.items;
        while left > 0
            && let Some(oldest) = self.items.pop_front()
        {
            let most = oldest.end.min(oldest.start + left);
            self.delete(http, server, oldest.start..most);
            left -= most - oldest.start;
            if most < oldest.end {
                self.items.push_front(most..oldest.end);
            }
        }
    }

    /// Does the work once, and says how long that takes.
    fn work(&mut self, http: &Client, server: &Server) -> Duration {
        match self.work.fill {
            Fill::Full | Fill::Capacity => {}
            Fill::Empty => self.empty_when_full(http, server),
            Fill::Nearly => self.delete_oldest(http, server),
            Fill::Grown => {
                let first = self.next;
                while self.next - first < self.work.items {
                    self.add(http, server, "items", 10_000);
                }
                self.next = first;
            }
            Fill::Counted => {
                self.delete(http, server, 0..self.work.items);
                self.next = 0;
            }
            Fill::Twice => self.next %= self.work.create["capacity"].as_u64().unwrap(),
            Fill::Made => self.remove(http, server),
            Fill::Shrinking => {
                self.add(http, server, "items", self.work.items);
                self.delete_oldest(http, server);
            }
        }
        let began = Instant::now();
        match self.work.fill {
            Fill::Shrinking => self.compact(http, server),
            _ => {
                self.add(http, server, self.work.action, self.work.items);
            }
        }
        began.elapsed()
    }

    /// Has it compacted, unless it is already, and waits for the end of that.
    fn compact(&self, http: &Client, server: &Server) {
        let of_filter = |rest| server.url(&format!("/filters/{}/{rest}", self.key));
        let asked = http.post(of_filter("compact")).send().unwrap().status();
        let is_running = asked == StatusCode::ACCEPTED || asked == StatusCode::CONFLICT;
        assert!(is_running, "{}: {asked}", self.key);
        loop {
            let now = http.get(of_filter("compaction")).send().unwrap();
            if now.json::<Value>().unwrap()["state"] != "running" {
                return;
            }
            thread::sleep(PERIOD);
        }
    }
}

/// Times of the neighbours while something else is done again and again.
struct Beside {
    times: Vec<Duration>,
    /// Requests that were done meanwhile.
    requests: usize,
    /// How many times longer the server's threads took because they waited for a processor.
    stretch: f64,
}

impl Beside {
    /// Beside work on these filters.
    fn of(
        server: &Server,
        neighbours: &[String],
        lasts: Duration,
        filters: &mut [Filter<'_>],
    ) -> Beside {
        let times = Mutex::new(Vec::new());
        let over = AtomicBool::new(false);
        // That they connect is nobody's wait.
        let connected = neighbours.iter().map(|neighbour| {
            let (http, path) = (client_with(None), format!("/filters/{neighbour}/items"));
            assert_eq!(post(&http, server, &path, "connected\n".to_owned()).0, 200);
            (http, path)
        });
        let connected: Vec<_> = connected.collect();
        let before = server.scheduled();
        let begins = Instant::now();
        let requests = thread::scope(|scope| {
            let count = connected.len() as u32;
            let neighbours: Vec<_> = connected
                .into_iter()
                .zip(0..)
                .map(|((http, path), number)| {
                    let times = &times;
                    scope.spawn(move || {
                        let mut due = begins + PERIOD * number / count;
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
        let after = server.scheduled();
        let [ran, waited] = [0, 1].map(|n| after[n].saturating_sub(before[n]) as f64);
        Beside {
            times,
            requests,
            stretch: (ran + waited) / ran,
        }
    }

    fn at(&self, part: f64) -> Duration {
        let last = self.times.len() - 1;
        self.times[(last as f64 * part) as usize]
    }

    fn json(&self) -> Value {
        let ms = |time: Duration| (time.as_secs_f64() * 10_000.0).round() / 10.0;
        json!({"adds": self.times.len(), "requests_beside": self.requests,
            "stretch": (self.stretch * 10.0).round() / 10.0,
            "p50_ms": ms(self.at(0.5)), "p99_ms": ms(self.at(0.99)),
            "p99_9_ms": ms(self.at(0.999)), "slowest_ms": ms(self.at(1.0))})
    }
}

#[test]
fn neighbours_do_not_feel_what_others_ask_of_their_filters() {
    let [is_long, is_quiet] =
        ["CUCKOOD_LONG", "CUCKOOD_TEST_QUIET"].map(|it| env::var_os(it).is_some());
    let (capacity, lasts) = match is_long {
        true => (2_000_000, Duration::from_secs(60)),
        false => (100_000, Duration::from_secs(5)),
    };
    let works = works(capacity);
    let all: Vec<&Work> = works.iter().collect();
    let worst = measure(1, &all, capacity, lasts);
    if is_long || is_quiet {
        measure(2, &worst, capacity, lasts);
    }
}

/// A work that was tried.
struct Tried<'a> {
    /// What it took once.
    cost: Duration,
    /// The neighbours' worst answer beside it.
    slowest: Duration,
    filter: Filter<'a>,
}

impl<'a> Tried<'a> {
    /// Tries it beside neighbours for a while.
    fn of(
        http: &Client,
        server: &Server,
        neighbours: &[String],
        lasts: Duration,
        mut filter: Filter<'a>,
    ) -> Tried<'a> {
        let cost = filter.work(http, server);
        let mut filters = [filter];
        let slowest = Beside::of(server, neighbours, lasts, &mut filters).at(1.0);
        let [filter] = filters;
        Tried {
            cost,
            slowest,
            filter,
        }
    }
}

/// Measures neighbours beside the dearest of these works and the one beside which they
/// wait longest, which are returned, and beside others, in so many lanes.
fn measure<'a>(lanes: usize, works: &[&'a Work], capacity: u64, lasts: Duration) -> Vec<&'a Work> {
    let is_quiet = env::var_os("CUCKOOD_TEST_QUIET").is_some();
    let folder = tempfile::tempdir().unwrap();
    let count = lanes.to_string();
    let flags = ["--lanes", &count, "--cache-bytes", "1GiB"];
    let server = Server::start(folder.path(), &flags);
    let http = client_with(None);
    let neighbours = neighbours(lanes);
    for key in &neighbours {
        server.create_filter(key, &json!({"capacity": 100_000}));
    }
    let mut tried = Vec::new();
    for (number, work) in works.iter().enumerate() {
        let key = format!("work{number}");
        let filter = Filter::prepare(&http, &server, key, work);
        tried.push(Tried::of(&http, &server, &neighbours, lasts / 5, filter));
    }
    let tried_ms: serde_json::Map<_, _> = tried
        .iter()
        .map(|it| {
            let times = [it.cost, it.slowest].map(|time| time.as_millis() as u64);
            (it.filter.work.name.to_owned(), json!(times))
        })
        .collect();
    tried.sort_by_key(|it| it.cost);
    let dearest = tried.pop().unwrap();
    let slowest = tried.into_iter().max_by_key(|it| it.slowest);
    let slowest = slowest.filter(|it| it.slowest > dearest.slowest);
    let worst: Vec<Filter<'_>> = [Some(dearest), slowest]
        .into_iter()
        .flatten()
        .map(|it| it.filter)
        .collect();
    let worst_works: Vec<&Work> = worst.iter().map(|it| it.work).collect();
    let worst_names: Vec<&str> = worst_works.iter().map(|it| it.name).collect();
    let others = others(capacity);
    let mut beside: Vec<Vec<Filter<'_>>> = Vec::new();
    for (number, filter) in worst.into_iter().enumerate() {
        let work = filter.work;
        let more = (1..lanes).map(|n| {
            let key = format!("more{number}-{n}");
            Filter::prepare(&http, &server, key, work)
        });
        beside.push([filter].into_iter().chain(more).collect());
    }
    for (number, work) in others.iter().enumerate() {
        let filters = (0..lanes).map(|n| {
            let key = format!("other{number}-{n}");
            Filter::prepare(&http, &server, key, work)
        });
        beside.push(filters.collect());
    }

    let refused_path = "/filters/x/items?create=true&layout=classic&bucket_size=1&capacity=2&expansion=1&max_expansions=65535";
    let began = Instant::now();
    let body = lines(&mut 0, MOST_ITEMS);
    let (status, answer) = post(&http, &server, refused_path, body);
    let refused_after = began.elapsed();
    assert_eq!(status, 422, "{answer}");
    assert!(answer.contains("--max-chain-length"), "{answer}");

    let alone = Beside::of(&server, &neighbours, lasts, &mut []);
    let beside: Vec<(&str, Beside)> = beside
        .iter_mut()
        .map(|filters| {
            let name = filters[0].work.name;
            (name, Beside::of(&server, &neighbours, lasts, filters))
        })
        .collect();
    let besides: serde_json::Map<_, _> = (beside.iter())
        .map(|(name, beside)| ((*name).to_owned(), beside.json()))
        .collect();
    let figures = json!({"neighbours": neighbours.len(), "lanes": lanes,
        "tried_ms_and_slowest_ms": tried_ms, "worst": worst_names,
        "refused_after_ms": refused_after.as_millis() as u64,
        "alone": alone.json(), "beside": besides,
        "slices": server.metric("cuckood_plan_slices_total")});
    println!("{figures}");
    assert!(
        server.metric("cuckood_plan_slices_total") > 0.0,
        "{figures}"
    );
    // On a machine that is busy with other things they wait when alone, too, and as long
    // again as the server waits for a processor.
    let bound = |bar: Duration, alone: Duration, stretch: f64| match is_quiet {
        true => bar,
        false => (SLACK_ON_ANY * bar.max(alone)).mul_f64(stretch),
    };
    for (_, beside) in &beside {
        assert!(beside.requests > 0, "{figures}");
        let most = bound(MOST, alone.at(0.999), beside.stretch);
        assert!(beside.at(0.999) < most, "{figures}");
        let all = bound(ALL, alone.at(1.0), beside.stretch);
        assert!(beside.at(1.0) < all, "{figures}");
    }
    worst_works
}
