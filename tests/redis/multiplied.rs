//! Commands that ask for much in few bytes: what they may ask for is bounded, and
//! what they are answered is accounted.

use crate::server::{Server, Setup};
use crate::wire::{Client, command};

/// The beginning of a reply, as text.
fn beginning(reply: &[u8]) -> String {
    reply[..reply.len().min(300)].escape_ascii().to_string()
}

#[test]
fn patterns_have_a_kibibyte_together() {
    let server = Server::start();
    let mut client = server.connect();
    client.expect("CF.ADD k a", ":1\\r\\n");
    let longest = "*".repeat(1024);
    let class = "*[".to_owned() + &"x".repeat(1 << 20);
    let longer = "*".repeat(1025);
    for words in [
        ["SCAN", "0", "MATCH"].as_slice(),
        &["KEYS"],
        &["CONFIG", "GET"],
    ] {
        let ask = |client: &mut Client, pattern: &str| {
            let words = [words, &[pattern]].concat();
            beginning(&client.ask(&words))
        };
        let allowed = ask(&mut client, &longest);
        assert!(allowed.starts_with('*'), "{allowed}");
        let refused = ask(&mut client, &longer);
        let expected = "-ERR the patterns of a command have 1024 bytes at most, these have 1025";
        assert!(refused.starts_with(expected), "{refused}");
        let refused = ask(&mut client, &class);
        assert!(refused.starts_with("-ERR "), "{refused}");
    }
    let halves = ["CONFIG", "GET", &longest[..512], &longest[..513]];
    let refused = beginning(&client.ask(&halves));
    assert!(refused.contains("these have 1025"), "{refused}");
}

#[test]
fn a_command_about_no_key_has_few_words_and_bytes() {
    let server = Server::start();
    let mut client = server.connect();
    let names = |command: &[&str], count: usize| {
        let names = std::iter::repeat_n("cf.reserve", count);
        let words = command.iter().copied().chain(names);
        words.map(str::to_owned).collect::<Vec<String>>()
    };
    for command in [["COMMAND", "DOCS"], ["COMMAND", "INFO"]] {
        let told = client.ask(&names(&command, 126));
        assert!(
            told.starts_with(b"*") && told.len() < 128 << 10,
            "{}",
            told.len()
        );
    }
    for command in [
        ["COMMAND", "DOCS"].as_slice(),
        &["COMMAND", "INFO"],
        &["CONFIG", "GET"],
        &["INFO"],
        &["HELLO", "3"],
        &["CLIENT", "TRACKING", "OFF"],
    ] {
        for count in [128, 249_990] {
            let refused = beginning(&client.ask(&names(command, count)));
            assert!(
                refused.contains("has 128 words and 65536 bytes at most"),
                "{refused}"
            );
        }
    }
    let longest = vec![b'x'; (64 << 10) - 4];
    assert!(
        client
            .ask(&[b"ECHO".as_slice(), &longest])
            .starts_with(b"$65532\r\n")
    );
    for name in ["ECHO", "PING", "AUTH", "SELECT"] {
        let refused = beginning(&client.ask(&[name.as_bytes(), &vec![b'x'; 64 << 10]]));
        assert!(refused.contains("65536 bytes at most"), "{refused}");
    }
}

#[test]
fn replies_within_a_transaction_are_accounted_before_it_is_done() {
    let mut setup = Setup::default();
    setup.limits.max_buffered_bytes = 16 << 20;
    let server = Server::with(setup);
    let mut client = server.connect();
    client.expect("CF.ADD k a", ":1\\r\\n");
    // Alone with the memory it has what it needs, however much that is.
    let exec = |client: &mut Client, commands: usize| {
        let mut bytes = command(&["MULTI"]);
        bytes.extend(command(&["CF.ADD", "k", "b"]));
        bytes.extend(command(&["CF.INFO", "k"]).repeat(commands));
        bytes.extend(command(&["EXEC"]));
        client.send(&bytes);
        assert_eq!(client.reply(), b"+OK\r\n");
        for _ in 0..=commands {
            assert_eq!(client.reply(), b"+QUEUED\r\n");
        }
    };
    exec(&mut client, 20_000);
    assert!(client.reply().starts_with(b"*20001\r\n:1\r\n*16\r\n"));
    // Replies that are not read hold it.
    let mut unread = Client::connect_small(server.address);
    exec(&mut unread, 20_000);
    let mut refused = String::new();
    for _ in 0..100 {
        exec(&mut client, 8000);
        refused = beginning(&client.reply());
        if refused.starts_with('-') {
            break;
        }
    }
    let expected = "-EXECABORT Transaction discarded because of: TRYAGAIN";
    assert!(refused.starts_with(expected), "{refused}");
    // Nothing of it was done.
    assert!(unread.reply().starts_with(b"*20001\r\n"));
    let count = client.tell("CF.COUNT k b");
    exec(&mut client, 10);
    assert!(client.reply().starts_with(b"*11\r\n"));
    assert_ne!(client.tell("CF.COUNT k b"), count);
}

#[test]
fn a_transaction_is_about_a_thousand_filters() {
    let server = Server::start();
    let mut client = server.connect();
    for (filters, reply) in [
        (1024, "*1024\\r\\n:0"),
        (
            1025,
            "-EXECABORT Transaction discarded because of: ERR it is about the items of 1025 filters, 1024 are allowed",
        ),
    ] {
        let mut bytes = command(&["MULTI"]);
        for filter in 0..filters {
            bytes.extend(command(&["CF.EXISTS", &format!("k{filter}"), "a"]));
        }
        bytes.extend(command(&["EXEC"]));
        client.send(&bytes);
        (0..=filters).for_each(|_| drop(client.reply()));
        let told = beginning(&client.reply());
        assert!(told.starts_with(reply), "{told}");
    }
}
