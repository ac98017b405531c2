//! A record that is well-formed, and whose commit nobody can apply: what pods say of it.

use crate::broker::Brokers;
use crate::founded::shop;
use crate::program::{Client, Pod, status};
use bytes::Bytes;
use cuckood::cluster::{HistoryHash, Position, Record};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Puts such a record behind the newest one of the first lane.
fn spoil(brokers: &Brokers) {
    Runtime::new().unwrap().block_on(async {
        let client = async_nats::connect(brokers.addresses.clone())
            .await
            .unwrap();
        let context = async_nats::jetstream::new(client);
        let stream = context.get_stream("CUCKOOD_shop_1").await.unwrap();
        let subject = "cuckood.shop.1.0";
        let newest = stream.get_last_raw_message_by_subject(subject).await;
        let newest = newest.unwrap();
        let record = Record::decode(&newest.payload).unwrap();
        let spoilt = Record {
            previous: Position {
                sequence: newest.sequence,
                history: HistoryHash::of(&newest.payload),
            },
            commit: Bytes::from_static(b"\x01 is no commit"),
            ..record
        };
        let sent = context.publish(subject, spoilt.encode().unwrap()).await;
        sent.unwrap().await.unwrap();
    });
}

#[test]
fn a_lane_that_can_not_apply_a_record_stops_says_so_and_gives_its_lease_back() {
    let Some(brokers) = shop(1) else { return };
    let client = Client::new();
    let mut pods = [Pod::start(&brokers), Pod::start(&brokers)];
    pods.iter_mut().for_each(|pod| pod.ready(&client));
    let url = format!("{}/filters/f", pods[1].address);
    let made = client.send("PUT", &url, &[], Some(&json!({ "capacity": 100 })));
    assert_eq!(made.unwrap().status, 201);
    spoil(&brokers);
    let add = |pod: &Pod| {
        let (url, body) = (
            format!("{}/filters/f/items", pod.address),
            json!({ "items": ["a"] }),
        );
        client.send("POST", &url, &[], Some(&body))
    };
    // Whoever leads hears of it with its next change; the other one stops by itself, and
    // may pass on none then.
    for pod in &pods {
        assert_ne!(add(pod).unwrap().status, 200);
    }
    for pod in &pods {
        pod.says(&client, "1 of 1 lanes have stopped");
        pod.logged("can't be applied by this pod", 0);
        let line = "\ncuckood_lanes_stopped 1\n";
        let started = Instant::now();
        while !client
            .text(&format!("{}/metrics", pod.address))
            .contains(line)
        {
            assert!(started.elapsed() < Duration::from_secs(20), "{line}");
            std::thread::sleep(Duration::from_millis(100));
        }
        // Questions go on.
        let url = format!("{}/filters/f/exists?item=a", pod.address);
        let answer = client.send("GET", &url, &[], None).unwrap();
        assert_eq!(answer.body, json!({ "exists": false }));
    }
    let started = Instant::now();
    while status(&brokers)["lanes"][0]["leader"] != Value::Null {
        assert!(started.elapsed() < Duration::from_secs(20), "it is led");
        std::thread::sleep(Duration::from_millis(200));
    }
    for pod in &pods {
        assert_eq!(add(pod).unwrap().status, 503);
    }
}
