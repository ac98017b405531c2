//! The Redis protocol on several pods: any of them takes any command, whichever
//! pod leads the lanes of its filters.

use crate::broker::Brokers;
use crate::founded::shop;
use crate::operator::api_key;
use crate::ports::free_port;
use crate::program::{Client, Pod};
use redis::{Parser, Value};
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const LANES: u32 = 4;

/// Filters, so that each pod leads the lanes of some.
const FILTERS: usize = 12;

/// A connection to one pod.
pub(crate) struct Connection {
    stream: TcpStream,
    replies: TcpStream,
    /// It keeps what it has read of the next reply.
    parser: Parser,
}

impl Connection {
    pub(crate) fn open(port: u16) -> Connection {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).unwrap();
        Connection {
            replies: stream.try_clone().unwrap(),
            stream,
            parser: Parser::new(),
        }
    }

    /// Sends commands at once, and reads a reply to each.
    pub(crate) fn pipeline(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Value> {
        let mut bytes = Vec::new();
        for words in commands {
            bytes.extend(format!("*{}\r\n", words.len()).bytes());
            for word in words {
                bytes.extend(format!("${}\r\n", word.len()).bytes());
                bytes.extend(word);
                bytes.extend(b"\r\n");
            }
        }
        self.stream.write_all(&bytes).unwrap();
        commands
            .iter()
            .map(|_| self.parser.parse_value(&mut self.replies).unwrap())
            .collect()
    }

    pub(crate) fn ask(&mut self, command: &str) -> Value {
        self.pipeline(&[words(command)]).remove(0)
    }

    /// The same for commands in any order: what was refused since a lane changes its pod
    /// is sent again, as clients do. On a busy machine lanes do so at any time.
    fn until_done(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Value> {
        let mut replies = self.pipeline(commands);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(30) {
            let refused = |it: &Value| is_error(it, "TRYAGAIN");
            let again: Vec<usize> = (0..replies.len())
                .filter(|&at| refused(&replies[at]))
                .collect();
            if again.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
            for at in again {
                replies[at] = self.pipeline(&commands[at..=at]).remove(0);
            }
        }
        replies
    }
}

pub(crate) fn words(command: &str) -> Vec<Vec<u8>> {
    command
        .split(' ')
        .map(|it| it.as_bytes().to_vec())
        .collect()
}

/// The same commands for each filter.
fn for_each(commands: &[&str]) -> Vec<Vec<Vec<u8>>> {
    let of_filter = |filter| {
        let name = format!("f{filter}");
        commands
            .iter()
            .map(move |command| words(&command.replace("KEY", &name)))
    };
    (0..FILTERS).flat_map(of_filter).collect()
}

/// A pod, and its port for the Redis protocol.
pub(crate) fn start(brokers: &Brokers, flags: &[&str]) -> (Pod, u16) {
    let port = free_port();
    let listen = format!("--redis-listen=127.0.0.1:{port}");
    let mut all = vec![listen.as_str()];
    all.extend_from_slice(flags);
    (Pod::start_with(brokers, &all), port)
}

pub(crate) fn is_error(reply: &Value, words: &str) -> bool {
    matches!(reply, Value::ServerError(error) if format!("{error:?}").contains(words))
}

pub(crate) const OK: Value = Value::Okay;

pub(crate) fn int(number: i64) -> Value {
    Value::Int(number)
}

#[test]
fn any_pod_takes_any_command_and_shows_what_its_connection_did() {
    let Some(brokers) = shop(LANES) else { return };
    let asking = Client::new();
    let flush = ["--redis-allow-flush"];
    let mut pods: Vec<(Pod, u16)> = (0..2).map(|_| start(&brokers, &flush)).collect();
    for (pod, _) in &mut pods {
        pod.ready(&asking);
    }
    for turn in 0..2 {
        let mut here = Connection::open(pods[turn].1);
        let mut there = Connection::open(pods[1 - turn].1);
        // All lanes in one pipeline, with replies in its order.
        let replies = here.pipeline(&for_each(&[
            "CF.RESERVE KEY 1000",
            "CF.ADD KEY a",
            "CF.EXISTS KEY a",
            "CF.INSERT KEY ITEMS b b c",
            "CF.COUNT KEY b",
            "CF.ADD KEY",
        ]));
        for replies in replies.chunks(6) {
            let inserted = Value::Array(vec![int(1), int(1), int(1)]);
            let logs = || format!("{}\n{}", pods[0].0.log(), pods[1].0.log());
            let expected = [OK, int(1), int(1), inserted, int(2)];
            assert_eq!(replies[..5], expected, "{}", logs());
            assert!(is_error(&replies[5], "wrong number"), "{replies:?}");
        }
        // A connection sees what it has done, also with what is answered here.
        let counts = here.pipeline(&for_each(&["CF.COUNT KEY b", "CF.COUNT KEY x"]));
        for counts in counts.chunks(2) {
            assert_eq!(counts, [int(2), int(0)]);
        }
        assert_eq!(here.ask("DBSIZE"), int(FILTERS as i64));
        // Another one does if it asks for all that was acknowledged, or is told.
        assert_eq!(there.ask("CLIENT CONSISTENCY strong"), OK);
        let counts = there.until_done(&for_each(&["CF.COUNT KEY b"]));
        assert!(counts.iter().all(|it| *it == int(2)), "{counts:?}");
        let deleted = here.until_done(&for_each(&["CF.DEL KEY b"]));
        assert!(deleted.iter().all(|it| *it == int(1)), "{deleted:?}");
        let Value::BulkString(position) = here.ask("CLIENT POSITION") else {
            panic!("there is no position");
        };
        let position = String::from_utf8(position).unwrap();
        assert_eq!(position.split(',').count(), LANES as usize, "{position}");
        let mut told = Connection::open(pods[1 - turn].1);
        assert_eq!(told.ask(&format!("CLIENT POSITION {position}")), OK);
        assert!(is_error(
            &told.ask("CLIENT POSITION 9.0.1"),
            "none of this cluster"
        ));
        assert!(is_error(
            &told.ask("CLIENT CONSISTENCY weak"),
            "local or strong"
        ));
        let counts = told.until_done(&for_each(&["CF.COUNT KEY b"]));
        assert!(counts.iter().all(|it| *it == int(1)), "{counts:?}");

        // Transactions on one filter, each wherever that is led.
        for filter in 0..FILTERS {
            let commands = [
                "MULTI".to_owned(),
                format!("CF.ADD f{filter} t"),
                format!("CF.EXISTS f{filter} t"),
                format!("CF.INFO f{filter}"),
                "EXEC".to_owned(),
            ];
            let commands: Vec<_> = commands.iter().map(|it| words(it)).collect();
            let replies = here.pipeline(&commands);
            let Some(Value::Array(done)) = replies.last() else {
                panic!("{replies:?}");
            };
            assert_eq!(done[..2], [int(1), int(1)]);
            assert!(matches!(done[2], Value::Array(_)), "{done:?}");
        }
        // Several lanes at once: on one pod, or not at all.
        let mut both = vec![words("MULTI")];
        both.extend(for_each(&["EXPIRE KEY 1000"]));
        both.push(words("EXEC"));
        let refused = here.pipeline(&both);
        let refused = refused.last().unwrap();
        let ends = here.ask("TTL f0");
        match refused {
            Value::Array(done) => assert!(done.iter().all(|it| *it == int(1)) && ends != int(-1)),
            refused => assert!(is_error(refused, "different pods") && ends == int(-1)),
        }

        // A filter of RedisBloom comes in, part by part.
        assert_eq!(here.ask("CF.RESERVE classic 5000 BUCKETSIZE 2"), OK);
        for item in 0..2_000 {
            here.pipeline(&[words(&format!("CF.ADD classic {item}"))]);
        }
        let mut at = 0;
        loop {
            let Value::Array(part) = here.ask(&format!("CF.SCANDUMP classic {at}")) else {
                panic!("no part");
            };
            let [Value::Int(next), data] = &part[..] else {
                panic!("{part:?}");
            };
            let (1.., Value::BulkString(data)) = (*next, data) else {
                break;
            };
            let mut command = words(&format!("CF.LOADCHUNK copy {next}"));
            command.push(data.clone());
            assert_eq!(here.pipeline(&[command]), [OK]);
            at = *next;
        }
        for connection in [&mut here, &mut there] {
            assert_eq!(connection.ask("CF.EXISTS copy 1999"), int(1));
        }

        // Several keys of one command, on several pods.
        let keys: Vec<String> = (0..4).map(|filter| format!("f{filter}")).collect();
        let keys = format!("{} none", keys.join(" "));
        assert_eq!(here.ask(&format!("EXISTS {keys}")), int(4));
        assert_eq!(here.ask(&format!("DEL {keys}")), int(4));
        assert_eq!(here.ask(&format!("EXISTS {keys}")), int(0));
        assert_eq!(here.ask("FLUSHALL"), OK);
        assert_eq!(here.ask("DBSIZE"), int(0));
        let left = there.pipeline(&for_each(&["EXISTS KEY"]));
        assert!(left.iter().all(|it| *it == int(0)), "{left:?}");
        assert_eq!(there.ask("RESET"), Value::SimpleString("RESET".to_owned()));
        assert_eq!(
            there.ask("CLIENT CONSISTENCY"),
            Value::BulkString(b"local".to_vec())
        );
    }
}

#[test]
fn commands_are_passed_on_with_the_key_of_their_connection() {
    let Some(brokers) = shop(LANES) else { return };
    let asking = Client::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    let writer = api_key(&file, "w", &["--scope=write", "--prefix=f"]);
    let reader = api_key(&file, "r", &["--scope=read"]);
    let keys = format!("--keys-file={}", file.display());
    let keys = [keys.as_str()];
    let mut pods: Vec<(Pod, u16)> = (0..2).map(|_| start(&brokers, &keys)).collect();
    for (pod, _) in &mut pods {
        pod.ready(&asking);
    }
    for (_, port) in &pods {
        let unknown = Connection::open(*port).ask("CF.ADD f0 a");
        assert!(is_error(&unknown, "NOAUTH"), "{unknown:?}");
        let mut connection = Connection::open(*port);
        assert_eq!(connection.ask(&format!("AUTH {writer}")), OK);
        let added = connection.pipeline(&for_each(&["CF.ADD KEY a", "CF.ADD other-KEY a"]));
        for added in added.chunks(2) {
            assert_eq!(added[0], int(1));
            assert!(matches!(added[1], Value::ServerError(_)), "{added:?}");
        }
        let refused = connection.pipeline(&for_each(&["DEL KEY"]));
        assert!(
            refused.iter().all(|it| matches!(it, Value::ServerError(_))),
            "{refused:?}"
        );
        let mut connection = Connection::open(*port);
        assert_eq!(connection.ask(&format!("AUTH r {reader}")), OK);
        assert_eq!(connection.ask("CLIENT CONSISTENCY strong"), OK);
        let asked = connection.pipeline(&for_each(&["CF.EXISTS KEY a", "CF.ADD KEY b"]));
        for asked in asked.chunks(2) {
            assert_eq!(asked[0], int(1));
            assert!(matches!(asked[1], Value::ServerError(_)), "{asked:?}");
        }
    }
}
