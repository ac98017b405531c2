//! Positions that callers make up: questions that wait for what no record is.

use crate::founded::shop;
use crate::program::{Client, Pod};
use serde_json::json;
use std::time::{Duration, Instant};

/// A change that waits for longer is held up by them. On a quiet machine one takes a
/// few milliseconds.
const HELD_UP: Duration = Duration::from_secs(2);

/// For how long they ask: `CUCKOOD_LONG` makes it longer.
fn asked_for() -> Duration {
    Duration::from_secs(match std::env::var_os("CUCKOOD_LONG") {
        Some(_) => 8,
        None => 2,
    })
}

#[test]
fn questions_that_wait_for_positions_beyond_the_end_hold_up_no_change() {
    let Some(brokers) = shop(1) else { return };
    let client = Client::new();
    let mut pod = Pod::start(&brokers);
    pod.ready(&client);
    let url = format!("{}/filters/f", pod.address);
    let made = client.send("PUT", &url, &[], Some(&json!({ "capacity": 100_000 })));
    assert_eq!(made.unwrap().status, 201);

    let until = Instant::now() + asked_for();
    let ask = &|caller: u64| {
        let (client, mut asked) = (client.clone(), 0);
        while Instant::now() < until {
            let beyond = format!("1.0.{}", u64::MAX - 8 * asked - caller);
            let headers = [
                ("cuckood-min-position", beyond.as_str()),
                ("prefer", "wait=0.001"),
            ];
            let answer = client.send("GET", &format!("{url}/exists?item=1"), &headers, None);
            assert_eq!(answer.unwrap().status, 503);
            asked += 1;
        }
        asked
    };
    let (asked, changes, longest) = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..8).map(|it| scope.spawn(move || ask(it))).collect();
        let (mut changes, mut longest) = (0, Duration::ZERO);
        while Instant::now() < until {
            let started = Instant::now();
            let body = json!({ "items": [changes] });
            let added = client.send("POST", &format!("{url}/items"), &[], Some(&body));
            longest = longest.max(started.elapsed());
            assert_eq!(added.map(|it| it.status), Some(200), "after {longest:?}");
            changes += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        let asked: u64 = callers.into_iter().map(|it| it.join().unwrap()).sum();
        (asked, changes, longest)
    });
    println!("{asked} questions, {changes} changes, of which the longest took {longest:?}");
    assert!(asked > 200, "{asked} questions");
    assert!(longest < HELD_UP, "a change took {longest:?}");
}
