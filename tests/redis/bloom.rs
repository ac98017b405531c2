//! The commands for Bloom filters, as clients of RedisBloom use them.

use crate::server::{Server, Setup};
use crate::wire::Client;
use axum::body::Body;
use axum::http::Request;
use cuckood::chain::params::{Defaults, LayoutKind};
use std::collections::BTreeMap;

/// A reply in a version of the protocol: `~` is a blank within a line, and yes, no,
/// nothing and maps are written as that version does.
fn in_version(reply: &str, is_three: bool) -> String {
    // An error is one line, whatever blanks it has.
    if reply.starts_with('-') {
        return format!("{}\\r\\n", reply.replace('~', " "));
    }
    let lines = reply.split(' ').map(|line| match (line, is_three) {
        ("yes", false) => ":1",
        ("yes", true) => "#t",
        ("no", false) => ":0",
        ("no", true) => "#f",
        ("nil", false) => "$-1",
        ("nil", true) => "_",
        ("one", false) => "*2",
        ("one", true) => "%1",
        ("map", false) => "*10",
        ("map", true) => "%5",
        (line, _) => line,
    });
    lines
        .map(|line| format!("{}\\r\\n", line.replace('~', " ")))
        .collect()
}

/// Each line and its reply, as [`in_version`] reads it, and comments.
const TOLD: &str = "\
BF.EXISTS k a => no
BF.MEXISTS k a b => *2 no no
BF.CARD k => :0
BF.INFO k => -ERR not found
BF.INFO k NOSUCH => -ERR not found
BF.INSERT k NOCREATE ITEMS a => -ERR not found
EXISTS k => :0
# What is added to is made.
BF.ADD k a => yes
BF.ADD k a => no
BF.EXISTS k a => yes
bf.madd k a b b c => *4 no yes no yes
BF.MEXISTS k a b zz => *3 yes yes no
BF.INSERT k ITEMS c d d => *3 no yes no
BF.INSERT k nocreate ITEMS ITEMS zz => *2 yes yes
BF.CARD k => :6
TYPE k => +MBbloomCF
SCAN 0 TYPE MBbloom-- => *2 $1 0 *1 $1 k
CONFIG GET bf-error-rate => one $13 bf-error-rate $5 0.001
# What is made by name.
BF.RESERVE r 0.001 5000 => +OK
BF.RESERVE r 0.001 5000 => -ERR item exists
BF.ADD r a => yes
BF.INFO r => map +Capacity :5000 +Size :12344 +Number~of~filters :1 +Number~of~items~inserted :1 +Expansion~rate :2
BF.INFO r NOSUCH => -Invalid information value
BF.INFO r capacity size => -ERR wrong number of arguments for 'bf.info' command
BF.RESERVE f 0.01 1000 EXPANSION 4 => +OK
BF.INFO f => map +Capacity :1000 +Size :4152 +Number~of~filters :1 +Number~of~items~inserted :0 +Expansion~rate :4
# A filter that never grows has no rate of expansion.
BF.RESERVE n 0.01 1000 NONSCALING => +OK
BF.INFO n => map +Capacity :1000 +Size :4152 +Number~of~filters :1 +Number~of~items~inserted :0 +Expansion~rate nil
BF.RESERVE n0 0.01 1000 EXPANSION 0 NONSCALING => +OK
BF.INSERT i CAPACITY 9 CAPACITY 300 ERROR 0.01 EXPANSION 2 NONSCALING ITEMS a => *1 yes
BF.INFO i => map +Capacity :300 +Size :4152 +Number~of~filters :1 +Number~of~items~inserted :1 +Expansion~rate nil
# An error rate that is hardly one.
BF.RESERVE h 0.9999999 10 => +OK
BF.ADD h a => yes
# What is refused, in the order in which it is looked at.
BF.ADD k => -ERR wrong number of arguments for 'bf.add' command
BF.ADD k a b => -ERR wrong number of arguments for 'bf.add' command
BF.MADD k => -ERR wrong number of arguments for 'bf.madd' command
BF.RESERVE x 0.01 => -ERR wrong number of arguments for 'bf.reserve' command
BF.RESERVE x 0.01 100 EXPANSION 2 EXPANSION 3 => -ERR wrong number of arguments for 'bf.reserve' command
BF.RESERVE x much 100 => -ERR bad error rate
BF.RESERVE x 0 100 => -ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE x 1 100 => -ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE x nan 100 => -ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE x 0.01 many => -ERR bad capacity
BF.RESERVE x 0.01 0 => -ERR capacity must be in the range [1, 1099511627776]
BF.RESERVE x 0.01 100 EXPANSION => -ERR no expansion
BF.RESERVE x 0.01 100 EXPANSION much => -ERR bad expansion
BF.RESERVE x 0.01 100 EXPANSION 32769 => -ERR expansion must be in the range [0, 32768]
BF.RESERVE x 0.01 100 EXPANSION 2 NONSCALING => -Nonscaling filters cannot expand
BF.RESERVE x 0.01 100 NOSUCH => -Unknown argument received
BF.RESERVE x 0.01 1000000000000 => -ERR Insufficient memory to create filter
BF.INSERT x CAPACITY 0 ITEMS a => -Bad capacity
BF.INSERT x ERROR 2 ITEMS a => -Bad error rate
BF.INSERT x ERROR 0 ITEMS a => -Bad error rate
BF.INSERT x EXPANSION -1 ITEMS a => -Bad expansion
BF.INSERT x NOSUCH ITEMS a => -Unknown argument received
BF.INSERT x CAPACITY => -ERR wrong number of arguments for 'bf.insert' command
BF.INSERT x ITEMS => -ERR wrong number of arguments for 'bf.insert' command
BF.INSERT x NOCREATE ITEMS => -ERR wrong number of arguments for 'bf.insert' command
EXISTS x => :0
BF.NOSUCH k => -ERR unknown command 'BF.NOSUCH', with args beginning with: 'k'~
# CF.INSERT has fewer options.
CF.INSERT x NONSCALING ITEMS a => -Unknown argument received
CF.INSERT x ERROR 0.1 ITEMS a => -Unknown argument received
";

#[test]
fn replies_are_those_that_clients_of_bloom_filters_expect() {
    let server = Server::start();
    for is_three in [false, true] {
        let mut client = match is_three {
            true => server.connect_resp3(),
            false => server.connect(),
        };
        client.expect("FLUSHALL", "+OK\\r\\n");
        for told in TOLD.lines().filter(|it| !it.starts_with('#')) {
            let (line, reply) = told.split_once(" => ").unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            let told = client.ask(&words);
            let told = String::from_utf8(told).unwrap().replace("\r\n", "\\r\\n");
            let expected = in_version(reply, is_three);
            assert_eq!(told, expected, "{line}, RESP{}", 2 + u8::from(is_three));
        }
    }
}

#[test]
fn each_field_of_bf_info_can_be_asked_for() {
    let server = Server::start();
    let (mut two, mut three) = (server.connect(), server.connect_resp3());
    two.expect("BF.RESERVE k 0.001 5000 EXPANSION 2", "+OK\\r\\n");
    two.expect("BF.MADD k a b", "*2\\r\\n:1\\r\\n:1\\r\\n");
    for (field, name, value) in [
        ("capacity", "Capacity", 5000),
        ("Size", "Size", 12344),
        ("FILTERS", "Number of filters", 1),
        ("Items", "Number of items inserted", 2),
        ("expansion", "Expansion rate", 2),
    ] {
        let line = format!("BF.INFO k {field}");
        two.expect(&line, &format!("*1\\r\\n:{value}\\r\\n"));
        three.expect(&line, &format!("%1\\r\\n+{name}\\r\\n:{value}\\r\\n"));
    }
}

/// The capacity is what was asked for until that is full, then what fits before the
/// filter grows on: it is never less than what is in.
#[test]
fn the_capacity_that_is_told_follows_growth() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("BF.RESERVE k 0.001 1000", "+OK\\r\\n");
    let field = |client: &mut Client, field: &str| -> u64 {
        let told = client.tell(&format!("BF.INFO k {field}"));
        let number = told.strip_prefix("*1\\r\\n:").unwrap();
        number.trim_end_matches("\\r\\n").parse().unwrap()
    };
    for thousand in 0..20 {
        let mut words = vec!["BF.MADD".to_owned(), "k".to_owned()];
        words.extend((0..1000).map(|item| format!("{thousand}/{item}")));
        client.ask(&words);
        let (items, capacity) = (field(&mut client, "ITEMS"), field(&mut client, "CAPACITY"));
        assert!(items <= capacity, "{items} of {capacity}");
        assert!(capacity < 3 * items.max(1000), "{items} of {capacity}");
    }
}

#[test]
fn a_filter_that_does_not_scale_says_so_when_it_is_full() {
    let server = Server::start();
    for mut client in [server.connect(), server.connect_resp3()] {
        client.expect("FLUSHALL", "+OK\\r\\n");
        client.expect("BF.RESERVE k 0.001 100 NONSCALING", "+OK\\r\\n");
        let mut items = 0;
        let full = "-ERR non scaling filter is full\\r\\n";
        let last = loop {
            let item = format!("i{items}");
            let told = client.tell(&format!("BF.ADD k {item}"));
            if told == full {
                break item;
            }
            items += 1;
            assert!(items < 10_000);
        };
        assert!(items >= 100, "{items}");
        // What is in stays, and each item of a command has its answer.
        let yes = client.tell("BF.EXISTS k i0");
        let no = client.tell("BF.ADD k i0");
        assert_ne!(yes, no);
        let words = format!("k i0 {last} i1");
        let told = format!("*3\\r\\n{no}{full}{no}");
        client.expect(&format!("BF.MADD {words}"), &told);
        client.expect(
            &format!("BF.MEXISTS {words}"),
            &format!("*3\\r\\n{yes}{no}{yes}"),
        );
        let words = words.replace("k ", "k ITEMS ");
        client.expect(&format!("BF.INSERT {words}"), &told);
    }
}

/// Where items are found by chance, too, what a filter says of itself is in itself
/// right: it adds exactly what it did not find.
#[test]
fn an_add_says_that_it_was_one_exactly_where_the_item_was_not_found() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("BF.RESERVE k 0.25 100 EXPANSION 2", "+OK\\r\\n");
    let (mut found_by_chance, mut items) = (0, 0);
    let mut answered: BTreeMap<String, bool> = BTreeMap::new();
    for round in 0..300u64 {
        // Some are new, some were asked before, some stand twice in one command.
        let item = |n: u64| format!("i{}", (round * 97 + n * n * 3 + n) % 60_000);
        let asked: Vec<String> = (0..200).map(|n| item(n % 180)).collect();
        let words = |verb: &str| [&[verb.to_owned(), "k".to_owned()], &asked[..]].concat();
        let answers = |client: &mut Client, verb: &str| -> Vec<bool> {
            let told = String::from_utf8(client.ask(&words(verb))).unwrap();
            let each = told.lines().skip(1);
            each.map(|line| match line {
                ":0" => false,
                ":1" => true,
                other => panic!("{other}"),
            })
            .collect()
        };
        let before = answers(&mut client, "BF.MEXISTS");
        let added = answers(&mut client, "BF.MADD");
        assert!(
            answers(&mut client, "BF.MEXISTS")
                .into_iter()
                .all(|yes| yes)
        );
        assert_eq!(added.len(), asked.len());
        for ((item, was_there), added) in asked.iter().zip(before).zip(added) {
            let is_known = answered.insert(item.clone(), true).is_some();
            if is_known {
                assert!(!added, "{item} of round {round}");
            } else {
                // Of two in one command the first may be by which the second is found.
                assert!(!(was_there && added), "{item} of round {round}");
                found_by_chance += u64::from(was_there);
            }
            items += u64::from(added);
        }
        client.expect("BF.CARD k", &format!(":{items}\\r\\n"));
    }
    assert!(
        found_by_chance > 0 && items > 500,
        "{found_by_chance}, {items}"
    );
}

/// `BF.*` makes what keeps a rate, whatever is made by default; and both families of
/// commands work on the same filters.
#[test]
fn commands_of_both_kinds_of_filters_work_on_the_same_key() {
    let server = Server::with(Setup {
        defaults: Defaults {
            layout: LayoutKind::Classic,
            ..Defaults::default()
        },
        ..Setup::default()
    });
    let mut client = server.connect();
    for line in ["BF.ADD k a", "BF.RESERVE r 0.01 100", "BF.MADD m a"] {
        client.tell(line);
        let key = line.split(' ').nth(1).unwrap();
        let told = client.tell(&format!("CF.DEBUG {key}"));
        assert!(told.contains("layout:paged"), "{told}");
    }
    client.expect("CF.EXISTS k a", ":1\\r\\n");
    client.expect("CF.DEL k a", ":1\\r\\n");
    client.expect("BF.EXISTS k a", ":0\\r\\n");
    client.expect("CF.INSERT k ITEMS b b", "*2\\r\\n:1\\r\\n:1\\r\\n");
    client.expect("BF.ADD k b", ":0\\r\\n");
    client.expect("BF.CARD k", ":2\\r\\n");
    // One that was made by the other commands.
    client.expect("CF.RESERVE c 1000", "+OK\\r\\n");
    client.expect("BF.MADD c a b a", "*3\\r\\n:1\\r\\n:1\\r\\n:0\\r\\n");
    client.expect(
        "BF.INFO c",
        "*10\\r\\n+Capacity\\r\\n:870\\r\\n+Size\\r\\n:1080\\r\\n+Number of filters\\r\\n:1\\r\\n+Number of items inserted\\r\\n:2\\r\\n+Expansion rate\\r\\n:1\\r\\n",
    );
    // It is an ordinary filter over HTTP.
    let get = |path: &str| {
        Request::get(path)
            .header("host", "localhost")
            .body(Body::empty())
    };
    let (_, made) = server.http(get("/filters/r").unwrap());
    assert_eq!(made["layout"], "paged");
    assert_eq!(made["error_rate"], 0.01);
    assert_eq!(made["capacity"], 100);
    let (_, found) = server.http(get("/filters/m/exists?item=a").unwrap());
    assert_eq!(found["exists"], true);
}

#[test]
fn an_error_rate_that_no_filter_keeps_is_refused() {
    let server = Server::start();
    let mut client = server.connect();
    for line in [
        "BF.RESERVE k 0.000000001 100",
        "BF.INSERT k ERROR 0.000000001 ITEMS a",
    ] {
        let told = client.tell(line);
        let words = "-ERR error rate must be at least 2e-8, and below 1; one above 0.25 counts as";
        assert!(told.starts_with(words), "{told}");
    }
    client.expect("EXISTS k", ":0\\r\\n");
}

#[test]
fn dumps_of_bloom_filters_are_refused_with_what_to_use() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("BF.ADD k a", ":1\\r\\n");
    for line in [
        "BF.SCANDUMP k 0",
        "BF.LOADCHUNK k 1 x",
        "BF.LOADCHUNK new 1 x",
    ] {
        let told = client.tell(line);
        assert!(
            told.starts_with("-ERR a dump of a Bloom filter can"),
            "{told}"
        );
        assert!(told.contains("GET and PUT /filters/{key}/dump"), "{told}");
    }
    client.expect("EXISTS k new", ":1\\r\\n");
}

#[test]
fn bloom_commands_may_be_parts_of_a_transaction() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("MULTI", "+OK\\r\\n");
    let lines = [
        ("BF.RESERVE k 0.001 100", "+OK"),
        ("BF.ADD k a", ":1"),
        ("BF.EXISTS k a", ":1"),
        ("BF.MADD k a b", "*2\\r\\n:0\\r\\n:1"),
        ("BF.CARD k", ":2"),
        ("CF.DEL k a", ":1"),
        ("BF.INFO k ITEMS", "*1\\r\\n:1"),
    ];
    for (line, _) in lines {
        client.expect(line, "+QUEUED\\r\\n");
    }
    let all: String = lines
        .iter()
        .map(|(_, told)| format!("{told}\\r\\n"))
        .collect();
    client.expect("EXEC", &format!("*{}\\r\\n{all}", lines.len()));
    // Its changes are to one filter.
    client.expect("MULTI", "+OK\\r\\n");
    client.expect("BF.ADD k c", "+QUEUED\\r\\n");
    client.expect("BF.MADD other c", "+QUEUED\\r\\n");
    client.expect_start("EXEC", "-EXECABORT");
    client.expect("BF.EXISTS k c", ":0\\r\\n");
}
