//! Lanes spread over the pods, also after all of them were started again one by
//! one, and a hand-over is no pause worth naming.

use crate::broker::Brokers;
use crate::commands::{self, Connection, int, words};
use crate::founded::shop;
use crate::nats_server;
use crate::operator::found;
use crate::program::{Client, Pod, status, until_led};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LANES: u32 = 6;

/// How many lanes each pod leads.
fn leads(brokers: &Brokers, pods: &[Pod]) -> Vec<usize> {
    let status = status(brokers);
    let lanes = status["lanes"].as_array().unwrap();
    let of = |pod: &Pod| {
        let is_its = |lane: &&Value| lane["leader"] == *pod.address;
        lanes.iter().filter(is_its).count()
    };
    pods.iter().map(of).collect()
}

/// Waits until every pod leads its share.
fn level(brokers: &Brokers, pods: &[Pod]) -> Duration {
    let started = Instant::now();
    loop {
        let leads = leads(brokers, pods);
        let share = LANES as usize / pods.len();
        if leads.iter().all(|it| *it == share) {
            return started.elapsed();
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{leads:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_merge_has_all_that_was_acknowledged_for_filters_that_other_pods_lead() {
    let Some(brokers) = shop(LANES) else { return };
    let asking = Client::new();
    let pods = Pod::several(2, &brokers, &asking);
    level(&brokers, &pods);
    let addresses: Vec<String> = pods.iter().map(|it| it.address.clone()).collect();
    asking.insist(&addresses, 0, "make", "PUT", "/filters/all", &json!({}));
    for round in 0..30 {
        // Pods take turns; none is told a position.
        let add = json!({ "items": [round], "create": { "sibling_of": "all" } });
        let (key, path) = (format!("add-{round}"), format!("/filters/f{round}/items"));
        asking.insist(&addresses, round, &key, "POST", &path, &add);
        let (key, merge) = (
            format!("merge-{round}"),
            json!({ "from": [format!("f{round}")] }),
        );
        let path = "/filters/all/merge";
        asking.insist(&addresses, round / 2, &key, "POST", path, &merge);
        let url = format!("{}/filters/all", addresses[round % 2]);
        let strong = [("cuckood-consistency", "strong")];
        let all = until_led(|| asking.send("GET", &url, &strong, None).unwrap());
        assert_eq!(all.body["items"], round + 1, "{}", all.body);
    }
}

/// Adds one item after the other to a filter; returns the longest pause between two
/// that were acknowledged, and how many attempts were refused.
fn keep_adding(
    asking: &Client,
    addresses: &[String],
    filter: usize,
    is_over: &AtomicBool,
) -> (Duration, u64, u64) {
    let (mut longest, mut refused, mut added) = (Duration::ZERO, 0, 0u64);
    let mut last = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let body = json!({ "items": [added] });
        let key = format!("add-{filter}-{added}");
        for attempt in 0.. {
            let address = &addresses[(added as usize + attempt) % addresses.len()];
            let url = format!("{address}/filters/f{filter}/items");
            let headers = [("idempotency-key", key.as_str())];
            match asking.send("POST", &url, &headers, Some(&body)) {
                Some(answer) if answer.status == 200 => break,
                Some(answer) => {
                    let may_be_sent_again = [409, 503].contains(&answer.status);
                    assert!(may_be_sent_again, "{}: {}", answer.status, answer.body);
                    refused += 1;
                }
                None => refused += 1,
            }
            assert!(last.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        longest = longest.max(last.elapsed());
        last = Instant::now();
        added += 1;
        std::thread::sleep(Duration::from_millis(2));
    }
    (longest, refused, added)
}

#[test]
fn pods_that_start_are_given_their_share_of_lanes_and_hand_overs_pause_nothing_for_long() {
    if !nats_server::is_there() {
        return;
    }
    let brokers = Brokers::start(3, "always");
    found(&brokers, LANES);
    let asking = Client::new();
    let mut pods = vec![Pod::start(&brokers)];
    pods[0].ready(&asking);
    assert_eq!(leads(&brokers, &pods), [6]);
    let addresses = vec![pods[0].address.clone()];
    for filter in 0..8 {
        let (key, path) = (format!("make-{filter}"), format!("/filters/f{filter}"));
        let body = json!({ "capacity": 100_000 });
        asking.insist(&addresses, 0, &key, "PUT", &path, &body);
    }
    // Two more come while changes go on.
    let is_over = AtomicBool::new(false);
    let measured: Vec<(Duration, u64, u64)> = std::thread::scope(|scope| {
        let run = |filter| {
            let (asking, addresses, is_over) = (asking.clone(), &addresses, &is_over);
            scope.spawn(move || keep_adding(&asking, addresses, filter, is_over))
        };
        let clients: Vec<_> = (0..8).map(run).collect();
        for _ in 0..2 {
            let mut pod = Pod::start(&brokers);
            pod.ready(&asking);
            pods.push(pod);
        }
        println!("six lanes were level after {:?}", level(&brokers, &pods));
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let longest = measured.iter().map(|it| it.0).max().unwrap();
    let refused: u64 = measured.iter().map(|it| it.1).sum();
    let added: u64 = measured.iter().map(|it| it.2).sum();
    println!("hand-overs: longest pause {longest:?}, {refused} refused of {added}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    // Who has as many lanes as the others keeps them.
    let before = status(&brokers)["lanes"].clone();
    std::thread::sleep(Duration::from_secs(4));
    let leaders = |lanes: &Value| -> Vec<Value> {
        let lanes = lanes.as_array().unwrap().iter();
        lanes.map(|it| it["leader"].clone()).collect()
    };
    assert_eq!(leaders(&status(&brokers)["lanes"]), leaders(&before));

    // One after the other is stopped and started, as a rolling upgrade does.
    let addresses: Vec<String> = pods.iter().map(|it| it.address.clone()).collect();
    let is_over = AtomicBool::new(false);
    let measured: Vec<(Duration, u64, u64)> = std::thread::scope(|scope| {
        let run = |filter| {
            let (asking, addresses, is_over) = (asking.clone(), &addresses, &is_over);
            scope.spawn(move || keep_adding(&asking, addresses, filter, is_over))
        };
        // Those of before, whose keys would be answered without being done.
        let clients: Vec<_> = (8..14)
            .map(|filter| {
                let (key, path) = (format!("make-{filter}"), format!("/filters/f{filter}"));
                let body = json!({ "capacity": 100_000 });
                asking.insist(&addresses, 0, &key, "PUT", &path, &body);
                run(filter)
            })
            .collect();
        for pod in &mut pods {
            assert_eq!(pod.terminate(), Some(0), "{}", pod.log());
            pod.start_again();
            pod.ready(&asking);
        }
        println!(
            "level after all were restarted: {:?}",
            level(&brokers, &pods)
        );
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let longest = measured.iter().map(|it| it.0).max().unwrap();
    let refused: u64 = measured.iter().map(|it| it.1).sum();
    let added: u64 = measured.iter().map(|it| it.2).sum();
    println!("restarts: longest pause {longest:?}, {refused} refused of {added}");
    assert!(longest < Duration::from_secs(5), "{longest:?}");
}

#[test]
fn lanes_that_are_handed_over_refuse_nobody_who_asks_another_pod() {
    let Some(brokers) = shop(16) else { return };
    let asking = Client::new();
    let (mut first, _) = commands::start(&brokers, &[]);
    first.ready(&asking);
    let mut pods = vec![first];
    let capacity = json!({ "capacity": 1000 });
    for filter in 0..32 {
        let path = format!("/filters/f{filter}");
        asking.insist(
            &[pods[0].address.clone()],
            0,
            &path,
            "PUT",
            &path,
            &capacity,
        );
    }
    // It is given half of the lanes, one after the other.
    let (mut other, port) = commands::start(&brokers, &[]);
    other.ready(&asking);
    pods.push(other);
    let (asked, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (asking, address) = (asking.clone(), &pods[1].address);
            let (asked, is_over) = (&asked, &is_over);
            scope.spawn(move || {
                for item in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let url = format!("{address}/filters/f{}", (item + 8 * client) % 32);
                    let add = json!({ "items": [format!("{client}-{item}")] });
                    let added = asking.send("POST", &format!("{url}/items"), &[], Some(&add));
                    let added = added.unwrap();
                    assert_eq!(added.status, 200, "{}", added.body);
                    let strong = [("cuckood-consistency", "strong")];
                    let seen = asking.send("GET", &url, &strong, None).unwrap();
                    assert_eq!(seen.status, 200, "{}", seen.body);
                    asked.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
        for client in 0..2 {
            let (asked, is_over) = (&asked, &is_over);
            scope.spawn(move || {
                let mut connection = Connection::open(port);
                for item in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let add = |filter| words(&format!("CF.ADD f{filter} redis-{client}-{item}"));
                    let mut commands: Vec<_> = (0..32).map(add).collect();
                    let mut expected = vec![int(1); 32];
                    // One about no filter, which is answered where it is asked.
                    commands.insert(16, words("ECHO ada"));
                    expected.insert(16, redis::Value::BulkString(b"ada".to_vec()));
                    assert_eq!(connection.pipeline(&commands), expected);
                    asked.fetch_add(32, Ordering::Relaxed);
                }
            });
        }
        let started = Instant::now();
        while leads(&brokers, &pods)[1] < 8 {
            if started.elapsed() > Duration::from_secs(60) {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(started.elapsed() < Duration::from_secs(60));
    });
    println!(
        "{} answers while lanes were handed over",
        asked.into_inner()
    );
}
