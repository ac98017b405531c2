//! Who may send what.

use crate::keyed::Keyed;
use crate::wire::command;
use cuckood::access::Scope;

const NO_AUTH: &str = "-NOAUTH Authentication required.\\r\\n";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\\r\\n";

#[test]
fn nothing_is_done_for_whom_nobody_knows() {
    let (keyed, root) = Keyed::start(None);
    let mut client = keyed.server.connect();
    for line in [
        "PING",
        "CF.ADD k a",
        "INFO",
        "COMMAND",
        "NOSUCH",
        "CF.ADD",
        "MULTI",
    ] {
        client.expect(line, NO_AUTH);
    }
    client.expect_start("HELLO 3", "-NOAUTH HELLO must be called");
    client.expect("AUTH nosuch", WRONG);
    client.expect(&format!("AUTH other {}", root.as_str()), WRONG);
    client.expect(&format!("AUTH {}", root.as_str()), "+OK\\r\\n");
    client.expect("CF.ADD k a", ":1\\r\\n");
    client.expect("ACL WHOAMI", "$4\\r\\nroot\\r\\n");
    client.expect("RESET", "+RESET\\r\\n");
    client.expect("CF.ADD k a", NO_AUTH);
    let hello = format!("HELLO 3 AUTH default {} SETNAME me", root.as_str());
    client.expect_start(&hello, "%7");
    client.expect("CLIENT GETNAME", "$2\\r\\nme\\r\\n");
    client.expect("CF.EXISTS k a", "#t\\r\\n");
    assert_eq!(
        keyed
            .server
            .metric("cuckood_redis_refused_total{reason=\"auth\"}"),
        2.0
    );
}

#[test]
fn a_key_and_what_follows_it_may_come_at_once() {
    let (keyed, root) = Keyed::start(None);
    let mut client = keyed.server.connect();
    let many: Vec<String> = (0..50).map(|item| format!("i{item}")).collect();
    let mut words = vec!["CF.MEXISTS".to_owned(), "k".to_owned()];
    words.extend(many);
    let mut bytes = command(&["AUTH", root.as_str()]);
    bytes.extend(command(&words));
    client.send(&bytes);
    assert_eq!(client.reply(), b"+OK\r\n");
    assert!(client.reply().starts_with(b"*50\r\n"));
}

#[test]
fn who_does_not_say_who_it_is_goes() {
    let (keyed, _) = Keyed::start(None);
    let mut silent = keyed.server.connect();
    let mut guesses = keyed.server.connect();
    for _ in 0..10 {
        guesses.expect("AUTH nosuch", WRONG);
    }
    assert!(guesses.has_ended());
    for (bytes, error) in [
        ("*11\r\n", "unauthenticated multibulk length"),
        ("*2\r\n$16385\r\n", "unauthenticated bulk length"),
    ] {
        let mut client = keyed.server.connect();
        client.send(bytes.as_bytes());
        let expected = format!("-ERR Protocol error: {error}\r\n");
        assert_eq!(client.reply(), expected.as_bytes());
        assert!(client.has_ended());
    }
    assert!(silent.has_ended());
}

#[test]
fn a_key_allows_what_its_scope_says() {
    let (keyed, root) = Keyed::start(None);
    let read = keyed.add("web", Scope::Read, None);
    let write = keyed.add("shop", Scope::Write, Some("shop:"));
    let mut client = keyed.server.connect();
    client.expect(&format!("AUTH {}", root.as_str()), "+OK\\r\\n");
    client.expect("CF.ADD other a", ":1\\r\\n");
    client.expect("CF.ADD shop:1 a", ":1\\r\\n");

    let mut client = keyed.server.connect();
    client.expect(&format!("AUTH web {}", read.as_str()), "+OK\\r\\n");
    client.expect("CF.EXISTS other a", ":1\\r\\n");
    for (line, name, needs) in [
        ("CF.ADD other a", "cf.add", "write"),
        ("DEL other", "del", "admin"),
        ("CLIENT LIST", "client|list", "admin and no prefix"),
        ("SLOWLOG RESET", "slowlog|reset", "admin"),
        ("LATENCY RESET", "latency|reset", "admin and no prefix"),
        (
            "CF.SCANDUMP other 0",
            "cf.scandump",
            "read and the right export",
        ),
    ] {
        let expected = format!(
            "-NOPERM User web has no permissions to run the \\'{name}\\' command: it needs the scope {needs}, the API key has read\\r\\n"
        );
        client.expect(line, &expected);
    }

    let mut client = keyed.server.connect();
    client.expect(&format!("AUTH {}", write.as_str()), "+OK\\r\\n");
    client.expect("CF.ADD shop:1 b", ":1\\r\\n");
    for line in [
        "CF.ADD other a",
        "CF.EXISTS other a",
        "EXISTS shop:1 other",
        "TTL other",
    ] {
        client.expect(line, "-NOPERM No permissions to access a key\\r\\n");
    }
    client.expect(
        "LATENCY LATEST",
        "-NOPERM User shop has no permissions to run the \\'latency|latest\\' command: it needs the scope read and no prefix, the API key has write and a prefix\\r\\n",
    );
    client.expect("DBSIZE", ":1\\r\\n");
    client.expect(
        "SCAN 0",
        "*2\\r\\n$1\\r\\n0\\r\\n*1\\r\\n$6\\r\\nshop:1\\r\\n",
    );
    let info = client.tell("INFO");
    assert!(
        info.contains("redis_version")
            && !info.contains("Keyspace")
            && !info.contains("used_memory")
    );
    // A transaction is checked when it is queued.
    client.expect("MULTI", "+OK\\r\\n");
    client.expect(
        "CF.ADD other a",
        "-NOPERM No permissions to access a key\\r\\n",
    );
    client.expect_start("EXEC", "-EXECABORT");
}

#[test]
fn a_key_asks_as_often_as_it_may() {
    let (keyed, root) = Keyed::start(Some(5));
    let mut client = keyed.server.connect();
    client.expect(&format!("AUTH {}", root.as_str()), "+OK\\r\\n");
    let mut bytes = Vec::new();
    for _ in 0..20 {
        bytes.extend(command(&["CF.EXISTS", "k", "a"]));
    }
    client.send(&bytes);
    let replies: Vec<Vec<u8>> = (0..20).map(|_| client.reply()).collect();
    let refused = replies
        .iter()
        .filter(|it| it.starts_with(b"-TRYAGAIN the API key exceeds its rate"));
    assert!((13..=15).contains(&refused.count()), "{replies:?}");
}
