//! What is stored is read in the background and compared, unless somebody turns
//! that off.

use crate::server::Server;
use serde_json::json;
use std::time::{Duration, Instant};

/// A server whose pages lie on the disk, started anew with these flags.
fn with_stored_pages(data: &std::path::Path, flags: &[&str]) -> Server {
    let server = Server::start(data, flags);
    server.create_filter("f", &json!({"capacity": 100_000}));
    let items: Vec<String> = (0..10_000).map(|item| format!("item-{item}")).collect();
    server.post_lines("/filters/f/items", &items).unwrap();
    server.stop();
    Server::start(data, flags)
}

#[test]
fn stored_pages_are_scrubbed_without_any_flag_and_not_where_it_is_turned_off() {
    let folder = tempfile::tempdir().unwrap();
    // The one that may not begin is there for longer.
    let off = with_stored_pages(&folder.path().join("off"), &["--scrub-bytes-per-second=0"]);
    let usual = with_stored_pages(&folder.path().join("usual"), &[]);
    let started = Instant::now();
    while usual.metric("cuckood_scrub_passes_total") == 0.0 {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "nothing is read"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    let pages = usual.metric("cuckood_scrub_pages_total");
    assert!(pages > 10.0, "{pages} pages");
    assert_eq!(usual.metric("cuckood_scrub_faults"), 0.0);
    for name in ["pages", "bytes", "passes"] {
        assert_eq!(off.metric(&format!("cuckood_scrub_{name}_total")), 0.0);
    }
    off.stop();
    usual.stop();
}
