//! The audit log: one line for each filter that a command ends, makes anew or
//! gives another end, whatever becomes of it, and nothing in it of items.

use crate::dumps::{dump, load_part};
use crate::gated::{GatedStore, Point};
use crate::keyed::Keyed;
use crate::listening::audited;
use crate::memory::MemoryStore;
use crate::server::Setup;
use crate::wire::Client;
use cuckood::access::Scope;
use cuckood::chain::params::{Defaults, LayoutKind};
use cuckood::redis::RedisOptions;
use cuckood::server::Limits;
use std::sync::Arc;
use std::time::Duration;

const DONE: &str = "done";
const REFUSED: &str = "refused";

/// What the lines about a filter say: action, caller, note and outcome.
fn lines(filter: &str) -> Vec<[String; 4]> {
    let said = |line: &crate::listening::AuditLine| {
        ["action", "caller", "note", "outcome"]
            .map(|field| line.get(field).map_or("-", String::as_str).to_owned())
    };
    audited("filter", filter).iter().map(said).collect()
}

#[track_caller]
fn assert_lines(filter: &str, expected: &[[&str; 4]]) {
    assert_eq!(lines(filter), expected, "{filter}");
}

/// A server of filters that RedisBloom can take.
fn classic(setup: Setup) -> Setup {
    Setup {
        defaults: Defaults {
            layout: LayoutKind::Classic,
            ..Defaults::default()
        },
        ..setup
    }
}

#[test]
fn each_act_has_one_line_that_says_who_did_what_to_which_filter() {
    let (keyed, root) = Keyed::with(None, classic(Setup::default()));
    let mut client = keyed.connect(&root);
    for (filter, command, expected) in [
        ("ra-del", "DEL ra-del", ["delete_filter", "-"]),
        ("ra-unlink", "UNLINK ra-unlink", ["delete_filter", "-"]),
        (
            "ra-ends",
            "EXPIRE ra-ends 3600",
            ["patch_filter", "ttl_seconds=3600"],
        ),
        ("ra-ended", "EXPIRE ra-ended -1", ["delete_filter", "-"]),
        ("ra-past", "EXPIREAT ra-past 1", ["delete_filter", "-"]),
        (
            "ra-compacted",
            "CF.COMPACT ra-compacted",
            ["compact_filter", "-"],
        ),
    ] {
        client.expect(&format!("CF.ADD {filter} audit-item"), ":1\\r\\n");
        assert_eq!(lines(filter).len(), 0, "an add has a line");
        let reply = client.tell(command);
        assert!(
            [":1\\r\\n", "+OK\\r\\n"].contains(&&*reply),
            "{command}: {reply}"
        );
        let [action, note] = expected;
        assert_lines(filter, &[[action, "root", note, DONE]]);
    }
    client.expect("CF.ADD ra-stays audit-item", ":1\\r\\n");
    client.expect("PERSIST ra-stays", ":0\\r\\n");
    assert_lines("ra-stays", &[]);
    client.expect("PEXPIRE ra-stays 90000", ":1\\r\\n");
    client.expect("PERSIST ra-stays", ":1\\r\\n");
    let acts =
        ["ttl_seconds=90", "ttl_seconds=none"].map(|note| ["patch_filter", "root", note, DONE]);
    assert_lines("ra-stays", &acts);
    // Where several are deleted, each of them; and in a transaction.
    for filter in ["ra-a", "ra-b", "ra-c"] {
        client.expect(&format!("CF.ADD {filter} audit-item"), ":1\\r\\n");
    }
    client.expect("DEL ra-a ra-b", ":2\\r\\n");
    for line in ["MULTI", "DEL ra-c"] {
        client.tell(line);
    }
    assert_lines("ra-c", &[]);
    client.expect("EXEC", "*1\\r\\n:1\\r\\n");
    for filter in ["ra-a", "ra-b", "ra-c"] {
        assert_lines(filter, &[["delete_filter", "root", "-", DONE]]);
    }
}

#[test]
fn all_filters_that_are_flushed_have_a_line_each() {
    let (keyed, root) = Keyed::start(None);
    let mut client = keyed.connect(&root);
    for (command, filters) in [
        ("FLUSHALL", ["rf-a", "rf-b"]),
        ("FLUSHDB", ["rf-c", "rf-d"]),
    ] {
        for filter in filters {
            client.expect(&format!("CF.ADD {filter} audit-item"), ":1\\r\\n");
        }
        client.expect(command, "+OK\\r\\n");
        for filter in filters {
            assert_lines(filter, &[["delete_filter", "root", "-", DONE]]);
        }
    }
}

/// Sends all parts of a filter; the last reply.
fn load(client: &mut Client, key: &str, parts: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let replies = parts
        .iter()
        .map(|(iterator, bytes)| load_part(client, key, *iterator, bytes));
    replies.last().unwrap()
}

#[test]
fn a_filter_that_comes_in_parts_has_one_line_when_it_is_there() {
    let (keyed, root) = Keyed::with(None, classic(Setup::default()));
    let mut client = keyed.connect(&root);
    client.expect("CF.ADD rl-source audit-item", ":1\\r\\n");
    let parts = dump(&mut client, "rl-source");
    assert!(parts.len() > 1, "one part");
    load_part(&mut client, "rl-copy", parts[0].0, &parts[0].1);
    assert_lines("rl-copy", &[]);
    assert_eq!(load(&mut client, "rl-copy", &parts[1..]), b"+OK\r\n");
    assert_lines("rl-copy", &[["restore_filter", "root", "created", DONE]]);
    // Refused: it is there already; no such part; and by its scope.
    assert!(load(&mut client, "rl-copy", &parts[..1]).starts_with(b"-ERR item exists"));
    assert_eq!(
        lines("rl-copy")[1..],
        [["restore_filter", "root", "-", REFUSED]]
    );
    load_part(&mut client, "rl-torn", parts[0].0, &parts[0].1);
    assert!(load_part(&mut client, "rl-torn", 77, b"audit-item").starts_with(b"-Couldn't"));
    assert_lines("rl-torn", &[["restore_filter", "root", "-", REFUSED]]);
    let read = keyed.add("reader", Scope::Read, None);
    let mut reader = keyed.connect(&read);
    assert!(load(&mut reader, "rl-read", &parts[..1]).starts_with(b"-NOPERM"));
    assert_lines("rl-read", &[["restore_filter", "reader", "-", REFUSED]]);
}

#[test]
fn each_filter_of_a_command_that_is_refused_has_its_line() {
    let (keyed, root) = Keyed::start(None);
    let mut client = keyed.connect(&root);
    for filter in ["shop:rr", "rr-b", "rr-c"] {
        client.expect(&format!("CF.ADD {filter} audit-item"), ":1\\r\\n");
    }
    let (write, narrow) = (
        keyed.add("writer", Scope::Write, None),
        keyed.add("narrow", Scope::Admin, Some("shop:")),
    );
    let mut writer = keyed.connect(&write);
    writer.expect_start("DEL rr-b rr-c", "-NOPERM");
    for command in ["EXPIRE rr-c 60", "PERSIST rr-c", "UNLINK rr-c"] {
        assert!(writer.tell(command).starts_with("-NOPERM"), "{command}");
    }
    let by_writer = |action| [action, "writer", "-", REFUSED];
    assert_lines("rr-b", &[by_writer("delete_filter")]);
    let acts = [
        "delete_filter",
        "patch_filter",
        "patch_filter",
        "delete_filter",
    ];
    assert_lines("rr-c", &acts.map(by_writer));
    // One key that is not its own refuses all of it.
    let mut narrowed = keyed.connect(&narrow);
    narrowed.expect_start("DEL shop:rr rr-b", "-NOPERM");
    let by_narrow = ["delete_filter", "narrow", "-", REFUSED];
    assert_lines("shop:rr", &[by_narrow]);
    assert_eq!(lines("rr-b")[1..], [by_narrow]);
    // There is none; the words make no sense; and within a transaction.
    client.expect("DEL rr-none", ":0\\r\\n");
    client.expect("PERSIST rr-none-2", ":0\\r\\n");
    client.expect_start("EXPIRE rr-words many", "-ERR");
    client.expect_within("EXPIRE rr-quoted 60 audit-item-1", "audit-item-1");
    client.expect("MULTI", "+OK\\r\\n");
    client.expect_start("CF.COMPACT rr-queued", "-ERR");
    client.tell("DISCARD");
    for (filter, action, note) in [
        ("rr-none", "delete_filter", "-"),
        ("rr-none-2", "patch_filter", "ttl_seconds=none"),
        ("rr-words", "patch_filter", "-"),
        ("rr-quoted", "patch_filter", "-"),
        ("rr-queued", "compact_filter", "-"),
    ] {
        assert_lines(filter, &[[action, "root", note, REFUSED]]);
    }
    // What is no name of a filter is not written down.
    let mistaken = keyed.add("mistaken", Scope::Admin, None);
    let mut client = keyed.connect(&mistaken);
    let refused = client.ask(&["CF.LOADCHUNK", "audit item", "1", "x"]);
    assert!(refused.starts_with(b"-ERR"));
    let [line] = audited("caller", "mistaken").try_into().unwrap();
    assert_eq!(line["outcome"], REFUSED);
    assert!(!line.contains_key("filter"));
    // Of very many the first have lines.
    let reader = keyed.add("reader-of-many", Scope::Read, None);
    let mut client = keyed.connect(&reader);
    let many = (0..150).map(|filter| format!("many-{filter}"));
    let words: Vec<String> = ["DEL".to_owned()].into_iter().chain(many).collect();
    assert!(client.ask(&words).starts_with(b"-NOPERM"));
    let lines = audited("caller", "reader-of-many");
    assert_eq!(lines.len(), 101);
    assert_eq!(lines[99]["filter"], "many-99");
    assert_eq!(lines[100]["note"], "filters=50");
    assert!(!lines[100].contains_key("filter"));
    // Nor what somebody asks whom nobody knows.
    let mut stranger = keyed.server.connect();
    stranger.expect_start("DEL rr-stranger", "-NOAUTH");
    assert_lines("rr-stranger", &[]);
}

#[test]
fn a_flush_that_is_refused_has_a_line_without_a_filter() {
    let (keyed, _) = Keyed::with(
        None,
        Setup {
            redis: RedisOptions {
                allow_flush: false,
                ..RedisOptions::default()
            },
            ..Setup::default()
        },
    );
    let flusher = keyed.add("flusher", Scope::Admin, None);
    let mut client = keyed.connect(&flusher);
    client.expect_start("FLUSHALL", "-ERR FLUSHALL is off");
    let [line] = audited("caller", "flusher").try_into().unwrap();
    assert_eq!(line["action"], "delete_filter");
    assert_eq!(line["outcome"], REFUSED);
    assert!(!line.contains_key("filter"));
    assert!(line["reason"].contains("is off"));
}

#[test]
fn what_is_written_after_its_deadline_is_not_called_refused_and_the_rest_is() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let setup = Setup {
        store: Arc::new(store.clone()),
        limits: Limits {
            request_timeout: Duration::from_secs(1),
            ..Limits::default()
        },
        ..Setup::default()
    };
    let (keyed, root) = Keyed::with(None, setup);
    let mut client = keyed.connect(&root);
    for filter in ["rd-a", "rd-b"] {
        client.expect(&format!("CF.ADD {filter} audit-item"), ":1\\r\\n");
    }
    store.hold_first(Point::CommitDone);
    let reply = client.tell("DEL rd-a rd-b");
    store.open();
    assert!(reply.contains("may be committed or not"), "{reply}");
    assert_lines("rd-a", &[["delete_filter", "root", "-", "unknown"]]);
    assert_lines("rd-b", &[["delete_filter", "root", "-", REFUSED]]);
}
