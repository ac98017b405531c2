//! `kill -9` while values are added and deleted, again and again.
//!
//! `CUCKOOD_CRASH_CYCLES` and `CUCKOOD_CRASH_SEED` as for `kill`.

use crate::kill::{TIGHT, check};
use crate::random::{Random, from_environment, seed};
use crate::server::{Server, post_lines};
use serde_json::json;
use std::thread;
use std::time::Duration;

/// Items of a batch, each of which has several values.
const ITEMS: u64 = 40;
const VALUES: u64 = 5;

/// What is known of a batch of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Batch {
    Added,
    /// Added, and every second value deleted.
    Halved,
    /// Of the two the first or, if a request had no answer, the next.
    Adding,
    Halving,
}

fn entries(batch: usize, wanted: impl Fn(u64) -> bool) -> Vec<String> {
    let items = (0..ITEMS).flat_map(|item| (0..VALUES).map(move |nth| (item, nth)));
    let wanted = items.filter(|&(_, nth)| wanted(nth));
    wanted
        .map(|(item, nth)| format!("{batch}-{item}\t{}", value(item, nth)))
        .collect()
}

fn value(item: u64, nth: u64) -> u64 {
    item % 3 + 3 * nth
}

/// The line that lists what is left of an item.
fn listed(item: u64, is_left: impl Fn(u64) -> bool) -> String {
    let left = (0..VALUES).filter(|&nth| is_left(nth));
    let left: Vec<String> = left.map(|nth| value(item, nth).to_string()).collect();
    left.join(" ")
}

#[test]
fn values_that_were_acknowledged_survive_kill_9() {
    let cycles = from_environment("CUCKOOD_CRASH_CYCLES").unwrap_or(6);
    let seed = seed("CUCKOOD_CRASH_SEED");
    println!("CUCKOOD_CRASH_SEED={seed} CUCKOOD_CRASH_CYCLES={cycles}");
    let mut random = Random(seed);
    let data = tempfile::tempdir().unwrap();
    let data_dir = data.path().join("data");
    let mut server = Server::start(&data_dir, TIGHT);
    // So many bits that no other item's value is listed.
    let parameters = json!({
        "capacity": 100_000, "fingerprint_bits": 32, "value_bits": 4, "values_per_item": 4,
    });
    server.create_filter("joins", &parameters);
    let (mut batches, mut never_added): (Vec<Batch>, u64) = (Vec::new(), 0);
    for _ in 0..cycles {
        let pause = Duration::from_millis(100 + random.below(500));
        let (client, url) = (server.client().clone(), server.url("/filters/joins/values"));
        thread::scope(|scope| {
            let batches = &mut batches;
            scope.spawn(move || {
                loop {
                    let number = batches.len();
                    batches.push(Batch::Adding);
                    if post_lines(&client, &url, &entries(number, |_| true)).is_none() {
                        return;
                    }
                    batches[number] = Batch::Added;
                    if number % 3 > 0 {
                        continue;
                    }
                    batches[number] = Batch::Halving;
                    let gone = entries(number, |nth| nth % 2 == 0);
                    if post_lines(&client, &format!("{url}/delete"), &gone).is_none() {
                        return;
                    }
                    batches[number] = Batch::Halved;
                }
            });
            thread::sleep(pause);
            server.end();
        });
        server = Server::start(&data_dir, TIGHT);
        for (number, batch) in batches.iter_mut().enumerate() {
            let items: Vec<String> = (0..ITEMS).map(|item| format!("{number}-{item}")).collect();
            let found = server
                .post_lines("/filters/joins/values/query", &items)
                .unwrap();
            let is = |left: fn(u64) -> bool| {
                let expected = (0..ITEMS).map(|item| listed(item, left));
                expected.eq(found.iter().cloned())
            };
            let (whole, half) = (is(|_| true), is(|nth| nth % 2 == 1));
            *batch = match *batch {
                Batch::Added | Batch::Adding | Batch::Halving if whole => Batch::Added,
                Batch::Halved | Batch::Halving if half => Batch::Halved,
                // Its items are in use no more.
                Batch::Adding if is(|_| false) => {
                    never_added += 1;
                    Batch::Adding
                }
                other => panic!("batch {number} was {other:?}: {found:?}"),
            };
        }
    }
    println!("{} batches, {never_added} never added", batches.len());
    assert!(batches.len() as u64 > cycles);
    server.stop();
    check(&data_dir);
}
