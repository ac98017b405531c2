//! A log that was lost or set back: pods stop and say what is to be done, a new
//! epoch begins from what one of them has, and nobody of the old one writes there.

use crate::broker::Brokers;
use crate::founded::broker;
use crate::nats_server;
use crate::operator::{begin, found, new_epoch};
use crate::program::{Client, Pod, refused, status};
use crate::snapshots::trim;
use serde_json::json;
use std::time::{Duration, Instant};

const LANES: u32 = 2;

/// Items of each change.
const BATCH: u64 = 50;

struct Shop {
    asking: Client,
    addresses: Vec<String>,
    changes: u64,
}

impl Shop {
    fn start(brokers: &Brokers, pods: usize) -> (Shop, Vec<Pod>) {
        found(brokers, LANES);
        let asking = Client::new();
        let mut pods: Vec<Pod> = (0..pods).map(|_| Pod::start(brokers)).collect();
        pods.iter_mut().for_each(|it| it.ready(&asking));
        let addresses: Vec<String> = pods.iter().map(|it| it.address.clone()).collect();
        for filter in ["f0", "f1", "f2"] {
            let (key, path) = (format!("make-{filter}"), format!("/filters/{filter}"));
            let body = json!({ "capacity": 10_000 });
            asking.insist(&addresses, 0, &key, "PUT", &path, &body);
        }
        let shop = Shop {
            asking,
            addresses,
            changes: 0,
        };
        (shop, pods)
    }

    fn items(filter: usize, change: u64) -> Vec<String> {
        let items = change * BATCH..(change + 1) * BATCH;
        items.map(|item| format!("{filter}-{item}")).collect()
    }

    /// Adds to all filters, through whichever of these pods can; all of them have it
    /// then.
    fn change(&mut self, pods: &[usize]) {
        let addresses: Vec<String> = pods.iter().map(|&it| self.addresses[it].clone()).collect();
        for filter in 0..3 {
            let body = json!({ "items": Shop::items(filter, self.changes) });
            let key = format!("add-{filter}-{}", self.changes);
            let path = format!("/filters/f{filter}/items");
            let at = self
                .asking
                .insist(&addresses, 0, &key, "POST", &path, &body);
            for address in &addresses {
                self.asking.filter(address, &format!("f{filter}"), &at);
            }
        }
        self.changes += 1;
    }

    /// Whether a pod has so many of the changes, and none of those after them.
    fn check(&self, pod: usize, changes: u64) {
        let address = &self.addresses[pod];
        for filter in 0..3 {
            let name = format!("f{filter}");
            for change in 0..changes {
                let items = Shop::items(filter, change);
                assert!(self.asking.has_all(address, &name, &items), "{change}");
            }
            let url = format!("{address}/filters/{name}");
            let described = self.asking.send("GET", &url, &[], None).unwrap();
            assert_eq!(described.body["items"], changes * BATCH);
        }
    }
}

#[test]
fn brokers_that_lose_their_disks_stop_all_pods_until_a_new_epoch_begins_from_one() {
    if !nats_server::is_there() {
        return;
    }
    let mut brokers = Brokers::start(3, "always");
    let (mut shop, mut pods) = Shop::start(&brokers, 3);
    (0..4).for_each(|_| shop.change(&[0, 1, 2]));
    // One has less than the others.
    assert_eq!(pods[2].terminate(), Some(0), "{}", pods[2].log());
    (0..3).for_each(|_| shop.change(&[0, 1]));

    let lost = Instant::now();
    brokers.all.iter_mut().for_each(|it| it.kill());
    brokers.all.iter().for_each(|it| it.lose());
    brokers.all.iter_mut().for_each(|it| it.start());
    // Nobody changes anything, and all that run go on to answer.
    shop.check(0, 7);
    let body = json!({ "items": ["late"] });
    for address in &shop.addresses[..2] {
        let url = format!("{address}/filters/f0/items");
        let wait: &[(&str, &str)] = &[("prefer", "wait=1")];
        let answer = shop.asking.send("POST", &url, wait, Some(&body)).unwrap();
        assert_eq!((answer.status, answer.retry_after), (503, true));
    }
    // One that starts now says what is to be done.
    let started = Instant::now();
    let said = loop {
        pods[2].start_again();
        let said = pods[2].refused_to_start();
        // Brokers that have just started may need a little longer.
        if !said.contains("the broker failed") || started.elapsed() > Duration::from_secs(60) {
            break said;
        }
    };
    assert!(said.contains("there is no stream CUCKOOD_shop_1"), "{said}");
    assert!(said.contains("cuckood cluster new-epoch"), "{said}");
    // Those that run say it once a minute for each lane.
    for pod in &pods[..2] {
        let said = pod.log();
        let lines = said.matches("the commit log can't be read").count() as u64;
        let minutes = 2 + lost.elapsed().as_secs() / 60;
        assert!(lines <= minutes * u64::from(LANES), "{said}");
    }

    // Where one stands that does not run can be seen. To look makes no bucket, in which
    // alone those that run could say it.
    let dry_run = |from: &str| new_epoch(&brokers, &["--dry-run", from]);
    let from = format!("--from={}", pods[0].address);
    for _ in 0..2 {
        let said = refused(&dry_run(&from));
        assert!(said.contains("there is no bucket"), "{said}");
    }
    let data_dir = pods[2].data_dir();
    let third = dry_run(&format!("--from-data-dir={}", data_dir.display()));
    assert!(third.status.success(), "{third:?}");
    assert!(third.stdout.starts_with(b"epoch 1\n"), "{third:?}");

    // From a pod that runs: the others find out by themselves, and wait for a start.
    begin(&brokers, &from);
    assert_eq!(status(&brokers)["epoch"], 2);
    for pod in &pods[..2] {
        pod.says(&shop.asking, "epoch 2 of the cluster has begun");
    }
    let url = format!("{}/filters/f0/items", shop.addresses[1]);
    let answer = shop
        .asking
        .send("POST", &url, &[("prefer", "wait=1")], Some(&body));
    assert_eq!(answer.unwrap().status, 503);
    for pod in &mut pods[..2] {
        assert_eq!(pod.terminate(), Some(0));
        pod.start_again();
    }
    // The second one had the same as the first.
    for pod in &mut pods[..2] {
        pod.ready(&shop.asking);
    }
    shop.check(0, 7);
    shop.check(1, 7);
    shop.change(&[0, 1]);
    shop.check(0, 8);
    shop.check(1, 8);
    // A position of the epoch before is no reason to wait for ever, or to refuse.
    let url = format!("{}/filters/f0", shop.addresses[1]);
    let before = [("cuckood-min-position", "1.0.3,1.0.1000000")];
    let answer = shop.asking.send("GET", &url, &before, None).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);

    // The one that had less, and one that has nothing, take the state of another.
    pods[2].start_again();
    let mut empty = Pod::start(&brokers);
    shop.addresses.push(empty.address.clone());
    for (index, pod) in [(2, &mut pods[2]), (3, &mut empty)] {
        pod.ready(&shop.asking);
        shop.check(index, 8);
    }
    shop.change(&[0, 1]);
    shop.check(1, 9);
    empty.kill();
    pods[2].kill();

    // Once more, from the directory of a pod that does not run.
    for pod in &mut pods[..2] {
        assert_eq!(pod.terminate(), Some(0));
    }
    let from = format!("--from-data-dir={}", pods[1].data_dir().display());
    begin(&brokers, &from);
    pods[0].start_again();
    pods[0].ready(&shop.asking);
    shop.change(&[0]);
    shop.check(0, 10);
    pods[1].start_again();
    pods[1].ready(&shop.asking);
    shop.change(&[0, 1]);
    shop.check(1, 11);
    let status = status(&brokers);
    assert_eq!(status["epoch"], 3);
    assert_eq!(status["pods"].as_array().unwrap().len(), 2);
}

#[test]
fn a_log_that_was_set_back_stops_pods_and_those_that_have_more_than_the_new_epoch_are_refused() {
    let Some(mut brokers) = broker() else { return };
    let (mut shop, mut pods) = Shop::start(&brokers, 2);
    (0..2).for_each(|_| shop.change(&[0, 1]));
    assert_eq!(pods[1].terminate(), Some(0));
    brokers.all[0].kill();
    let earlier = brokers.all[0].copy_of_store();
    brokers.all[0].start();
    (0..2).for_each(|_| shop.change(&[0]));
    brokers.all[0].kill();
    brokers.all[0].restore(&earlier);
    brokers.all[0].start();
    // While it runs it stops those lanes, and goes on to answer.
    pods[0].says(&shop.asking, "lanes have stopped");
    let log = pods[0].log();
    assert!(log.contains("it was rewound or made anew"), "{log}");
    shop.check(0, 4);
    // When it starts it says so, and ends.
    assert_eq!(pods[0].terminate(), Some(0));
    pods[0].start_again();
    let said = pods[0].refused_to_start();
    assert!(said.contains("it was rewound or made anew"), "{said}");
    assert!(said.contains("cuckood cluster new-epoch"), "{said}");

    // The other one has less than that one had kept, and does not go on in its place.
    pods[1].start_again();
    pods[1].says(&shop.asking, "lanes have stopped");
    shop.check(1, 2);
    // People keep it all the same: what the first one has more is given up.
    let from = format!("--from={}", pods[1].address);
    let said = refused(&new_epoch(&brokers, &[&from]));
    assert!(said.contains("the server lacks record"), "{said}");
    let begun = new_epoch(&brokers, &[&from, "--give-up-changes"]);
    assert!(begun.status.success(), "{begun:?}");
    // Nobody writes to the old epoch any more.
    let answer = shop.asking.send(
        "POST",
        &format!("{}/filters/f0/items", shop.addresses[1]),
        &[("prefer", "wait=1")],
        Some(&json!({ "items": ["late"] })),
    );
    assert_eq!(answer.unwrap().status, 503);
    assert_eq!(pods[1].terminate(), Some(0));
    pods[1].start_again();
    pods[1].ready(&shop.asking);
    shop.check(1, 2);
    pods[0].start_again();
    let said = pods[0].refused_to_start();
    assert!(
        said.contains("changes that are not in the cluster any more"),
        "{said}"
    );

    // What can't be an epoch's beginning.
    let nowhere = tempfile::tempdir().unwrap();
    for (from, words) in [
        (
            format!("--from-data-dir={}", pods[0].data_dir().display()),
            "the server is of epoch 1, and the current one is 2",
        ),
        (
            format!("--from-data-dir={}", nowhere.path().display()),
            "it holds no data of cuckood",
        ),
        (
            "--from=http://127.0.0.1:1".to_owned(),
            "no server announces itself",
        ),
    ] {
        let said = refused(&new_epoch(&brokers, &[&from]));
        assert!(said.contains(words), "{from}: {said}");
        assert_eq!(status(&brokers)["epoch"], 2);
    }
    assert_eq!(pods[1].terminate(), Some(0));
    pods[1].start_again();
    pods[1].ready(&shop.asking);
    shop.check(1, 2);
}

#[test]
fn a_pod_that_waits_for_the_state_of_another_goes_on_in_an_epoch_that_begins_meanwhile() {
    let Some(brokers) = broker() else { return };
    let (mut shop, mut pods) = Shop::start(&brokers, 2);
    shop.change(&[0, 1]);
    assert_eq!(pods[1].terminate(), Some(0));
    (0..3).for_each(|_| shop.change(&[0]));
    assert_eq!(pods[0].terminate(), Some(0));
    trim(&brokers, LANES);
    pods[1].start_again();
    pods[1].logged("this pod waits for the state of another one", 0);

    // Two at once: one begins, the other one says that it did not.
    let from = format!("--from-data-dir={}", pods[0].data_dir().display());
    let both = std::thread::scope(|scope| {
        let both = [0, 1].map(|_| scope.spawn(|| new_epoch(&brokers, &[&from])));
        both.map(|it| it.join().unwrap())
    });
    let begun = both.iter().filter(|it| it.status.success()).count();
    assert_eq!(begun, 1, "{both:?}");
    for output in both.iter().filter(|it| !it.status.success()) {
        let said = refused(output);
        let is_overtaken = said.contains("somebody else has begun an epoch");
        assert!(
            is_overtaken || said.contains("the current one is"),
            "{said}"
        );
    }
    pods[1].logged("the server starts again", 0);
    pods[0].start_again();
    for pod in &mut pods {
        pod.ready(&shop.asking);
    }
    shop.check(0, 4);
    shop.check(1, 4);
    shop.change(&[0, 1]);
    shop.check(1, 5);
}

/// Nobody has what the log lost: people see where the pods stand, and choose one.
#[test]
fn pods_that_all_wait_can_be_compared_and_one_that_waits_is_chosen_once_it_was_stopped() {
    let Some(brokers) = broker() else { return };
    let (mut shop, mut pods) = Shop::start(&brokers, 2);
    shop.change(&[0, 1]);
    assert_eq!(pods[1].terminate(), Some(0));
    (0..3).for_each(|_| shop.change(&[0]));
    pods[0].kill();
    pods[0].wipe();
    trim(&brokers, LANES);
    for pod in &mut pods {
        pod.start_again();
        pod.logged("this pod waits for the state of another one", 0);
    }
    let stands = |pod: &Pod| {
        let from = format!("--from={}", pod.address);
        let said = new_epoch(&brokers, &["--dry-run", &from]);
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).unwrap()
    };
    let said = pods.iter().map(stands).collect::<Vec<_>>();
    let records = |said: &String| {
        let lanes = said.lines().skip(2).take(LANES as usize);
        let record = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<u64>();
        lanes.map(|it| record(it).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(records(&said[0]), [0, 0]);
    assert!(records(&said[1]).iter().all(|&it| it > 0), "{said:?}");
    for said in said {
        assert!(said.contains("waits for the state of another"), "{said}");
    }
    // While it waits it may be one that is only new: nothing is begun, or closed.
    let from = format!("--from={}", pods[1].address);
    let said = refused(&new_epoch(&brokers, &[&from]));
    for words in ["waits for the state of another", "--from-data-dir"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(status(&brokers)["epoch"], 1);

    assert_eq!(pods[1].terminate(), Some(0));
    let from = format!("--from-data-dir={}", pods[1].data_dir().display());
    let begun = new_epoch(&brokers, &[&from, "--give-up-changes"]);
    assert!(begun.status.success(), "{begun:?}");
    pods[1].start_again();
    for pod in &mut pods {
        pod.ready(&shop.asking);
    }
    shop.check(0, 1);
    shop.check(1, 1);
    shop.changes = 1;
    shop.change(&[0, 1]);
    shop.check(0, 2);
}
