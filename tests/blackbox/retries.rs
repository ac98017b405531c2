//! A storm of retries: clients that hang up before the answer in three of ten
//! requests and send them again under the same key, while the server is killed
//! and started again. In the end every request counts exactly once.
//!
//! `CUCKOOD_STORM_SEED` repeats the choices of an earlier run; when exactly the
//! kill hits a request is up to the machine.

use crate::ports::free_port;
use crate::random::{Random, seed};
use crate::server::Server;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: usize = 8;
const REQUESTS: usize = 150;
const KILLS: usize = 3;

/// Longest time for one request to be answered at last.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn in_a_storm_of_retries_with_lost_answers_every_request_counts_once() {
    let seed = seed("CUCKOOD_STORM_SEED");
    println!("CUCKOOD_STORM_SEED={seed}");
    let data = tempfile::tempdir().unwrap();
    let port = free_port();
    let server = Server::start_on(port, data.path(), &[]);
    server.create_filter("f", &json!({"capacity": 200_000}));

    let done = AtomicUsize::new(0);
    let (server, storms) = thread::scope(|scope| {
        let mut server = server;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let mut storm = Storm {
                    number,
                    port,
                    random: Random(seed.wrapping_add(number as u64)),
                    ..Storm::default()
                };
                let done = &done;
                scope.spawn(move || {
                    storm.rage(done);
                    storm
                })
            })
            .collect();
        for kill in 1..=KILLS {
            let enough = kill * CLIENTS * REQUESTS / (KILLS + 1);
            while done.load(Ordering::SeqCst) < enough {
                thread::sleep(Duration::from_millis(1));
            }
            server.kill();
            server = Server::start_on(port, data.path(), &[]);
        }
        let storms: Vec<Storm> = clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect();
        (server, storms)
    });

    let (mut expected, mut lost, mut replayed) = (0, 0, 0);
    for storm in &storms {
        expected += storm.added - storm.deleted;
        lost += storm.lost;
        replayed += storm.replayed;
    }
    println!(
        "{} requests, {lost} answers lost, {replayed} answers replayed",
        CLIENTS * REQUESTS
    );
    assert!(lost > CLIENTS * REQUESTS / 5, "{lost} answers were lost");
    // How many of the lost ones were done depends on the machine.
    assert!(replayed > 20, "{replayed} answers were replayed");
    assert_eq!(server.items("f"), expected);
    server.kill();
    let server = Server::start_on(port, data.path(), &[]);
    assert_eq!(server.items("f"), expected);
}

/// One client, and what the filter owes to it.
#[derive(Default)]
struct Storm {
    number: usize,
    port: u16,
    random: Random,
    added: u64,
    deleted: u64,
    lost: usize,
    replayed: usize,
}

impl Storm {
    fn rage(&mut self, done: &AtomicUsize) {
        for request in 0..REQUESTS {
            // Every item is this request's own, but for chance likenesses; two
            // of three requests add, the third deletes what the first added.
            let deletes = request % 3 == 2;
            let first = if deletes { request - 2 } else { request };
            let count = 1 + first as u64 % 7;
            let lines: String = (0..count)
                .map(|item| format!("{}-{first}-{item}\n", self.number))
                .collect();
            let path = match deletes {
                true => "/filters/f/items/delete",
                false => "/filters/f/items",
            };
            let key = format!("{}-{request}", self.number);
            let answer = self.insist(path, &key, &lines);
            let word = if deletes { "true" } else { "added" };
            let results: Vec<&str> = answer.lines().collect();
            assert_eq!(results, vec![word; count as usize], "{key}");
            match deletes {
                true => self.deleted += count,
                false => self.added += count,
            }
            done.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Sends a request until it is answered; returns the answer's body.
    fn insist(&mut self, path: &str, key: &str, lines: &str) -> String {
        let give_up = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < give_up, "{key} was never answered");
            let Some(answer) = self.send(path, key, lines) else {
                continue;
            };
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let head = head.to_ascii_lowercase();
            match head.split(' ').nth(1).unwrap() {
                "200" => {
                    self.replayed += usize::from(head.contains("idempotency-replayed: true"));
                    return body.to_owned();
                }
                "409" | "503" => thread::sleep(Duration::from_millis(2)),
                _ => panic!("{answer}"),
            }
        }
    }

    /// Sends a request once; `None` if no whole answer came, or if the client
    /// hung up before it could.
    fn send(&mut self, path: &str, key: &str, lines: &str) -> Option<String> {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            thread::sleep(Duration::from_millis(10));
            return None;
        };
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\naccept: text/plain\r\n\
             idempotency-key: {key}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{lines}",
            lines.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        if self.random.below(10) < 3 {
            self.lost += 1;
            // Sometimes at once, sometimes when the answer is about there.
            thread::sleep(Duration::from_micros(self.random.below(4_000)));
            return None;
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase()
                .strip_prefix("content-length: ")?
                .parse()
                .ok()
        });
        (length == Some(body.len())).then_some(answer)
    }
}
