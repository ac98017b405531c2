//! Engines over a shared log: what the tests do with them.

use super::dumps::alike;
use super::flaky::Failures;
use crate::chain::params::{Defaults, FilterRequest};
use crate::engine::{
    AddOptions, AddResult, Clock, Engine, EngineError, EngineOptions, FilterName, IdempotencyKey,
    ItemBatch,
};
use crate::memory::MemoryStore;
use crate::metrics::Metrics;
use crate::store::{KeyValueStore, PageStore};
use crate::tests::shared_log::SharedLog;
use crate::{CommitLog, Event, Writer};
use crate::{JoinError, Member, Membership};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Lanes of the cluster.
pub(super) const LANES: u32 = 2;

/// What is waited for takes less, however busy the machine is.
const LONG: Duration = Duration::from_secs(60);

/// As many as two lanes need.
const FRAMES: u64 = 16_000;

/// A pod that runs.
pub(super) struct Pod {
    pub(super) store: MemoryStore,
    pub(super) engine: Member,
}

/// Three pods, or more.
pub(super) struct Cluster {
    pub(super) log: Arc<SharedLog>,
    pub(super) pods: Vec<Pod>,
    /// The time of all pods, in milliseconds since 1970.
    pub(super) now_ms: Arc<AtomicU64>,
    /// What the stores of all pods do.
    pub(super) failures: Failures,
    /// Newest revision of a lease.
    revision: u64,
    /// Lives of pods.
    lives: AtomicU64,
}

pub(super) fn options() -> EngineOptions {
    EngineOptions {
        defaults: Defaults {
            max_expansions: 1000,
            max_chain_length: 2000,
            ..Defaults::default()
        },
        // Checkpoints all the time.
        max_log_bytes: 128 << 10,
        checkpoint_slice_bytes: 8 * 4096,
        // Filters are closed and opened again.
        max_open_filters: 16,
        max_retry_bytes: 16 << 20,
        after_commit: Some(crate::checked::after_commit),
        ..EngineOptions::with_cache(FRAMES * 4096)
    }
}

impl Cluster {
    /// So many pods, none of which leads.
    pub(super) fn of(pods: usize, log: SharedLog, failures: Failures) -> Cluster {
        let mut cluster = Cluster {
            log: Arc::new(log),
            pods: Vec::new(),
            now_ms: Arc::new(AtomicU64::new(1 << 40)),
            failures,
            revision: 0,
            lives: AtomicU64::new(0),
        };
        for _ in 0..pods {
            let pod = cluster.start(MemoryStore::new()).unwrap();
            cluster.pods.push(pod);
        }
        cluster
    }

    pub(super) fn membership(&self) -> Membership {
        let life = self.lives.fetch_add(1, Ordering::Relaxed);
        let mut writer = [0; 16];
        writer[..8].copy_from_slice(&life.to_be_bytes());
        Membership {
            log: Arc::clone(&self.log) as Arc<dyn CommitLog>,
            founding: [7; 16],
            epoch: 1,
            began: Vec::new(),
            acknowledged: Vec::new(),
            time: None,
            reckoned: None,
            brokers_time: None,
            level: 1,
            lanes: LANES,
            writer: Writer(writer),
        }
    }

    /// A pod over what is in a store.
    pub(super) fn start(&self, store: MemoryStore) -> Result<Pod, JoinError> {
        self.failures.befall(&store);
        let engine = join(store.clone(), self.membership(), &self.now_ms)?;
        Ok(Pod { store, engine })
    }

    /// Has a pod lead a lane; the others hear of it first.
    pub(super) fn lead(&mut self, pod: usize, lane: u32) {
        for (other, it) in self.pods.iter().enumerate() {
            if other != pod {
                it.engine.tell(lane, Event::Lease(None));
            }
        }
        self.also_lead(pod, lane);
    }

    /// Has a pod lead a lane that others may believe to lead, too.
    pub(super) fn also_lead(&mut self, pod: usize, lane: u32) {
        self.revision += 1;
        let engine = &self.pods[pod].engine;
        let lease = Event::Lease(Some(self.revision));
        engine.tell(lane, lease);
    }

    /// The same for all lanes, until it leads.
    pub(super) fn lead_all(&mut self, pod: usize) {
        (0..LANES).for_each(|lane| self.lead(pod, lane));
        let engine = &self.pods[pod].engine;
        wait_until("a pod leads", || {
            engine.lane_states().iter().all(|lane| lane.leads())
        });
    }

    /// Waits until all pods have applied all that the log has.
    pub(super) fn level(&self) {
        for lane in 0..LANES {
            let newest = self.log.newest(lane).unwrap();
            for pod in &self.pods {
                wait_until("a pod has all records", || {
                    let state = &pod.engine.lane_states()[lane as usize];
                    assert_eq!(state.halted, None);
                    state.position.sequence >= newest && !state.is_in_flight
                });
            }
        }
    }

    /// Every filter is the same on all pods, in the store and in memory.
    pub(super) async fn check_equal(&self) {
        self.level();
        let mut names = Vec::new();
        for pod in &self.pods {
            let listed = pod
                .engine
                .list_filters("", "", None, 1000)
                .await
                .unwrap()
                .filters;
            names.push(listed.into_iter().map(|it| it.name).collect::<Vec<_>>());
        }
        for (number, pod) in self.pods.iter().enumerate() {
            assert_eq!(names[number], names[0], "filters of pod {number}");
            for name in &names[0] {
                let first = &self.pods[0].engine;
                let equal = alike(&pod.engine, name).await == alike(first, name).await;
                assert!(equal, "pod {number}, {name}");
                // Of the first some are there, of the last none.
                for range in [0..2_000, 9_000_000..9_002_000] {
                    let items = batch(range);
                    let counts = pod.engine.count(name, &items).await.unwrap();
                    let expected = first.count(name, &items).await.unwrap();
                    assert_eq!(counts, expected, "pod {number}, {name}");
                }
                let info = pod.engine.filter_info(name).await.unwrap();
                let expected = first.filter_info(name).await.unwrap();
                assert_eq!(info.items, expected.items);
                assert_eq!(info.expiry, expected.expiry);
            }
        }
    }

    /// What a crash at this moment leaves of a pod, or one some time ago that
    /// took what was not forced to the disk.
    pub(super) fn crash(&mut self, pod: usize, left: MemoryStore) {
        self.pods[pod].engine.halt();
        self.pods[pod] = self.start(left).unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for pod in &self.pods {
            pod.engine.halt();
        }
    }
}

pub(super) fn join(
    store: impl KeyValueStore,
    membership: Membership,
    now_ms: &Arc<AtomicU64>,
) -> Result<Member, JoinError> {
    let store = Arc::new(PageStore::open(Arc::new(store)).unwrap());
    let options = EngineOptions {
        clock: Clock::Set(Arc::clone(now_ms)),
        ..options()
    };
    join_with(store, membership, &options)
}

pub(super) fn join_with(
    store: Arc<PageStore>,
    membership: Membership,
    options: &EngineOptions,
) -> Result<Member, JoinError> {
    join_measured(store, membership, options, Metrics::new().unwrap().into())
}

pub(super) fn join_measured(
    store: Arc<PageStore>,
    membership: Membership,
    options: &EngineOptions,
    metrics: Arc<Metrics>,
) -> Result<Member, JoinError> {
    Member::join(store, options, metrics, membership)
}

pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LONG, "waited for in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(super) fn name(text: &str) -> FilterName {
    FilterName::parse(text).unwrap()
}

pub(super) fn batch(items: impl IntoIterator<Item = u64>) -> ItemBatch {
    let mut batch = ItemBatch::default();
    for item in items {
        batch.push(format!("item-{item}").as_bytes());
    }
    batch
}

/// A key of a request.
pub(super) fn key(number: u64) -> IdempotencyKey {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.to_be_bytes());
    let fingerprint = [9; 32];
    IdempotencyKey {
        key,
        fingerprint,
        kept_for: crate::engine::ANSWER_KEPT_FOR,
    }
}

/// Filters of every layout and width, in turn.
pub(super) fn kind(number: u64, capacity: u64) -> FilterRequest {
    let request = FilterRequest {
        capacity: Some(capacity),
        ..FilterRequest::default()
    };
    let bits = |bits| FilterRequest {
        fingerprint_bits: Some(bits),
        ..request.clone()
    };
    let bucket_size = |size| FilterRequest {
        bucket_size: Some(size),
        expansion: Some(2),
        ..request.clone()
    };
    match number % 6 {
        0 => bits(16),
        1 => bucket_size(4),
        2 => bits(12),
        3 => bucket_size(2),
        4 => bits(21),
        _ => bits(32),
    }
}

/// Kinds of filters that there are.
pub(super) const KINDS: u64 = 6;

pub(super) async fn add(
    engine: &Engine,
    filter: &str,
    items: impl IntoIterator<Item = u64>,
    key: Option<IdempotencyKey>,
) -> Result<(), EngineError> {
    let options = AddOptions::default();
    let added = engine
        .add(&name(filter), &batch(items), &options, key)
        .await?;
    assert!(added.answer.iter().all(|&it| it == AddResult::Added));
    Ok(())
}

/// Three pods over a log and stores that do what they are asked for.
pub(super) fn quiet_cluster() -> Cluster {
    Cluster::of(3, SharedLog::new(1, 0), Failures::new(1, 0))
}

/// The same, and the pod that leads all lanes, which is the first.
pub(super) fn led_cluster() -> (Cluster, Member) {
    let mut cluster = quiet_cluster();
    cluster.lead_all(0);
    let leader = cluster.pods[0].engine.clone();
    (cluster, leader)
}

pub(super) async fn create(engine: &Engine, filter: &str, number: u64, capacity: u64) {
    let wanted = kind(number, capacity).into();
    let created = engine.create_filter(&name(filter), &wanted, None).await;
    created.unwrap();
}
