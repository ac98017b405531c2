//! Filters on their way from RedisBloom, and back.

use crate::server::{Server, Setup};
use crate::wire::Client;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use cuckood::chain::params::{Defaults, LayoutKind};
use serde_json::Value;

pub(crate) fn classic() -> Server {
    Server::with(Setup {
        defaults: Defaults {
            layout: LayoutKind::Classic,
            ..Defaults::default()
        },
        ..Setup::default()
    })
}

/// What `CF.SCANDUMP` replies: the next iterator and the part, of which an empty
/// one is the end.
fn part(reply: &[u8]) -> (i64, Vec<u8>) {
    let text = String::from_utf8_lossy(reply);
    assert!(text.starts_with("*2\r\n:"), "{text}");
    let rest = &reply[5..];
    let end = rest.iter().position(|&byte| byte == b'\r').unwrap();
    let next = std::str::from_utf8(&rest[..end]).unwrap().parse().unwrap();
    let rest = &rest[end + 2..];
    if rest.starts_with(b"$-1") {
        return (next, Vec::new());
    }
    let start = rest.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    (next, rest[start..rest.len() - 2].to_vec())
}

pub(crate) fn dump(client: &mut Client, key: &str) -> Vec<(i64, Vec<u8>)> {
    let (mut parts, mut iterator) = (Vec::new(), 0);
    loop {
        let reply = client.ask(&["CF.SCANDUMP", key, &iterator.to_string()]);
        let (next, bytes) = part(&reply);
        if bytes.is_empty() {
            assert_eq!(next, 0);
            return parts;
        }
        parts.push((next, bytes));
        iterator = next;
    }
}

/// The reply to a part of a filter.
pub(crate) fn load_part(client: &mut Client, key: &str, iterator: i64, bytes: &[u8]) -> Vec<u8> {
    let iterator = iterator.to_string();
    client.ask(&[
        &b"CF.LOADCHUNK"[..],
        key.as_bytes(),
        iterator.as_bytes(),
        bytes,
    ])
}

fn load(client: &mut Client, key: &str, parts: &[(i64, Vec<u8>)]) {
    for (iterator, bytes) in parts {
        let reply = load_part(client, key, *iterator, bytes);
        assert_eq!(reply, b"+OK\r\n", "{iterator}");
    }
}

fn counts(client: &mut Client, key: &str, items: &[String]) -> Vec<Vec<u8>> {
    let count = |item: &String| client.ask(&["CF.COUNT", key, item]);
    items.iter().map(count).collect()
}

fn add(client: &mut Client, key: &str, items: &[String]) {
    for some in items.chunks(1000) {
        let mut words = vec!["CF.INSERT".to_owned(), key.to_owned(), "ITEMS".to_owned()];
        words.extend_from_slice(some);
        assert!(client.ask(&words).starts_with(b"*"));
    }
}

#[test]
fn filters_of_redisbloom_come_in_and_leave_as_they_were() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/redisbloom");
    let server = classic();
    let mut client = server.connect();
    let mut loaded = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let recorded: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let parts: Vec<(i64, Vec<u8>)> = recorded["scandump"]
            .as_array()
            .unwrap()
            .iter()
            .map(|chunk| {
                let data = chunk["data_base64"].as_str().unwrap();
                let iterator = chunk["iterator"].as_i64().unwrap();
                (iterator, BASE64_STANDARD.decode(data).unwrap())
            })
            .collect();
        if parts.is_empty() {
            continue;
        }
        let key = path.file_stem().unwrap().to_string_lossy().into_owned();
        load(&mut client, &key, &parts);
        for (field, probe) in [("exists", "CF.EXISTS"), ("count", "CF.COUNT")] {
            let items = recorded["probe"].as_array().unwrap();
            for (item, answer) in items.iter().zip(recorded[field].as_array().unwrap()) {
                let number = answer
                    .as_u64()
                    .unwrap_or(u64::from(answer == &Value::Bool(true)));
                let reply = client.ask(&[probe, &key, item.as_str().unwrap()]);
                assert_eq!(reply, format!(":{number}\r\n").as_bytes(), "{key} {item}");
            }
        }
        let bytes = |parts: &[(i64, Vec<u8>)]| -> Vec<u8> {
            parts.iter().flat_map(|(_, bytes)| bytes.clone()).collect()
        };
        assert_eq!(bytes(&dump(&mut client, &key)), bytes(&parts), "{key}");
        loaded += 1;
    }
    assert!(loaded >= 6, "{loaded}");
}

#[test]
fn a_filter_goes_out_and_comes_in_again() {
    let server = classic();
    let mut client = server.connect();
    client.expect("CF.RESERVE k 100000", "+OK\\r\\n");
    let items: Vec<String> = (0..150_000).map(|item| format!("i{item}")).collect();
    add(&mut client, "k", &items);
    let parts = dump(&mut client, "k");
    assert!(parts.len() >= 2);
    load(&mut client, "copy", &parts);
    assert_eq!(client.tell("CF.INFO copy"), client.tell("CF.INFO k"));
    let some: Vec<String> = (149_000..152_000).map(|item| format!("i{item}")).collect();
    assert_eq!(
        counts(&mut client, "copy", &some),
        counts(&mut client, "k", &some)
    );
}

#[test]
fn counted_copies_leave_in_slots_that_are_free() {
    let server = classic();
    let mut client = server.connect();
    client.expect("CF.RESERVE k 1000", "+OK\\r\\n");
    let mut items: Vec<String> = (0..600).map(|item| format!("i{item}")).collect();
    // More copies than a class has slots of its own, in one sub-filter.
    items.extend(std::iter::repeat_n("i7".to_owned(), 5));
    items.extend(std::iter::repeat_n("i8".to_owned(), 3));
    add(&mut client, "k", &items);
    let asked: Vec<String> = (0..700).map(|item| format!("i{item}")).collect();
    let before = counts(&mut client, "k", &asked);
    let parts = dump(&mut client, "k");
    let header = &parts[0].1;
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
    assert_eq!(number(0), 608);
    // One more sub-filter than there is.
    assert_eq!(number(24), 2);
    let slots: usize = parts[1..].iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(slots, 2 * 1024);
    load(&mut client, "copy", &parts);
    assert_eq!(counts(&mut client, "copy", &asked), before);
    // The filter itself stayed as it was.
    client.expect_within("CF.INFO k", "Number of filters\\r\\n:1");
    // So many fit nowhere.
    let many = vec!["i9".to_owned(); 50];
    add(&mut client, "k", &many);
    let refused = client.tell("CF.SCANDUMP k 0");
    assert!(
        refused.contains(
            "copies have no slot, so RedisBloom\\'s format can\\'t hold them: delete them with CF.DEL"
        ),
        "{refused}"
    );
    // Without growth there is no other sub-filter.
    client.expect("CF.RESERVE never 1000 EXPANSION 0", "+OK\\r\\n");
    add(&mut client, "never", &vec!["i".to_owned(); 10]);
    client.expect_start("CF.SCANDUMP never 0", "-ERR 7 copies have no slot");
    // Without these it is handed out.
    for _ in 0..7 {
        client.expect("CF.DEL never i", ":1\\r\\n");
    }
    client.expect_start("CF.SCANDUMP never 0", "*2\\r\\n:1");
}

#[test]
fn a_dump_is_of_one_moment() {
    let server = classic();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.expect("CF.ADD k a", ":1\\r\\n");
    const CHANGED: &str = "-ERR no dump of the filter is under way, or the filter changed: begin again with CF.SCANDUMP 0; or use GET /filters/{key}/dump, which takes a busy filter\\r\\n";
    client.expect("CF.SCANDUMP k 1", CHANGED);
    client.expect_start("CF.SCANDUMP k 0", "*2\\r\\n:1\\r\\n$38");
    // Another connection goes on with it.
    other.expect_start("CF.SCANDUMP k 1", "*2\\r\\n:1025\\r\\n$1024");
    other.expect("CF.ADD k b", ":1\\r\\n");
    client.expect("CF.SCANDUMP k 1", CHANGED);
    client.expect_start("CF.SCANDUMP k 0", "*2\\r\\n:1\\r\\n$38");
    client.expect("DEL k", ":1\\r\\n");
    client.expect("CF.ADD k a", ":1\\r\\n");
    client.expect("CF.SCANDUMP k 1", CHANGED);
    client.expect("CF.RESERVE p 100 LAYOUT paged", "+OK\\r\\n");
    client.expect(
        "CF.SCANDUMP p 0",
        "-ERR the layout paged has no form in RedisBloom\\'s format: use GET /filters/{key}/dump\\r\\n",
    );
}

/// The reply to the last part may be lost on its way.
#[test]
fn the_end_of_a_dump_may_be_asked_for_again() {
    let server = classic();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.expect("CF.ADD k a", ":1\\r\\n");
    let parts = dump(&mut client, "k");
    let (end, _) = parts[parts.len() - 1];
    for client in [&mut client, &mut other] {
        client.expect(&format!("CF.SCANDUMP k {end}"), "*2\\r\\n:0\\r\\n$-1\\r\\n");
    }
    // Of the rest nothing is left, and its place is free.
    client.expect_start("CF.SCANDUMP k 1", "-ERR no dump");
    client.expect_start(&format!("CF.SCANDUMP k {}", end + 1), "-ERR no dump");
    // Many of one caller are not all remembered.
    for filter in 0..64 {
        client.expect(&format!("CF.ADD k{filter} a"), ":1\\r\\n");
        dump(&mut client, &format!("k{filter}"));
    }
    client.expect_start(&format!("CF.SCANDUMP k {end}"), "-ERR no dump");
    client.expect_start(&format!("CF.SCANDUMP k63 {end}"), "*2");
    // What begins anew forgets the end of before.
    client.expect_start("CF.SCANDUMP k63 0", "*2\\r\\n:1");
    client.expect("CF.ADD k63 b", ":1\\r\\n");
    client.expect_start(&format!("CF.SCANDUMP k63 {end}"), "-ERR no dump");
}

#[test]
fn torn_and_hostile_dumps_are_refused() {
    let server = classic();
    let mut client = server.connect();
    let items: Vec<String> = (0..500).map(|item| format!("i{item}")).collect();
    add(&mut client, "k", &items);
    let parts = dump(&mut client, "k");
    let (header, slots) = (&parts[0].1, &parts[1].1);
    let ask = |client: &mut Client, key: &str, iterator: i64, data: &[u8]| {
        let reply = load_part(client, key, iterator, data);
        reply.escape_ascii().to_string()
    };
    // What no filter can be.
    for (at, bytes) in [
        (8, &[3u8][..]),
        (24, &[0]),
        (24, &[255; 8]),
        (32, &[0, 0]),
        (36, &[3, 0]),
    ] {
        let mut wrong = header.clone();
        wrong[at..at + bytes.len()].copy_from_slice(bytes);
        assert_eq!(
            ask(&mut client, "x", 1, &wrong),
            "-Couldn\\'t create filter!\\r\\n",
            "{at}"
        );
    }
    // Larger than a filter may be.
    let mut huge = header.clone();
    huge[8..16].copy_from_slice(&(1u64 << 36).to_le_bytes());
    assert_eq!(
        ask(&mut client, "x", 1, &huge),
        "-Couldn\\'t create filter!\\r\\n"
    );
    // Parts out of their order, or with too much in them.
    assert_eq!(ask(&mut client, "x", 1, header), "+OK\\r\\n");
    assert_eq!(
        ask(&mut client, "x", 3, slots),
        "-Couldn\\'t load chunk!\\r\\n"
    );
    assert_eq!(
        client.tell("CF.ADD x a"),
        "-TRYAGAIN a filter is being loaded under this key\\r\\n"
    );
    client.expect("EXISTS x", ":0\\r\\n");
    let longer = [&slots[..], &[0; 8]].concat();
    let end = 1 + longer.len() as i64;
    assert_eq!(
        ask(&mut client, "x", end, &longer),
        "-Couldn\\'t load chunk!\\r\\n"
    );
    assert_eq!(ask(&mut client, "x", end, &longer), "-ERR not found\\r\\n");
    // Fewer items than it says.
    assert_eq!(ask(&mut client, "x", 1, header), "+OK\\r\\n");
    let mut fewer = slots.clone();
    *fewer.iter_mut().find(|slot| **slot != 0).unwrap() = 0;
    assert_eq!(
        ask(&mut client, "x", 1025, &fewer),
        "-Couldn\\'t load chunk!\\r\\n"
    );
    client.expect("EXISTS x", ":0\\r\\n");
    // In halves it is taken.
    let (front, back) = slots.split_at(300);
    assert_eq!(ask(&mut client, "x", 1, header), "+OK\\r\\n");
    assert_eq!(ask(&mut client, "x", 301, front), "+OK\\r\\n");
    assert_eq!(ask(&mut client, "x", 1025, back), "+OK\\r\\n");
    client.expect("CF.EXISTS x i7", ":1\\r\\n");
    // It is a filter like others now.
    assert_eq!(
        ask(&mut client, "x", 301, front),
        "-Couldn\\'t load chunk!\\r\\n"
    );
    assert_eq!(ask(&mut client, "x", 1, header), "-ERR item exists\\r\\n");
    // An empty one is there at once. What follows are its slots, or a part of them.
    let mut empty = header.clone();
    empty[..8].fill(0);
    assert_eq!(ask(&mut client, "e", 1, &empty), "+OK\\r\\n");
    for (end, bytes, is_part) in [
        (1025, 1024, true),
        (513, 512, true),
        (1025, 1, true),
        (2, 1, true),
        (1025, 0, false),
        (2, 2, false),
        (1026, 1, false),
        (i64::MAX, 1024, false),
        (1025, 1025, false),
    ] {
        let expected = match is_part {
            true => "+OK\\r\\n",
            false => "-Couldn\\'t load chunk!\\r\\n",
        };
        let told = ask(&mut client, "e", end, &vec![0; bytes]);
        assert_eq!(told, expected, "{end} {bytes}");
    }
    client.expect("CF.ADD e a", ":1\\r\\n");
}

#[test]
fn the_smallest_filter_of_redisbloom_comes_in() {
    let server = classic();
    let mut client = server.connect();
    client.expect("CF.RESERVE k 4", "+OK\\r\\n");
    client.expect("CF.ADD k a", ":1\\r\\n");
    let parts = dump(&mut client, "k");
    assert_eq!(parts[1].1.len(), 4);
    load(&mut client, "copy", &parts);
    client.expect("CF.EXISTS copy a", ":1\\r\\n");
    assert_eq!(client.tell("CF.INFO copy"), client.tell("CF.INFO k"));
}

#[test]
fn a_filter_beyond_the_bytes_of_all_is_refused_at_its_first_part() {
    let server = Server::with(Setup {
        defaults: Defaults {
            layout: LayoutKind::Classic,
            max_total_bytes: Some(8 << 10),
            ..Defaults::default()
        },
        ..Setup::default()
    });
    let mut client = server.connect();
    client.expect("CF.RESERVE small 1000", "+OK\\r\\n");
    client.expect("CF.ADD small a", ":1\\r\\n");
    let parts = dump(&mut client, "small");
    let header = |slots: u64| {
        let mut header = parts[0].1.clone();
        header[8..16].copy_from_slice(&(slots / 2).to_le_bytes());
        header
    };
    let mut begin = |key: &str, slots: u64| {
        let reply = load_part(&mut client, key, 1, &header(slots));
        String::from_utf8(reply).unwrap()
    };
    assert!(begin("large", 8 << 10).starts_with("-OOM "));
    // What is begun has its room until it is given up.
    assert_eq!(begin("begun", 4 << 10), "+OK\r\n");
    assert!(begin("other", 4 << 10).starts_with("-OOM "));
    let too_many = vec![1; 5 << 10];
    assert_eq!(
        load_part(&mut client, "begun", 1 + (5 << 10), &too_many),
        b"-Couldn't load chunk!\r\n"
    );
    client.expect("CF.RESERVE other 4096", "+OK\\r\\n");
    // None of the others is there, or being loaded.
    client.expect("DBSIZE", ":2\\r\\n");
    client.expect("CF.DEL large a", "-Not found\\r\\n");
}
