//! Whole filters: keys, lists, time.

use crate::keyed::Keyed;
use crate::server::{Server, Setup};
use crate::wire::{Client, command};
use cuckood::access::Scope;
use cuckood::chain::params::Defaults;
use std::collections::BTreeSet;

#[test]
fn keys_are_any_visible_ascii() {
    let server = Server::start();
    let mut client = server.connect();
    let all: String = (0x21..=0x7e).map(char::from).collect();
    let longest = "k".repeat(255);
    for key in ["{user:1}/a@b#c%2F", "..a", "*", &all, &longest] {
        assert_eq!(client.ask(&["CF.ADD", key, "a"]), b":1\r\n", "{key}");
        assert_eq!(client.ask(&["CF.EXISTS", key, "a"]), b":1\r\n", "{key}");
        assert_eq!(client.ask(&["DEL", key]), b":1\r\n", "{key}");
    }
    let longer = "k".repeat(256);
    for (key, problem) in [
        ("", "is empty"),
        (".", "is ."),
        ("..", "is .."),
        ("a b", "has ' '"),
        ("\u{e4}", "has '\u{e4}'"),
        (&longer, "has 256 bytes"),
    ] {
        let expected = format!(
            "-ERR a filter key has 1 to 255 visible ASCII characters, no blanks, and is neither . nor ..; this one {problem}\r\n"
        );
        for words in [
            ["CF.ADD", key, "a"].as_slice(),
            &["CF.INSERT", key, "ITEMS", "a"],
            &["CF.RESERVE", key, "100"],
            &["CF.LOADCHUNK", key, "1", "x"],
            &["BF.ADD", key, "a"],
            &["BF.MADD", key, "a", "b"],
            &["BF.INSERT", key, "ITEMS", "a"],
            &["BF.RESERVE", key, "0.01", "100"],
        ] {
            let reply = client.ask(words);
            assert_eq!(String::from_utf8_lossy(&reply), expected, "{words:?}");
        }
    }
}

/// Whatever a key is, a question about it is answered as if there were no filter.
#[test]
fn of_what_can_not_be_a_key_there_is_none() {
    let server = Server::start();
    for mut client in [server.connect(), server.connect_resp3()] {
        let longer = [b'k'; 256];
        for key in [
            b"".as_slice(),
            b".",
            b"a b",
            b"\xff\xfe",
            b"\r\n",
            &longer,
            b"none",
        ] {
            for (line, reply) in [
                ("CF.EXISTS @ a", ":0"),
                ("CF.MEXISTS @ a b", "*2\\r\\n:0\\r\\n:0"),
                ("CF.COUNT @ a", ":0"),
                ("CF.DEL @ a", "-Not found"),
                ("CF.INSERT @ NOCREATE ITEMS a", "-ERR not found"),
                ("CF.INFO @", "-ERR not found"),
                ("CF.DEBUG @", "-ERR not found"),
                ("BF.EXISTS @ a", ":0"),
                ("BF.MEXISTS @ a b", "*2\\r\\n:0\\r\\n:0"),
                ("BF.CARD @", ":0"),
                ("BF.INFO @", "-ERR not found"),
                ("BF.INSERT @ NOCREATE ITEMS a", "-ERR not found"),
                ("CF.SCANDUMP @ 0", "-ERR not found"),
                ("CF.SCANDUMP @ 2", "-ERR not found"),
                ("CF.LOADCHUNK @ 2 x", "-ERR not found"),
                ("CF.COMPACT @", "-Cuckoo filter was not found"),
                ("EXISTS @", ":0"),
                ("EXISTS @ @", ":0"),
                ("TYPE @", "+none"),
                ("DEL @ @", ":0"),
                ("UNLINK @", ":0"),
                ("TTL @", ":-2"),
                ("EXPIRE @ 10", ":0"),
                ("EXPIREAT @ 1", ":0"),
                ("PERSIST @", ":0"),
                ("MEMORY USAGE @", "$-1"),
            ] {
                let words: Vec<&[u8]> = line
                    .split(' ')
                    .map(|word| if word == "@" { key } else { word.as_bytes() })
                    .collect();
                let told = client.ask(&words).escape_ascii().to_string();
                let told = told.replace("#f", ":0").replace('_', "$-1");
                assert_eq!(
                    told,
                    format!("{reply}\\r\\n"),
                    "{line} {}",
                    key.escape_ascii()
                );
            }
        }
    }
}

/// A key with a prefix is told the same, whatever others have and do.
#[test]
fn a_key_with_a_prefix_learns_nothing_of_others() {
    let (keyed, root) = Keyed::start(None);
    let shop = keyed.add("shop", Scope::Admin, Some("shop:"));
    let mut other = keyed.server.connect();
    other.expect(&format!("AUTH {}", root.as_str()), "+OK\\r\\n");
    let mut client = keyed.server.connect();
    client.expect(&format!("AUTH {}", shop.as_str()), "+OK\\r\\n");
    let own = 2500;
    for filter in 0..own {
        client.expect(&format!("CF.RESERVE shop:{filter} 4"), "+OK\\r\\n");
        if filter % 100 == 0 {
            other.expect(&format!("CF.ADD between:{filter} a"), ":1\\r\\n");
        }
    }
    // What stays is seen once, although what was seen is deleted on the way.
    let scan = |client: &mut Client, deletes: bool| {
        let (mut cursors, mut seen) = (vec!["0".to_owned()], BTreeSet::new());
        loop {
            let cursor = cursors.last().unwrap().clone();
            let reply = client.ask(&["SCAN", &cursor, "COUNT", "7"]);
            let text = String::from_utf8(reply).unwrap();
            let words: Vec<&str> = text.split("\r\n").filter(|it| !it.is_empty()).collect();
            cursors.push(words[2].to_owned());
            for name in words.iter().filter(|it| it.starts_with("shop:")) {
                assert!(seen.insert((*name).to_owned()), "{name}");
            }
            assert!(!text.contains("between") && !text.contains("other"));
            if deletes && words.len() > 4 {
                client.expect(&format!("DEL {}", words[5]), ":1\\r\\n");
            }
            if cursors.last().unwrap() == "0" {
                return (cursors, seen);
            }
        }
    };
    let (before, seen) = scan(&mut client, false);
    assert_eq!(seen.len(), own);
    assert_eq!(before.len(), 4);
    let clients = |client: &mut Client| client.tell("INFO clients");
    assert!(clients(&mut client).contains("connected_clients:1\\r"));
    let mut others: Vec<Client> = Vec::new();
    for filter in 0..30 {
        other.expect(&format!("CF.ADD other:{filter} a"), ":1\\r\\n");
        others.push(keyed.server.connect());
        others[filter].expect(&format!("AUTH {}", root.as_str()), "+OK\\r\\n");
    }
    assert_eq!(scan(&mut client, false).0, before);
    assert!(clients(&mut client).contains("connected_clients:1\\r"));
    assert!(clients(&mut other).contains("connected_clients:32\\r"));
    assert_eq!(scan(&mut client, true).1.len(), own);
}

/// RedisBloom's number of sub-filters is that of all of them.
#[test]
fn a_filter_has_as_many_sub_filters_as_the_setting_says() {
    for (max_expansions, max_chain_length, all) in
        [(32, 64, 32), (5, 64, 5), (32, 8, 8), (0, 64, 1)]
    {
        let server = Server::with(Setup {
            defaults: Defaults {
                max_expansions,
                max_chain_length,
                ..Defaults::default()
            },
            ..Setup::default()
        });
        let mut client = server.connect();
        let setting = client.tell("CONFIG GET cf-max-expansions");
        assert!(
            setting.ends_with(&format!("\\r\\n{all}\\r\\n")),
            "{setting}"
        );
        client.expect("CF.RESERVE k 4 BUCKETSIZE 2", "+OK\\r\\n");
        let full = (0..1000).map(|item| client.tell(&format!("CF.ADD k i{item}")));
        let refused = full.last().unwrap();
        assert_eq!(refused, "-Maximum expansions reached\\r\\n");
        let info = client.tell("CF.INFO k");
        assert!(
            info.contains(&format!("Number of filters\\r\\n:{all}\\r")),
            "{info}"
        );
    }
}

#[test]
fn a_scan_gives_each_filter_once() {
    let server = Server::start();
    let mut client = server.connect();
    for filter in 0..250 {
        client.expect(&format!("CF.ADD k:{filter} a"), ":1\\r\\n");
    }
    let mut seen = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = client.ask(&["SCAN", &cursor, "COUNT", "17", "MATCH", "k:*"]);
        let text = String::from_utf8(reply).unwrap();
        let words: Vec<&str> = text.split("\r\n").filter(|it| !it.is_empty()).collect();
        cursor = words[2].to_owned();
        for name in words.iter().filter(|it| it.starts_with("k:")) {
            assert!(seen.insert((*name).to_owned()), "{name}");
        }
        // What is made meanwhile may be seen; what stays is seen once.
        client.expect(&format!("CF.ADD later:{} a", seen.len()), ":1\\r\\n");
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 250);
    client.expect(
        "SCAN 0 MATCH nothing* COUNT 1000",
        "*2\\r\\n$1\\r\\n0\\r\\n*0\\r\\n",
    );
    client.expect(
        "SCAN 0 TYPE string COUNT 1000",
        "*2\\r\\n$1\\r\\n0\\r\\n*0\\r\\n",
    );
    client.expect(
        "KEYS k:24[0-1]",
        "*2\\r\\n$5\\r\\nk:240\\r\\n$5\\r\\nk:241\\r\\n",
    );
    for (line, error) in [
        ("SCAN 1x", "ERR invalid cursor"),
        ("SCAN -1", "ERR invalid cursor"),
        ("SCAN 0 COUNT", "ERR syntax error"),
        ("SCAN 0 COUNT 0", "ERR syntax error"),
        (
            "SCAN 0 COUNT x",
            "ERR value is not an integer or out of range",
        ),
        ("SCAN 0 NOSUCH x", "ERR syntax error"),
    ] {
        client.expect(line, &format!("-{error}\\r\\n"));
    }
}

#[test]
fn filters_end_when_they_are_told_to() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("CF.ADD k a", ":1\\r\\n");
    client.expect("PEXPIRE k 100400", ":1\\r\\n");
    client.expect("TTL k", ":100\\r\\n");
    let left = client.tell("PTTL k");
    assert!(left.starts_with(":100"), "{left}");
    client.expect("PERSIST k", ":1\\r\\n");
    client.expect("PERSIST k", ":0\\r\\n");
    client.expect("EXPIRETIME k", ":-1\\r\\n");
    client.expect("EXPIREAT k 4000000000", ":1\\r\\n");
    client.expect("EXPIRETIME k", ":4000000000\\r\\n");
    client.expect("PEXPIREAT k 4000000000123", ":1\\r\\n");
    client.expect("PEXPIRETIME k", ":4000000000123\\r\\n");
    client.expect("PEXPIRETIME none", ":-2\\r\\n");
    for (line, error) in [
        ("EXPIRE k x", "ERR value is not an integer or out of range"),
        ("EXPIRE k 10 NY", "ERR Unsupported option NY"),
        (
            "EXPIRE k 99999999999",
            "ERR invalid expire time in \\'expire\\' command: it is 100 years from now at most",
        ),
        (
            "PEXPIREAT k 9223372036854775807",
            "ERR invalid expire time in \\'pexpireat\\' command: it is 100 years from now at most",
        ),
    ] {
        client.expect(line, &format!("-{error}\\r\\n"));
    }
    // A time that is past deletes.
    client.expect("EXPIRE k -1", ":1\\r\\n");
    client.expect("EXISTS k", ":0\\r\\n");
    client.expect("CF.ADD k a", ":1\\r\\n");
    client.expect("PEXPIRE k 50", ":1\\r\\n");
    std::thread::sleep(std::time::Duration::from_millis(80));
    client.expect("TTL k", ":-2\\r\\n");
    client.expect("CF.EXISTS k a", ":0\\r\\n");
}

#[test]
fn a_filter_ends_at_another_time_only_where_that_is_wanted() {
    let server = Server::start();
    let mut client = server.connect();
    for command in ["EXPIRE k 1000", "PEXPIRE k 1000000"] {
        client.expect(&format!("{command} NX"), ":0\\r\\n");
    }
    client.expect("CF.ADD k a", ":1\\r\\n");
    // What never ends ends later than anything.
    for (line, reply) in [
        ("EXPIRE k 1000 XX", 0),
        ("EXPIRE k 1000 GT", 0),
        ("EXPIRE k -1 XX", 0),
        ("EXPIREAT k 4000000000 nx", 1),
        ("EXPIREAT k 4000000001 NX", 0),
        ("EXPIREAT k 4000000000 GT", 0),
        ("EXPIREAT k 4000000000 LT", 0),
        ("PEXPIREAT k 4000000000001 LT", 0),
        ("PEXPIREAT k 3999999999999 GT", 0),
        ("PEXPIREAT k 4000000000001 xx Gt", 1),
        ("PEXPIREAT k 4000000000000 LT XX LT", 1),
        ("EXPIRE k -1 GT", 0),
        ("EXPIRE k -1 NX", 0),
    ] {
        client.expect(line, &format!(":{reply}\\r\\n"));
    }
    client.expect("PEXPIRETIME k", ":4000000000000\\r\\n");
    for (options, error) in [
        (
            "NX XX",
            "NX and XX, GT or LT options at the same time are not compatible",
        ),
        (
            "GT NX",
            "NX and XX, GT or LT options at the same time are not compatible",
        ),
        (
            "LT GT",
            "GT and LT options at the same time are not compatible",
        ),
        ("XX ZZ", "Unsupported option ZZ"),
    ] {
        client.expect(
            &format!("PEXPIRE k 10 {options}"),
            &format!("-ERR {error}\\r\\n"),
        );
    }
    client.expect("PERSIST k", ":1\\r\\n");
    client.expect("EXPIRE k 1000 LT", ":1\\r\\n");
    client.expect("EXPIRE k -1 LT", ":1\\r\\n");
    client.expect("EXISTS k", ":0\\r\\n");
    // Of many at once one is the first.
    client.expect("CF.ADD k a", ":1\\r\\n");
    let mut others: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    for other in &mut others {
        other.send(&command(&["EXPIRE", "k", "1000", "NX"]));
    }
    let set = others.iter_mut().map(|other| other.reply() == b":1\r\n");
    assert_eq!(set.filter(|&is_set| is_set).count(), 1);
}

#[test]
fn a_server_is_not_emptied_by_accident() {
    let mut setup = Setup::default();
    setup.redis.allow_flush = false;
    let server = Server::with(setup);
    let mut client = server.connect();
    client.expect("CF.ADD k a", ":1\\r\\n");
    client.expect(
        "FLUSHALL",
        "-ERR FLUSHALL is off, --redis-allow-flush turns it on\\r\\n",
    );
    client.expect("DBSIZE", ":1\\r\\n");
}

#[test]
fn filters_can_be_asked_to_be_of_either_layout() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("CF.RESERVE p 1000 ERRORRATE 0.01", "+OK\\r\\n");
    client.expect("CF.RESERVE c 1000 LAYOUT classic", "+OK\\r\\n");
    client.expect_within(
        "CF.DEBUG p",
        "layout:paged fingerprint_bits:16 error_rate:0.01",
    );
    client.expect(
        "CF.DEBUG c",
        "$79\\r\\nbktsize:2 buckets:512 items:0 deletes:0 filters:1 max_iterations:20 expansion:1\\r\\n",
    );
    let info = client.tell("CF.INFO p");
    assert!(info.starts_with("*16\\r\\n+Size\\r\\n:"), "{info}");
    assert!(info.ends_with(
        "+Bucket size\\r\\n:4\\r\\n+Expansion rate\\r\\n:2\\r\\n+Max iterations\\r\\n:0\\r\\n"
    ));
    for (line, error) in [
        (
            "CF.RESERVE x 100 LAYOUT nosuch",
            "LAYOUT: value must be paged or classic",
        ),
        ("CF.RESERVE x 100 ERRORRATE x", "Couldn\\'t parse ERRORRATE"),
        (
            "CF.RESERVE x 100 EXPANSION 1 EXPANSION 2",
            "Unknown argument received",
        ),
    ] {
        client.expect(line, &format!("-{error}\\r\\n"));
    }
}

#[test]
fn every_command_is_answered_in_both_layouts() {
    let server = Server::start();
    let mut client = server.connect();
    assert!(!client.tell("INFO keyspace").contains("db0"));
    for layout in ["paged", "classic"] {
        for (line, reply) in [
            ("CF.RESERVE k 1000 EXPANSION 2 LAYOUT @", "+OK"),
            ("CF.RESERVE k 1000 LAYOUT @", "-ERR item exists"),
            ("CF.ADD k a", ":1"),
            ("CF.ADDNX k a", ":0"),
            ("CF.ADDNX k b", ":1"),
            (
                "CF.INSERT k CAPACITY 9 NOCREATE ITEMS c c",
                "*2\\r\\n:1\\r\\n:1",
            ),
            ("CF.INSERTNX k ITEMS c d", "*2\\r\\n:0\\r\\n:1"),
            ("CF.EXISTS k d", ":1"),
            ("CF.MEXISTS k a e", "*2\\r\\n:1\\r\\n:0"),
            ("CF.COUNT k c", ":2"),
            ("CF.DEL k c", ":1"),
            ("CF.DEL k e", ":0"),
            ("CF.COMPACT k", "+OK"),
            ("CF.COMPACT none", "-Cuckoo filter was not found"),
            ("CF.SCANDUMP k x", "-Invalid position"),
            ("CF.LOADCHUNK k 1 x", "-ERR item exists"),
            ("CF.LOADCHUNK k 2 x", "-Couldn\\'t load chunk!"),
            ("TYPE k", "+MBbloomCF"),
        ] {
            client.expect(&line.replace('@', layout), &format!("{reply}\\r\\n"));
        }
        let info = client.tell("CF.INFO k");
        for field in ["Number of items inserted\\r\\n:4", "Expansion rate\\r\\n:2"] {
            assert!(info.contains(field), "{layout}: {info}");
        }
        client.expect_within("CF.DEBUG k", " items:4 ");
        let keyspace = client.tell("INFO keyspace");
        assert!(keyspace.contains("\\r\\ndb0:keys=1,expires=0,avg_ttl=0\\r\\n"));
        client.expect("DEL k", ":1\\r\\n");
    }
}
