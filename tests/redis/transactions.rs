//! `MULTI`, and what follows it.

use crate::server::{Server, Setup};
use crate::wire::command;
use cuckood::server::Limits;
use std::time::Duration;

#[test]
fn a_transaction_is_one_commit_and_sees_itself() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("CF.RESERVE k 1000", "+OK\\r\\n");
    let commits = |server: &Server| server.metric("cuckood_commit_duration_seconds_count");
    let before = commits(&server);
    client.expect("MULTI", "+OK\\r\\n");
    for line in [
        "CF.EXISTS k a",
        "CF.ADD k a",
        "CF.EXISTS k a",
        "CF.ADDNX k a",
        "PING",
        "CF.INSERT k ITEMS a b",
        "CF.COUNT k a",
        "CF.DEL k a",
        "CF.COUNT k a",
        "CF.MEXISTS none a b",
    ] {
        client.expect(line, "+QUEUED\\r\\n");
    }
    client.expect(
        "EXEC",
        "*10\\r\\n:0\\r\\n:1\\r\\n:1\\r\\n:0\\r\\n+PONG\\r\\n*2\\r\\n:1\\r\\n:1\\r\\n:2\\r\\n:1\\r\\n:1\\r\\n*2\\r\\n:0\\r\\n:0\\r\\n",
    );
    assert_eq!(commits(&server) - before, 1.0);
}

#[test]
fn what_concerns_a_whole_filter_comes_where_it_stands() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("MULTI", "+OK\\r\\n");
    for line in [
        "EXISTS k",
        "CF.DEL k a",
        "CF.ADD k a",
        "EXISTS k",
        "TYPE k",
        "EXPIRE k 100",
        "TTL k",
        "CF.ADD k b",
        "DEL k",
        "CF.EXISTS k a",
    ] {
        client.expect(line, "+QUEUED\\r\\n");
    }
    client.expect(
        "EXEC",
        "*10\\r\\n:0\\r\\n-Not found\\r\\n:1\\r\\n:1\\r\\n+MBbloomCF\\r\\n:1\\r\\n:100\\r\\n:1\\r\\n:1\\r\\n:0\\r\\n",
    );
}

#[test]
fn a_transaction_changes_one_filter() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("MULTI", "+OK\\r\\n");
    client.expect("CF.ADD a x", "+QUEUED\\r\\n");
    client.expect("CF.ADD b x", "+QUEUED\\r\\n");
    client.expect(
        "EXEC",
        "-EXECABORT Transaction discarded because of: ERR writes to more than one filter (a, b) can\\'t be one transaction: use pipeline(transaction=False)\\r\\n",
    );
    client.expect("EXISTS a b", ":0\\r\\n");
}

#[test]
fn a_refused_command_spoils_its_transaction() {
    let server = Server::start();
    let mut client = server.connect();
    for refused in [
        "NOSUCH x",
        "CF.ADD k",
        "CF.SCANDUMP k 0",
        "INFO",
        "CF.COMPACT k",
        "SCAN 0",
        "TOUCH k",
        "OBJECT ENCODING k",
        "MEMORY USAGE k",
        "EXPIRETIME k",
    ] {
        client.expect("MULTI", "+OK\\r\\n");
        client.expect("CF.ADD k a", "+QUEUED\\r\\n");
        assert!(client.tell(refused).starts_with("-ERR"), "{refused}");
        client.expect(
            "EXEC",
            "-EXECABORT Transaction discarded because of previous errors.\\r\\n",
        );
    }
    client.expect("EXISTS k", ":0\\r\\n");
    client.expect("MULTI", "+OK\\r\\n");
    client.expect("WATCH k", "-ERR WATCH is not supported\\r\\n");
    client.expect("CF.ADD k a", "+QUEUED\\r\\n");
    client.expect("DISCARD", "+OK\\r\\n");
    client.expect("UNWATCH", "+OK\\r\\n");
    client.expect("EXISTS k", ":0\\r\\n");
}

#[test]
fn a_transaction_has_one_deadline() {
    const COUNT: usize = 60_000;
    let server = Server::with(Setup {
        limits: Limits {
            request_timeout: Duration::from_secs(1),
            ..Limits::default()
        },
        ..Setup::default()
    });
    let mut client = server.connect();
    let each = (0..COUNT).map(|it| command(&["CF.RESERVE", &format!("k{it}"), "1000"]));
    let each = each.collect::<Vec<_>>().concat();
    client.send(&[command(&["MULTI"]), each, command(&["EXEC"])].concat());
    for _ in 0..=COUNT {
        client.reply();
    }
    let replies = client.reply();
    assert!(replies.starts_with(b"*60000\r\n+OK\r\n"));
    let last = String::from_utf8_lossy(&replies[replies.len() - 200..]).into_owned();
    assert!(last.contains("deadline"), "{last}");
}
