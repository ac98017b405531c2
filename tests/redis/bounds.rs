//! What one command may take of memory, and of turns, on its way.

use crate::gated::{GatedStore, Point};
use crate::memory::MemoryStore;
use crate::server::{Server, Setup};
use crate::wire::{Client, command};
use cuckood::engine::{Engine, EngineError, FilterName, Slots};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Adds items so often that copies of them are counted beside their slots.
fn add_copies(client: &mut Client, key: &str, items: usize) {
    for _ in 0..12 {
        let items = (0..items).map(|item| format!("i{item}"));
        let words: Vec<String> = ["CF.INSERT", key, "ITEMS"]
            .map(str::to_owned)
            .into_iter()
            .chain(items)
            .collect();
        assert!(client.ask(&words).starts_with(b"*"));
    }
}

#[test]
fn copies_that_may_lie_in_too_many_slots_are_not_placed() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect(
        "CF.RESERVE k 1000000 LAYOUT classic BUCKETSIZE 255",
        "+OK\\r\\n",
    );
    add_copies(&mut client, "k", 1000);
    client.expect_start("CF.SCANDUMP k 0", "*2\\r\\n:1\\r\\n$38");
    // With one more sub-filter that are more than 1,048,576.
    let more: Vec<String> = (1000..1100).map(|item| format!("i{item}")).collect();
    for _ in 0..12 {
        let mut words = vec!["CF.INSERT".to_owned(), "k".to_owned(), "ITEMS".to_owned()];
        words.extend_from_slice(&more);
        assert!(client.ask(&words).starts_with(b"*"));
    }
    let refused = client.tell("CF.SCANDUMP k 0");
    assert!(refused.contains("copies have no slot"), "{refused}");
}

#[test]
fn finding_slots_for_copies_ends_with_its_time_and_its_pace() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("CF.RESERVE plain 1000 LAYOUT classic", "+OK\\r\\n");
    client.expect("CF.ADD plain a", ":1\\r\\n");
    client.expect(
        "CF.RESERVE k 100000 LAYOUT classic BUCKETSIZE 64",
        "+OK\\r\\n",
    );
    add_copies(&mut client, "k", 100);
    let slots = |name: &str, change: fn(Engine) -> Engine| {
        let name = FilterName::parse(name).unwrap();
        server.ask_engine(|engine| async move {
            let slots = change(engine).slots(&name, |_| Some(())).await;
            slots.map(|slots| matches!(slots, Slots::All(..)))
        })
    };
    let broken = |engine: Engine| engine.paced(|| Box::new(|| ControlFlow::Break(())));
    let late = |engine: Engine| {
        let slow = engine.paced(|| {
            Box::new(|| {
                std::thread::sleep(Duration::from_millis(300));
                ControlFlow::Continue(())
            })
        });
        slow.until(Instant::now() + Duration::from_millis(200))
    };
    for change in [broken as fn(Engine) -> Engine, late] {
        // What reads nothing as a whole has no pace.
        assert!(slots("plain", change).unwrap());
        let ended = slots("k", change).unwrap_err();
        assert!(matches!(ended, EngineError::DeadlineExceeded), "{ended}");
    }
}

#[test]
fn finding_slots_for_copies_takes_memory_of_commands() {
    let mut setup = Setup::default();
    setup.limits.max_body_bytes = 1 << 20;
    setup.limits.max_buffered_bytes = 3 << 19;
    let server = Server::with(setup);
    let mut client = server.connect();
    client.expect(
        "CF.RESERVE k 100000 LAYOUT classic BUCKETSIZE 64",
        "+OK\\r\\n",
    );
    add_copies(&mut client, "k", 100);
    let mut holding = server.connect();
    let item = vec![b'x'; 60_000];
    let words: Vec<&[u8]> = [&b"CF.MEXISTS"[..], b"k"]
        .into_iter()
        .chain(std::iter::repeat_n(&item[..], 16))
        .collect();
    let bytes = command(&words);
    let (most, rest) = bytes.split_at(bytes.len() - 100);
    holding.send(most);
    // What came by then holds its memory.
    std::thread::sleep(Duration::from_millis(500));
    let refused = client.tell("CF.SCANDUMP k 0");
    assert!(
        refused.starts_with("-TRYAGAIN the request bodies in memory"),
        "{refused}"
    );
    holding.send(rest);
    assert!(holding.reply().starts_with(b"*16"));
    client.expect_start("CF.SCANDUMP k 0", "*2\\r\\n:1\\r\\n$38");
}

#[test]
fn names_take_memory_as_they_are_collected() {
    const MANY: usize = 1_000_000;
    let mut setup = Setup::default();
    setup.limits.max_batch_items = MANY;
    setup.limits.max_buffered_bytes = 64 << 20;
    let server = Server::with(setup);
    let mut client = server.connect();
    let tail = "x".repeat(140);
    let adds = (0..400).flat_map(|n| command(&["CF.ADD", &format!("{n:04}{tail}"), "a"]));
    client.send(&adds.collect::<Vec<u8>>());
    (0..400).for_each(|_| assert_eq!(client.reply(), b":1\r\n"));
    assert!(client.ask(&["KEYS", "*"]).starts_with(b"*400\r\n"));
    // All memory of replies is held by one that nobody reads.
    let mut holding = Client::connect_small(server.address);
    let mut words = vec!["CF.MEXISTS", "none"];
    words.resize(2 + MANY, "x");
    holding.send(&command(&words));
    let started = Instant::now();
    loop {
        let reply = client.ask(&["KEYS", "*"]);
        if reply.starts_with(b"-TRYAGAIN the answers") {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(50));
    }
    // A few names need none.
    assert!(client.ask(&["KEYS", "000*"]).starts_with(b"*10\r\n"));
}

#[test]
fn a_large_change_that_waits_for_the_disk_keeps_no_turn() {
    let store = GatedStore::new(Arc::new(MemoryStore::new()));
    let server = Server::with(Setup {
        store: Arc::new(store.clone()),
        ..Setup::default()
    });
    let key = |n: usize| format!("k{n}");
    let mut client = server.connect();
    for n in 0..16 {
        client.expect(&format!("CF.RESERVE {} 100000", key(n)), "+OK\\r\\n");
    }
    store.hold_first(Point::CommitDone);
    let mut first = server.connect();
    first.send(&command(&["CF.ADD", "k0", "a"]));
    store.await_arrival();
    // One that is of another lane.
    let mut asked = Vec::new();
    let other = (1..16).find(|&n| {
        let mut client = server.connect();
        client.send(&command(&["CF.ADD", &key(n), "a"]));
        let is_other = !client.is_silent_for(Duration::from_millis(300));
        asked.push(client);
        is_other
    });
    let other = key(other.expect("a filter of the other lane"));
    let large = |key: &str| {
        let items: Vec<String> = (0..5000).map(|item| format!("some item {item}")).collect();
        let mut words = vec!["CF.INSERT", key, "ITEMS"];
        words.extend(items.iter().map(String::as_str));
        command(&words)
    };
    let cores = std::thread::available_parallelism().unwrap().get();
    let mut waiting: Vec<Client> = (0..=cores).map(|_| server.connect()).collect();
    for client in &mut waiting {
        client.send(&large("k0"));
    }
    std::thread::sleep(Duration::from_millis(500));
    let mut served = server.connect();
    served.send(&large(&other));
    let is_served = !served.is_silent_for(Duration::from_secs(5));
    store.open();
    assert!(is_served);
    for client in &mut waiting {
        assert!(client.reply().starts_with(b"*5000"));
    }
}
