//! What clients may take, and what becomes of those that take more.

use crate::keyed::Keyed;
use crate::server::{Server, Setup};
use crate::wire::{Client, command};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn another_protocol_gets_no_reply() {
    let server = Server::start();
    for bytes in [
        "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\n\r\n*3\r\n$6\r\nCF.ADD\r\n$1\r\nk\r\n$1\r\na\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "Content-Length: 4\r\n",
        "\u{16}\u{3}\u{1}",
    ] {
        let mut client = server.connect();
        client.send(bytes.as_bytes());
        assert!(client.has_ended(), "{bytes}");
    }
    // Also behind what was answered.
    let mut client = server.connect();
    client.send(b"PING\r\nHost: x\r\nCF.ADD k a\r\n");
    assert_eq!(client.reply(), b"+PONG\r\n");
    assert!(client.has_ended());
    server.connect().expect("EXISTS k", ":0\\r\\n");
    assert_eq!(
        server.metric("cuckood_redis_refused_total{reason=\"foreign\"}"),
        6.0
    );
}

#[test]
fn what_is_no_command_is_told_and_ends_the_connection() {
    let server = Server::start();
    for (bytes, error) in [
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*1048577\r\n", "invalid multibulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ("CF.ADD \"k\r\n", "unbalanced quotes in request"),
    ] {
        let mut client = server.connect();
        client.send(&command(&["PING"]));
        client.send(bytes.as_bytes());
        assert_eq!(client.reply(), b"+PONG\r\n");
        let expected = format!("-ERR Protocol error: {error}\r\n");
        assert_eq!(client.reply(), expected.as_bytes());
        assert!(client.has_ended());
    }
}

#[test]
fn a_person_may_type_commands() {
    let server = Server::start();
    let mut client = server.connect();
    client
        .send(b"\r\n  \r\nCF.ADD k \"an item\"\r\ncf.exists k 'an item'\ncf.exists k an\\ item\n");
    assert_eq!(client.reply(), b":1\r\n");
    assert_eq!(client.reply(), b":1\r\n");
    assert!(
        client
            .reply()
            .starts_with(b"-ERR wrong number of arguments")
    );
}

#[test]
fn items_have_a_bound_and_may_be_any_bytes() {
    let mut setup = Setup::default();
    setup.limits.max_batch_items = 10;
    let server = Server::with(setup);
    let mut client = server.connect();
    for item in [&b""[..], b"\r\n", b"\0", &[0xff; 65536]] {
        assert_eq!(client.ask(&[&b"CF.ADD"[..], b"k", item]), b":1\r\n");
        assert_eq!(client.ask(&[&b"CF.EXISTS"[..], b"k", item]), b":1\r\n");
    }
    let reply = client.ask(&[&b"CF.ADD"[..], b"k", &[1; 65537]]);
    assert_eq!(
        reply,
        b"-ERR an item has 65537 bytes, 65536 are allowed\r\n"
    );
    let words: Vec<String> = ["CF.MEXISTS", "k"]
        .into_iter()
        .chain(["i"; 11])
        .map(str::to_owned)
        .collect();
    let reply = client.ask(&words);
    assert!(reply.starts_with(b"-ERR the command has 11 items, 10 are allowed"));
}

#[test]
fn a_command_that_is_too_large_is_refused_and_the_next_one_done() {
    let mut setup = Setup::default();
    setup.limits.max_body_bytes = 100_000;
    setup.limits.max_buffered_bytes = 100_000;
    let server = Server::with(setup);
    let mut client = server.connect();
    let item = vec![b'x'; 60_000];
    client.send(&command(&[&b"CF.INSERT"[..], b"k", b"ITEMS", &item, &item]));
    client.send(&command(&["PING"]));
    let reply = client.reply();
    let text = reply.escape_ascii().to_string();
    assert!(
        text.starts_with("-ERR a command has at most 100000 bytes"),
        "{text}"
    );
    assert_eq!(client.reply(), b"+PONG\r\n");
}

#[test]
fn a_client_that_sends_far_too_much_at_once_learns_how_much_is_allowed() {
    let mut setup = Setup::default();
    setup.limits.max_batch_items = 10;
    let server = Server::with(setup);
    let too_many = "ERR a command has at most 26 words on this server (16 more than --max-batch-items); send fewer items at once";
    let too_large = "ERR a command has at most 33554432 bytes on this server (--max-body-bytes); send fewer items at once";
    let wide = |words: usize| {
        let mut command = format!("*{words}\r\n$10\r\nCF.MEXISTS\r\n").into_bytes();
        command.extend(b"$1\r\nk\r\n".repeat(words - 1));
        command
    };
    let word = vec![b'x'; (32 << 20) + 1];
    let mut client = server.connect();
    for (large, error) in [
        (wide(26), "ERR the command has 24 items, 10 are allowed"),
        (wide(27), too_many),
        (wide(1 << 20), too_many),
        (command(&[&b"CF.ADD"[..], b"k", &word]), too_large),
    ] {
        // What is before it and behind it is answered in order.
        client.send(&[command(&["ECHO", "a"]), large, command(&["ECHO", "b"])].concat());
        assert_eq!(client.reply(), b"$1\r\na\r\n");
        let reply = client.reply().escape_ascii().to_string();
        assert!(reply.starts_with(&format!("-{error}")), "{reply}");
        assert_eq!(client.reply(), b"$1\r\nb\r\n");
    }
    // A transaction that lacks it is not done.
    client.expect("MULTI", "+OK\\r\\n");
    client.expect("CF.ADD k a", "+QUEUED\\r\\n");
    client.send(&wide(27));
    assert!(client.reply().starts_with(b"-ERR a command has at most"));
    client.expect_start("EXEC", "-EXECABORT");
    client.expect("CF.EXISTS k a", ":0\\r\\n");
}

#[test]
fn commands_in_memory_have_a_bound_together() {
    let mut setup = Setup::default();
    setup.limits.max_body_bytes = 1 << 20;
    setup.limits.max_buffered_bytes = 3 << 19;
    let server = Server::with(setup);
    let item = vec![b'x'; 60_000];
    let words: Vec<&[u8]> = [&b"CF.INSERT"[..], b"k", b"ITEMS"]
        .into_iter()
        .chain(std::iter::repeat_n(&item[..], 16))
        .collect();
    let bytes = command(&words);
    let (most, rest) = bytes.split_at(bytes.len() - 1000);
    let mut first = server.connect();
    first.send(most);
    let came = || server.metric("cuckood_redis_bytes_total{direction=\"in\"}");
    let started = Instant::now();
    while came() < most.len() as f64 {
        assert!(started.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
    // It is counted before it is held.
    std::thread::sleep(Duration::from_millis(50));
    let mut second = server.connect();
    second.send(&bytes);
    let refused = second.reply();
    assert!(
        refused.starts_with(b"-TRYAGAIN the commands in memory"),
        "{}",
        refused.escape_ascii()
    );
    second.expect("PING", "+PONG\\r\\n");
    first.send(rest);
    assert!(first.reply().starts_with(b"*16\r\n"));
    second.send(&bytes);
    assert!(second.reply().starts_with(b"*16\r\n"));
}

#[test]
fn nothing_more_is_done_for_a_client_that_is_gone() {
    const ASKED: usize = 4000;
    let server = Server::start();
    let mut client = server.connect();
    for filter in 0..500 {
        client.expect(&format!("CF.RESERVE k{filter} 10"), "+OK\\r\\n");
    }
    // The server reads as many at once only of who sends many.
    client.send(&command(&["PING"]).repeat(1000));
    (0..1000).for_each(|_| drop(client.reply()));
    client.send(&command(&["DBSIZE"]).repeat(ASKED));
    drop(client);
    let started = Instant::now();
    while server.metric("cuckood_redis_connections") > 0.0 {
        assert!(started.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    }
    let done = server.metric("cuckood_redis_commands_total{command=\"dbsize\",outcome=\"ok\"}");
    assert!((1.0..ASKED as f64).contains(&done), "{done}");
}

#[test]
fn there_are_as_many_connections_as_there_may_be() {
    let mut setup = Setup::default();
    setup.redis.max_connections = 2;
    let server = Server::with(setup);
    let mut clients = [server.connect(), server.connect()];
    clients
        .iter_mut()
        .for_each(|it| it.expect("PING", "+PONG\\r\\n"));
    let mut third = server.connect();
    assert_eq!(third.reply(), b"-ERR max number of clients reached\r\n");
    assert!(third.has_ended());
    drop(clients);
    let started = Instant::now();
    while !server.connect().tell("PING").starts_with("+PONG") {
        assert!(started.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn one_address_does_not_take_all_connections() {
    let mut setup = Setup::default();
    setup.redis.max_connections_per_address = 1;
    let server = Server::with(setup);
    let mut first = server.connect();
    first.expect("PING", "+PONG\\r\\n");
    let mut second = server.connect();
    assert_eq!(second.reply(), b"-ERR max number of clients reached\r\n");
    assert!(second.has_ended());
    // Whoever has sent much already is told, too.
    let mut sending = server.connect();
    sending.send(format!("ECHO {}\r\n", "x".repeat(60 << 10)).as_bytes());
    assert_eq!(sending.reply(), b"-ERR max number of clients reached\r\n");
    assert!(sending.has_ended());
    let mut elsewhere = Client::connect_from("127.0.0.2", server.address);
    elsewhere.expect("PING", "+PONG\\r\\n");
}

#[test]
fn those_who_show_no_key_do_not_keep_out_those_who_do() {
    let mut setup = Setup::default();
    setup.redis.max_connections = 4;
    setup.server.header_timeout = Duration::from_secs(20);
    let (keyed, root) = Keyed::with(None, setup);
    let address = keyed.server.address;
    let mut quiet: Vec<_> = (0..4)
        .map(|_| Client::connect_from("127.0.0.2", address))
        .collect();
    quiet
        .iter_mut()
        .for_each(|it| it.expect("PING", "-NOAUTH Authentication required.\\r\\n"));
    let mut known = Vec::new();
    for _ in 0..4 {
        let mut client = Client::connect_from("127.0.0.3", address);
        assert_eq!(client.ask(&["AUTH", root.as_str()]), b"+OK\r\n");
        known.push(client);
    }
    assert!(quiet.iter_mut().all(Client::has_ended));
    // Now nobody gives up a place.
    let mut another = Client::connect_from("127.0.0.2", address);
    assert_eq!(another.reply(), b"-ERR max number of clients reached\r\n");
    known
        .iter_mut()
        .for_each(|it| it.expect("PING", "+PONG\\r\\n"));
}

#[test]
fn a_client_that_reads_nothing_goes() {
    let mut setup = Setup::default();
    setup.server.write_timeout = Duration::from_millis(300);
    setup.server.min_read_rate = 1 << 30;
    let server = Server::with(setup);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let message = "x".repeat(60_000);
    let bytes = command(&["ECHO", &message]);
    // It ends the connection, with all that was not read.
    let mut sent = 0;
    while sent < 2000 && stream.write_all(&bytes).is_ok() {
        sent += 1;
    }
    assert!(sent < 2000, "nobody was stopped");
    assert!(server.metric("cuckood_redis_refused_total{reason=\"timeout\"}") >= 1.0);
}

#[test]
fn silence_within_a_command_is_bounded_and_between_commands_if_so_wished() {
    let mut setup = Setup::default();
    setup.limits.body_idle_timeout = Duration::from_millis(200);
    let server = Server::with(setup);
    let mut client = server.connect();
    client.send(b"*2\r\n$4\r\nPI");
    assert!(client.has_ended());
    let mut idle = server.connect();
    std::thread::sleep(Duration::from_millis(500));
    idle.expect("PING", "+PONG\\r\\n");

    let mut setup = Setup::default();
    setup.redis.idle_timeout = Duration::from_millis(200);
    let server = Server::with(setup);
    let mut idle = server.connect();
    idle.expect("PING", "+PONG\\r\\n");
    assert!(idle.has_ended());
}

#[test]
fn a_stop_answers_what_is_under_way_and_closes_the_rest() {
    let mut server = Server::start();
    let mut idle = server.connect();
    idle.expect("CF.ADD k a", ":1\\r\\n");
    server.ask_to_stop();
    assert!(idle.has_ended());
    assert_eq!(server.stopped(), 0);
}

#[test]
fn a_server_that_is_starting_says_so() {
    let server = Server::with(Setup {
        is_open: false,
        ..Setup::default()
    });
    let mut client = server.connect();
    client.expect("PING", "+PONG\\r\\n");
    for line in ["CF.ADD k a", "CF.EXISTS k a", "DBSIZE", "CF.INFO k"] {
        client.expect(
            line,
            "-LOADING the server is replaying its log; try again in a moment\\r\\n",
        );
    }
    client.expect_within("INFO", "loading:1");
}

#[test]
fn quit_is_answered() {
    let server = Server::start();
    let mut client: Client = server.connect();
    client.send(b"PING\r\nQUIT\r\nPING\r\n");
    assert_eq!(client.reply(), b"+PONG\r\n");
    assert_eq!(client.reply(), b"+OK\r\n");
    assert!(client.has_ended());
    let mut rest = Vec::new();
    let mut raw = TcpStream::connect(server.address).unwrap();
    raw.write_all(b"QUIT\r\n").unwrap();
    raw.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"+OK\r\n");
}
