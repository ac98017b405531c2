//! A backup of one pod, with its position: a pod that starts from it goes on from there,
//! and with it alone the cluster begins again.

use crate::broker::Brokers;
use crate::founded::shop;
use crate::operator::{begin, cuckood, restore};
use crate::program::{Client, Pod, refused, status};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const LANES: u32 = 2;
const FILTERS: u64 = 4;
const BATCH: u64 = 100;

fn items(filter: u64, from: u64, to: u64) -> Vec<String> {
    (from..to).map(|item| format!("{filter}-{item}")).collect()
}

/// Adds to all filters; returns the positions then.
fn add(client: &Client, addresses: &[String], change: u64) -> Vec<String> {
    let add = |filter| {
        let (from, to) = (change * BATCH, (change + 1) * BATCH);
        let body = json!({ "items": items(filter, from, to) });
        let (key, path) = (
            format!("add-{filter}-{change}"),
            format!("/filters/f{filter}/items"),
        );
        client.insist(addresses, filter as usize, &key, "POST", &path, &body)
    };
    (0..FILTERS).map(add).collect()
}

/// Whether a pod has so many of the changes, and no others.
#[track_caller]
fn check(client: &Client, address: &str, positions: &[String], changes: u64) {
    for (filter, position) in (0..).zip(positions) {
        let name = format!("f{filter}");
        let described = client.filter(address, &name, position);
        assert_eq!(described["items"], changes * BATCH, "{name}");
        let all = items(filter, 0, changes * BATCH);
        assert!(client.has_all(address, &name, &all));
    }
}

/// Has a pod make a backup; returns the file.
fn back_up(client: &Client, address: &str, folder: &Path) -> PathBuf {
    let url = format!("{address}/admin/backups");
    let begun = client.send("POST", &url, &[], None).unwrap();
    assert_eq!(begun.status, 202, "{}", begun.body);
    let id = begun.body["id"].as_str().unwrap().to_owned();
    let started = Instant::now();
    loop {
        let said = client.send("GET", &format!("{url}/{id}/status"), &[], None);
        let said = said.unwrap().body;
        match said["state"].as_str().unwrap() {
            "complete" => break,
            "writing" | "verifying" => {}
            _ => panic!("{said}"),
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{said}");
        thread::sleep(Duration::from_millis(50));
    }
    let archive = folder.join("downloaded.tar");
    std::fs::write(&archive, client.bytes(&format!("{url}/{id}"))).unwrap();
    archive
}

#[test]
fn a_backup_of_one_pod_is_enough_for_a_pod_and_for_the_whole_cluster() {
    let Some(brokers) = shop(LANES) else { return };
    let folder = tempfile::tempdir().unwrap();
    let backups = format!("--backup-dir={}", folder.path().join("backups").display());
    let client = Client::new();
    let mut pods = vec![Pod::start(&brokers), Pod::start_with(&brokers, &[&backups])];
    pods.iter_mut().for_each(|it| it.ready(&client));
    let addresses: Vec<String> = pods.iter().map(|it| it.address.clone()).collect();
    for filter in 0..FILTERS {
        let (key, path) = (format!("make-{filter}"), format!("/filters/f{filter}"));
        let body = json!({ "capacity": 10_000 });
        client.insist(&addresses, 0, &key, "PUT", &path, &body);
    }
    add(&client, &addresses, 0);
    let positions = add(&client, &addresses, 1);
    check(&client, &addresses[1], &positions, 2);
    let archive = back_up(&client, &addresses[1], folder.path());
    let positions = add(&client, &addresses, 2);

    // A pod that begins with it reads from the log what came since.
    let data_dir = folder.path().join("one");
    restore(&archive, &data_dir);
    let mut third = Pod::start_from(&brokers, &data_dir);
    third.ready(&client);
    check(&client, &third.address, &positions, 3);
    assert!(!third.log().contains("took the state of another pod"));
    let all = [addresses, vec![third.address.clone()]].concat();
    let positions = add(&client, &all, 3);
    for address in &all {
        check(&client, address, &positions, 4);
    }
    for pod in pods.iter_mut().chain([&mut third]) {
        assert_eq!(pod.terminate(), Some(0), "{}", pod.log());
    }
    drop((pods, third, brokers));

    // Everything else is gone: brokers, pods, what came after the backup.
    let data_dir = folder.path().join("all");
    restore(&archive, &data_dir);
    let alone = cuckood()
        .args(["serve", "--listen=127.0.0.1:0", "--data-dir"])
        .arg(&data_dir)
        .output();
    assert!(refused(&alone.unwrap()).contains("is of a pod of a cluster"));
    let brokers = Brokers::start(1, "always");
    let from = format!("--from-data-dir={}", data_dir.display());
    begin(&brokers, &from);
    let mut pods = [Pod::start_from(&brokers, &data_dir), Pod::start(&brokers)];
    pods.iter_mut().for_each(|it| it.ready(&client));
    assert!(status(&brokers)["epoch"].as_u64().unwrap() > 1);
    let addresses: Vec<String> = pods.iter().map(|it| it.address.clone()).collect();
    // A key of a request that the backup does not have counts anew.
    let positions = add(&client, &addresses, 2);
    for address in &addresses {
        check(&client, address, &positions, 3);
    }
}
