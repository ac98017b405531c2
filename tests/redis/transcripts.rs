//! What RedisBloom 8.8 replied on redis 7.4, replayed word by word
//! (`tests/fixtures/redisbloom/transcripts.jsonl`), each section on an empty
//! server. Where this server differs on purpose, it is named here.

use crate::server::{Server, Setup};
use cuckood::chain::params::{Defaults, LayoutKind};
use serde::Deserialize;

#[derive(Deserialize)]
struct Step {
    section: String,
    proto: u8,
    command: Vec<String>,
    reply: String,
}

/// Why a reply differs, by the beginning of its command; each must be met.
const EXEMPT: &[(&str, &str, &str)] = &[
    ("reserve", "CF.RESERVE k -1", "the largest capacity is ours"),
    ("reserve", "CF.RESERVE k 0", "the largest capacity is ours"),
    ("reserve", "CF.RESERVE k 3", "the largest capacity is ours"),
    (
        "reserve",
        "CF.RESERVE k2 99999999999",
        "the largest capacity is ours",
    ),
    (
        "reserve",
        "CF.RESERVE k2 100 NOSUCH 3",
        "unknown options are refused",
    ),
    (
        "insert",
        "CF.INSERT k2 CAPACITY 3",
        "the largest capacity is ours",
    ),
    (
        "dump",
        "CF.SCANDUMP d 4",
        "a part ends where its sub-filter ends",
    ),
    ("types", "SET s v", "there is nothing but filters"),
    ("types", "CF.ADD s a", "there is nothing but filters"),
    ("types", "CF.EXISTS s a", "there is nothing but filters"),
    ("types", "CF.MEXISTS s a", "there is nothing but filters"),
    ("types", "CF.COUNT s a", "there is nothing but filters"),
    ("types", "CF.DEL s a", "there is nothing but filters"),
    ("types", "CF.INFO s", "there is nothing but filters"),
    ("types", "CF.RESERVE s 100", "there is nothing but filters"),
    (
        "types",
        "CF.INSERT s ITEMS a",
        "there is nothing but filters",
    ),
    ("types", "CF.SCANDUMP s 0", "there is nothing but filters"),
    ("types", "CF.COMPACT s", "there is nothing but filters"),
    ("types", "MEMORY USAGE t", "pages are counted, not slots"),
    ("generic", "GET", "there is no such command"),
];

#[test]
fn replies_are_those_of_redisbloom() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/redisbloom/transcripts.jsonl"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let steps: Vec<Step> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(steps.len(), 314);
    let server = Server::with(Setup {
        defaults: Defaults {
            layout: LayoutKind::Classic,
            ..Defaults::default()
        },
        ..Setup::default()
    });
    let mut met = vec![0; EXEMPT.len()];
    for section in steps.chunk_by(|a, b| (&a.section, a.proto) == (&b.section, b.proto)) {
        let mut client = match section[0].proto {
            3 => server.connect_resp3(),
            _ => server.connect(),
        };
        client.expect("FLUSHALL", "+OK\\r\\n");
        for step in section {
            // Text stands for bytes: each character is one.
            let bytes = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<u8>>();
            let words: Vec<Vec<u8>> = step.command.iter().map(|word| bytes(word)).collect();
            let reply = client.ask(&words);
            if reply == bytes(&step.reply) {
                continue;
            }
            let command = step.command.join(" ");
            let exempt = EXEMPT
                .iter()
                .position(|(of, begins, _)| *of == step.section && command.starts_with(begins));
            let exempt = exempt.unwrap_or_else(|| {
                panic!(
                    "{} in RESP{}: {}, not {:?}",
                    command,
                    step.proto,
                    reply.escape_ascii(),
                    step.reply
                )
            });
            met[exempt] += 1;
        }
    }
    for ((_, command, why), met) in EXEMPT.iter().zip(met) {
        // Once in each version of the protocol.
        assert_eq!(met, 2, "{command}: {why}");
    }
}
