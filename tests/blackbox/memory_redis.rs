//! Keys that take over the Redis protocol all that is bounded: halves of commands,
//! transactions, replies that nobody reads, filters on their way in and out. The
//! memory of the server stays within what `docs/limits.md` reckons from its flags,
//! and another key is served.

use crate::ports::free_port;
use crate::resp::{Client, command};
use crate::server::{PATIENCE, Server, add_key, client_with, insist, retried};
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

/// The flags from which the bound follows, in MiB; what is fixed in it, with
/// nothing for plans.
const CACHE: usize = 64;
const BLOCK_CACHE: usize = 16;
const BODIES: usize = 128;
const COLD_READS: usize = 16;
const FIXED: usize = 256;

/// Keys that take all that they can.
const GREEDY: usize = 3;

/// Items of a question whose reply sockets do not hold.
const MANY: usize = 600_000;

/// What the greedy keys are refused at least once, as metrics name it.
const TAKEN: [&str; 4] = ["bodies", "answers", "restores", "scandumps"];

/// Filters that are there to be handed out.
const FILTERS: usize = 300;

fn connect(port: u16, key: &str) -> Client {
    let mut client = Client::connect_small(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    client.expect(&format!("AUTH {key}"), "+OK\\r\\n");
    client
}

/// Takes all that a key can, and holds it as long as what is returned lives.
fn takes_everything(port: u16, key: &str, number: usize, header: &[u8]) -> Vec<Client> {
    let mut held = Vec::new();
    let mut loads = connect(port, key);
    for n in 0..12 {
        let name = format!("new-{number}-{n}");
        loads.ask(&[&b"CF.LOADCHUNK"[..], name.as_bytes(), b"1", header]);
    }
    for n in 0..FILTERS {
        loads.ask(&["CF.SCANDUMP", &format!("c{n}"), "0"]);
    }
    held.push(loads);
    let mut question = vec!["CF.MEXISTS", "k"];
    question.resize(MANY, "x");
    let question = command(&question);
    for _ in 0..6 {
        let mut client = connect(port, key);
        client.try_send(&question);
        held.push(client);
    }
    // Copies of which slots are looked for; it may be refused.
    for _ in 0..3 {
        let mut client = connect(port, key);
        client.try_send(&command(&["CF.SCANDUMP", "copies", "0"]));
        held.push(client);
    }
    let item = "x".repeat(60_000);
    let mut large = vec!["CF.MEXISTS", "k"];
    large.resize(2 + 500, &item);
    let large = command(&large);
    for _ in 0..8 {
        let mut client = connect(port, key);
        client.try_send(&large[..large.len() - 100]);
        held.push(client);
    }
    let small = command(&["CF.EXISTS", "k", &item]);
    for _ in 0..8 {
        let mut client = connect(port, key);
        client.expect("MULTI", "+OK\\r\\n");
        for _ in 0..300 {
            client.try_send(&small);
        }
        held.push(client);
    }
    held
}

#[test]
fn memory_stays_within_what_the_flags_say_whatever_redis_clients_take() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("keys.json");
    let [root, modest] = ["root", "modest"].map(|name| add_key(&path, name, &["--scope=admin"]));
    let greedy: Vec<String> = (0..GREEDY)
        .map(|number| add_key(&path, &format!("greedy-{number}"), &["--scope=admin"]))
        .collect();
    let port = free_port();
    let flags = [
        format!("--keys-file={}", path.display()),
        format!("--redis-listen=127.0.0.1:{port}"),
        format!("--cache-bytes={CACHE}MiB"),
        format!("--block-cache-bytes={BLOCK_CACHE}MiB"),
        format!("--max-buffered-bytes={BODIES}MiB"),
        format!("--max-cold-read-bytes={COLD_READS}MiB"),
        format!("--max-batch-items={MANY}"),
        format!("--max-queued-items={}", 2 * MANY),
        "--write-timeout-seconds=600".to_owned(),
        "--body-idle-timeout-seconds=600".to_owned(),
        "--lanes=1".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let server = Server::start(data.path(), &flags).with_key(&root);

    let mut client = connect(port, &root);
    client.expect("CF.ADD k a", ":1\\r\\n");
    client.expect(
        "CF.RESERVE copies 1000000 LAYOUT classic BUCKETSIZE 255",
        "+OK\\r\\n",
    );
    let items: Vec<String> = (0..1000).map(|item| format!("i{item}")).collect();
    for _ in 0..12 {
        let mut words = vec!["CF.INSERT", "copies", "ITEMS"];
        words.extend(items.iter().map(String::as_str));
        assert!(client.ask(&words).starts_with(b"*1000"));
    }
    let make = (0..FILTERS).flat_map(|n| {
        let name = format!("c{n}");
        let reserve = command(&["CF.RESERVE", &name, "100", "LAYOUT", "classic"]);
        [reserve, command(&["CF.ADD", &name, "a"])].concat()
    });
    client.send(&make.collect::<Vec<u8>>());
    for _ in 0..FILTERS {
        assert_eq!(client.reply(), b"+OK\r\n");
        assert_eq!(client.reply(), b":1\r\n");
    }
    let reply = client.ask(&["CF.SCANDUMP", "c0", "0"]);
    let header = &reply[reply.len() - 40..reply.len() - 2];

    let held: Vec<Vec<Client>> = thread::scope(|scope| {
        let keys = greedy.iter().enumerate();
        let taking =
            keys.map(|(n, key)| scope.spawn(move || takes_everything(port, key, n, header)));
        let taking: Vec<_> = taking.collect();
        taking.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let started = Instant::now();
    loop {
        let metrics = server.get_text("/metrics");
        let refusals: Vec<&str> = metrics
            .lines()
            .filter(|line| {
                line.starts_with("cuckood_resource_refusals_total") && !line.ends_with(" 0")
            })
            .collect();
        let is_refused = |resource: &&str| {
            let named = format!("resource=\"{resource}\"");
            refusals.iter().any(|line| line.contains(&named))
        };
        if TAKEN.iter().all(is_refused) {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{refusals:#?}");
        thread::sleep(Duration::from_millis(200));
    }
    let started = Instant::now();
    let http = client_with(Some(&modest));
    insist(&http, &server.url("/filters/k/exists"), "a");
    let mut client = connect(port, &modest);
    for line in ["CF.EXISTS k a", "CF.ADD k b"] {
        retried(|| match client.tell(line) {
            it if it == ":1\\r\\n" => Ok(()),
            it if it.starts_with("-TRYAGAIN") => Err(it),
            it => panic!("{line}: {it}"),
        });
    }
    let served = started.elapsed();
    let bound = CACHE + BLOCK_CACHE + BODIES + BODIES / 4 + COLD_READS + FIXED;
    let most = server.memory("VmHWM") as usize;
    println!("at most {most} MiB of {bound} MiB; three requests of another key took {served:?}");
    assert!(most > BODIES / 2, "{most} MiB: nothing was taken");
    assert!(most <= bound, "{most} MiB, more than {bound} MiB");
    drop(held);
    server.stop();
}
