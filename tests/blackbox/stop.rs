//! A server that is asked to stop answers what it has taken, keeps it, and
//! ends with exit code 0.

use crate::server::{Server, post_lines};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

fn stops_without_losing_anything(signal: &str) {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    server.create_filter("seen", &json!({"capacity": 1_000_000, "expansion": 2}));
    let url = server.url("/filters/seen/items");
    let client = server.client().clone();
    let batches_answered = AtomicU64::new(0);

    thread::scope(|scope| {
        for client_number in 0..4 {
            let (client, url, batches_answered) = (&client, &url, &batches_answered);
            scope.spawn(move || {
                for batch in 0.. {
                    let names: Vec<String> = (0..100)
                        .map(|n| format!("client {client_number} batch {batch} item {n}"))
                        .collect();
                    // Once the server is gone, connections are refused.
                    if post_lines(client, url, &names).is_none() {
                        return;
                    }
                    batches_answered.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        thread::sleep(Duration::from_millis(500));
        server.signal(signal);
        let (status, log) = server.wait();
        assert_eq!(status.code(), Some(0), "{log}");
    });

    let answered = batches_answered.load(Ordering::SeqCst);
    assert!(answered > 0);
    let server = Server::start(data.path(), &[]);
    // A batch that was cut off on its way is there as a whole or not at all;
    // each client has at most one of those.
    let items = server.items("seen");
    assert_eq!(items % 100, 0);
    let batches = items / 100;
    assert!(
        (answered..=answered + 4).contains(&batches),
        "{answered} batches were answered, {batches} are there"
    );
    // A clean stop leaves nothing to replay.
    assert_eq!(server.metric("cuckood_log_bytes"), 0.0);
}

#[test]
fn a_server_under_load_stops_cleanly_on_sigterm() {
    stops_without_losing_anything("TERM");
}

#[test]
fn a_server_under_load_stops_cleanly_on_ctrl_c() {
    stops_without_losing_anything("INT");
}
