//! What is under way when it is over with an API key, or it allows something
//! else.

use crate::keyed::Keyed;
use crate::server::{Server, Setup};
use crate::wire::command;
use cuckood::access::Scope;
use std::time::{Duration, Instant};

/// Bytes of the first part of a filter.
const HEADER_BYTES: usize = 38;

/// As long as a second to notice it, and one to end, and what a busy machine takes.
const ENDED: Duration = Duration::from_secs(3);

/// A command whose last item is missing, and more than what counts with its
/// connection.
fn torn(item_bytes: usize) -> Vec<u8> {
    let item = vec![b'x'; item_bytes];
    let words: Vec<&[u8]> = [&b"CF.INSERT"[..], b"k", b"ITEMS"]
        .into_iter()
        .chain(std::iter::repeat_n(&item[..], 12))
        .collect();
    let mut bytes = command(&words);
    bytes.truncate(bytes.len() - 100);
    bytes
}

/// Bodies of which one such command takes more than half.
fn tight() -> Setup {
    let mut setup = Setup::default();
    setup.limits.max_body_bytes = 1 << 20;
    setup.limits.max_buffered_bytes = 3 << 19;
    setup
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < ENDED, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_idle_connection_ends_with_its_key() {
    let (keyed, root) = Keyed::start(None);
    let key = keyed.add("web", Scope::Write, None);
    let (mut idle, mut in_transaction) = (keyed.connect(&key), keyed.connect(&key));
    idle.expect("CF.ADD k a", ":1\\r\\n");
    in_transaction.expect("MULTI", "+OK\\r\\n");
    in_transaction.expect("CF.ADD k b", "+QUEUED\\r\\n");
    let mut other = keyed.connect(&root);
    let started = Instant::now();
    keyed.remove("web");
    assert!(idle.has_ended() && in_transaction.has_ended());
    assert!(started.elapsed() < ENDED, "{:?}", started.elapsed());
    other.expect("CF.COUNT k b", ":0\\r\\n");
}

#[test]
fn a_command_that_has_not_come_ends_with_its_key_and_leaves_its_memory() {
    let (keyed, root) = Keyed::with(None, tight());
    let key = keyed.add("web", Scope::Write, None);
    let mut torn_off = keyed.connect(&key);
    let bytes = torn(60_000);
    torn_off.send(&bytes);
    let came = || {
        keyed
            .server
            .metric("cuckood_redis_bytes_total{direction=\"in\"}")
    };
    wait_until("it comes", || came() >= bytes.len() as f64);
    std::thread::sleep(Duration::from_millis(100));
    let mut other = keyed.connect(&root);
    let item = "x".repeat(60_000);
    let words: Vec<&str> = ["CF.INSERT", "k", "ITEMS"]
        .into_iter()
        .chain(std::iter::repeat_n(&*item, 16))
        .collect();
    assert!(other.ask(&words).starts_with(b"-TRYAGAIN"));
    let started = Instant::now();
    keyed.remove("web");
    let refused = torn_off.reply();
    assert_eq!(refused, b"-NOAUTH Authentication required.\r\n");
    assert!(started.elapsed() < ENDED, "{:?}", started.elapsed());
    assert!(torn_off.has_ended());
    wait_until("memory is there", || other.ask(&words).starts_with(b"*16"));
}

#[test]
fn a_filter_that_is_taken_in_ends_with_its_key() {
    let (keyed, root) = Keyed::start(None);
    let key = keyed.add("web", Scope::Write, None);
    let mut other = keyed.connect(&root);
    other.expect("CF.RESERVE k 1000 LAYOUT classic", "+OK\\r\\n");
    other.expect("CF.ADD k a", ":1\\r\\n");
    let reply = other.ask(&["CF.SCANDUMP", "k", "0"]);
    let header = &reply[reply.len() - HEADER_BYTES - 2..reply.len() - 2];
    let mut client = keyed.connect(&key);
    let begun = client.ask(&[&b"CF.LOADCHUNK"[..], b"new", b"1", header]);
    assert_eq!(begun, b"+OK\r\n");
    other.expect_start("CF.ADD new a", "-TRYAGAIN a filter is being loaded");
    keyed.remove("web");
    wait_until("the name is free", || {
        other.tell("CF.ADD new a") == ":1\\r\\n"
    });
}

#[test]
fn a_command_has_a_time_as_a_whole_and_so_has_a_transaction() {
    let mut setup = Setup::default();
    setup.limits.body_timeout = Duration::from_millis(500);
    let server = Server::with(setup);
    let (mut dripping, mut idle) = (server.connect(), server.connect());
    idle.expect("PING", "+PONG\\r\\n");
    let mut in_transaction = server.connect();
    in_transaction.expect("MULTI", "+OK\\r\\n");
    in_transaction.expect("CF.ADD k a", "+QUEUED\\r\\n");
    let started = Instant::now();
    dripping.send(b"*3\r\n$6\r\nCF.ADD\r\n$1\r\nk\r\n$99\r\n");
    while dripping.try_send(b"x") {
        assert!(started.elapsed() < ENDED);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(started.elapsed() > Duration::from_millis(400));
    assert!(in_transaction.has_ended());
    assert!(server.metric("cuckood_redis_refused_total{reason=\"timeout\"}") >= 2.0);
    // One that does nothing may stay.
    idle.expect("CF.EXISTS k a", ":0\\r\\n");
    // Each command has its own time.
    for _ in 0..20 {
        idle.send(b"*1\r\n$4\r\nPI");
        std::thread::sleep(Duration::from_millis(50));
        idle.send(b"NG\r\n");
        assert_eq!(idle.reply(), b"+PONG\r\n");
    }
}

#[test]
fn a_transaction_does_nothing_that_its_key_no_longer_allows() {
    let (keyed, root) = Keyed::start(None);
    let key = keyed.add("web", Scope::Write, None);
    let mut client = keyed.connect(&key);
    client.expect("MULTI", "+OK\\r\\n");
    client.expect("CF.ADD k a", "+QUEUED\\r\\n");
    keyed.change(Scope::Write, Scope::Read);
    client.expect(
        "EXEC",
        "-EXECABORT Transaction discarded because of previous errors.\\r\\n",
    );
    client.expect("EXISTS k", ":0\\r\\n");
    // Also if it is allowed more by then.
    client.expect("MULTI", "+OK\\r\\n");
    client.expect("CF.EXISTS k a", "+QUEUED\\r\\n");
    keyed.change(Scope::Read, Scope::Write);
    client.expect_start("EXEC", "-EXECABORT");
    // A change of another key is none of its own.
    client.expect("MULTI", "+OK\\r\\n");
    client.expect("CF.ADD k a", "+QUEUED\\r\\n");
    keyed.add("other", Scope::Read, None);
    client.expect("EXEC", "*1\\r\\n:1\\r\\n");
    keyed.connect(&root).expect("CF.COUNT k a", ":1\\r\\n");
}
