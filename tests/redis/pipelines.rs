//! Commands that come together are answered as if they came one by one.

use crate::server::{Server, Setup};
use crate::wire::{Client, command};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What filters answer, as far as items are known exactly: a paged filter with so
/// small an error rate is wrong in none of these tests.
#[derive(Default)]
struct Model {
    filters: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Model {
    fn answer(&mut self, words: &[String]) -> String {
        let (verb, key) = (words[0].as_str(), words[1].as_str());
        let items = &words[2..];
        let copies = |model: &Model, item: &String| {
            let filter = model.filters.get(key);
            filter.and_then(|it| it.get(item)).copied().unwrap_or(0)
        };
        let yes = |yes: bool| format!(":{}\r\n", u8::from(yes));
        match verb {
            "CF.EXISTS" | "BF.EXISTS" => yes(copies(self, &items[0]) > 0),
            "CF.COUNT" => format!(":{}\r\n", copies(self, &items[0])),
            "CF.MEXISTS" | "BF.MEXISTS" => {
                let each: String = items.iter().map(|it| yes(copies(self, it) > 0)).collect();
                format!("*{}\r\n{each}", items.len())
            }
            "BF.CARD" => {
                let filter = self.filters.get(key);
                let items = filter.map_or(0, |it| it.values().sum::<u64>());
                format!(":{items}\r\n")
            }
            "BF.MADD" | "BF.INSERT" => {
                let at = words.iter().position(|it| it == "ITEMS").unwrap_or(1);
                if words[2] == "NOCREATE" && !self.filters.contains_key(key) {
                    return "-ERR not found\r\n".to_owned();
                }
                let items = &words[at + 1..];
                let filter = self.filters.entry(key.to_owned()).or_default();
                let each = items.iter().map(|item| {
                    let copies = filter.entry(item.clone()).or_default();
                    let is_new = *copies == 0;
                    *copies += u64::from(is_new);
                    yes(is_new)
                });
                let each: String = each.collect();
                format!("*{}\r\n{each}", items.len())
            }
            "CF.ADD" | "CF.ADDNX" | "BF.ADD" => {
                let is_new = copies(self, &items[0]) == 0;
                let adds = verb == "CF.ADD" || is_new;
                let filter = self.filters.entry(key.to_owned()).or_default();
                *filter.entry(items[0].clone()).or_default() += u64::from(adds);
                yes(adds)
            }
            "CF.INSERT" => {
                let creates = words[2] != "NOCREATE";
                if !creates && !self.filters.contains_key(key) {
                    return "-ERR not found\r\n".to_owned();
                }
                let at = words.iter().position(|it| it == "ITEMS").unwrap();
                let items = &words[at + 1..];
                let filter = self.filters.entry(key.to_owned()).or_default();
                for item in items {
                    *filter.entry(item.clone()).or_default() += 1;
                }
                format!("*{}\r\n{}", items.len(), ":1\r\n".repeat(items.len()))
            }
            "CF.DEL" => match self.filters.get_mut(key) {
                None => "-Not found\r\n".to_owned(),
                Some(filter) => match filter.get_mut(&items[0]) {
                    Some(copies) if *copies > 0 => {
                        *copies -= 1;
                        yes(true)
                    }
                    _ => yes(false),
                },
            },
            "DEL" => yes(self.filters.remove(key).is_some()),
            "PING" => format!("${}\r\n{key}\r\n", key.len()),
            _ => panic!("{verb}"),
        }
    }
}

fn words(verb: u8, key: u8, items: &[u8]) -> Vec<String> {
    let item = |item: &u8| format!("i{}", item % 12);
    let key = format!("k{}", key % 3);
    let one = item(&items[0]);
    let many: Vec<String> = items.iter().map(item).collect();
    let start =
        |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    match verb % 36 {
        0..=4 => start(&["CF.EXISTS", &key, &one]),
        5..=6 => start(&["CF.COUNT", &key, &one]),
        7..=8 => [start(&["CF.MEXISTS", &key]), many].concat(),
        9..=13 => start(&["CF.ADD", &key, &one]),
        14..=15 => start(&["CF.ADDNX", &key, &one]),
        16 => [start(&["CF.INSERT", &key, "ITEMS"]), many].concat(),
        17 => [start(&["CF.INSERT", &key, "NOCREATE", "ITEMS"]), many].concat(),
        18..=21 => start(&["CF.DEL", &key, &one]),
        22 => start(&["DEL", &key]),
        23..=24 => start(&["BF.EXISTS", &key, &one]),
        25 => [start(&["BF.MEXISTS", &key]), many].concat(),
        26..=29 => start(&["BF.ADD", &key, &one]),
        30..=31 => [start(&["BF.MADD", &key]), many].concat(),
        32 => [start(&["BF.INSERT", &key, "ITEMS"]), many].concat(),
        33 => [start(&["BF.INSERT", &key, "NOCREATE", "ITEMS"]), many].concat(),
        34 => start(&["BF.CARD", &key]),
        _ => start(&["PING", &key]),
    }
}

/// Sends everything at once, in pieces, and compares each reply.
fn compare(client: &mut Client, commands: &[Vec<String>], cut: usize) {
    let mut model = Model::default();
    let bytes: Vec<u8> = commands.iter().flat_map(|it| command(it)).collect();
    for piece in bytes.chunks(cut.max(1)) {
        client.send(piece);
    }
    for (at, words) in commands.iter().enumerate() {
        let expected = model.answer(words);
        let reply = client.reply();
        let reply = String::from_utf8_lossy(&reply).into_owned();
        assert_eq!(reply, expected, "{at}: {words:?}");
    }
}

fn commands() -> impl Strategy<Value = Vec<Vec<String>>> {
    let one = (
        any::<u8>(),
        any::<u8>(),
        prop::collection::vec(any::<u8>(), 1..5),
    );
    let one = one.prop_map(|(verb, key, items)| words(verb, key, &items));
    prop::collection::vec(one, 1..120)
}

#[test]
fn a_pipeline_is_answered_as_one_command_after_the_other() {
    let mut setup = Setup::default();
    setup.defaults.error_rate = 1e-7;
    let server = Server::with(setup);
    let mut config = ProptestConfig::with_cases(60);
    config.failure_persistence = None;
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let ran = runner.run(&(commands(), 1..5000usize), |(commands, cut)| {
        let mut client = server.connect();
        client.expect("FLUSHALL", "+OK\\r\\n");
        compare(&mut client, &commands, cut);
        Ok(())
    });
    ran.unwrap();
}

#[test]
fn many_filters_in_one_pipeline_are_answered_in_order() {
    let server = Server::start();
    let mut client = server.connect();
    let mut bytes = Vec::new();
    for filter in 0..200 {
        bytes.extend(command(&["CF.ADD", &format!("k{filter}"), "a"]));
    }
    for filter in 0..400 {
        bytes.extend(command(&["CF.EXISTS", &format!("k{filter}"), "a"]));
        bytes.extend(command(&["CF.COUNT", &format!("k{filter}"), "a"]));
    }
    client.send(&bytes);
    for _ in 0..200 {
        assert_eq!(client.reply(), b":1\r\n");
    }
    for filter in 0..400 {
        let expected: &[u8] = if filter < 200 { b":1\r\n" } else { b":0\r\n" };
        assert_eq!(client.reply(), expected, "{filter}");
        assert_eq!(client.reply(), expected, "{filter}");
    }
}

#[test]
fn a_pipeline_takes_fewer_commits_than_it_has_changes() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("CF.ADD k a", ":1\\r\\n");
    let commits = |server: &Server| server.metric("cuckood_commit_duration_seconds_count");
    let before = commits(&server);
    let mut bytes = Vec::new();
    for number in 0..100 {
        let item = format!("i{number}");
        bytes.extend(command(&["CF.ADD", "k", &item]));
        bytes.extend(command(&["CF.EXISTS", "k", &item]));
        bytes.extend(command(&["CF.DEL", "k", &item]));
    }
    client.send(&bytes);
    for _ in 0..300 {
        assert_eq!(client.reply(), b":1\r\n");
    }
    let commits = commits(&server) - before;
    // It may have come in several pieces.
    assert!(commits <= 10.0, "{commits}");
}

#[test]
fn what_is_refused_as_a_whole_is_done_in_parts() {
    // So small that few pages may be touched at once.
    let server = Server::with(Setup {
        cache_bytes: 32 << 20,
        ..Setup::default()
    });
    let mut client = server.connect();
    client.expect("CF.RESERVE k 4000000", "+OK\\r\\n");
    let mut bytes = Vec::new();
    for number in 0..4000 {
        bytes.extend(command(&["CF.ADD", "k", &format!("i{number}")]));
    }
    client.send(&bytes);
    for number in 0..4000 {
        assert_eq!(client.reply(), b":1\r\n", "{number}");
    }
}
