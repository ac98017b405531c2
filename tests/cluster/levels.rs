//! Programs of several versions in one cluster, as a rolling upgrade has them.

use crate::founded::shop;
use crate::operator::PATIENCE;
use crate::program::{Client, Pod};
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn records_of_a_newer_level_are_written_when_all_pods_know_it_and_stop_one_that_does_not() {
    let Some(brokers) = shop(2) else { return };
    let asking = Client::new();
    let mut newer = Pod::start_with(&brokers, &["--test-feature-level=2"]);
    let mut older = Pod::start(&brokers);
    newer.ready(&asking);
    older.ready(&asking);
    let addresses = [newer.address.clone(), older.address.clone()];
    // What all understand is all that is written, however long that takes.
    let change = |key: &str, addresses: &[String]| -> String {
        let body = json!({ "items": [key] });
        asking.insist(addresses, 0, key, "POST", "/filters/f/items", &body)
    };
    let capacity = json!({ "capacity": 1000 });
    asking.insist(&addresses, 0, "make", "PUT", "/filters/f", &capacity);
    std::thread::sleep(Duration::from_secs(12));
    let at = change("both", &addresses);
    for address in &addresses {
        assert_eq!(asking.filter(address, "f", &at)["items"], 1);
    }
    // The older one goes away, for longer than an upgrade takes.
    assert_eq!(older.terminate(), Some(0));
    change("at-once", &addresses[..1]);
    newer.logged("all pods understand this feature level", 0);
    change("later", &addresses[..1]);
    // It is back, has what it may have, and says what is to be done.
    older.start_again();
    older.says(&asking, "lanes have stopped");
    older.logged(
        "has feature level 2, this program understands up to 1: start a newer cuckood",
        0,
    );
    let has = |item: &str| asking.has_all(&older.address, "f", &[item.to_owned()]);
    // Its other lane may have stopped first.
    let started = Instant::now();
    while !has("at-once") && started.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(has("both") && has("at-once") && !has("later"));
    assert_eq!(older.terminate(), Some(0));
    // Upgraded, it goes on where it was.
    older.also(&["--test-feature-level=2"]);
    older.start_again();
    older.ready(&asking);
    let at = change("last", &addresses);
    assert_eq!(asking.filter(&older.address, "f", &at)["items"], 4);
}
