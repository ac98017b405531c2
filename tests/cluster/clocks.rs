//! A pod that starts while no other one is there holds its clock against that of the
//! brokers.

use crate::founded::shop;
use crate::program::{Client, Pod, status};
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// Has the process that loads it see a system's clock that is a day ahead.
const A_DAY_AHEAD: &str = "
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *at) {
    long failed = syscall(SYS_clock_gettime, id, at);
    if (!failed && id == CLOCK_REALTIME) at->tv_sec += 86400;
    return (int)failed;
}
";

/// Has it see one that runs a hundred times as fast from when a file is there.
const A_HUNDRED_TIMES: &str = "
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static struct timespec from;
int clock_gettime(clockid_t id, struct timespec *at) {
    long failed = syscall(SYS_clock_gettime, id, at);
    if (failed || id != CLOCK_REALTIME) return (int)failed;
    if (!from.tv_sec && access(BEGIN, F_OK)) return 0;
    if (!from.tv_sec) from = *at;
    long long passed = (at->tv_sec - from.tv_sec) * 1000000000LL + at->tv_nsec - from.tv_nsec;
    long long now = from.tv_nsec + 100 * passed;
    at->tv_sec = from.tv_sec + now / 1000000000;
    at->tv_nsec = now % 1000000000;
    return 0;
}
";

fn preloaded(directory: &TempDir, program: &str) -> PathBuf {
    let source = directory.path().join("clock.c");
    let library = directory.path().join("clock.so");
    std::fs::write(&source, program).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]);
    let made = compile.arg(&library).arg(&source).status();
    assert!(made.unwrap().success());
    library
}

#[test]
fn after_a_stop_of_all_pods_the_clock_of_the_first_one_alone_ends_nothing() {
    let Some(brokers) = shop(2) else { return };
    let directory = TempDir::new().unwrap();
    let client = Client::new();
    let mut pods = Pod::several(2, &brokers, &client);
    let addresses: Vec<String> = pods.iter().map(|it| it.address.clone()).collect();
    let body = json!({ "capacity": 1_000, "ttl_seconds": 3_600 });
    client.insist(&addresses, 0, "make", "PUT", "/filters/hour", &body);
    for pod in &mut pods {
        assert_eq!(pod.terminate(), Some(0), "{}", pod.log());
    }

    pods[0].preload(Some(preloaded(&directory, A_DAY_AHEAD)));
    pods[0].start_again();
    pods[0].ready(&client);
    let said = pods[0].log();
    assert!(
        said.contains("no other pod is there to ask for the time"),
        "{said}"
    );
    // It leads and stamps now.
    let one = json!({ "items": ["a"] });
    let position = client.insist(
        &addresses[..1],
        0,
        "add",
        "POST",
        "/filters/hour/items",
        &one,
    );
    let jump = |pod: &Pod| {
        let clock = client.send("GET", &format!("{}/admin/clock", pod.address), &[], None);
        clock.unwrap().body["jump_seconds"].clone()
    };
    assert!(jump(&pods[0]).as_u64().is_some_and(|it| it > 86_000));

    pods[1].start_again();
    pods[1].ready(&client);
    let told = client.filter(&addresses[1], "hour", &position);
    assert_eq!(told["items"], 1);
    assert!(jump(&pods[1]).is_null());
    // People may know better.
    let confirm = format!("{}/admin/clock/confirm", addresses[0]);
    assert_eq!(
        client.send("POST", &confirm, &[], None).unwrap().status,
        200
    );
    assert!(jump(&pods[0]).is_null());
}

#[test]
fn a_clock_at_a_hundred_times_the_speed_drags_nobody_along_and_is_told_of() {
    let Some(brokers) = shop(2) else { return };
    let directory = TempDir::new().unwrap();
    let client = Client::new();
    let mut right = Pod::start(&brokers);
    right.ready(&client);
    let mut fast = Pod::start(&brokers);
    fast.ready(&client);
    assert_eq!(fast.terminate(), Some(0));
    let begin = directory.path().join("begin");
    let program = A_HUNDRED_TIMES.replace("BEGIN", &format!("{:?}", begin.display().to_string()));
    fast.preload(Some(preloaded(&directory, &program)));
    fast.start_again();
    fast.ready(&client);
    let addresses = [fast.address.clone(), right.address.clone()];
    let body = json!({ "capacity": 1_000, "ttl_seconds": 300 });
    for filter in 0..8 {
        let path = format!("/filters/f{filter}");
        client.insist(&addresses, 0, &path, "PUT", &path, &body);
    }
    let clock = |address: &String| {
        let url = format!("{address}/admin/clock");
        client.send("GET", &url, &[], None).unwrap().body
    };
    // Both lead, and stamp all the time.
    let leads = || {
        let status = status(&brokers);
        let mut lanes = status["lanes"].as_array().unwrap().iter();
        lanes.any(|it| it["leader"] == *fast.address)
    };
    while !leads() {
        std::thread::sleep(Duration::from_millis(100));
    }
    std::fs::write(&begin, "").unwrap();
    let started = Instant::now();
    for item in 0.. {
        let one = json!({ "items": [item] });
        let path = format!("/filters/f{}/items", item % 8);
        client.insist(
            &addresses,
            item % 2,
            &format!("add-{item}"),
            "POST",
            &path,
            &one,
        );
        if started.elapsed() > Duration::from_secs(8) {
            break;
        }
    }
    for address in &addresses {
        let found = client.send("GET", &format!("{address}/filters/f0"), &[], None);
        assert_eq!(found.unwrap().status, 200);
        let told = clock(address);
        let now = humantime::parse_rfc3339(told["now"].as_str().unwrap()).unwrap();
        let ahead = now.duration_since(SystemTime::now()).unwrap_or_default();
        println!("{address}: {ahead:?} ahead; {told}");
        assert!(ahead < Duration::from_secs(62), "{ahead:?}");
    }
    let jump = clock(&fast.address)["jump_seconds"].clone();
    assert!(jump.as_u64().is_some_and(|it| it > 60), "{jump}");
    assert!(clock(&right.address)["jump_seconds"].is_null());
}
