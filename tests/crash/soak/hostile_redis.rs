//! The hostile tenant over the Redis protocol: commands that never end, transactions
//! that are never done, replies that nobody reads, and what its key does not allow.

use crate::load::Life;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

/// Connections that are left as they are, until there are so many.
const HELD: usize = 40;

/// Items of a large command.
const ITEMS: usize = 20_000;

pub(super) struct HostileRedis {
    key: String,
    port: u16,
    /// Replies by their first word, numbers as one.
    replies: Mutex<BTreeMap<String, u64>>,
}

impl HostileRedis {
    pub(super) fn new(key: &str, port: u16) -> HostileRedis {
        HostileRedis {
            key: key.to_owned(),
            port,
            replies: Mutex::default(),
        }
    }

    /// Goes on until the server's life is over.
    pub(super) fn work(&self, life: &Life) {
        let mut held: Vec<TcpStream> = Vec::new();
        let mut round = 0;
        while !life.is_over() {
            if let Some(stream) = self.act(round) {
                held.push(stream);
            }
            if held.len() >= HELD {
                held.drain(..HELD / 2);
            }
            round += 1;
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What is left of it stays connected. The server may be gone at any time.
    fn act(&self, round: usize) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .ok()?;
        if round % 16 == 15 {
            stream
                .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                .ok()?;
            return Some(stream);
        }
        self.ask(&mut stream, &["AUTH", &self.key])?;
        let large = |verb: &str, name: &str| {
            let items = (0..ITEMS).map(|item| format!("{round}-{item}"));
            let words = [verb, name].map(str::to_owned).into_iter();
            words.chain(items).collect::<Vec<String>>()
        };
        match round % 15 {
            0 => {
                // Half a command.
                let bytes = command(&large("CF.MEXISTS", "hostile:flood"));
                stream.write_all(&bytes[..bytes.len() / 2]).ok()?;
            }
            1 => {
                self.ask(&mut stream, &["MULTI"])?;
                let bytes = command(&["CF.ADD", "hostile:flood", "x"]);
                stream.write_all(&bytes.repeat(1000)).ok()?;
            }
            2 | 3 => stream
                .write_all(&command(&large("CF.MEXISTS", "hostile:flood")).repeat(20))
                .ok()?,
            4 => self.ask(&mut stream, &["DEL", "polite:0"])?,
            5 => self.ask(&mut stream, &["KEYS", "*"])?,
            6 => self.ask(&mut stream, &["CF.ADD", "hostile:redis", "x"])?,
            7 => self.ask(&mut stream, &["CF.SCANDUMP", "hostile:dear-0", "0"])?,
            8 => self.ask(
                &mut stream,
                &["CF.LOADCHUNK", "hostile:load", "1", "no header"],
            )?,
            9 => stream
                .write_all(b"*3\r\n$6\r\nCF.ADD\r\n$33000000\r\nxx")
                .ok()?,
            10 => self.ask(&mut stream, &["NOSUCH", "x"])?,
            11 => self.ask(&mut stream, &["DEL", "hostile:redis"])?,
            12 => self.ask(&mut stream, &["CF.COMPACT", "hostile:dear-1"])?,
            13 => stream.write_all(b"*1\r\n:1\r\n").ok()?,
            _ => {
                let pipeline = (0..500).flat_map(|n| {
                    let (name, item) = (format!("hostile:r{}", n % 10), format!("{round}-{n}"));
                    command(&["CF.ADDNX", &name, &item])
                });
                stream.write_all(&pipeline.collect::<Vec<u8>>()).ok()?;
            }
        }
        Some(stream)
    }

    /// Asks, and notes what is replied; `None`: nothing is.
    fn ask(&self, stream: &mut TcpStream, words: &[&str]) -> Option<()> {
        stream.write_all(&command(words)).ok()?;
        let mut reply = [0; 256];
        let came = stream.read(&mut reply).ok().filter(|&came| came > 0)?;
        let text = String::from_utf8_lossy(&reply[..came]).into_owned();
        let word = match text.starts_with('-') {
            true => text
                .split([' ', '\r'])
                .next()
                .unwrap_or_default()
                .to_owned(),
            false => text[..1].to_owned(),
        };
        *self.replies.lock().unwrap().entry(word).or_insert(0) += 1;
        Some(())
    }

    pub(super) fn figures(&self) -> Value {
        json!(*self.replies.lock().unwrap())
    }

    /// It was served where it may, and refused where it may not.
    pub(super) fn assert_refused_in_words(&self) {
        let replies = self.replies.lock().unwrap();
        for word in ["+", ":", "-NOPERM", "-ERR"] {
            assert!(replies.contains_key(word), "{word}: {replies:?}");
        }
    }
}

fn command<W: AsRef<str>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        let word = word.as_ref();
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}
