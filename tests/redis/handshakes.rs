//! What clients send first, byte by byte, and what they need to hear: of those
//! that no registry here has.

use crate::server::Server;
use crate::wire::{Client, command};

const NO_MAINTENANCE: &str = "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n";

fn pipeline(client: &mut Client, lines: &[&str]) -> Vec<String> {
    let words = |line: &&str| command(&line.split(' ').collect::<Vec<_>>());
    let bytes: Vec<u8> = lines.iter().flat_map(words).collect();
    client.send(&bytes);
    let reply = |_| String::from_utf8(client.reply()).unwrap();
    lines.iter().map(reply).collect()
}

#[test]
fn go_redis_is_greeted() {
    let server = Server::start();
    let mut client = server.connect();
    let replies = pipeline(
        &mut client,
        &[
            "HELLO 3 SETNAME app",
            "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip",
            "CLIENT SETINFO LIB-NAME go-redis(,go1.25)",
            "CLIENT SETINFO LIB-VER 9.17.0",
            "READONLY",
        ],
    );
    assert!(replies[0].starts_with("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"));
    assert_eq!(replies[1], NO_MAINTENANCE);
    assert_eq!(replies[2], "+OK\r\n");
    assert_eq!(replies[3], "+OK\r\n");
    assert_eq!(
        replies[4],
        "-ERR This instance has cluster support disabled\r\n"
    );
    // It fails on a field that it does not know, and on one that is missing.
    client.expect("CF.ADD k a", "#t\\r\\n");
    assert!(client.tell("CF.INFO k").starts_with("%8\\r\\n+Size\\r\\n:"));
}

#[test]
fn jedis_is_greeted() {
    let server = Server::start();
    let mut client = server.connect();
    let replies = pipeline(
        &mut client,
        &[
            "CLIENT SETNAME jedis",
            "CLIENT SETINFO lib-name jedis",
            "CLIENT SETINFO lib-ver 7.1.0",
            "SELECT 0",
        ],
    );
    assert_eq!(replies, ["+OK\r\n"; 4]);
    assert_eq!(
        pipeline(
            &mut client,
            &["CF.INSERT k CAPACITY 1000 ITEMS a b", "CF.MEXISTS k a c"]
        ),
        ["*2\r\n:1\r\n:1\r\n", "*2\r\n:1\r\n:0\r\n"]
    );
}

#[test]
fn lettuce_is_greeted() {
    let server = Server::start();
    let mut client = server.connect();
    let replies = pipeline(
        &mut client,
        &[
            "HELLO 3",
            "CLIENT SETINFO lib-name Lettuce",
            "CLIENT SETINFO lib-ver 7.0.0.RELEASE/abc",
        ],
    );
    assert!(replies[0].starts_with("%7\r\n"));
    assert_eq!(replies[1..], ["+OK\r\n", "+OK\r\n"]);
    // It sends what it may, and looks at the beginning of the refusal.
    assert!(client.tell("NOSUCH").starts_with("-ERR unknown command"));
}

#[test]
fn redis_cli_is_greeted() {
    let server = Server::start();
    let mut client = server.connect();
    let docs = client.ask(&["COMMAND", "DOCS"]);
    assert!(docs.starts_with(b"*"));
    assert!(client.ask(&["COMMAND"]).starts_with(b"*"));
    let mut client = server.connect_resp3();
    assert!(
        client
            .ask(&["COMMAND", "DOCS", "cf.add", "nosuch"])
            .starts_with(b"%1\r\n$6\r\ncf.add\r\n%4")
    );
    assert!(
        client
            .ask(&["CONFIG", "GET", "save"])
            .starts_with(b"%1\r\n$4\r\nsave\r\n$0")
    );
    assert!(client.tell("INFO server").starts_with("="));
    assert!(client.tell("CLIENT LIST").contains("resp=3"));
    client.expect(
        "COMMAND NOSUCH",
        "-ERR unknown subcommand \\'NOSUCH\\'. Try COMMAND HELP.\\r\\n",
    );
}
