//! Three engines over three brokers that die: changes through whichever engine
//! leads, each with a key and sent again until its outcome is known.

use crate::nats_server;
use crate::support::{Cluster, PATIENCE};
use cuckood::chain::params::FilterRequest;
use cuckood::cluster::jetstream::{Holder, LeaseKeeping, Leases};
use cuckood::cluster::{CommitLog, Leaders, Member, Membership, Writer};
use cuckood::engine::{
    ANSWER_KEPT_FOR, AddOptions, AddResult, Engine, EngineError, EngineOptions, FilterName,
    IdempotencyKey, ItemBatch,
};
use cuckood::metrics::Metrics;
use cuckood::store::PageStore;
use cuckood::store::rocks::{RocksOptions, RocksStore};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const TTL: Duration = Duration::from_secs(2);

/// A pod that runs.
struct Pod {
    engine: Engine,
    stop: watch::Sender<bool>,
    keeping: Vec<JoinHandle<()>>,
}

impl Pod {
    fn start(cluster: &Cluster, directory: &Path, writer: [u8; 16]) -> Pod {
        let log = cluster.log();
        let store = RocksStore::open(directory, RocksOptions::default()).unwrap();
        let store = Arc::new(PageStore::open(Arc::new(store)).unwrap());
        let metrics = Arc::new(Metrics::new().unwrap());
        let membership = Membership {
            log: Arc::clone(&log) as Arc<dyn CommitLog>,
            founding: cluster.founding.founding,
            epoch: cluster.founding.epoch,
            began: Vec::new(),
            acknowledged: Vec::new(),
            time: None,
            reckoned: None,
            brokers_time: None,
            level: 1,
            lanes: cluster.founding.lanes,
            writer: Writer(writer),
        };
        let options = EngineOptions {
            after_commit: Some(crate::checked::after_commit),
            ..EngineOptions::with_cache(64 << 20)
        };
        let member = Member::join(store, &options, metrics, membership).unwrap();
        let engine = member.engine().clone();
        let holder = Holder::new(Writer(writer), String::new());
        let leases = cluster.patiently(|| {
            let connection = cluster.connection()?;
            let (founding, seals) = (cluster.founding.clone(), cluster.seals());
            let leases = Leases::new(&connection, founding, &seals, holder.clone(), TTL);
            cluster.runtime.block_on(leases)
        });
        let leaders = Arc::new(Leaders::of_none(cluster.founding.lanes));
        let keeping = LeaseKeeping::new(leases, TTL, leaders);
        let (stop, stopped) = watch::channel(false);
        let keep = |lane| {
            let (keeping, stopped) = (Arc::clone(&keeping), stopped.clone());
            let kept = (member.clone(), lane);
            let keeping = async move { keeping.keep(lane, kept, stopped).await };
            cluster.runtime.spawn(keeping)
        };
        Pod {
            keeping: (0..cluster.founding.lanes).map(keep).collect(),
            engine,
            stop,
        }
    }

    /// Gives its leases back, and stops.
    fn end(self, cluster: &Cluster) {
        self.stop.send(true).unwrap();
        for keeping in self.keeping {
            cluster.runtime.block_on(keeping).unwrap();
        }
        self.engine.halt();
    }
}

fn name(number: u64) -> FilterName {
    FilterName::parse(&format!("f{number}")).unwrap()
}

fn items(from: u64, to: u64) -> ItemBatch {
    let mut batch = ItemBatch::default();
    (from..to).for_each(|item| batch.push(&item.to_le_bytes()));
    batch
}

/// Sends a request to one engine after the other until it is answered.
async fn send<T, F: Future<Output = Result<T, EngineError>>>(
    engines: &[Engine],
    request: impl Fn(Engine) -> F,
) -> T {
    let started = Instant::now();
    for engine in engines.iter().cycle() {
        let deadline = Instant::now() + Duration::from_secs(2);
        match request(engine.until(deadline)).await {
            Ok(answer) => return answer,
            Err(
                EngineError::NotLeading
                | EngineError::Overloaded(_)
                | EngineError::RetryInFlight
                | EngineError::LogSilent
                | EngineError::DeadlineExceeded
                | EngineError::NotFound { .. }
                | EngineError::RetryFilterGone,
            ) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => panic!("{error:?}"),
        }
        assert!(started.elapsed() < Duration::from_secs(90));
    }
    unreachable!()
}

/// Adds to a filter of its own until it is told to end. Returns how many items
/// were acknowledged.
async fn client(
    engines: Vec<Engine>,
    number: u64,
    done: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
) -> u64 {
    let filter = name(number);
    let wanted = FilterRequest {
        capacity: Some(2_000),
        ..FilterRequest::default()
    };
    let wanted = wanted.into();
    send(&engines, |engine| {
        let (filter, wanted) = (&filter, &wanted);
        async move { engine.create_filter(filter, wanted, None).await }
    })
    .await;
    let mut added = 0u64;
    while !is_over.load(Ordering::Relaxed) {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_be_bytes());
        key[8..16].copy_from_slice(&added.to_be_bytes());
        let key = Some(IdempotencyKey {
            key,
            fingerprint: [0; 32],
            kept_for: ANSWER_KEPT_FOR,
        });
        let sent = items(added, added + 20);
        let options = AddOptions::default();
        let answered = send(&engines, |engine| {
            let (filter, sent, options) = (&filter, &sent, &options);
            async move { engine.add(filter, sent, options, key).await }
        })
        .await;
        assert!(answered.answer.iter().all(|&it| it == AddResult::Added));
        added += 20;
        done.fetch_add(1, Ordering::Relaxed);
    }
    added
}

/// Waits until changes are acknowledged again; returns how long that took.
fn go_on(done: &AtomicU64) -> Duration {
    let started = Instant::now();
    let before = done.load(Ordering::Relaxed);
    while done.load(Ordering::Relaxed) < before + 30 {
        assert!(started.elapsed() < Duration::from_secs(90));
        std::thread::sleep(Duration::from_millis(20));
    }
    started.elapsed()
}

#[test]
fn engines_over_brokers_that_die_count_every_change_once_and_end_equal() {
    if !nats_server::is_there() {
        return;
    }
    let mut cluster = Cluster::found(3);
    let mut brokers = std::mem::take(&mut cluster.brokers.all);
    let directories: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
    let mut pods: Vec<Pod> = (0..3u8)
        .map(|pod| Pod::start(&cluster, directories[usize::from(pod)].path(), [pod; 16]))
        .collect();
    let engines: Vec<Engine> = pods.iter().map(|pod| pod.engine.clone()).collect();
    let (done, is_over) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let clients: Vec<_> = (0..4)
        .map(|number| {
            let client = client(
                engines.clone(),
                number,
                Arc::clone(&done),
                Arc::clone(&is_over),
            );
            cluster.runtime.spawn(client)
        })
        .collect();
    go_on(&done);
    for (fault, dying) in [("one", 0..1), ("two", 1..3), ("all", 0..3)] {
        for broker in &mut brokers[dying.clone()] {
            broker.kill();
        }
        std::thread::sleep(Duration::from_secs(1));
        for broker in &mut brokers[dying] {
            broker.start();
        }
        let pause = go_on(&done);
        println!("{fault} of three brokers killed for 1 s: 30 changes took {pause:?} after that");
    }
    // A pod that stops gives its lanes to others at once.
    let stopped = pods.remove(0);
    drop(engines);
    is_over.store(true, Ordering::Relaxed);
    let added: Vec<u64> = clients
        .into_iter()
        .map(|client| cluster.runtime.block_on(client).unwrap())
        .collect();
    stopped.end(&cluster);
    pods.push(Pod::start(&cluster, directories[0].path(), [10; 16]));
    // One without anything reads everything.
    pods.push(Pod::start(&cluster, directories[3].path(), [11; 16]));
    let log = cluster.log();
    for lane in 0..cluster.founding.lanes {
        let newest = log.newest(lane).unwrap();
        println!("lane {lane}: {newest} is the newest record");
        for pod in &pods {
            let started = Instant::now();
            let state = || pod.engine.lane_states()[lane as usize].clone();
            while state().position.sequence < newest || state().is_in_flight {
                assert_eq!(state().halted, None);
                assert!(started.elapsed() < PATIENCE.append * 30);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    cluster.runtime.block_on(async {
        for (number, &added) in added.iter().enumerate() {
            let filter = name(number as u64);
            let version = pods[0].engine.version(&filter).await.unwrap();
            for pod in &pods {
                let info = pod.engine.filter_info(&filter).await.unwrap();
                assert_eq!(info.items, added, "{filter}");
                assert_eq!(pod.engine.version(&filter).await.unwrap(), version);
                let found = pod.engine.exists(&filter, &items(0, added)).await.unwrap();
                assert!(found.iter().all(|&it| it));
            }
        }
    });
    let changes = done.load(Ordering::Relaxed);
    println!("{changes} changes acknowledged, on four pods");
    for pod in pods {
        pod.end(&cluster);
    }
}
