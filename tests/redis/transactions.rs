//! `MULTI`, and what follows it.

use crate::server::Server;

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
