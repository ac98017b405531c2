//! Shares of API keys: one key takes all that it can by this protocol, and another
//! is served.

use crate::keyed::Keyed;
use crate::no_shares;
use crate::server::Setup;
use crate::wire::{Client, command};
use cuckood::access::Scope;
use std::time::{Duration, Instant};

/// Within which time the other key is served; a busy machine needs some of it.
const SERVED: Duration = Duration::from_secs(5);

/// Items of a question whose reply sockets do not hold.
const MANY: usize = 1_200_000;

/// Filters with long names.
const NAMES: usize = 10_000;

struct Tenants {
    keyed: Keyed,
    greedy: Box<dyn Fn() -> Client>,
    modest: Client,
}

impl Tenants {
    fn with(mut setup: Setup) -> Tenants {
        if let Some(percent) = no_shares::percent() {
            setup.limits.key_share_percent = percent;
        }
        let (keyed, root) = Keyed::with(None, setup);
        let key = keyed.add("greedy", Scope::Write, None);
        let address = keyed.server.address;
        let greedy = move || {
            let mut client = Client::connect_small(address);
            client.expect(&format!("AUTH {}", key.as_str()), "+OK\\r\\n");
            client
        };
        Tenants {
            modest: keyed.connect(&root),
            greedy: Box::new(greedy),
            keyed,
        }
    }

    fn refusals(&self, resource: &str, by: &str) -> u64 {
        let family = &self.keyed.server.metrics.resource_refusals;
        family.with_label_values(&[resource, by]).get()
    }

    /// Has the greedy key take until it is refused by its share; how often it took.
    fn take(&self, resource: &str, mut take: impl FnMut(usize)) -> usize {
        let mut taken = 0;
        while self.refusals(resource, "share") == 0 {
            assert!(taken < 300, "{resource}: it is never refused");
            take(taken);
            taken += 1;
        }
        taken
    }

    /// The other key gets what it asks for, in time.
    fn is_served(&mut self, resource: &str, words: &[&str], reply: &[u8]) {
        let started = Instant::now();
        let got = self.modest.ask(words);
        let excerpt = got[..got.len().min(200)].escape_ascii().to_string();
        assert!(got.starts_with(reply), "{resource}: {excerpt}");
        assert!(started.elapsed() < SERVED, "{:?}", started.elapsed());
        assert_eq!(self.refusals(resource, "bound"), 0, "{resource}");
    }
}

#[test]
fn memory_of_commands() {
    let mut setup = Setup::default();
    setup.limits.max_body_bytes = 1 << 20;
    setup.limits.max_buffered_bytes = 8 << 20;
    let mut tenants = Tenants::with(setup);
    let item = "x".repeat(60_000);
    let mut words = vec!["CF.MEXISTS", "k"];
    words.resize(2 + 10, &item);
    let bytes = command(&words);
    let mut held = Vec::new();
    let taken = tenants.take("bodies", |_| {
        let mut client = (tenants.greedy)();
        client.send(&bytes[..bytes.len() - 100]);
        std::thread::sleep(Duration::from_millis(200));
        held.push(client);
    });
    assert!(taken > 2, "{taken}");
    tenants.is_served("bodies", &words, b"*10\r\n");
    // The one that was refused learns it when all of it has come.
    let refused = held.last_mut().unwrap();
    refused.send(&bytes[bytes.len() - 100..]);
    assert!(
        refused
            .reply()
            .starts_with(b"-TRYAGAIN the commands in memory")
    );
}

#[test]
fn memory_of_replies() {
    let mut setup = Setup::default();
    setup.limits.max_batch_items = MANY;
    // A share has room for two such replies, and less than names take then.
    setup.limits.max_buffered_bytes = 464 << 20;
    let mut tenants = Tenants::with(setup);
    let tail = "x".repeat(245);
    let adds = (0..NAMES).flat_map(|n| command(&["CF.ADD", &format!("{n:05}{tail}"), "a"]));
    tenants.modest.send(&adds.collect::<Vec<u8>>());
    (0..NAMES).for_each(|_| assert_eq!(tenants.modest.reply(), b":1\r\n"));
    let mut words = vec!["CF.MEXISTS", "k"];
    words.resize(2 + MANY, "x");
    let bytes = command(&words);
    let mut held = Vec::new();
    let taken = tenants.take("answers", |_| {
        let mut client = (tenants.greedy)();
        client.send(&bytes);
        // It is answered, and more than sockets hold is left.
        assert!(!client.is_silent_for(Duration::from_secs(30)));
        held.push(client);
    });
    assert!(taken > 2, "{taken}");
    let refused = held.last_mut().unwrap().reply();
    let excerpt = refused.escape_ascii().to_string();
    assert!(excerpt.starts_with("-TRYAGAIN "), "{excerpt}");
    // Names take such memory, too, as they are collected.
    let names = (tenants.greedy)().tell("KEYS *");
    assert!(names.starts_with("-TRYAGAIN "), "{names:.200}");
    tenants.is_served("answers", &words[..20_000], b"*19998\r\n");
    tenants.is_served("answers", &["KEYS", "*"], b"*10000\r\n");
}

#[test]
fn filters_that_are_taken_in() {
    let mut tenants = Tenants::with(Setup::default());
    let modest = &mut tenants.modest;
    modest.expect("CF.RESERVE k 1000 LAYOUT classic", "+OK\\r\\n");
    modest.expect("CF.ADD k a", ":1\\r\\n");
    let reply = modest.ask(&["CF.SCANDUMP", "k", "0"]);
    let header = reply[reply.len() - 40..reply.len() - 2].to_vec();
    let load = |name: &str| command(&[&b"CF.LOADCHUNK"[..], name.as_bytes(), b"1", &header]);
    let mut greedy = (tenants.greedy)();
    let mut last = Vec::new();
    let taken = tenants.take("restores", |n| {
        greedy.send(&load(&format!("new-{n}")));
        last = greedy.reply();
    });
    // The last of them was refused.
    assert_eq!(taken, 9);
    assert!(last.starts_with(b"-TRYAGAIN "), "{}", last.escape_ascii());
    tenants.modest.send(&load("other"));
    assert_eq!(tenants.modest.reply(), b"+OK\r\n");
}

#[test]
fn filters_that_are_handed_out() {
    let mut tenants = Tenants::with(Setup::default());
    for n in 0..130 {
        let line = format!("CF.RESERVE k{n} 100 LAYOUT classic");
        tenants.modest.expect(&line, "+OK\\r\\n");
        tenants.modest.expect(&format!("CF.ADD k{n} a"), ":1\\r\\n");
    }
    let mut greedy = (tenants.greedy)();
    let mut last = String::new();
    let taken = tenants.take("scandumps", |n| {
        last = greedy.tell(&format!("CF.SCANDUMP k{n} 0"))
    });
    assert_eq!(taken, 129);
    assert!(last.starts_with("-TRYAGAIN "), "{last}");
    tenants.is_served("scandumps", &["CF.SCANDUMP", "k0", "0"], b"*2\r\n:1\r\n");
    // None had to make room for another; those that end make some.
    for n in [0, 1] {
        let part = greedy.tell(&format!("CF.SCANDUMP k{n} 1"));
        assert!(part.starts_with("*2\\r\\n:129\\r\\n$128"), "{part}");
        let end = greedy.tell(&format!("CF.SCANDUMP k{n} 129"));
        assert!(end.starts_with("*2\\r\\n:0"), "{end}");
    }
    let again = greedy.tell("CF.SCANDUMP k128 0");
    assert!(again.starts_with("*2\\r\\n:1\\r\\n"), "{again}");
}
