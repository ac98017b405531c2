//! What people look at: slow commands, times, settings, what is said of a key.

use crate::gated::{GatedStore, Point};
use crate::keyed::Keyed;
use crate::memory::MemoryStore;
use crate::server::{Server, Setup};
use crate::wire::{Client, command};
use cuckood::access::Scope;
use cuckood::chain::params::Defaults;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Has a client send something that takes 15 ms and more, and reads so many replies.
fn slowly(store: &GatedStore, client: &mut Client, bytes: &[u8], replies: usize) {
    store.hold_first(Point::CommitDone);
    client.send(bytes);
    store.await_arrival();
    sleep(Duration::from_millis(15));
    store.open();
    for _ in 0..replies {
        assert!(!client.reply().starts_with(b"-"));
    }
}

fn gated() -> (GatedStore, Setup) {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let setup = Setup {
        store: Arc::new(store.clone()),
        ..Setup::default()
    };
    (store, setup)
}

fn integer(told: &str) -> u64 {
    let digits: String = told.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// What a line of `INFO` says.
fn info(client: &mut Client, section: &str, field: &str) -> Option<String> {
    let told = String::from_utf8(client.ask(&["INFO", section])).unwrap();
    let line = told.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|value| value.strip_prefix(':'))
        .map(str::to_owned)
}

#[test]
fn slow_commands_are_told_with_what_took_so_long() {
    let (store, setup) = gated();
    let server = Server::with(setup);
    let mut client = server.connect();
    client.expect("SLOWLOG GET", "*0\\r\\n");
    client.expect("LATENCY LATEST", "*0\\r\\n");
    client.expect("CLIENT SETNAME me", "+OK\\r\\n");
    let long = "x".repeat(200);
    let asked = Instant::now();
    slowly(&store, &mut client, &command(&["CF.ADD", "k", &long]), 1);
    let most = asked.elapsed().as_micros() as u64;
    client.expect("SLOWLOG LEN", ":1\\r\\n");
    let told = String::from_utf8(client.ask(&["SLOWLOG", "GET"])).unwrap();
    let lines: Vec<&str> = told.split("\r\n").collect();
    assert_eq!(&lines[..2], ["*1", "*6"], "{told}");
    let first = integer(lines[2]);
    assert!((15_000..=most).contains(&integer(lines[4])), "{told}");
    let shortened = format!("{}... (72 more bytes)", &long[..128]);
    let words = ["*3", "$6", "CF.ADD", "$1", "k", "$147", &shortened];
    assert_eq!(lines[5..12], words, "{told}");
    assert!(lines[13].starts_with("127.0.0.1:"), "{told}");
    assert_eq!(lines[15], "me", "{told}");
    // Those that are worked on together are one entry.
    let mut bytes = command(&["BF.ADD", "k", "a"]);
    bytes.extend(command(&["BF.MADD", "k", "b", "c"]));
    bytes.extend(command(&["BF.ADD", "k", "d"]));
    slowly(&store, &mut client, &bytes, 3);
    let told = client.tell("SLOWLOG GET 1");
    assert!(
        integer(told.split("\\r\\n").nth(2).unwrap()) > first,
        "{told}"
    );
    assert!(told.contains("commands at once)"), "{told}");
    // The same in seconds and milliseconds.
    let told = client.tell("LATENCY LATEST");
    assert!(
        told.starts_with("*1\\r\\n*4\\r\\n$7\\r\\ncommand\\r\\n:"),
        "{told}"
    );
    let history = client.tell("LATENCY HISTORY COMMAND");
    assert!(
        history.starts_with("*1\\r\\n*2") || history.starts_with("*2\\r\\n*2"),
        "{history}"
    );
    client.expect("LATENCY HISTORY fork", "*0\\r\\n");
    client.expect_within("LATENCY DOCTOR", "more than 10 ms in");
    client.expect("LATENCY RESET fork", ":0\\r\\n");
    client.expect("LATENCY RESET", ":1\\r\\n");
    client.expect("LATENCY LATEST", "*0\\r\\n");
    client.expect("SLOWLOG GET 0", "*0\\r\\n");
    client.expect_start("SLOWLOG GET -1", "*2");
    client.expect("SLOWLOG RESET", "+OK\\r\\n");
    client.expect("SLOWLOG LEN", ":0\\r\\n");
    for (line, words) in [
        (
            "SLOWLOG GET -2",
            "-ERR count should be greater than or equal to -1",
        ),
        (
            "SLOWLOG GET x",
            "-ERR value is not an integer or out of range",
        ),
        ("SLOWLOG NOSUCH", "-ERR unknown subcommand"),
        (
            "SLOWLOG LEN x",
            "-ERR wrong number of arguments for \\'slowlog|len\\'",
        ),
        ("LATENCY GRAPH COMMAND", "-ERR unknown subcommand"),
        (
            "LATENCY HISTORY",
            "-ERR wrong number of arguments for \\'latency|history\\'",
        ),
    ] {
        let told = client.tell(line);
        assert!(told.starts_with(words), "{line}: {told}");
    }
}

#[test]
fn help_lists_subcommands_that_there_are() {
    let server = Server::start();
    let mut client = server.connect();
    for command in [
        "ACL", "CLIENT", "COMMAND", "CONFIG", "LATENCY", "MEMORY", "MODULE", "OBJECT", "SLOWLOG",
    ] {
        client.expect(
            &format!("{command} NOSUCH"),
            &format!("-ERR unknown subcommand \\'NOSUCH\\'. Try {command} HELP.\\r\\n"),
        );
        let told = String::from_utf8(client.ask(&[command, "help"])).unwrap();
        let mut lines = told.lines();
        let count = format!("*{}", lines.clone().count() - 1);
        assert_eq!(lines.next(), Some(count.as_str()), "{told}");
        for line in lines {
            let known = line.strip_prefix(&format!("+{command} ")).unwrap();
            let subcommand = known.split([' ', ':']).next().unwrap();
            let said = client.tell(&format!("{command} {subcommand}"));
            assert!(!said.contains("unknown subcommand"), "{line}: {said}");
        }
        let more = client.tell(&format!("{command} HELP x"));
        let begins = format!(
            "-ERR wrong number of arguments for \\'{}|help\\'",
            command.to_lowercase()
        );
        assert!(more.starts_with(&begins), "{more}");
    }
}

/// Commands may hold items: those of others are for who may list their connections, too.
#[test]
fn a_key_is_told_of_its_own_slow_commands_alone() {
    let (store, setup) = gated();
    let (keyed, root) = Keyed::with(None, setup);
    let shop = keyed.add("shop", Scope::Admin, Some("shop:"));
    let writer = keyed.add("writer", Scope::Write, None);
    for (token, key) in [(&root, "of-root"), (&shop, "shop:k"), (&writer, "w")] {
        let add = command(&["CF.ADD", key, "a"]);
        slowly(&store, &mut keyed.connect(token), &add, 1);
    }
    let told = |token| {
        let told = keyed.connect(token).tell("SLOWLOG GET");
        ["of-root", "shop:k", "\\nw\\"].map(|key| told.contains(key))
    };
    assert_eq!(told(&root), [true, true, true]);
    assert_eq!(told(&shop), [false, true, false]);
    assert_eq!(told(&writer), [false, false, true]);
    let mut client = keyed.connect(&shop);
    client.expect("SLOWLOG LEN", ":1\\r\\n");
    for line in ["LATENCY LATEST", "LATENCY HISTOGRAM", "LATENCY RESET"] {
        let refused = client.tell(line);
        assert!(refused.starts_with("-NOPERM "), "{line}: {refused}");
    }
    client.expect("SLOWLOG RESET", "+OK\\r\\n");
    client.expect("SLOWLOG LEN", ":0\\r\\n");
    assert_eq!(told(&root), [true, false, true]);
    let mut client = keyed.connect(&writer);
    for line in ["SLOWLOG RESET", "LATENCY RESET"] {
        assert!(client.tell(line).starts_with("-NOPERM "), "{line}");
    }
    client.expect_start("LATENCY LATEST", "*1");
    assert_eq!(told(&root), [true, false, true]);
    let told = info(&mut keyed.connect(&root), "COMMANDSTATS", "cmdstat_slowlog").unwrap();
    assert!(told.ends_with("rejected_calls=1,failed_calls=0"), "{told}");
    // What tells of everybody is not for keys of some filters.
    let mut client = keyed.connect(&shop);
    assert_eq!(info(&mut client, "COMMANDSTATS", "cmdstat_cf.add"), None);
    assert_eq!(info(&mut client, "STATS", "keyspace_hits"), None);
}

#[test]
fn commands_are_counted_and_timed_by_their_kind() {
    let server = Server::start();
    let mut client = server.connect();
    let mut bytes = Vec::new();
    for item in 0..50 {
        bytes.extend(command(&["BF.ADD", "k", &format!("i{item}")]));
    }
    for item in 0..30 {
        bytes.extend(command(&["BF.EXISTS", "k", &format!("i{item}")]));
    }
    bytes.extend(command(&["CF.EXISTS", "none", "a"]));
    bytes.extend(command(&["CF.DEL", "none", "a"]));
    bytes.extend(command(&["CF.DEL", "none"]));
    client.send(&bytes);
    for _ in 0..83 {
        client.reply();
    }
    client.tell("CF.COUNT");
    client.tell("TYPE");
    client.expect("MULTI", "+OK\\r\\n");
    client.expect("CF.EXISTS k i1", "+QUEUED\\r\\n");
    client.expect("TYPE k", "+QUEUED\\r\\n");
    client.tell("EXEC");
    let mut of = |name: &str| info(&mut client, "COMMANDSTATS", &format!("cmdstat_{name}"));
    for (name, calls, rejected, failed) in [
        ("bf.add", 50, 0, 0),
        ("bf.exists", 30, 0, 0),
        ("cf.exists", 2, 0, 0),
        ("type", 1, 1, 0),
        ("multi", 1, 0, 0),
        ("exec", 1, 0, 0),
        // No filter; not enough words.
        ("cf.del", 1, 1, 1),
        ("cf.count", 0, 1, 0),
    ] {
        let told = of(name).unwrap();
        let fields: Vec<&str> = told.split(',').collect();
        assert_eq!(fields[0], format!("calls={calls}"), "{name}: {told}");
        let refused = [
            format!("rejected_calls={rejected}"),
            format!("failed_calls={failed}"),
        ];
        assert_eq!(fields[3..], refused, "{name}: {told}");
        let micros: f64 = fields[1].strip_prefix("usec=").unwrap().parse().unwrap();
        let each: f64 = fields[2]
            .strip_prefix("usec_per_call=")
            .unwrap()
            .parse()
            .unwrap();
        assert!(
            (each - micros / f64::from(calls.max(1))).abs() < 0.01,
            "{name}: {told}"
        );
    }
    assert_eq!(of("cf.compact"), None);
    // It is long: only who asks for it is told.
    assert_eq!(info(&mut client, "DEFAULT", "cmdstat_bf.add"), None);
    assert!(info(&mut client, "ALL", "cmdstat_bf.add").is_some());
    assert_eq!(info(&mut client, "STATS", "keyspace_hits").unwrap(), "31");
    assert_eq!(info(&mut client, "STATS", "keyspace_misses").unwrap(), "1");
    let told = client.tell("LATENCY HISTOGRAM BF.ADD CF.COMPACT NOSUCH");
    let begins = "*2\\r\\n$6\\r\\nbf.add\\r\\n*4\\r\\n$5\\r\\ncalls\\r\\n:50\\r\\n$14\\r\\nhistogram_usec\\r\\n*";
    assert!(told.starts_with(begins), "{told}");
    // Each bucket has those before it, so the last one has all.
    assert!(told.ends_with(":50\\r\\n"), "{told}");
    let mut three = server.connect_resp3();
    let told = three.tell("LATENCY HISTOGRAM");
    assert!(
        told.starts_with('%') && told.contains("cf.exists"),
        "{told}"
    );
}

#[test]
fn the_pace_of_commands_is_told() {
    let server = Server::start();
    let mut client = server.connect();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        for item in 0..100 {
            client.tell(&format!("CF.EXISTS k i{item}"));
        }
        let pace = info(&mut client, "STATS", "instantaneous_ops_per_sec").unwrap();
        let all = info(&mut client, "STATS", "total_commands_processed").unwrap();
        if integer(&pace) > 0 {
            assert!(integer(&pace) <= integer(&all), "{pace} of {all}");
            break;
        }
        assert!(Instant::now() < until);
    }
}

#[test]
fn bounds_of_memory_and_of_the_slow_log_are_settings() {
    let server = Server::with(Setup {
        defaults: Defaults {
            max_total_bytes: Some(1 << 30),
            ..Defaults::default()
        },
        ..Setup::default()
    });
    let mut client = server.connect_resp3();
    client.expect(
        "CONFIG GET maxmemory*",
        "%2\\r\\n$9\\r\\nmaxmemory\\r\\n$10\\r\\n1073741824\\r\\n$16\\r\\nmaxmemory-policy\\r\\n$10\\r\\nnoeviction\\r\\n",
    );
    client.expect(
        "CONFIG GET slowlog-*",
        "%2\\r\\n$23\\r\\nslowlog-log-slower-than\\r\\n$5\\r\\n10000\\r\\n$15\\r\\nslowlog-max-len\\r\\n$3\\r\\n128\\r\\n",
    );
    let told = info(&mut client, "MEMORY", "maxmemory").unwrap();
    assert_eq!(told, "1073741824");
}

#[test]
fn what_redis_tells_of_a_key_is_told_or_said_not_to_be_kept() {
    const NO_COPY: &str = "-ERR a filter keeps its key: `cuckood filter dump KEY FILE` and `cuckood filter restore NEW FILE` copy it";
    let server = Server::start();
    let mut client = server.connect();
    client.expect("CF.ADD k a", ":1\\r\\n");
    client.expect("OBJECT ENCODING k", "$3\\r\\nraw\\r\\n");
    client.expect("OBJECT REFCOUNT k", ":1\\r\\n");
    for word in ["ENCODING", "REFCOUNT", "IDLETIME", "FREQ"] {
        client.expect(&format!("OBJECT {word} none"), "$-1\\r\\n");
    }
    for (line, says) in [
        ("OBJECT IDLETIME k", "-ERR idle times are not kept"),
        ("OBJECT FREQ k", "-ERR access frequencies are not kept"),
        (
            "OBJECT ENCODING",
            "-ERR wrong number of arguments for \\'object|encoding\\'",
        ),
        ("OBJECT NOSUCH k", "-ERR unknown subcommand"),
        ("RENAME k new", NO_COPY),
        ("RENAMENX k new", NO_COPY),
        ("COPY k new", NO_COPY),
        ("COPY k new DB 0 REPLACE", NO_COPY),
    ] {
        let told = client.tell(line);
        assert!(told.starts_with(says), "{line}: {told}");
    }
    client.expect("EXISTS k new", ":1\\r\\n");
}

#[test]
fn a_random_key_is_any_of_those_that_a_caller_may_know() {
    let (keyed, root) = Keyed::start(None);
    let shop = keyed.add("shop", Scope::Read, Some("shop:"));
    let mut all = keyed.connect(&root);
    all.expect("RANDOMKEY", "$-1\\r\\n");
    for name in ["a", "b", "c", "shop:a", "shop:b"] {
        all.expect(&format!("CF.ADD {name} x"), ":1\\r\\n");
    }
    let seen = |client: &mut Client| -> BTreeSet<String> {
        // Of the largest gap between five hashes all misses are rarer than one in 10^9.
        (0..200)
            .map(|_| String::from_utf8(client.ask(&["RANDOMKEY"])).unwrap())
            .collect()
    };
    let seen_by_all = seen(&mut all);
    assert!(seen_by_all.len() >= 3, "{seen_by_all:?}");
    let seen_by_shop = seen(&mut keyed.connect(&shop));
    assert!(!seen_by_shop.is_empty());
    assert!(
        seen_by_shop.iter().all(|name| name.contains("shop:")),
        "{seen_by_shop:?}"
    );
}
