//! Three processes of `cuckood serve` over three brokers: any pod takes changes,
//! a leader is killed, and all are equal at the end.

use crate::broker::{Broker, Brokers};
use crate::founded::{broker, shop};
use crate::nats_server;
use crate::operator::{cuckood, flags, found};
use crate::ports::free_port;
use crate::program::{Client, Pod, refused, status, until_led};
use cuckood::file::FileView;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LANES: u32 = 4;

/// Items of each change.
const BATCH: u64 = 20;

fn items(filter: u64, from: u64, to: u64) -> Vec<String> {
    (from..to).map(|item| format!("{filter}-{item}")).collect()
}

/// Adds to a filter of its own, each change to another pod, until it is told to
/// end. Returns how many items were acknowledged, and the last position.
fn client(
    client: &Client,
    addresses: &[String],
    filter: u64,
    done: &AtomicU64,
    is_over: &AtomicBool,
) -> (u64, String) {
    let path = format!("/filters/f{filter}");
    let capacity = json!({ "capacity": 20_000 });
    let key = format!("make-{filter}");
    let made = client.insist(addresses, 0, &key, "PUT", &path, &capacity);
    let (mut added, mut position) = (0, made);
    while !is_over.load(Ordering::Relaxed) {
        let body = json!({ "items": items(filter, added, added + BATCH) });
        let key = format!("add-{filter}-{added}");
        let first = (added / BATCH + filter) as usize % addresses.len();
        let path = format!("{path}/items");
        position = client.insist(addresses, first, &key, "POST", &path, &body);
        added += BATCH;
        done.fetch_add(1, Ordering::Relaxed);
    }
    (added, position)
}

/// Waits until so many more changes were acknowledged; returns how long that took.
fn go_on(done: &AtomicU64, changes: u64) -> Duration {
    let started = Instant::now();
    let before = done.load(Ordering::Relaxed);
    while done.load(Ordering::Relaxed) < before + changes {
        assert!(started.elapsed() < Duration::from_secs(90));
        std::thread::sleep(Duration::from_millis(20));
    }
    started.elapsed()
}

/// The pod that leads most lanes.
fn busiest(brokers: &Brokers, addresses: &[String]) -> usize {
    let status = status(brokers);
    let leads = |address: &String| {
        let lanes = status["lanes"].as_array().unwrap();
        let is_its = |lane: &&Value| lane["leader"] == **address;
        lanes.iter().filter(is_its).count()
    };
    (0..addresses.len())
        .max_by_key(|&pod| leads(&addresses[pod]))
        .unwrap()
}

#[test]
fn a_leader_may_be_killed_and_every_change_counts_once_on_every_pod() {
    if !nats_server::is_there() {
        return;
    }
    let brokers = Brokers::start(3, "always");
    found(&brokers, LANES);
    let asking = Client::new();
    let mut pods = Pod::several(3, &brokers, &asking);
    let addresses: Vec<String> = pods.iter().map(|it| it.address.clone()).collect();
    let (done, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let added: Vec<(u64, String)> = std::thread::scope(|scope| {
        let run = |filter| {
            let (asking, addresses) = (asking.clone(), &addresses);
            let (done, is_over) = (&done, &is_over);
            scope.spawn(move || client(&asking, addresses, filter, done, is_over))
        };
        let clients: Vec<_> = (0..6).map(run).collect();
        go_on(&done, 60);
        let leader = busiest(&brokers, &addresses);
        pods[leader].kill();
        let pause = go_on(&done, 60);
        println!("the pod that leads most was killed: 60 changes took {pause:?} after that");
        pods[leader].start_again();
        pods[leader].ready(&asking);
        let leader = busiest(&brokers, &addresses);
        assert_eq!(pods[leader].terminate(), Some(0), "{}", pods[leader].log());
        let pause = go_on(&done, 60);
        println!("the pod that leads most was stopped: 60 changes took {pause:?} after that");
        pods[leader].start_again();
        pods[leader].ready(&asking);
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    for (filter, (added, position)) in added.iter().enumerate() {
        let name = format!("f{filter}");
        let all = items(filter as u64, 0, *added);
        let first = asking.filter(&addresses[0], &name, position);
        assert_eq!(first["items"], *added, "{first}");
        for address in &addresses {
            assert_eq!(asking.filter(address, &name, position), first, "{address}");
            assert!(asking.has_all(address, &name, &all));
        }
        // Items, slots and copies.
        let dump = |address: &String| asking.dump(&format!("{address}/filters/{name}/dump"));
        let first = dump(&addresses[0]);
        assert!(addresses.iter().all(|it| dump(it) == first));
    }
    println!("{} changes acknowledged", done.load(Ordering::Relaxed));
    // Pods say once a second how far they are.
    let started = Instant::now();
    loop {
        let status = status(&brokers);
        let pods = status["pods"].as_array().unwrap();
        assert_eq!(pods.len(), 3, "{status}");
        if pods.iter().all(|it| it["lanes_behind"] == 0) {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{status}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn questions_see_what_they_ask_for_on_any_pod() {
    let Some(mut brokers) = shop(LANES) else {
        return;
    };
    let asking = Client::new();
    let mut pods = Pod::several(2, &brokers, &asking);
    let addresses: Vec<String> = pods.iter().map(|it| it.address.clone()).collect();
    let capacity = json!({ "capacity": 1000 });
    asking.insist(&addresses, 0, "make", "PUT", "/filters/seen", &capacity);
    let exists = |address: &String, item: u64| format!("{address}/filters/seen/exists?item={item}");
    for item in 0..40u64 {
        let (key, body) = (format!("add-{item}"), json!({ "items": [item] }));
        let (by, other) = (item as usize % 2, &addresses[1 - item as usize % 2]);
        let path = "/filters/seen/items";
        let position = asking.insist(&addresses, by, &key, "POST", path, &body);
        let headers: &[(&str, &str)] = match item % 4 < 2 {
            true => &[("cuckood-min-position", &position)],
            false => &[("cuckood-consistency", "strong")],
        };
        let url = exists(other, item);
        let found = until_led(|| asking.send("GET", &url, headers, None).unwrap());
        assert_eq!(found.status, 200, "{}", found.body);
        assert_eq!(found.body["exists"], true, "{item} on {other}");
        // The same request again is answered as before, by whichever pod.
        let url = format!("{other}{path}");
        let headers = [("idempotency-key", &*key)];
        let again = until_led(|| asking.send("POST", &url, &headers, Some(&body)).unwrap());
        assert_eq!(again.status, 200, "{}", again.body);
    }
    let url = format!("{}/filters/seen", addresses[0]);
    let strong = [("cuckood-consistency", "strong")];
    let described = until_led(|| asking.send("GET", &url, &strong, None).unwrap());
    assert_eq!(described.body["items"], 40, "{}", described.body);
    // An import is passed on as it comes.
    for (pod, address) in addresses.iter().enumerate() {
        let url = format!("{address}/filters/seen/import?import_id={pod}");
        let lines = until_led(|| asking.import(&url, 3_000));
        assert_eq!(
            (lines.status, lines.position.is_some()),
            (200, true),
            "{}",
            lines.body
        );
        let seen = asking.filter(address, "seen", &lines.position.unwrap());
        assert_eq!(seen["items"], 40 + 3_000 * (pod + 1));
    }
    // What can't be a position, or is none of this cluster, or is not there yet.
    for (name, value, status) in [
        ("cuckood-min-position", "1.0", 422),
        ("cuckood-min-position", "2.0.1", 422),
        ("cuckood-min-position", "1.4.1", 422),
        ("cuckood-consistency", "weak", 422),
        ("cuckood-min-position", "1.0.999999999", 503),
    ] {
        let headers = [(name, value), ("prefer", "wait=0.3")];
        let answer = asking
            .send("GET", &exists(&addresses[0], 1), &headers, None)
            .unwrap();
        assert_eq!(answer.status, status, "{name}: {value}: {}", answer.body);
        assert_eq!(answer.retry_after, status == 503);
    }
    // A dump is restored through any pod, and is on both then.
    let seen = format!("{}/filters/seen/dump", addresses[0]);
    for (pod, address) in addresses.iter().enumerate() {
        let bytes = asking.bytes(&seen);
        let path = format!("/filters/copy{pod}/dump");
        let restored = asking.put_bytes(&format!("{address}{path}"), &bytes);
        assert_eq!(restored.status, 201, "{}", restored.body);
        let again = asking.put_bytes(&format!("{address}{path}"), &bytes);
        assert_eq!(again.body["code"], "filter_taken", "{}", again.body);
        let cut = format!("{address}/filters/cut/dump");
        let cut = asking.put_bytes(&cut, &bytes[..bytes.len() / 2]);
        assert_eq!(cut.body["code"], "corrupt_dump", "{}", cut.body);
        let position = restored.position.unwrap();
        for other in &addresses {
            asking.filter(other, &format!("copy{pod}"), &position);
            let copy = asking.bytes(&format!("{other}{path}"));
            let content = |file: &[u8]| FileView::open(file).unwrap().verify().unwrap();
            assert_eq!(content(&copy), content(&bytes));
        }
    }

    // Without brokers questions go on, and changes say what became of them.
    brokers.all[0].kill();
    let (mut unknown, mut refused) = (0, 0);
    let started = Instant::now();
    while refused == 0 {
        let url = format!("{}/filters/seen/items", addresses[0]);
        let answer = asking
            .send(
                "POST",
                &url,
                &[("prefer", "wait=3")],
                Some(&json!({ "items": ["late"] })),
            )
            .unwrap();
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert!(answer.retry_after);
        match answer.body["code"].as_str().unwrap() {
            "outcome_pending" => unknown += 1,
            "not_leading" => refused += 1,
            // Nothing was changed by these either.
            "overloaded" | "deadline_exceeded" => {}
            other => panic!("{other}"),
        }
        let found = asking
            .send("GET", &exists(&addresses[1], 1), &[], None)
            .unwrap();
        assert_eq!(found.body["exists"], true);
        assert!(started.elapsed() < Duration::from_secs(60));
    }
    println!("{unknown} changes of which nobody knew, {refused} that nobody led");
    // The leases of other lanes may end later.
    let started = Instant::now();
    loop {
        let said = asking.text(&format!("{}/readyz", addresses[0]));
        assert!(said.starts_with("ok\n"), "{said}");
        if said.contains("no_leader: 4 of 4 lanes") {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{said}");
        thread::sleep(Duration::from_millis(100));
    }
    brokers.all[0].start();
    for pod in &mut pods {
        pod.ready(&asking);
    }
    asking.insist(
        &addresses,
        0,
        "after",
        "POST",
        "/filters/seen/items",
        &json!({ "items": ["after"] }),
    );
}

#[test]
fn what_a_pod_cannot_work_with_is_said_in_one_line_and_changes_nothing() {
    let Some(brokers) = broker() else { return };
    let asking = Client::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let data = elsewhere.path().join("data");
    found(&brokers, LANES);
    let mut pod = Pod::start(&brokers);
    pod.ready(&asking);
    let other = Pod::named("http://127.0.0.1:1", &brokers);
    let try_with = |pod: &Pod, flags: &[&str]| {
        let anywhere = ["--listen=127.0.0.1:0"];
        let flags: Vec<&str> = anywhere.iter().chain(flags).copied().collect();
        let said = refused(&pod.command(&data, &flags).output().unwrap());
        assert!(!data.exists(), "{said}");
        said
    };
    for (flags, words) in [
        (
            &["--log=nats://127.0.0.1:1"][..],
            "no broker of nats://127.0.0.1:1",
        ),
        (&["--log-monitor=http://127.0.0.1:1"], "could not be seen"),
        (
            &["--cluster=another"],
            "there is no stream CUCKOOD_another_1",
        ),
        (&["--lanes=3"], "founded with 4 lanes"),
        (&["--cluster=a.b"], "is no name of a cluster"),
        (&["--advertise=pod-0"], "--advertise"),
        (&["--log=127.0.0.1:4222"], "--log has"),
        (
            &["--log=nats://me:hush@127.0.0.1:4222"],
            "--log-credentials",
        ),
    ] {
        let said = try_with(&other, flags);
        assert!(!said.contains("hush"), "{said}");
        assert!(said.contains(words), "{flags:?}: {said}");
    }
    // Two pods with one address.
    let said = try_with(&pod, &[]);
    assert!(
        said.contains("another pod of the cluster runs at"),
        "{said}"
    );
    let again = cuckood()
        .args(["cluster", "found", "--copies=1"])
        .args(flags(&brokers))
        .output();
    assert!(refused(&again.unwrap()).contains("the cluster is founded"));
    let unless_founded = |lanes: &str| {
        cuckood()
            .args(["cluster", "found", "--copies=1", "--unless-founded"])
            .args(["--lanes", lanes])
            .args(flags(&brokers))
            .output()
            .unwrap()
    };
    let said = unless_founded("4");
    assert_eq!(said.status.code(), Some(0));
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("is founded already, with 4 lanes"), "{said}");
    let said = refused(&unless_founded("8"));
    assert!(said.contains("was founded with 4 lanes"), "{said}");

    // The directory of a pod is one of its cluster for ever.
    let url = format!("{}/filters/seen", pod.address);
    assert_eq!(
        asking
            .send("PUT", &url, &[], Some(&json!({ "capacity": 100 })))
            .unwrap()
            .status,
        201
    );
    assert_eq!(pod.terminate(), Some(0), "{}", pod.log());
    let alone = cuckood()
        .args(["serve", "--listen=127.0.0.1:0", "--data-dir"])
        .arg(pod.data_dir())
        .output();
    assert!(refused(&alone.unwrap()).contains("is of a pod of a cluster"));
    let others = Brokers::start(1, "always");
    found(&others, LANES);
    let elsewhere = Pod::named(&pod.address, &others)
        .command(&pod.data_dir(), &["--listen=127.0.0.1:0"])
        .output();
    assert!(refused(&elsewhere.unwrap()).contains("of another cluster"));
    pod.start_again();
    pod.ready(&asking);
    assert_eq!(asking.send("GET", &url, &[], None).unwrap().status, 200);

    // Brokers that lose, that take too little, that do not know us.
    for (setting, words) in [
        (
            "jetstream { sync_interval: \"2m\" }",
            "does not force what it acknowledges",
        ),
        ("max_payload: 65536", "takes messages of up to 65536 bytes"),
        ("authorization { user: a, password: b }", "no broker of"),
    ] {
        let bad = Brokers::start_with(1, setting);
        let of_bad = flags(&bad);
        let refusal = (0..100).find_map(|_| {
            let founded = cuckood()
                .args(["cluster", "found", "--copies=1"])
                .args(&of_bad)
                .output();
            let said = refused(&founded.unwrap());
            let is_it = said.contains(words) && !said.contains("Connection refused");
            std::thread::sleep(Duration::from_millis(100 * u64::from(!is_it)));
            is_it.then_some(said)
        });
        assert!(refusal.is_some(), "{setting}");
    }
}

#[test]
fn a_pod_that_starts_while_brokers_have_no_quorum_waits_for_it_or_for_its_end() {
    if !nats_server::is_there() {
        return;
    }
    let mut brokers = Brokers::start(3, "always");
    found(&brokers, LANES);
    brokers.all[1..].iter_mut().for_each(Broker::kill);
    let mut pods = [free_port(), free_port()]
        .map(|port| Pod::named(&format!("http://127.0.0.1:{port}"), &brokers));
    for pod in &mut pods {
        // The monitoring addresses of brokers that are gone can't be asked.
        pod.also(&["--log-unsafe"]);
        pod.start_again();
    }
    for pod in &pods {
        pod.logged("asking the brokers again", 0);
    }
    let [waits, ends] = &mut pods;
    assert_eq!(ends.terminate(), Some(0), "{}", ends.log());
    brokers.all[1..].iter_mut().for_each(Broker::start);
    waits.ready(&Client::new());
}
