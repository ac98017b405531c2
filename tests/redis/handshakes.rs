//! What clients send first, byte by byte, and what they need to hear: of those
//! that the tests can't install. Each test names the version and the place in its
//! public source that it follows.

use crate::keyed::Keyed;
use crate::server::Server;
use crate::wire::{Client, command};

const OK: &str = "+OK\r\n";
const NO_CLUSTER: &str = "-ERR This instance has cluster support disabled\r\n";

fn pipeline(client: &mut Client, lines: &[&str]) -> Vec<String> {
    let words = |line: &&str| command(&line.split(' ').collect::<Vec<_>>());
    let bytes: Vec<u8> = lines.iter().flat_map(words).collect();
    client.send(&bytes);
    let reply = |_| String::from_utf8(client.reply()).unwrap();
    lines.iter().map(reply).collect()
}

/// What `HELLO` in RESP3 must say: each of them looks for some of it.
#[track_caller]
fn assert_greeting(reply: &str) {
    assert!(
        reply.starts_with(
            "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:"
        ),
        "{reply}"
    );
    assert!(
        reply.contains(
            "$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*1\r\n"
        ),
        "{reply}"
    );
}

/// go-redis 9.17: `initConn` in `redis.go`, and its commands in lower case.
#[test]
fn go_redis_is_greeted() {
    let (keyed, key) = Keyed::start(None);
    let mut client = keyed.server.connect();
    let hello = format!("hello 3 auth default {} setname app", key.as_str());
    assert_greeting(&pipeline(&mut client, &[&hello])[0]);
    assert_eq!(
        pipeline(&mut client, &["select 0", "readonly"]),
        [OK, NO_CLUSTER]
    );
    // Any error turns the notices off.
    let notices = "client maint_notifications on moving-endpoint-type internal-ip";
    assert_eq!(
        pipeline(&mut client, &[notices]),
        ["-ERR unknown subcommand 'maint_notifications'. Try CLIENT HELP.\r\n"]
    );
    let says = [
        "client setinfo lib-name go-redis(,go1.25.4)",
        "client setinfo lib-ver 9.17.0",
    ];
    assert_eq!(pipeline(&mut client, &says), [OK, OK]);
    client.expect_within(
        "client list",
        "name=app age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 user=root lib-name=go-redis(,go1.25.4) lib-ver=9.17.0 resp=3",
    );
    // It fails on a field that it does not know, and on one that is missing.
    client.expect("cf.add k a", "#t\\r\\n");
    client.expect_start("cf.info k", "%8\\r\\n+Size\\r\\n:");
    client.expect("bf.reserve b 0.01 1000", "+OK\\r\\n");
    client.expect("bf.madd b a b a", "*3\\r\\n#t\\r\\n#t\\r\\n#f\\r\\n");
    client.expect_start(
        "bf.info b",
        "%5\\r\\n+Capacity\\r\\n:1000\\r\\n+Size\\r\\n:",
    );
}

/// Jedis 7: `initializeFromClientConfig` in `Connection.java`. It waits for each
/// reply before the last ones, and bears an error of those if it is about something
/// unknown.
#[test]
fn jedis_is_greeted() {
    let (keyed, key) = Keyed::start(None);
    let named = [
        "CLIENT SETNAME app",
        "CLIENT SETINFO LIB-NAME jedis",
        "CLIENT SETINFO LIB-VER 7.1.0",
    ];
    // RESP2, which it speaks if nothing is said.
    let mut client = keyed.server.connect();
    let auth = format!("AUTH {}", key.as_str());
    assert_eq!(pipeline(&mut client, &[&auth]), [OK]);
    assert_eq!(pipeline(&mut client, &named), [OK; 3]);
    let ask = ["CF.INSERT k CAPACITY 1000 ITEMS a b", "CF.MEXISTS k a c"];
    assert_eq!(
        pipeline(&mut client, &ask),
        ["*2\r\n:1\r\n:1\r\n", "*2\r\n:1\r\n:0\r\n"]
    );
    let bloom = [
        "BF.INSERT b CAPACITY 1000 ERROR 0.01 ITEMS a b",
        "BF.MEXISTS b a c",
    ];
    assert_eq!(
        pipeline(&mut client, &bloom),
        ["*2\r\n:1\r\n:1\r\n", "*2\r\n:1\r\n:0\r\n"]
    );
    // RESP3: with a user it says hello once, without one behind AUTH.
    let mut client = keyed.server.connect();
    let hello = format!("HELLO 3 AUTH default {} SETNAME app", key.as_str());
    assert_greeting(&pipeline(&mut client, &[&hello])[0]);
    assert_eq!(pipeline(&mut client, &named[1..]), [OK; 2]);
    let mut client = keyed.server.connect();
    assert_eq!(pipeline(&mut client, &[&auth]), [OK]);
    assert_greeting(&pipeline(&mut client, &["HELLO 3"])[0]);
    assert_eq!(pipeline(&mut client, &named), [OK; 3]);
    assert_eq!(
        pipeline(&mut client, &ask),
        ["*2\r\n#t\r\n#t\r\n", "*2\r\n#t\r\n#f\r\n"]
    );
    // The items are there since RESP2.
    assert_eq!(
        pipeline(&mut client, &bloom),
        ["*2\r\n#f\r\n#f\r\n", "*2\r\n#t\r\n#f\r\n"]
    );
}

/// lettuce 7: `RedisHandshake.java`. Each line waits for the replies to the one
/// before.
#[test]
fn lettuce_is_greeted() {
    let (keyed, key) = Keyed::start(None);
    let mut client = keyed.server.connect();
    let hello = format!("HELLO 3 AUTH default {} SETNAME app", key.as_str());
    assert_greeting(&pipeline(&mut client, &[&hello])[0]);
    assert_eq!(
        pipeline(&mut client, &["SELECT 0", "READONLY"]),
        [OK, NO_CLUSTER]
    );
    let says = [
        "CLIENT SETINFO lib-name Lettuce",
        "CLIENT SETINFO lib-ver 7.0.0.RELEASE/abc",
    ];
    assert_eq!(pipeline(&mut client, &says), [OK, OK]);
    let notices = "CLIENT MAINT_NOTIFICATIONS on moving-endpoint-type internal-ip";
    assert_eq!(
        pipeline(&mut client, &[notices]),
        ["-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n"]
    );
    // It sends what it may, and looks at the beginning of the refusal.
    client.expect_start("NOSUCH", "-ERR unknown command");
    // RESP2: AUTH, or PING where there is no key.
    let mut client = keyed.server.connect();
    let auth = format!("AUTH {}", key.as_str());
    assert_eq!(pipeline(&mut client, &[&auth]), [OK]);
    let open = Server::start();
    let mut client = open.connect();
    assert_eq!(pipeline(&mut client, &["PING"]), ["+PONG\r\n"]);
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
    client.expect_start("INFO server", "=");
    // redis-py's and Predis' own tests look at these.
    client.expect_within("INFO server", "\\r\\narch_bits:64\\r\\n");
    for sections in ["INFO", "INFO modules", "INFO everything"] {
        let told = client.tell(sections);
        let modules = "# Modules\\r\\nmodule:name=bf,ver=80800,api=1,filters=0,usedby=[],using=[],options=[]\\r\\n";
        assert!(told.contains(modules), "{told}");
    }
    client.expect_within("CLIENT LIST", "resp=3");
    client.expect(
        "COMMAND NOSUCH",
        "-ERR unknown subcommand \\'NOSUCH\\'. Try COMMAND HELP.\\r\\n",
    );
}
