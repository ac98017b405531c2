//! Many clients of a few filters, and what they saw.
//!
//! `CUCKOOD_HISTORY_OPERATIONS` sets how many operations (default 100,000),
//! `CUCKOOD_HISTORY_SEED` repeats the choices of an earlier run.
//!
//! One coupon that a thousand clients delete at the same time is in
//! `tests/blackbox/redeeming.rs`.

use crate::checker::{Done, Operation, check};
use crate::pipelines;
use crate::ports::free_port;
use crate::random::{Random, from_environment, seed};
use crate::server::{Server, post_lines};
use reqwest::StatusCode;
use reqwest::blocking::Client;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: usize = 16;

/// Items of each filter whose history is kept. Few, so that clients meet.
pub(crate) const ITEMS: u64 = 24;

/// In this one others are added and deleted all the time, so that its pages are
/// split and merged, and entries are kicked out. With 32 bits no other item looks
/// like one of ours.
const CROWDED: &str = "crowded";
/// This one grows by sub-filters as others are added, which are deleted again, and
/// it is compacted. Few bits, but nothing in it looks like one of ours.
const CHAIN: &str = "chain";
pub(crate) const FILTERS: [&str; 2] = [CROWDED, CHAIN];
/// This one is larger than the cache, and others ask for items all over it, so that
/// pages are evicted all the time, those of the other two as well.
const LARGE: &str = "large";

/// The smallest cache there may be, and pages in it.
const CACHE_BYTES: u64 = 32 << 20;
const CACHE_PAGES: u64 = CACHE_BYTES / PAGE_BYTES;
const PAGE_BYTES: u64 = 4096;

/// Items that make the crowded one grow, how many at once, and items of each
/// question for items all over the large one.
const MANY: u64 = 12_000;
const AT_ONCE: usize = 400;
const ASKED: u64 = 400;

/// Slots of each sub-filter of the chain, others in it, and copies of each.
const SUB_FILTER: u64 = 16;
const OTHERS: usize = 24;
const COPIES: usize = 12;

/// One is to be filled and emptied, the other compacted, at least once within so long.
const LONGEST: Duration = Duration::from_secs(120);

/// What one client saw: filter, item, operation.
pub(crate) type Seen = Vec<(usize, u64, Operation)>;

#[test]
fn what_many_clients_see_of_few_filters_could_have_happened_in_one_order() {
    let wanted = from_environment("CUCKOOD_HISTORY_OPERATIONS").unwrap_or(100_000);
    let seed = seed("CUCKOOD_HISTORY_SEED");
    println!("CUCKOOD_HISTORY_SEED={seed} CUCKOOD_HISTORY_OPERATIONS={wanted}");
    let mut random = Random(seed);
    let data = tempfile::tempdir().unwrap();
    // Pages go to the disk and come back all the time.
    let cache = format!("--cache-bytes={CACHE_BYTES}");
    let redis_port = free_port();
    let redis = format!("--redis-listen=127.0.0.1:{redis_port}");
    let flags = &[
        cache.as_str(),
        &redis,
        "--max-log-bytes=64KiB",
        "--wal-sync=never",
    ];
    let server = Server::start(data.path(), flags);
    let of_32_bits = |capacity: u64| json!({"capacity": capacity, "fingerprint_bits": 32});
    server.create_filter(CROWDED, &of_32_bits(500));
    server.create_filter(LARGE, &of_32_bits(CACHE_PAGES * 1024 * 5 / 4));
    let chain = json!({"layout": "classic", "bucket_size": 2, "capacity": SUB_FILTER,
        "expansion": 1, "max_expansions": 63});
    server.create_filter(CHAIN, &chain);
    for filter in FILTERS {
        assert_items_differ(&server, filter);
    }

    let others = others(&server);
    let (started, stop) = (Instant::now(), AtomicBool::new(false));
    let grown = Grown::default();
    let operations = AtomicU64::new(0);
    let (client, base) = (server.client(), server.url(""));
    let seen: Seen = thread::scope(|scope| {
        let (stop, base, grown) = (&stop, base.as_str(), &grown);
        scope.spawn(move || crowd(client, base, stop, grown));
        scope.spawn(move || ask(client, base, stop));
        scope.spawn(|| compact(client, base, stop, &others, grown));
        let watchers: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let mut random = Random(random.next());
                let (operations, started) = (&operations, &started);
                scope.spawn(move || {
                    let mut seen = Seen::new();
                    let mut connection = pipelines::connect(redis_port);
                    while operations.load(Ordering::Relaxed) < wanted || grown.wants_more(started) {
                        let before = seen.len();
                        match random.below(2) {
                            0 => work(&mut random, client, base, started, &mut seen),
                            _ => {
                                let connection = &mut connection;
                                pipelines::work(&mut random, connection, started, &mut seen);
                            }
                        }
                        let more = (seen.len() - before) as u64;
                        operations.fetch_add(more, Ordering::Relaxed);
                    }
                    seen
                })
            })
            .collect();
        let seen: Vec<_> = watchers
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        stop.store(true, Ordering::Relaxed);
        seen.into_iter().flat_map(Result::unwrap).collect()
    });
    let (seconds, checking) = (started.elapsed().as_secs(), Instant::now());

    let (mut most_at_once, mut histories) = (0, 0);
    let mut impossible = Vec::new();
    for (number, filter) in FILTERS.into_iter().enumerate() {
        for item in 0..ITEMS {
            let of_this = |it: &&(usize, u64, Operation)| it.0 == number && it.1 == item;
            let history: Vec<Operation> = seen.iter().filter(of_this).map(|it| it.2).collect();
            most_at_once = most_at_once.max(at_once(&history));
            histories += 1;
            if let Err(why) = check(&history) {
                impossible.push(format!("item {item} of {filter}: {why:?}"));
            }
        }
    }
    let (most, emptied) = (grown.most_bytes.into_inner(), grown.emptied.into_inner());
    let counted = |name: &str| server.metric(name) as u64;
    let evictions = counted("cuckood_cache_evictions_total");
    let splits = counted("cuckood_page_splits_total");
    let merges = counted("cuckood_page_merges_total");
    let compacted = counted("cuckood_compactions_total{outcome=\"done\"}");
    let moved = counted("cuckood_compaction_entries_total");
    println!(
        "{}",
        json!({
            "test": "linearizable",
            "seed": seed,
            "operations": seen.len(),
            "clients": CLIENTS,
            "histories": histories,
            "most_operations_on_an_item_at_once": most_at_once,
            "cache_bytes": CACHE_BYTES,
            "largest_crowded_bytes": most,
            "pages_evicted": evictions,
            "emptied": emptied,
            "pages_split": splits,
            "pages_merged": merges,
            "compactions": compacted,
            "entries_moved": moved,
            "impossible": impossible.len(),
            "seconds": seconds,
            "checked_in_ms": checking.elapsed().as_millis() as u64,
        })
    );
    assert!(impossible.is_empty(), "{impossible:#?}");
    assert!(most_at_once > 2, "the clients never met");
    assert!(most > 8 * PAGE_BYTES, "the filter never grew");
    assert!(emptied > 0, "the filter never shrank");
    assert!(evictions > CACHE_PAGES, "the cache was never full");
    assert!(splits > 8 * emptied && merges > 8 * emptied);
    assert!(compacted > 0 && moved > 0, "the chain was never compacted");
    server.stop();
}

/// Sees that no two of our items look alike: then they don't touch each other.
fn assert_items_differ(server: &Server, filter: &str) {
    let path = |rest: &str| format!("/filters/{filter}/{rest}");
    let names = names(0..ITEMS);
    server.post_lines(&path("items"), &names).unwrap();
    let counts = server.post_lines(&path("count"), &names).unwrap();
    assert!(counts.iter().all(|count| count == "1"), "{counts:?}");
    server.post_lines(&path("items/delete"), &names).unwrap();
}

/// Items that look like none of ours in the chain, whose first sub-filter is the one
/// in which items look alike most.
fn others(server: &Server) -> Vec<String> {
    let path = |rest: &str| format!("/filters/{CHAIN}/{rest}");
    let looks_like_none = |other: &String| {
        let other = std::slice::from_ref(other);
        server.post_lines(&path("items"), other).unwrap();
        let counts = server.post_lines(&path("count"), &names(0..ITEMS)).unwrap();
        server.post_lines(&path("items/delete"), other).unwrap();
        counts.iter().all(|count| count == "0")
    };
    (0..)
        .map(|n| format!("other {n}"))
        .filter(looks_like_none)
        .take(OTHERS)
        .collect()
}

fn names(items: impl IntoIterator<Item = u64>) -> Vec<String> {
    items
        .into_iter()
        .map(|item| format!("item {item}"))
        .collect()
}

/// One request about some items.
fn work(random: &mut Random, client: &Client, base: &str, started: &Instant, seen: &mut Seen) {
    let filter = random.below(FILTERS.len() as u64) as usize;
    let url = format!("{base}/filters/{}", FILTERS[filter]);
    // Half of all requests are about a quarter of the items.
    let among = if random.below(2) == 0 {
        ITEMS
    } else {
        ITEMS / 4
    };
    let first = random.below(among);
    let count = 1 + random.below(4);
    let items: Vec<u64> = (first..first + count).map(|item| item % ITEMS).collect();
    let names = names(items.iter().copied());
    let verb = random.below(12);
    let called = started.elapsed().as_nanos() as u64;
    let results = match verb {
        0..3 => lines(client, &format!("{url}/items"), &names),
        3 | 4 => lines(client, &format!("{url}/items?only_if_absent=true"), &names),
        5..8 => lines(client, &format!("{url}/items/delete"), &names),
        8 => lines(client, &format!("{url}/exists"), &names),
        9 => lines(client, &format!("{url}/count"), &names),
        10 => vec![one(client, &format!("{url}/exists"), &names[0], "exists")],
        _ => vec![one(client, &format!("{url}/count"), &names[0], "count")],
    };
    let answered = started.elapsed().as_nanos() as u64;
    for (item, result) in items.into_iter().zip(results) {
        let done = match (verb, result.as_str()) {
            (0..3, "added") => Done::Added,
            (3 | 4, "added") => Done::AddedAsAbsent,
            (3 | 4, "exists") => Done::LeftAsPresent,
            (5..8, "true") => Done::Deleted,
            (5..8, "false") => Done::NoneToDelete,
            (8 | 10, "true") => Done::Found,
            (8 | 10, "false") => Done::Absent,
            (9 | 11, count) => Done::Counted(count.parse().unwrap()),
            other => panic!("{other:?}"),
        };
        let operation = Operation {
            done,
            called,
            answered,
        };
        seen.push((filter, item, operation));
    }
}

fn lines(client: &Client, url: &str, names: &[String]) -> Vec<String> {
    post_lines(client, url, names).unwrap()
}

/// Asks for one item in the query.
fn one(client: &Client, url: &str, name: &str, field: &str) -> String {
    let url = format!("{url}?item={}", name.replace(' ', "%20"));
    let answer = client.get(url).send().unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    answer.json::<Value>().unwrap()[field].to_string()
}

/// Adds others until the filter has grown, deletes them, sees that it is as small as
/// at first, and again.
fn crowd(client: &Client, base: &str, stop: &AtomicBool, seen: &Grown) {
    let url = format!("{base}/filters/{CROWDED}");
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let names: Vec<String> = (next..next + MANY).map(|n| format!("other {n}")).collect();
        next += MANY;
        for names in names.chunks(AT_ONCE) {
            let added = lines(client, &format!("{url}/items"), names);
            assert!(added.iter().all(|it| it == "added"));
        }
        let bytes = || {
            let filter: Value = client.get(&url).send().unwrap().json().unwrap();
            filter["slot_bytes"].as_u64().unwrap()
        };
        seen.most_bytes.fetch_max(bytes(), Ordering::Relaxed);
        for names in names.chunks(AT_ONCE) {
            let deleted = lines(client, &format!("{url}/items/delete"), names);
            assert!(deleted.iter().all(|it| it == "true"));
        }
        assert_eq!(bytes(), PAGE_BYTES);
        seen.emptied.fetch_add(1, Ordering::Relaxed);
    }
}

/// Asks for items all over the large filter, most of whose pages are on the disk.
fn ask(client: &Client, base: &str, stop: &AtomicBool) {
    let url = format!("{base}/filters/{LARGE}/exists");
    let mut random = Random(1);
    while !stop.load(Ordering::Relaxed) {
        let names = (0..ASKED).map(|_| format!("nobody {}", random.next()));
        lines(client, &url, &names.collect::<Vec<_>>());
    }
}

/// Makes the chain grow, deletes what did it, has the chain compacted, and again.
fn compact(client: &Client, base: &str, stop: &AtomicBool, others: &[String], seen: &Grown) {
    let url = format!("{base}/filters/{CHAIN}");
    while !stop.load(Ordering::Relaxed) {
        for (action, done) in [("items", "added"), ("items/delete", "true")] {
            for _ in 0..COPIES {
                let lines = lines(client, &format!("{url}/{action}"), others);
                assert!(lines.iter().all(|it| it == done), "{action}: {lines:?}");
            }
        }
        let asked = client.post(format!("{url}/compact")).send().unwrap();
        // It may have begun by itself.
        assert!([StatusCode::ACCEPTED, StatusCode::CONFLICT].contains(&asked.status()));
        let now = || -> Value {
            let now = client.get(format!("{url}/compaction")).send().unwrap();
            now.json().unwrap()
        };
        let mut compaction = now();
        while compaction["state"] == "running" {
            thread::sleep(Duration::from_millis(1));
            compaction = now();
        }
        if compaction["state"] == "done" && compaction["moved"] != 0 {
            seen.compacted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What was seen of the filters that grow.
#[derive(Default)]
struct Grown {
    most_bytes: AtomicU64,
    /// How often the crowded one was as small as at first again.
    emptied: AtomicU64,
    /// Compactions of the chain that moved entries to their end.
    compacted: AtomicU64,
}

impl Grown {
    fn wants_more(&self, started: &Instant) -> bool {
        let done = [&self.emptied, &self.compacted];
        let is_missing = |it: &&AtomicU64| it.load(Ordering::Relaxed) == 0;
        done.iter().any(is_missing) && started.elapsed() < LONGEST
    }
}

/// Most operations under way at the same moment.
fn at_once(history: &[Operation]) -> usize {
    let mut events: Vec<(u64, bool)> = history
        .iter()
        .flat_map(|it| [(it.called, false), (it.answered, true)])
        .collect();
    events.sort_unstable();
    let (mut now, mut most) = (0usize, 0);
    for (_, is_answer) in events {
        match is_answer {
            true => now -= 1,
            false => now += 1,
        }
        most = most.max(now);
    }
    most
}
