//! Requests that ask for very much: a clear refusal, or a cost that is bounded.
//! Each prints what it took.
//!
//! `CUCKOOD_TEST_SCALE` multiplies what is sent (default 1).

use crate::server::{Sent as _, Server};
use crate::slow::scale;
use flate2::Compression;
use flate2::write::GzEncoder;
use reqwest::blocking::Response;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// Prints what a request took, and sees that memory stays within bounds all the
/// time.
fn measured<T>(server: &Server, what: &str, most_mib: u64, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let (outcome, before, most) = server.peak(work);
    println!(
        "{what}: {:?}, memory {before} MiB before, at most {most} MiB",
        started.elapsed()
    );
    assert!(
        most < before + most_mib,
        "{what}: {before} MiB became {most} MiB"
    );
    outcome
}

fn refused(answer: Response, status: u16, code: &str) {
    assert_eq!(answer.status(), status);
    let problem: Value = answer.json().unwrap();
    assert_eq!(problem["code"], code, "{problem}");
}

fn put(server: &Server, key: &str, fields: &Value) -> Response {
    server
        .client()
        .put(server.url(&format!("/filters/{key}")))
        .json(fields)
        .sent()
        .unwrap()
}

fn post(
    server: &Server,
    path: &str,
    media_type: &str,
    body: impl Into<reqwest::blocking::Body>,
) -> Response {
    let request = server
        .client()
        .post(server.url(path))
        .header("content-type", media_type);
    request.body(body).sent().unwrap()
}

#[test]
fn filters_of_any_size_are_refused_or_cost_little() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    for capacity in [
        1_000_000_000_000_000_000u64,
        u64::MAX,
        (1 << 40) + 1,
        1 << 40,
    ] {
        let fields = json!({"capacity": capacity});
        measured(&server, &format!("capacity {capacity}"), 16, || {
            refused(put(&server, "f", &fields), 422, "invalid_fields");
        });
    }
    let fields = json!({"capacity": 4_000_000_000u64, "error_rate": 0.001});
    measured(&server, "a filter of 8 GB", 64, || {
        assert_eq!(put(&server, "f", &fields).status(), 201);
        let items: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        assert!(
            server
                .post_lines("/filters/f/items", &items)
                .unwrap()
                .iter()
                .all(|it| it == "added")
        );
        assert_eq!(server.items("f"), 1000);
    });
    server.stop();
}

/// So many MiB of zeros, gzipped.
fn bomb(mib: usize) -> Vec<u8> {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
    let zeros = vec![0; 1 << 20];
    (0..mib).for_each(|_| bomb.write_all(&zeros).unwrap());
    bomb.finish().unwrap()
}

#[test]
fn a_gzip_bomb_is_refused_without_being_unpacked() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    server.create_filter("f", &json!({}));
    let bomb = bomb(256 * scale());
    let send = |path: &str, media_type: &str| {
        let request = server
            .client()
            .post(server.url(path))
            .header("content-type", media_type);
        let request = request
            .header("content-encoding", "gzip")
            .body(bomb.clone());
        request.sent().unwrap()
    };
    for (path, media_type) in [
        ("/filters/f/items", "application/json"),
        ("/filters/f/exists", "text/plain"),
        ("/lookup", "application/json"),
    ] {
        // What is freed meanwhile goes back to the system within 100 ms.
        measured(&server, &format!("a bomb to {path}"), 96, || {
            refused(send(path, media_type), 413, "body_too_large");
        });
    }
    // An import has no bound but time: its one line is too long, and not kept.
    measured(&server, "a bomb to import", 48, || {
        let answer = send("/filters/f/import?import_id=bomb", "text/plain");
        assert_eq!(answer.status(), 200);
        let answer: Value = answer.json().unwrap();
        assert_eq!(
            (&answer["added"], &answer["bad_lines"]),
            (&json!(0), &json!(1))
        );
    });
    assert_eq!(server.items("f"), 0);
    server.stop();
}

/// Large requests of every kind at the same time: what is held of all of them is
/// bounded, whatever each of them may have.
#[test]
fn many_huge_requests_at_once_share_one_bound() {
    const BUFFERED_MIB: u64 = 64;
    const AT_ONCE: usize = 24;
    let data = tempfile::tempdir().unwrap();
    let flag = format!("--max-buffered-bytes={BUFFERED_MIB}MiB");
    let server = Server::start(data.path(), &[&flag]);
    server.create_filter("f", &json!({"capacity": 1_000_000}));
    let bomb = bomb(256 * scale());
    let lines = (0..250_000).map(|n| format!("item {n}\n"));
    let lines = lines.collect::<String>().into_bytes();
    let deep = b"[".repeat(16 << 20);
    let asked = Mutex::new(BTreeMap::new());
    let send = |number: usize| {
        let (path, media_type, body) = match number % 4 {
            0 => ("/filters/f/items", "text/plain", &bomb),
            1 => ("/filters/f/items", "text/plain", &lines),
            2 => ("/filters/f/count", "text/plain", &lines),
            _ => ("/filters/f/exists", "application/json", &deep),
        };
        let request = server.client().post(server.url(path));
        let request = request
            .header("content-type", media_type)
            .body(body.clone());
        let request = match number % 4 {
            0 => request.header("content-encoding", "gzip"),
            _ => request,
        };
        request.sent().unwrap().status().as_u16()
    };
    // The bodies, a quarter of that for answers, and what their threads, the
    // allocator and the storage engine keep.
    measured(&server, "many at once", 4 * BUFFERED_MIB, || {
        thread::scope(|scope| {
            for number in 0..AT_ONCE {
                let send = &send;
                let asked = &asked;
                scope.spawn(move || {
                    for round in 0..4 {
                        let status = send(number + round);
                        *asked.lock().unwrap().entry(status).or_insert(0) += 1;
                    }
                });
            }
        });
    });
    let asked = asked.into_inner().unwrap();
    println!("answers by status: {asked:?}");
    assert!(
        asked
            .keys()
            .all(|it| [200, 400, 413, 422, 429, 503].contains(it)),
        "{asked:?}"
    );
    assert!(asked.contains_key(&200), "{asked:?}");
    // Any of them may have been turned away each time for what the others held; alone
    // each has its answer.
    assert_eq!([0, 1, 2, 3].map(send), [413, 200, 200, 422]);
    server.stop();
}

#[test]
fn json_of_any_depth_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    server.create_filter("f", &json!({}));
    let depth = 1_000_000 * scale();
    let open = |text: &str| text.repeat(depth);
    for (path, body) in [
        ("/filters/f/items", open("[")),
        ("/filters/f/items", open("{\"items\":")),
        ("/filters/f/items", format!("{{\"items\":{}", open("["))),
        (
            "/filters/f/items",
            format!("{{\"items\":[],\"create\":{}", open("{\"capacity\":")),
        ),
        (
            "/filters/f/items",
            format!("{{\"items\":[],\"create\":{}{}}}", open("["), open("]")),
        ),
        (
            "/filters/f/exists",
            format!("{{\"items\":[],\"encoding\":{}{}}}", open("["), open("]")),
        ),
        (
            "/lookup",
            format!("{{\"items\":[],\"filters\":{}", open("[")),
        ),
    ] {
        // As much as a body may be by itself.
        let is_too_large = body.len() > 32 << 20;
        measured(
            &server,
            &format!("{} bytes of depth to {path}", body.len()),
            128,
            || {
                let status = post(&server, path, "application/json", body)
                    .status()
                    .as_u16();
                match is_too_large {
                    true => assert_eq!(status, 413),
                    false => assert!([400, 422].contains(&status), "{status}"),
                }
            },
        );
    }
    let mut lines = open("[");
    lines.truncate(60_000);
    let answer = post(
        &server,
        "/filters/f/import?import_id=deep",
        "application/x-ndjson",
        lines,
    );
    assert_eq!(answer.json::<Value>().unwrap()["bad_lines"], 1);
    server.stop();
}

#[test]
fn one_item_any_number_of_times_takes_the_room_of_a_few() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    for (key, fields) in [
        ("paged", json!({"capacity": 1000})),
        ("classic", json!({"capacity": 1000, "layout": "classic"})),
    ] {
        server.create_filter(key, &fields);
        let bytes = server.get_json(&format!("/filters/{key}"))["slot_bytes"].clone();
        let (batches, lines) = (4 * scale(), "hot\n".repeat(250_000));
        let copies = 250_000 * batches;
        measured(
            &server,
            &format!("{copies} copies of one item, {key}"),
            64,
            || {
                for _ in 0..batches {
                    let answer = post(
                        &server,
                        &format!("/filters/{key}/items"),
                        "text/plain",
                        lines.clone(),
                    );
                    assert_eq!(answer.status(), 200);
                }
            },
        );
        let info = server.get_json(&format!("/filters/{key}"));
        assert_eq!(
            (&info["items"], &info["slot_bytes"]),
            (&json!(copies), &bytes)
        );
        let count = server.get_json(&format!("/filters/{key}/count?item=hot"));
        assert_eq!(count, json!({"count": copies}));
    }
    server.stop();
}

/// Makes filters with a hundred items each, from several threads.
fn make_filters(server: &Server, number: usize) {
    let items: Vec<String> = (0..1000).map(|n| format!("\"user-{n}\"")).collect();
    let body = format!(
        "{{\"items\":[{}],\"create\":{{\"capacity\":1000}}}}",
        items.join(",")
    );
    thread::scope(|scope| {
        for part in 0..8 {
            let body = &body;
            scope.spawn(move || {
                for n in (part..number).step_by(8) {
                    let path = format!("/filters/campaign-{n:07}/items");
                    let answer = post(server, &path, "application/json", body.clone());
                    assert_eq!(answer.status(), 200);
                }
            });
        }
    });
}

#[test]
fn the_largest_lookup_and_the_longest_list_are_bounded() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let filters = 1000 * scale();
    measured(&server, &format!("{filters} filters made"), 2000, || {
        make_filters(&server, filters)
    });
    let items = |number: usize| (0..number).map(|n| format!("user-{n}")).collect::<Vec<_>>();
    let largest = json!({"items": items(1000), "prefix": "campaign-0000"});
    measured(
        &server,
        "a lookup of 1000 items in 1000 filters",
        200,
        || {
            let answer = server
                .client()
                .post(server.url("/lookup"))
                .json(&largest)
                .sent()
                .unwrap();
            assert_eq!(answer.status(), 200);
            let answer: Value = answer.json().unwrap();
            let results = answer["results"].as_array().unwrap();
            assert!(
                results
                    .iter()
                    .all(|keys| keys.as_array().unwrap().len() == 1000)
            );
        },
    );
    let larger = json!({"items": items(4001), "prefix": "campaign-0000"});
    measured(&server, "a larger one", 16, || {
        let answer = server
            .client()
            .post(server.url("/lookup"))
            .json(&larger)
            .sent()
            .unwrap();
        refused(answer, 413, "too_costly");
    });
    measured(&server, &format!("{filters} filters listed"), 64, || {
        let (mut cursor, mut listed, mut slowest) = (String::new(), 0, 0.0f64);
        loop {
            let started = Instant::now();
            let page = server.get_json(&format!("/filters?limit=999999{cursor}"));
            slowest = slowest.max(started.elapsed().as_secs_f64());
            listed += page["filters"].as_array().unwrap().len();
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        println!("the slowest page took {slowest:.3} s");
        assert_eq!(listed, filters);
    });
    server.stop();
    let started = Instant::now();
    let server = Server::start(data.path(), &[]);
    println!(
        "started with {filters} filters in {:?}, {} MiB",
        started.elapsed(),
        server.memory("VmRSS")
    );
    server.stop();
}
