//! What Prometheus would scrape, judged by its own checker.

use crate::server::Server;
use serde_json::json;
use std::env;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// `make test` says where `promtool` is. Without that, one that is found on the
/// path is used, and where there is none this test says so and passes.
#[test]
fn promtool_finds_nothing_to_complain_about() {
    let server_data = tempfile::tempdir().unwrap();
    let server = Server::start(server_data.path(), &[]);
    server.create_filter("seen", &json!({"capacity": 1_000}));
    let items: Vec<String> = (0..2_000).map(|n| format!("item {n}")).collect();
    server.post_lines("/filters/seen/items", &items).unwrap();
    server.post_lines("/filters/seen/exists", &items).unwrap();
    server
        .post_lines("/filters/seen/items/delete", &items)
        .unwrap();
    let scraped = server.get_text("/metrics");

    let given = env::var_os("PROMTOOL");
    let promtool = Command::new(given.clone().unwrap_or_else(|| "promtool".into()))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match promtool {
        Ok(promtool) => promtool,
        Err(_) if given.is_none() => {
            println!("skipped: there is no promtool here");
            return;
        }
        Err(error) => panic!("{given:?}: {error}"),
    };
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(scraped.as_bytes())
        .unwrap();
    let verdict = promtool.wait_with_output().unwrap();
    assert!(
        verdict.status.success() && verdict.stdout.is_empty() && verdict.stderr.is_empty(),
        "{}{}",
        String::from_utf8_lossy(&verdict.stdout),
        String::from_utf8_lossy(&verdict.stderr)
    );
}
