//! A hostile tenant: whatever its key allows, as often as it can, and what it does
//! not allow. All that is asked of the server is that it refuses in words, and that
//! the others are served.

use crate::besieging::Siege;
use crate::load::Life;
use crate::server::{Server, client_with};
use reqwest::StatusCode;
use reqwest::blocking::{Client, RequestBuilder};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

const PREFIX: &str = "hostile:";

/// Clients that send batches as fast as they can, and items of each.
const FLOODING: usize = 8;
const FLOOD_ITEMS: usize = 20_000;

/// Items of the dearest requests.
const DEAR_ITEMS: usize = 250_000;

/// Slow clients, in hundredths of 300.
const SLOW_HUNDREDTHS: usize = 30;

/// Filters with a growing chain that are there at most.
const DEAR_FILTERS: u64 = 4;

pub(super) struct Hostile {
    key: String,
    client: Client,
    /// Answers by status.
    answers: Mutex<BTreeMap<u16, u64>>,
    unanswered: AtomicU64,
    slow_connections: AtomicU64,
}

impl Hostile {
    pub(super) fn new(server: &Server, key: &str) -> Hostile {
        let big = json!({"capacity": 1_000_000, "fingerprint_bits": 32});
        server.create_filter("hostile:big", &big);
        for filter in ["hostile:seen", "hostile:flood"] {
            server.create_filter(filter, &json!({"capacity": 1_000_000}));
        }
        Hostile {
            key: key.to_owned(),
            client: client_with(Some(key)),
            answers: Mutex::default(),
            unanswered: AtomicU64::new(0),
            slow_connections: AtomicU64::new(0),
        }
    }

    /// Begins everything. It ends with the server's life.
    pub(super) fn spawn<'scope, 'env>(
        &'env self,
        scope: &'scope Scope<'scope, 'env>,
        base: &'env str,
        port: u16,
        life: &'env Life,
    ) {
        for client in 0..FLOODING {
            scope.spawn(move || self.until_over(life, |round| self.flood(base, client, round)));
        }
        scope.spawn(move || self.until_over(life, |round| self.be_dear(base, round)));
        scope.spawn(move || self.until_over(life, |round| self.be_wrong(base, port, round)));
        let siege = Siege::of(port, &self.key, PREFIX, SLOW_HUNDREDTHS);
        let stop: &AtomicBool = life.over();
        scope.spawn(move || siege.go_on(stop, &self.slow_connections));
    }

    fn until_over(&self, life: &Life, mut act: impl FnMut(u64)) {
        let mut round = 0;
        while !life.is_over() {
            act(round);
            round += 1;
        }
    }

    /// Sends, and notes what is answered.
    fn send(&self, request: RequestBuilder) {
        let sent = request.send().and_then(|answer| {
            let status = answer.status();
            // Read to its end, so that the connection can go on.
            answer.bytes().map(|_| status)
        });
        match sent {
            Ok(status) => {
                let mut answers = self.answers.lock().unwrap();
                *answers.entry(status.as_u16()).or_insert(0) += 1;
            }
            Err(_) => {
                self.unanswered.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(10));
            }
        }
    }

    fn post(&self, url: String, body: String) {
        let request = self.client.post(url).header("content-type", "text/plain");
        self.send(request.body(body));
    }

    /// Batches without a pause.
    fn flood(&self, base: &str, client: usize, round: u64) {
        let lines = |items: usize| (0..items).map(|n| format!("{client}-{n}\n")).collect();
        let verb = ["items?only_if_absent=true", "exists", "count"][round as usize % 3];
        self.post(
            format!("{base}/filters/hostile:flood/{verb}"),
            lines(FLOOD_ITEMS),
        );
    }

    /// The dearest that may be asked: long chains of narrow filters, and as many
    /// items as a request may have.
    fn be_dear(&self, base: &str, round: u64) {
        let filter = format!("{base}/filters/hostile:dear-{}", round % DEAR_FILTERS);
        let (shape, bucket) = [(2, 1), (1_000, 1), (200_000, 2)][round as usize % 3];
        let fields = json!({
            "layout": "classic", "bucket_size": bucket, "capacity": shape.max(2 * bucket),
            "expansion": 1, "max_expansions": 63, "max_iterations": 65_535,
        });
        self.send(self.client.put(&filter).json(&fields));
        let items = (0..DEAR_ITEMS).map(|n| format!("{round}-{n}\n")).collect();
        self.post(format!("{filter}/items"), items);
        self.send(self.client.post(format!("{filter}/compact")));
        let items: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let lookup = json!({"items": items, "prefix": PREFIX});
        self.send(self.client.post(format!("{base}/lookup")).json(&lookup));
        self.send(self.client.delete(&filter));
    }

    /// What is not allowed, or makes no sense.
    fn be_wrong(&self, base: &str, port: u16, round: u64) {
        let http = &self.client;
        let url = |path: &str| format!("{base}{path}");
        match round % 8 {
            0 => self.send(http.delete(url("/filters/polite:0"))),
            1 => self.send(http.get(url("/filters")).bearer_auth("cuckood_no_key")),
            2 => self.post(url("/filters/hostile:seen/items"), "x".repeat(1 << 20)),
            3 => {
                let request = http.put(url("/filters/hostile:restored/dump"));
                let request = request.header("content-type", "application/octet-stream");
                self.send(request.body("no dump"));
            }
            4 => {
                let request = http.post(url("/lookup"));
                let request = request.header("content-type", "application/json");
                self.send(request.body("[".repeat(1 << 20)));
            }
            5 => self.send(http.get(url("/metrics"))),
            6 => {
                let path = format!("/filters/hostile:seen/import?import_id={round}");
                self.post(url(&path), "line\n".repeat(10_000));
            }
            // A request that ends in its middle.
            _ => {
                if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
                    let _ = stream.write_all(b"POST /filters/hostile:seen/items HTTP/1.1\r\nhos");
                }
            }
        }
        thread::sleep(Duration::from_millis(5));
    }

    /// Removes everything that it has.
    pub(super) fn leave(&self, server: &Server) {
        let list = server.get_json(&format!("/filters?limit=1000&prefix={PREFIX}"));
        for filter in list["filters"].as_array().unwrap() {
            remove(server, filter["key"].as_str().unwrap());
        }
    }

    pub(super) fn figures(&self) -> Value {
        let answers = self.answers.lock().unwrap().clone();
        json!({
            "answers": answers.into_iter().map(|(status, count)| (status.to_string(), count))
                .collect::<BTreeMap<_, _>>(),
            "unanswered": self.unanswered.load(Ordering::Relaxed),
            "slow_connections": self.slow_connections.load(Ordering::Relaxed),
        })
    }

    /// Nothing that it asked was a fault of the server's.
    pub(super) fn assert_refused_in_words(&self) {
        let answers = self.answers.lock().unwrap();
        let is_fault = |status: u16| status >= 500 && ![503, 507].contains(&status);
        assert!(
            !answers.keys().any(|&status| is_fault(status)),
            "{answers:?}"
        );
        for status in [200, 401, 403] {
            assert!(answers.contains_key(&status), "{answers:?}");
        }
    }
}

/// Removes a filter that is there.
pub(super) fn remove(server: &Server, filter: &str) {
    let path = server.url(&format!("/filters/{filter}"));
    let removed = server.client().delete(path).send().unwrap();
    assert_eq!(removed.status(), StatusCode::NO_CONTENT, "{filter}");
}
