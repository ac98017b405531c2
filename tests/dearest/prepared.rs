//! What the forms ask about: filters that are as large, as deep and as described as
//! they may be, and the bodies of requests.

use crate::form::command;
use crate::resp::Client as Redis;
use crate::server::{PATIENCE, Server, client_with};
use bytes::Bytes;
use reqwest::blocking::Client;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

/// Who asks, and what there is.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) key: String,
    /// Items of a batch, at most.
    pub(crate) many: usize,
    /// Probes of a question, at most.
    pub(crate) probes: usize,
    /// Filters of a page and of a lookup, at most.
    pub(crate) filters: usize,
    /// Items of 1,024 values, and of as many rows.
    pub(crate) valued: usize,
    pub(crate) rowed: usize,
    /// Of a filter, and its `ETag`.
    pub(crate) dump: Bytes,
    pub(crate) etag: String,
    /// The same of RedisBloom, as one body, and as `CF.SCANDUMP` hands it out.
    pub(crate) scandump: Bytes,
    pub(crate) parts: Vec<(i64, Vec<u8>)>,
    pub(crate) backup: String,
}

/// The longest name.
pub(crate) fn name(of: char, number: usize) -> String {
    format!("{:-<255}", format!("{of}{number:04}"))
}

/// So many items, one a line.
pub(crate) fn lines(count: usize, from: usize) -> String {
    (from..from + count).map(|n| format!("{n}\n")).collect()
}

/// The same with as many bytes as a body may have.
pub(crate) fn long_lines(count: usize, from: usize) -> String {
    let digits = ((32 << 20) / count - 1).min(1000);
    let numbers = from..from + count;
    numbers.map(|n| format!("{n:0digits$}\n")).collect()
}

/// Items of so many characters of base64, a multiple of four.
pub(crate) fn base64_items(count: usize, characters: usize) -> String {
    let items: Vec<String> = (0..count)
        .map(|n| format!("\"{n:0characters$}\""))
        .collect();
    items.join(",")
}

pub(crate) fn entries(count: usize, value: usize) -> String {
    let of = |n: usize| format!(r#"{{"item":"{n:08}","value":{value}}}"#);
    (0..count).map(of).collect::<Vec<_>>().join(",")
}

pub(crate) fn entry_lines(count: usize, value: usize) -> String {
    (0..count).map(|n| format!("{n}\t{value}\n")).collect()
}

/// Labels of the exact attribute: all bytes that a description may have, and each of
/// them twice as long in JSON.
const LABELS: usize = 62;

fn label(number: usize) -> String {
    format!("{number:02}{}", "\"".repeat(254))
}

fn attribute(number: usize) -> String {
    format!("{number}{}", "n".repeat(63))
}

/// The longest description of a filter.
pub(crate) fn shape() -> String {
    static SHAPE: LazyLock<String> = LazyLock::new(|| {
        let labels: Vec<String> = (0..LABELS).map(label).collect();
        let exact = json!({"name": attribute(0), "values": labels});
        let hashed = (1..8).map(|n| json!({"name": attribute(n), "hash_bits": 1}));
        let attributes: Vec<_> = [exact].into_iter().chain(hashed).collect();
        json!({"capacity": 1000, "fingerprint_bits": 32, "values_per_item": 1024,
            "attributes": attributes})
        .to_string()
    });
    SHAPE.clone()
}

/// Entries of as many bytes as rows may have.
pub(crate) fn rows(count: usize, from: usize) -> String {
    let of = |n: usize| {
        let hashed = (1..8).map(|at| (attribute(at), json!(format!("{n:h>256}"))));
        let exact = (attribute(0), json!(label(n % LABELS)));
        let row: serde_json::Map<_, _> = hashed.chain([exact]).collect();
        json!({"item": n.to_string(), "attributes": row}).to_string()
    };
    let rows: Vec<String> = (from * count..(from + 1) * count).map(of).collect();
    rows.join(",")
}

impl World {
    /// One without a server, in which all is small: for a look at the forms.
    pub(crate) fn tiny() -> World {
        World {
            many: 2,
            probes: 2,
            filters: 1,
            valued: 1,
            rowed: 1,
            ..World::default()
        }
    }

    /// Makes everything; `is_whole`: of the sizes that there may be, which takes half
    /// a minute. Batches have at most so many items.
    pub(crate) fn prepare(
        server: &Server,
        redis: u16,
        key: &str,
        many: usize,
        is_whole: bool,
    ) -> World {
        let mut world = World {
            key: key.to_owned(),
            many,
            probes: 4_000_000,
            filters: 1000,
            valued: if is_whole { 1024 } else { 64 },
            rowed: if is_whole { 16 } else { 2 },
            ..World::default()
        };
        let made = Made {
            server,
            http: client_with(Some(key)),
        };
        made.of_descriptions(&world);
        made.chains();
        made.values(&world);
        made.others(many);
        made.siblings(many);
        made.dumps(&mut world, redis);
        world.backup = made.backup();
        world
    }
}

/// Makes filters.
struct Made<'a> {
    server: &'a Server,
    http: Client,
}

impl Made<'_> {
    fn put(&self, key: &str, shape: String) {
        let url = self.server.url(&format!("/filters/{key}"));
        let asked = self
            .http
            .put(url)
            .header("content-type", "application/json");
        let answer = asked.body(shape).send().unwrap();
        assert_eq!(answer.status(), 201, "{}", answer.text().unwrap());
    }

    fn add(&self, path: &str, lines: String) -> String {
        let url = self.server.url(&format!("/filters/{path}"));
        let asked = self.http.post(url).header("content-type", "text/plain");
        let answer = asked.body(lines).send().unwrap();
        let (status, said) = (answer.status(), answer.text().unwrap());
        assert_eq!(status, 200, "{path}: {said}");
        said
    }

    /// Filters with long names: some with the longest description, some that say yes
    /// to nearly all items.
    fn of_descriptions(&self, world: &World) {
        let yes = "items?create=true&layout=classic&bucket_size=255&capacity=510&expansion=0";
        thread::scope(|scope| {
            for thread in 0..16 {
                scope.spawn(move || {
                    for n in (thread..world.filters).step_by(16) {
                        self.put(&name('l', n), shape());
                        self.add(&format!("{}/{yes}", name('w', n)), lines(600, 0));
                    }
                });
            }
        });
    }

    fn chains(&self) {
        for (key, sub_filters) in [("deep", 64), ("chain", 16), ("shrinking", 64)] {
            let shape = json!({"layout": "classic", "capacity": 1000, "bucket_size": 2,
                "expansion": 1, "max_expansions": sub_filters - 1});
            self.put(key, shape.to_string());
            let mut next = 0;
            let mut has_room = true;
            while has_room {
                let said = self.add(&format!("{key}/items"), lines(5000, next));
                has_room = !said.contains("full");
                next += 5000;
            }
        }
        self.add("shrinking/items/delete", lines(40_000, 0));
    }

    fn values(&self, world: &World) {
        let shape_of = |bits: u64, values: u64| {
            json!({"capacity": 400_000 / values, "value_bits": bits, "fingerprint_bits": 32,
                "values_per_item": values})
            .to_string()
        };
        self.put("valued", shape_of(16, 1024));
        let of_item = |item: usize| (0..1024).map(move |value| format!("{item}\t{value}\n"));
        let items: Vec<usize> = (0..world.valued).collect();
        // A third of what a batch may have: values of one item push each other about, and in
        // a cluster all that they change has to fit one record.
        for some in items.chunks(world.many / 3072) {
            let entries = some.iter().flat_map(|&item| of_item(item));
            self.add("valued/values", entries.collect());
        }
        self.put("entered", shape_of(8, 1));
        for key in ["rows", "rowed"] {
            self.put(key, shape());
        }
        let columns: Vec<String> = (0..8).map(attribute).collect();
        let path = format!("rows/values?attributes={}", columns.join(","));
        for item in 0..world.rowed {
            let of = |n: usize| {
                let hashed: Vec<String> = (1..8).map(|at| (n / LABELS * at).to_string()).collect();
                format!("{item}\t{}\t{}\n", label(n % LABELS), hashed.join("\t"))
            };
            self.add(&path, (0..2000).map(of).collect());
        }
    }

    fn others(&self, many: usize) {
        let capacity = |capacity: u64| json!({"capacity": capacity}).to_string();
        for key in ["imported", "inserted", "unless"] {
            self.put(key, capacity(4_000_000));
        }
        self.put(
            "large",
            json!({"capacity": 12_000_000, "fingerprint_bits": 12}).to_string(),
        );
        self.add("large/items", lines(many, 0));
        let window = json!({"capacity": 250_000, "window_seconds": 316_224_000});
        self.put("window", window.to_string());
        self.add("window/items", lines(many, 0));
    }

    /// Filters that take two thirds of the memory that merges may have.
    fn siblings(&self, many: usize) {
        let united = json!({"capacity": 2 * many, "fingerprint_bits": 12});
        self.put("united", united.to_string());
        self.put("sibling", json!({"sibling_of": "united"}).to_string());
        for key in ["united/items", "sibling/items"] {
            for n in 0..2 {
                self.add(key, lines(many, n * many));
            }
        }
    }

    fn dumps(&self, world: &mut World, redis: u16) {
        self.put("restored", json!({"capacity": 1_000_000}).to_string());
        let of = |key: &str, media_type: &str| {
            let url = self.server.url(&format!("/filters/{key}/dump"));
            let answer = self
                .http
                .get(url)
                .header("accept", media_type)
                .header("cuckood-consistency", "strong")
                .send()
                .unwrap();
            let etag = answer.headers()["etag"].to_str().unwrap().to_owned();
            (etag, answer.bytes().unwrap())
        };
        (world.etag, world.dump) = of("restored", "application/octet-stream");
        let mut client = Redis::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, redis)));
        for line in [
            &format!("AUTH {}", world.key),
            "CLIENT CONSISTENCY strong",
            "CF.RESERVE bloom 1000000 LAYOUT classic",
        ] {
            client.send(&command(&line.split(' ').collect::<Vec<_>>()));
            assert_eq!(client.reply(), b"+OK\r\n", "{line}");
        }
        // What is empty has no dump there.
        self.add("bloom/items", lines(100_000, 0));
        let mut iterator = 0;
        loop {
            client.send(&command(&["CF.SCANDUMP", "bloom", &iterator.to_string()]));
            let (next, part) = part(&client.reply());
            if next == 0 {
                break;
            }
            world.parts.push((next, part));
            iterator = next;
        }
        world.scandump = framed(&world.parts).into();
    }

    /// Makes one, and says what it is called.
    fn backup(&self) -> String {
        let url = self.server.url("/admin/backups");
        let begun = self.http.post(&url).send().unwrap();
        assert_eq!(begun.status(), 202);
        let begun: serde_json::Value = begun.json().unwrap();
        let id = begun["id"].as_str().unwrap().to_owned();
        let started = Instant::now();
        loop {
            let status = self.http.get(format!("{url}/{id}/status")).send().unwrap();
            let state = status.json::<serde_json::Value>().unwrap()["state"].clone();
            if state == "complete" {
                return id;
            }
            assert!(started.elapsed() < PATIENCE, "{state}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// What `CF.SCANDUMP` replies.
fn part(reply: &[u8]) -> (i64, Vec<u8>) {
    let lines = |from: usize| {
        let end = reply[from..]
            .iter()
            .position(|&byte| byte == b'\n')
            .unwrap();
        (&reply[from + 1..from + end - 1], from + end + 1)
    };
    let (_, at) = lines(0);
    let (next, at) = lines(at);
    let (length, at) = lines(at);
    let number = |text: &[u8]| std::str::from_utf8(text).unwrap().parse::<i64>().unwrap();
    match usize::try_from(number(length)) {
        Ok(length) => (number(next), reply[at..at + length].to_vec()),
        Err(_) => (number(next), Vec::new()),
    }
}

/// The same as one body.
fn framed(parts: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (iterator, part) in parts {
        body.extend_from_slice(&iterator.to_le_bytes());
        body.extend_from_slice(&(part.len() as u32).to_le_bytes());
        body.extend_from_slice(part);
    }
    body
}
