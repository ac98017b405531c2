//! What ends by itself, and what is bounded, is the same on all pods: filters, items of
//! a window, the number of filters.

use crate::broker::Brokers;
use crate::founded::shop;
use crate::operator::api_key;
use crate::program::{Client, Pod};
use serde_json::{Value, json};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const LANES: u32 = 4;
const PODS: usize = 3;

/// Pods that have applied the same say the same within so long: time is that of the log,
/// and of the newest record on each of them.
const ALIKE: Duration = Duration::from_millis(1_500);

/// How often pods are asked.
const EVERY: Duration = Duration::from_millis(20);

struct Shop {
    _brokers: Brokers,
    _pods: Vec<Pod>,
    asking: Client,
    addresses: Vec<String>,
    key: String,
}

impl Shop {
    fn start(keys: &str, flags: &[&str]) -> Option<Shop> {
        let brokers = shop(LANES)?;
        let key = api_key(Path::new(keys), "shop", &["--scope=admin"]);
        let keys = format!("--keys-file={keys}");
        let flags: Vec<&str> = flags.iter().copied().chain([keys.as_str()]).collect();
        let asking = Client::new();
        let mut pods: Vec<Pod> = (0..PODS)
            .map(|_| Pod::start_with(&brokers, &flags))
            .collect();
        pods.iter_mut().for_each(|it| it.ready(&asking));
        Some(Shop {
            asking,
            addresses: pods.iter().map(|it| it.address.clone()).collect(),
            _brokers: brokers,
            _pods: pods,
            key,
        })
    }

    /// What a pod answers, once somebody leads the lane: status, body, position.
    fn send(
        &self,
        key: &str,
        pod: usize,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, Value, Option<String>) {
        let url = format!("{}{path}", self.addresses[pod % PODS]);
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str())];
        let started = Instant::now();
        loop {
            let answer = self.asking.send(method, &url, &headers, body).unwrap();
            if answer.status != 503 {
                return (answer.status, answer.body, answer.position);
            }
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "{}",
                answer.body
            );
            thread::sleep(EVERY);
        }
    }

    /// Changes something through a pod; all pods have it then.
    fn change(&self, pod: usize, method: &str, path: &str, body: Value) -> Value {
        let (status, said, position) = self.send(&self.key, pod, method, path, Some(&body));
        assert!(status < 300, "{method} {path}: {status} {said}");
        let position = position.unwrap();
        for address in &self.addresses {
            let bearer = format!("Bearer {}", self.key);
            let headers = [
                ("authorization", bearer.as_str()),
                ("cuckood-min-position", &position),
            ];
            let url = format!("{address}/filters?limit=1");
            let answer = self.asking.send("GET", &url, &headers, None).unwrap();
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
        said
    }

    fn ask(&self, pod: usize, path: &str) -> (u16, Value) {
        let (status, said, _) = self.send(&self.key, pod, "GET", path, None);
        (status, said)
    }

    /// When each pod first says so, from a moment on; asks all of them until then.
    #[track_caller]
    fn when(&self, since: Instant, is_so: impl Fn(usize) -> bool) -> Vec<Duration> {
        let mut first: Vec<Option<Duration>> = vec![None; PODS];
        while first.contains(&None) {
            for (pod, first) in first.iter_mut().enumerate() {
                if is_so(pod) {
                    first.get_or_insert(since.elapsed());
                } else {
                    // Time never goes back.
                    assert_eq!(*first, None, "pod {pod}");
                }
            }
            assert!(since.elapsed() < Duration::from_secs(40), "{first:?}");
            thread::sleep(EVERY);
        }
        first.into_iter().flatten().collect()
    }
}

/// Not before `least` on any of them, and on all of them at about the same time.
#[track_caller]
fn check(times: &[Duration], least: Duration) {
    let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
    println!("{times:?}");
    assert!(*first >= least, "{times:?}");
    assert!(*last - *first < ALIKE, "{times:?}");
}

#[test]
fn filters_and_items_end_on_all_pods_alike() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json").display().to_string();
    let Some(shop) = Shop::start(&keys, &[]) else {
        return;
    };
    // Of every lane some.
    let (ttl, names) = (3, ["e0", "e1", "e2", "e3", "e4", "e5"]);
    let made = Instant::now();
    for (pod, name) in names.iter().enumerate() {
        let body = json!({ "capacity": 100, "ttl_seconds": ttl });
        shop.change(pod, "PUT", &format!("/filters/{name}"), body);
    }
    let all_made = made.elapsed();
    let is_over = |pod| {
        let status = |name: &&str| shop.ask(pod, &format!("/filters/{name}")).0;
        names.iter().all(|it| status(it) == 404)
    };
    // The last one ends last.
    let times = shop.when(made, is_over);
    check(&times, Duration::from_secs(ttl));
    assert!(all_made < *times.iter().min().unwrap());
    // The names are free, on whichever pod.
    for (pod, name) in names.iter().enumerate() {
        let path = format!("/filters/{name}");
        shop.change(pod + 1, "PUT", &path, json!({ "capacity": 50 }));
        for pod in 0..PODS {
            assert_eq!(shop.ask(pod, &path).1["expires_at"], Value::Null);
        }
    }

    let (window, step) = (4, 1);
    let windows = ["w0", "w1", "w2"];
    let all: Vec<String> = (0..50).map(|it| format!("item-{it}")).collect();
    for (pod, name) in windows.iter().enumerate() {
        let path = format!("/filters/{name}");
        let body = json!({
            "capacity": 1000, "window_seconds": window, "window_resolution_seconds": step,
        });
        shop.change(pod, "PUT", &path, body);
        shop.change(
            pod + 1,
            "POST",
            &format!("{path}/items"),
            json!({ "items": all }),
        );
    }
    let seen = Instant::now();
    let found = |pod: usize, name: &str| {
        let path = format!("/filters/{name}/exists");
        let body = json!({ "items": all });
        let (status, said, _) = shop.send(&shop.key, pod, "POST", &path, Some(&body));
        assert_eq!(status, 200, "{said}");
        let results = said["results"].as_array().unwrap().clone();
        results.iter().map(|it| it == true).collect::<Vec<bool>>()
    };
    for pod in 0..PODS {
        assert!(windows.iter().all(|name| found(pod, name) == [true; 50]));
    }
    // Half of those of one are seen again, a second later.
    thread::sleep(Duration::from_secs(1).saturating_sub(seen.elapsed()));
    let again = Instant::now();
    let said = shop.change(
        2,
        "POST",
        "/filters/w0/items",
        json!({ "items": all[..25] }),
    );
    assert!(
        said["results"]
            .as_array()
            .unwrap()
            .iter()
            .all(|it| it == "refreshed")
    );
    let times = shop.when(seen, |pod| {
        found(pod, "w0")[25..].iter().all(|it| !it)
            && ["w1", "w2"]
                .iter()
                .all(|name| found(pod, name) == [false; 50])
    });
    check(&times, Duration::from_secs(window));
    let times = shop.when(again, |pod| found(pod, "w0") == [false; 50]);
    check(&times, Duration::from_secs(window));
    // And all of it is the same in the end.
    let described = |pod: usize, name: &str| {
        let mut said = shop.ask(pod, &format!("/filters/{name}")).1;
        for own in ["disk_bytes", "memory_bytes"] {
            said.as_object_mut().unwrap().remove(own).unwrap();
        }
        said
    };
    for name in windows {
        let started = Instant::now();
        loop {
            let each: Vec<Value> = (0..PODS).map(|pod| described(pod, name)).collect();
            let is_empty = each[0]["items"] == 0;
            if is_empty && each.iter().all(|it| *it == each[0]) {
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "{each:#?}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn quotas_hold_whichever_pods_are_asked() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json").display().to_string();
    let other = api_key(Path::new(&keys), "other", &["--scope=admin"]);
    let bounds = ["--max-filters=8", "--max-filters-per-key=5"];
    let Some(shop) = Shop::start(&keys, &bounds) else {
        return;
    };
    let make = |key: &str, pod: usize, name: &str| {
        let body = json!({ "capacity": 100 });
        let path = format!("/filters/{name}");
        let (status, said, position) = shop.send(key, pod, "PUT", &path, Some(&body));
        if let Some(position) = position {
            for address in &shop.addresses {
                let headers = [
                    ("authorization", format!("Bearer {key}")),
                    ("cuckood-min-position", position.clone()),
                ];
                let headers: Vec<_> = headers.iter().map(|(it, of)| (*it, of.as_str())).collect();
                let url = format!("{address}/filters?limit=1");
                let answer = shop.asking.send("GET", &url, &headers, None).unwrap();
                assert_eq!(answer.status, 200, "{}", answer.body);
            }
        }
        (status, said["code"].as_str().unwrap_or_default().to_owned())
    };
    let refused = |code: &str| (507, code.to_owned());
    for number in 0..5 {
        let made = make(&shop.key, number, &format!("own-{number}"));
        assert_eq!(made.0, 201, "{made:?}");
    }
    // Through any pod, in any lane.
    for number in 5..14 {
        let made = make(&shop.key, number, &format!("own-{number}"));
        assert_eq!(made, refused("over_key_quota"), "{number}");
    }
    for number in 0..3 {
        let made = make(&other, number, &format!("other-{number}"));
        assert_eq!(made.0, 201, "{made:?}");
    }
    for number in 3..12 {
        let made = make(&other, number, &format!("other-{number}"));
        assert_eq!(made, refused("too_many_filters"), "{number}");
    }
    // What goes makes room everywhere.
    let (status, said, _) = shop.send(&shop.key, 1, "DELETE", "/filters/own-2", None);
    assert_eq!(status, 204, "{said}");
    assert_eq!(make(&shop.key, 2, "own-20").0, 201);
    assert_eq!(make(&shop.key, 0, "own-21"), refused("over_key_quota"));
    assert_eq!(make(&other, 0, "other-21"), refused("too_many_filters"));
}
