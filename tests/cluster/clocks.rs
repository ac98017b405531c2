//! A pod that starts while no other one is there holds its clock against that of the
//! brokers.

use crate::broker::Brokers;
use crate::nats_server;
use crate::operator::found;
use crate::program::{Client, Pod};
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;
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

fn a_day_ahead(directory: &TempDir) -> PathBuf {
    let source = directory.path().join("clock.c");
    let library = directory.path().join("clock.so");
    std::fs::write(&source, A_DAY_AHEAD).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]);
    let made = compile.arg(&library).arg(&source).status();
    assert!(made.unwrap().success());
    library
}

#[test]
fn after_a_stop_of_all_pods_the_clock_of_the_first_one_alone_ends_nothing() {
    if !nats_server::is_there() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let brokers = Brokers::start(1, "always");
    found(&brokers, 2);
    let client = Client::new();
    let mut pods: Vec<Pod> = (0..2).map(|_| Pod::start(&brokers)).collect();
    for pod in &mut pods {
        pod.ready(&client);
    }
    let addresses: Vec<String> = pods.iter().map(|it| it.address.clone()).collect();
    let body = json!({ "capacity": 1_000, "ttl_seconds": 3_600 });
    client.insist(&addresses, 0, "make", "PUT", "/filters/hour", &body);
    for pod in &mut pods {
        assert_eq!(pod.terminate(), Some(0), "{}", pod.log());
    }

    pods[0].preload(Some(a_day_ahead(&directory)));
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
