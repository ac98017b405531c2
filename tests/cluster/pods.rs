//! Three pods over three brokers that die, all of them at once at last.

use crate::nats_server;
use crate::support::{Cluster, Pod};
use cuckood::cluster::jetstream::{Holder, Leases};
use cuckood::cluster::{CommitLog, Duty, Event, LeaseKeeper, PlanOutcome, Position, Writer};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(2);

const SOON: Duration = Duration::from_secs(1);

/// Which brokers are killed at once. The last two are tried every time, all of
/// them if `CUCKOOD_CLUSTER_FAULTS` is set.
const FAULTS: [(&str, Range<usize>); 4] = [
    ("one", 0..1),
    ("another", 1..2),
    ("two", 0..2),
    ("all", 0..3),
];

/// What was acknowledged, and when.
#[derive(Default)]
struct Acknowledged {
    commits: BTreeMap<String, Position>,
    last: Option<Instant>,
    longest_pause: Duration,
}

/// Takes the lease when it is free, commits while it has it, follows otherwise.
fn run(
    cluster: &Cluster,
    number: u8,
    acknowledged: &Mutex<Acknowledged>,
    is_over: &AtomicBool,
) -> Pod {
    let mut pod = cluster.pod(number);
    let connection = cluster.patiently(|| cluster.connection());
    let holder = Holder::new(Writer([number; 16]), String::new());
    let leases = cluster.patiently(|| {
        let (founding, seals) = (cluster.founding.clone(), cluster.seals());
        let leases = Leases::new(&connection, founding, &seals, holder.clone(), TTL);
        cluster.runtime.block_on(leases)
    });
    let mut keeper = LeaseKeeper::new(TTL, Instant::now());
    let mut counter = 0;
    while !is_over.load(Ordering::Relaxed) {
        keep_lease(cluster, &leases, &mut keeper);
        pod.handle(Event::Lease(keeper.held(Instant::now())), SOON);
        if pod.driver.replica().term().is_none() {
            pod.follow(Duration::from_millis(200));
            continue;
        }
        let commit = format!("{number}-{counter}");
        counter += 1;
        let outcome = pod.commit_within(&commit, SOON);
        if let Some(PlanOutcome::Committed(position)) = outcome {
            let mut acknowledged = acknowledged.lock().unwrap();
            acknowledged.commits.insert(commit, position);
            let now = Instant::now();
            let pause = acknowledged.last.map_or(Duration::ZERO, |it| now - it);
            acknowledged.longest_pause = acknowledged.longest_pause.max(pause);
            acknowledged.last = Some(now);
        }
        // Others have their turn now and then.
        if counter % 500 == 0
            && let Some(revision) = keeper.give_up(Instant::now())
        {
            let _ = cluster.runtime.block_on(leases.give_back(0, revision));
        }
    }
    pod
}

/// Takes or renews the lease when it is time.
fn keep_lease(cluster: &Cluster, leases: &Leases, keeper: &mut LeaseKeeper) {
    let now = Instant::now();
    match keeper.duty(now) {
        Duty::Take => {
            let taken = cluster.runtime.block_on(leases.take(0));
            keeper.asked(now, taken.ok().flatten());
        }
        Duty::Renew { revision } => {
            let renewal = cluster.runtime.block_on(leases.renew(0, revision));
            keeper.renewed(now, renewal);
        }
        Duty::Rest { .. } => {}
    }
}

/// Waits until changes are acknowledged again.
fn go_on(acknowledged: &Mutex<Acknowledged>) {
    let started = Instant::now();
    let count = || acknowledged.lock().unwrap().commits.len();
    let before = count();
    while count() < before + 50 {
        assert!(started.elapsed() < Duration::from_secs(240));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn brokers_that_die_lose_no_acknowledged_change_and_pods_never_fork() {
    if !nats_server::is_there() {
        return;
    }
    let mut cluster = Cluster::found(3);
    let acknowledged = Mutex::new(Acknowledged::default());
    let is_over = AtomicBool::new(false);
    let mut brokers = std::mem::take(&mut cluster.brokers.all);
    // Pods connect to where brokers are, not to the processes.
    let mut pods: Vec<Pod> = std::thread::scope(|scope| {
        let (cluster, acknowledged, is_over) = (&cluster, &acknowledged, &is_over);
        let start = |number| scope.spawn(move || run(cluster, number, acknowledged, is_over));
        let pods: Vec<_> = (1..=3).map(start).collect();
        go_on(acknowledged);
        let faults = match std::env::var_os("CUCKOOD_CLUSTER_FAULTS") {
            Some(_) => &FAULTS[..],
            None => &FAULTS[2..],
        };
        for (fault, dying) in faults.iter().cloned() {
            acknowledged.lock().unwrap().longest_pause = Duration::ZERO;
            for broker in &mut brokers[dying.clone()] {
                broker.kill();
            }
            std::thread::sleep(Duration::from_secs(1));
            for broker in &mut brokers[dying] {
                broker.start();
            }
            go_on(acknowledged);
            let pause = acknowledged.lock().unwrap().longest_pause;
            println!("{fault} of three brokers killed for 1 s: longest pause {pause:?}");
        }
        is_over.store(true, Ordering::Relaxed);
        pods.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let log = cluster.log();
    let newest = log.newest(0).unwrap();
    for pod in &mut pods {
        let started = Instant::now();
        while pod.driver.replica().position().sequence < newest {
            assert!(started.elapsed() < Duration::from_secs(30));
            pod.follow(Duration::from_millis(200));
        }
        assert_eq!(pod.driver.replica().halted(), None);
    }
    let acknowledged = acknowledged.into_inner().unwrap();
    println!(
        "{} acknowledged, {} in the log",
        acknowledged.commits.len(),
        pods[0].commits().len()
    );
    let length = pods[0].driver.state().0.len();
    for pod in &pods {
        // A record that was in flight at the end may be one pod's alone.
        assert_eq!(pod.driver.state().0[..length], pods[0].driver.state().0[..]);
    }
    let mut stored = BTreeMap::new();
    for (position, commit) in &pods[0].driver.state().0 {
        let commit = String::from_utf8(commit.to_vec()).unwrap();
        assert_eq!(stored.insert(commit, *position), None, "stored twice");
    }
    for (commit, position) in &acknowledged.commits {
        assert_eq!(stored.get(commit), Some(position), "{commit} was lost");
    }
}
