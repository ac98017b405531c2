//! A log that was purged while pods have what was in it: a pod with nothing begins no
//! other history in it.

use crate::founded::shop;
use crate::operator::{begin, new_epoch};
use crate::program::{Client, Pod, refused};
use crate::refusals::Tool;
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

const STREAM: &str = "CUCKOOD_shop_1";

/// Longer than pods take to announce what they have, and to have it kept.
const ANNOUNCED: Duration = Duration::from_secs(3);

/// A strong question about the filter, which must not be told that there is none.
fn asked(client: &Client, address: &str) -> (u16, Value) {
    let url = format!("{address}/filters/seen");
    let headers = [("cuckood-consistency", "strong"), ("prefer", "wait=1")];
    match client.send("GET", &url, &headers, None) {
        None => (503, Value::Null),
        Some(answer) => {
            assert_ne!(answer.status, 404, "{address}: {}", answer.body);
            (answer.status, answer.body)
        }
    }
}

fn is_ready(client: &Client, pod: &Pod) -> bool {
    let url = format!("{}/readyz", pod.address);
    client
        .send("GET", &url, &[], None)
        .is_some_and(|it| it.status == 200)
}

#[test]
fn an_empty_pod_begins_no_other_history_in_a_log_that_was_purged() {
    let Some(brokers) = shop(1) else { return };
    let client = Client::new();
    let mut pods = Pod::several(2, &brokers, &client);
    let addresses: Vec<String> = pods.iter().map(|it| it.address.clone()).collect();
    let capacity = json!({ "capacity": 1_000 });
    let at = client.insist(&addresses, 0, "make", "PUT", "/filters/seen", &capacity);
    addresses
        .iter()
        .for_each(|it| drop(client.filter(it, "seen", &at)));
    thread::sleep(ANNOUNCED);

    Tool::of(&brokers).purge(STREAM, "cuckood.shop.1.>");
    let mut empty = Pod::start(&brokers);
    // Those that had more find out, and say so; none of them asks the empty one.
    let body = json!({ "items": ["late"] });
    let started = Instant::now();
    for address in &addresses {
        loop {
            let url = format!("{address}/filters/seen/items");
            let prefer = [("prefer", "wait=1")];
            let added = client.send("POST", &url, &prefer, Some(&body)).unwrap();
            assert_eq!(added.status, 503, "{}", added.body);
            for pod in pods.iter().chain([&empty]) {
                let (status, body) = asked(&client, &pod.address);
                assert!([200, 503].contains(&status), "{body}");
            }
            assert!(!is_ready(&client, &empty), "{}", empty.log());
            // What the leader says is passed on, before this pod has found out itself.
            let (_, told) = asked(&client, address);
            if [&added.body, &told]
                .iter()
                .all(|it| it["code"] == "lane_stopped")
            {
                break;
            }
            assert!(
                started.elapsed() < Duration::from_secs(90),
                "{} {told}",
                added.body
            );
        }
    }
    empty.says(&client, "lanes have stopped");
    let said = empty.log();
    assert!(said.contains("the log does not have it"), "{said}");
    let from = format!("--from={}", empty.address);
    let refusal = refused(&new_epoch(&brokers, &[&from]));
    assert!(refusal.contains("the server lacks record"), "{refusal}");

    // Nor does it once the others are gone, and everything was started again.
    pods.iter_mut().for_each(Pod::kill);
    assert_eq!(empty.terminate(), Some(0));
    thread::sleep(ANNOUNCED * 2);
    empty.start_again();
    let started = Instant::now();
    while started.elapsed() < ANNOUNCED * 2 {
        assert!(!is_ready(&client, &empty), "{}", empty.log());
        let (status, body) = asked(&client, &empty.address);
        assert_eq!(status, 503, "{body}");
        thread::sleep(Duration::from_millis(100));
    }

    // A new epoch from one that has all of it is what all go on with.
    begin(
        &brokers,
        &format!("--from-data-dir={}", pods[0].data_dir().display()),
    );
    empty.kill();
    pods[0].start_again();
    pods[0].ready(&client);
    empty.start_again();
    empty.ready(&client);
    let url = format!("{}/filters/seen", empty.address);
    let found = client.send("GET", &url, &[], None).unwrap();
    assert_eq!(found.status, 200, "{}", found.body);
}
