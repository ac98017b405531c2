//! Pods that lack what the log no longer has take the state of another one; and
//! pods that speak TLS to each other, with the key of their cluster.

use crate::broker::Brokers;
use crate::founded::{broker, shop};
use crate::operator::{api_key, found};
use crate::pki::Authority;
use crate::program::{Client, Pod};
use crate::trust::AsPod;
use cuckood::access::cluster_key::ClusterKey;
use cuckood::cluster::CommitLog as _;
use cuckood::cluster::jetstream::{
    Brokers as Addresses, ClusterName, JetStreamLog, Patience, connect, open,
};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const LANES: u32 = 4;

/// Filters, so that every lane has some.
const FILTERS: usize = 8;

/// How a pod begins to take the state of another one, and how that ends.
const ARRIVES: &str = "the state of another pod arrives";
const TAKEN: &str = "took the state of another pod";

fn filter(number: usize) -> String {
    format!("/filters/f{number}")
}

/// Items that a filter has room for as it is made: one that grows makes records that
/// are large beside what is kept of the log.
const CAPACITY: u64 = 60_000;

fn make_filters(client: &Client, addresses: &[String]) {
    for number in 0..FILTERS {
        let (key, capacity) = (format!("make-{number}"), json!({ "capacity": CAPACITY }));
        client.insist(addresses, 0, &key, "PUT", &filter(number), &capacity);
    }
}

/// A cluster of three pods that are ready, with these flags, and its filters.
fn three(brokers: &Brokers, client: &Client, flags: &[&str]) -> (Vec<Pod>, Vec<String>) {
    found(brokers, LANES);
    let start = |_| Pod::start_with(brokers, flags);
    let mut pods: Vec<Pod> = (0..3).map(start).collect();
    pods.iter_mut().for_each(|pod| pod.ready(client));
    let addresses: Vec<String> = pods.iter().map(|it| it.address.clone()).collect();
    make_filters(client, &addresses);
    (pods, addresses)
}

/// Adds items to all filters; returns the positions after that.
fn add(client: &Client, addresses: &[String], items: std::ops::Range<u64>) -> Vec<String> {
    let add = |number| {
        let names: Vec<String> = items.clone().map(|it| format!("{number}-{it}")).collect();
        let (key, body) = (format!("add-{number}-{items:?}"), json!({ "items": names }));
        let path = format!("{}/items", filter(number));
        client.insist(
            addresses,
            number % addresses.len(),
            &key,
            "POST",
            &path,
            &body,
        )
    };
    (0..FILTERS).map(add).collect()
}

/// Forgets all of the log but the newest record of each of so many lanes.
pub(crate) fn trim(brokers: &Brokers, lanes: u32) {
    let (_runtime, log) = log_of(brokers);
    for lane in 0..lanes {
        log.trim(lane, log.newest(lane).unwrap()).unwrap();
    }
}

/// The log, which can be asked as long as the runtime is there.
fn log_of(brokers: &Brokers) -> (Runtime, JetStreamLog) {
    let runtime = Runtime::new().unwrap();
    let log = runtime.block_on(async {
        let addresses = Addresses {
            servers: brokers.addresses.clone(),
            ..Addresses::default()
        };
        let connection = connect(&addresses).await.unwrap();
        let name = ClusterName::new("shop").unwrap();
        let founding = open(&connection, &name, 1).await.unwrap();
        JetStreamLog::new(&connection, founding, Patience::default()).await
    });
    (runtime, log.unwrap())
}

/// All pods have the same in all filters, as of these positions.
fn check_equal(client: &Client, addresses: &[String], positions: &[String], items: u64) {
    for (number, position) in positions.iter().enumerate() {
        let name = format!("f{number}");
        let first = client.filter(&addresses[0], &name, position);
        assert_eq!(first["items"], items);
        let dump = |address: &String| client.dump(&format!("{address}{}/dump", filter(number)));
        let first_dump = dump(&addresses[0]);
        for address in addresses {
            assert_eq!(client.filter(address, &name, position), first, "{address}");
            assert!(dump(address) == first_dump, "{name} on {address}");
        }
    }
}

#[test]
fn a_wiped_pod_and_a_new_one_take_the_state_of_others_while_changes_go_on() {
    let Some(brokers) = broker() else { return };
    let client = Client::new();
    // So slow that it can be seen in its middle.
    let slow = ["--snapshot-bytes-per-second=1MiB"];
    let (mut pods, mut addresses) = three(&brokers, &client, &slow);
    for batch in 0..10 {
        add(&client, &addresses, batch * 2_000..(batch + 1) * 2_000);
    }
    pods[2].kill();
    pods[2].wipe();
    trim(&brokers, LANES);
    let is_over = AtomicBool::new(false);
    let givers = addresses[..2].to_vec();
    let added = thread::scope(|scope| {
        let adding = scope.spawn(|| {
            let mut next = 20_000;
            loop {
                let positions = add(&client, &givers, next..next + 10);
                next += 10;
                if is_over.load(Ordering::Relaxed) {
                    return (next, positions);
                }
            }
        });
        pods[2].start_again();
        // Killed in the midst of it, it begins again.
        pods[2].logged(ARRIVES, 0);
        thread::sleep(Duration::from_millis(300));
        pods[2].kill();
        assert!(!pods[2].log().contains(TAKEN));
        let before = pods[2].log().len();
        pods[2].start_again();
        pods[2].ready(&client);
        pods[2].logged(TAKEN, before);
        // It gives in its turn.
        let mut new = Pod::start_with(&brokers, &slow);
        new.ready(&client);
        new.logged(TAKEN, 0);
        pods.push(new);
        is_over.store(true, Ordering::Relaxed);
        adding.join().unwrap()
    });
    addresses = pods.iter().map(|it| it.address.clone()).collect();
    let (items, positions) = added;
    check_equal(&client, &addresses, &positions, items);
    // The newcomers are pods as any other.
    let positions = add(&client, &addresses[2..], items..items + 10);
    check_equal(&client, &addresses, &positions, items + 10);
    for pod in &mut pods {
        assert_eq!(pod.terminate(), Some(0), "{}", pod.log());
    }
}

#[test]
fn a_pod_that_was_away_for_longer_than_the_log_reaches_back_starts_again_by_itself() {
    let Some(brokers) = broker() else { return };
    let client = Client::new();
    let (mut pods, addresses) = three(&brokers, &client, &[]);
    add(&client, &addresses, 0..100);
    // One was stopped, one stands still: what it is doing ends when it goes on.
    assert_eq!(pods[1].terminate(), Some(0));
    pods[2].signal("-STOP");
    let mut items = 100;
    let mut positions = Vec::new();
    let started = Instant::now();
    while items < 200 || started.elapsed() < Duration::from_secs(8) {
        positions = add(&client, &addresses[..1], items..items + 10);
        items += 10;
    }
    trim(&brokers, LANES);
    let before = pods[2].log().len();
    pods[2].signal("-CONT");
    pods[2].logged("the server starts again, and takes its state", before);
    pods[2].logged(TAKEN, before);
    pods[1].start_again();
    for pod in &mut pods {
        pod.ready(&client);
    }
    pods[1].logged(TAKEN, 0);
    check_equal(&client, &addresses, &positions, items);
    let positions = add(&client, &addresses, items..items + 10);
    check_equal(&client, &addresses, &positions, items + 10);
    // What takes its place is nothing that is left beside it.
    for pod in &pods {
        let there = fs::read_dir(pod.data_dir()).unwrap();
        let names = there.map(|it| it.unwrap().file_name().into_string().unwrap());
        let left: Vec<String> = names.filter(|it| it.contains("replacement")).collect();
        assert_eq!(left, Vec::<String>::new());
    }
}

/// Records go as soon as all pods have them and there are enough behind them; what a
/// pod lacks that was away for a moment is there.
#[test]
fn the_log_is_trimmed_to_what_it_keeps_and_a_pod_that_starts_again_finds_its_records() {
    let Some(brokers) = broker() else { return };
    const KEEP: u64 = 256 << 10;
    let client = Client::new();
    let keep = format!("--log-keep-bytes={KEEP}");
    let (mut pods, addresses) = three(&brokers, &client, &[&keep]);
    let (runtime, log) = log_of(&brokers);
    let extent = || runtime.block_on(log.extent()).unwrap();
    // By one part in sixteen more, and the newest records of each lane.
    let trimmed = || {
        let started = Instant::now();
        loop {
            let has = extent();
            let newest = u64::from(LANES) * (has.bytes / has.records);
            if has.bytes <= KEEP + KEEP / 16 + newest {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{has:?}");
            thread::sleep(Duration::from_millis(200));
        }
    };
    let mut items = 0;
    // A batch takes some 28,000 bytes of the log.
    let mut more = |batches: u64, addresses: &[String]| {
        let mut positions = Vec::new();
        for _ in 0..batches {
            positions = add(&client, addresses, items..items + 1_000);
            items += 1_000;
        }
        assert!(items <= CAPACITY);
        (items, positions)
    };
    more(20, &addresses);
    trimmed();
    assert!(extent().bytes > KEEP / 4, "{:?}", extent());
    assert!((0..LANES).all(|lane| log.newest(lane).unwrap() > 0));
    // What one that is away lacks is kept, though it is more than is kept otherwise.
    assert_eq!(pods[2].terminate(), Some(0));
    let before = pods[2].log().len();
    let (items, positions) = more(20, &addresses[..2]);
    thread::sleep(Duration::from_secs(7));
    assert!(extent().bytes > 2 * KEEP, "{:?}", extent());
    pods[2].start_again();
    pods[2].ready(&client);
    let said = pods[2].log();
    assert!(!said[before..].contains(TAKEN), "{said}");
    check_equal(&client, &addresses, &positions, items);
    // A new one can't read what is gone.
    let mut new = Pod::start_with(&brokers, &[&keep]);
    new.ready(&client);
    new.logged(TAKEN, 0);
    let all = [addresses, vec![new.address.clone()]].concat();
    check_equal(&client, &all, &positions, items);
    trimmed();
    let said = client.text(&format!("{}/metrics", new.address));
    // What has not happened yet is there, too, so that it can be told when it does.
    for (name, labels) in [
        (
            "snapshots_total",
            "direction=\"taken\",outcome=\"complete\"} 1",
        ),
        (
            "snapshots_total",
            "direction=\"given\",outcome=\"failed\"} 0",
        ),
        ("snapshot_bytes_total", "direction=\"given\"} 0"),
    ] {
        let line = format!("\ncuckood_{name}{{{labels}\n");
        assert!(said.contains(&line), "{line}: {said}");
    }
}

/// A file with a key, in a folder.
fn key_file(folder: &tempfile::TempDir, name: &str, key: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, key).unwrap();
    path.display().to_string()
}

#[test]
fn pods_speak_tls_and_know_each_other_by_their_key() {
    let Some(brokers) = shop(LANES) else { return };
    let (authority, other) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let secret = "k".repeat(40);
    let shared = key_file(&folder, "shared", &format!("{secret}\n"));
    let wrong = key_file(&folder, "wrong", &"w".repeat(40));
    // It is being replaced: the new one is known already.
    let both = key_file(&folder, "both", &format!("{secret}\n{}\n", "n".repeat(40)));
    let keys = folder.path().join("keys.json").display().to_string();
    let api_key = &api_key(Path::new(&keys), "admin", &["--scope=admin"]);
    let flags = |cluster_key: &str, authority_of_pods: &Authority| {
        vec![
            format!("--tls-cert={}", authority.path("server.pem")),
            format!("--tls-key={}", authority.path("server.key")),
            format!("--keys-file={keys}"),
            format!("--cluster-key-file={cluster_key}"),
            format!("--cluster-ca-file={}", authority_of_pods.path("ca.pem")),
        ]
    };
    let start = |flags: &[String]| {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Pod::start_at(&brokers, "https", &flags)
    };
    let client = Client::of(&authority.path("ca.pem"), api_key);
    let mut pods = [
        start(&flags(&both, &authority)),
        start(&flags(&shared, &authority)),
    ];
    pods.iter_mut().for_each(|pod| pod.ready(&client));
    let mut addresses: Vec<String> = pods.iter().map(|it| it.address.clone()).collect();
    // Each change goes to either pod, with the caller's own key.
    make_filters(&client, &addresses);
    add(&client, &addresses, 0..50);
    let nobody = Client::of(&authority.path("ca.pem"), "cuckood_unknown");
    let url = format!("{}{}/items", addresses[0], filter(0));
    let refused = nobody.send("POST", &url, &[], Some(&json!({ "items": ["x"] })));
    assert_eq!(refused.unwrap().status, 401);

    // What pods ask of each other is for them alone, whatever API key one has.
    let url = format!("{}/internal/snapshot", addresses[0]);
    let ask = |headers: &[(&str, &str)]| {
        let answer = client.send("POST", &url, headers, Some(&json!({})));
        answer.unwrap()
    };
    let zeros = "00".repeat(32);
    for said in [
        None,
        Some(""),
        Some(secret.as_str()),
        Some(&format!("hello http://x {zeros} {zeros}")),
        Some(&format!("proof {zeros}")),
    ] {
        let headers: Vec<_> = said.map(|it| ("cuckood-link", it)).into_iter().collect();
        let answer = ask(&headers);
        assert_eq!(answer.status, 403, "{said:?}");
        assert_eq!(answer.body["code"], "cluster_key_invalid");
        let url = format!("{}/internal/link", addresses[0]);
        let answer = client.send("POST", &url, &headers, None).unwrap();
        assert_eq!(answer.status, 403, "{said:?}");
    }
    let ca = authority.path("ca.pem");
    let ask = |key: &str| {
        let key = ClusterKey::read(Path::new(key)).unwrap();
        let as_pod = AsPod::new(&brokers, &key, Some(&ca));
        as_pod.post(&addresses[0], "/internal/snapshot", &[], "{}".to_owned())
    };
    let known = ask(&shared).unwrap();
    assert_eq!(known.0, 400);
    assert!(known.1.contains("malformed_json"), "{}", known.1);
    let refused = ask(&wrong).unwrap_err();
    assert!(
        refused.contains("refuses the key of the cluster"),
        "{refused}"
    );
    let unknown = format!("{}/internal/anything", addresses[0]);
    let answer = client.send("GET", &unknown, &[], None).unwrap();
    assert_eq!(answer.status, 403);
    let described = client.text(&format!("{}/openapi.json", addresses[0]));
    assert!(!described.contains("/internal"));

    trim(&brokers, LANES);
    // Without the authority nothing is taken.
    let mut lost = start(&flags(&shared, &other));
    lost.logged("this pod waits for the state of another one", 0);
    lost.logged("certificate", 0);
    assert!(!lost.log().contains(TAKEN));
    let said = client.send("GET", &format!("{}/readyz", lost.address), &[], None);
    assert_eq!(said.unwrap().status, 503);
    // It waits, and ends when it is told to.
    assert_eq!(lost.terminate(), Some(0), "{}", lost.log());
    let mut new = start(&flags(&shared, &authority));
    new.ready(&client);
    new.logged(TAKEN, 0);
    addresses.push(new.address.clone());
    let positions = add(&client, &addresses, 50..60);
    check_equal(&client, &addresses, &positions, 60);

    // What is no secret is refused at the start.
    let data = folder.path().join("data");
    let short = key_file(&folder, "short", "short");
    let flags = [
        "--listen=127.0.0.1:0",
        &format!("--cluster-key-file={short}"),
    ];
    let mut pod = Pod::named("http://127.0.0.1:1", &brokers).command(&data, &flags);
    let said = crate::program::refused(&pod.output().unwrap());
    assert!(
        said.contains("the key on line 1 has 5 characters"),
        "{said}"
    );
    assert!(!data.exists());
    assert_eq!(add(&client, &addresses, 60..61).len(), positions.len());
}
