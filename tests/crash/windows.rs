//! `kill -9` while items that expire are added and seen again, again and again.
//!
//! `CUCKOOD_CRASH_CYCLES` and `CUCKOOD_CRASH_SEED` as for `kill`.

use crate::kill::{TIGHT, check};
use crate::random::{Random, from_environment, seed};
use crate::server::{Server, post_lines};
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

/// Items of a batch.
const ITEMS: usize = 200;

/// Long enough for what is checked, and of so short epochs that many pass.
const WINDOW_SECONDS: u64 = 120;

fn items(batch: usize) -> Vec<String> {
    (0..ITEMS).map(|item| format!("{batch}-{item}")).collect()
}

#[test]
fn what_was_seen_and_acknowledged_is_found_after_kill_9() {
    let cycles = from_environment("CUCKOOD_CRASH_CYCLES").unwrap_or(6);
    let seed = seed("CUCKOOD_CRASH_SEED");
    println!("CUCKOOD_CRASH_SEED={seed} CUCKOOD_CRASH_CYCLES={cycles}");
    let mut random = Random(seed);
    let data = tempfile::tempdir().unwrap();
    let data_dir = data.path().join("data");
    let mut server = Server::start(&data_dir, TIGHT);
    let parameters = json!({
        "capacity": 1_000, "window_seconds": WINDOW_SECONDS, "window_resolution_seconds": 1,
    });
    server.create_filter("seen", &parameters);
    // When each batch was sent last, if that was acknowledged.
    let mut acknowledged: Vec<Option<Instant>> = Vec::new();
    let mut seen_again = 0;
    for _ in 0..cycles {
        let pause = Duration::from_millis(100 + random.below(900));
        let (client, url) = (server.client().clone(), server.url("/filters/seen/items"));
        thread::scope(|scope| {
            let (acknowledged, seen_again) = (&mut acknowledged, &mut seen_again);
            let random = &mut random;
            scope.spawn(move || {
                loop {
                    let again = random.below(3) == 0 && !acknowledged.is_empty();
                    let number = match again {
                        true => random.below(acknowledged.len() as u64) as usize,
                        false => {
                            acknowledged.push(None);
                            acknowledged.len() - 1
                        }
                    };
                    let sent = Instant::now();
                    let Some(results) = post_lines(&client, &url, &items(number)) else {
                        return;
                    };
                    let is_in = |it: &String| it == "added" || it == "refreshed";
                    assert!(results.iter().all(is_in), "{results:?}");
                    *seen_again += u64::from(again);
                    acknowledged[number] = Some(sent);
                }
            });
            thread::sleep(pause);
            server.end();
        });
        server = Server::start(&data_dir, TIGHT);
        for (number, sent) in acknowledged.iter().enumerate() {
            let asked = server.post_lines("/filters/seen/exists", &items(number));
            let found = asked.unwrap();
            let is_fresh = sent.is_some_and(|it| it.elapsed().as_secs() + 1 < WINDOW_SECONDS);
            let all = found.iter().all(|it| it == "true");
            assert!(all || !is_fresh, "batch {number}: {found:?}");
        }
    }
    println!(
        "{} batches, seen again {seen_again} times",
        acknowledged.len()
    );
    assert!(acknowledged.len() as u64 > cycles);
    server.stop();
    check(&data_dir);
}
