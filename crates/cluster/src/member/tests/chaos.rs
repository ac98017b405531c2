//! Changes through whichever pod leads, while leases wander, pods crash and the
//! log misbehaves. Every request has a key and is sent again until its outcome
//! is known: each counts exactly once, and all pods end equal.

use super::cluster::*;
use super::flaky::Failures;
use crate::Event;
use crate::cuckoo::hash::murmur64a;
use crate::engine::{AddOptions, AddResult, Engine, EngineError};
use crate::memory::MemoryStore;
use crate::tests::shared_log::SharedLog;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const PODS: usize = 3;
const CLIENTS: u64 = 3;
const CHANGES: u64 = 60;

/// Chance with a seed, for those who draw side by side.
struct Chance {
    seed: u64,
    drawn: u64,
}

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        murmur64a(&self.drawn.to_le_bytes(), self.seed) % bound
    }
}

/// Whether nobody knows yet what became of a request, or nothing was done.
fn is_to_be_sent_again(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::NotLeading
            | EngineError::Overloaded(_)
            | EngineError::RetryInFlight
            | EngineError::LogSilent
            | EngineError::OutcomeUnknown(_)
            | EngineError::DeadlineExceeded
            | EngineError::Stopping
            // A pod that lags has not heard of it.
            | EngineError::NotFound { .. }
            | EngineError::RetryFilterGone
    )
}

struct Client {
    number: u64,
    engines: Arc<RwLock<Vec<Engine>>>,
    chance: Chance,
    keys: u64,
    model: BTreeMap<u64, u64>,
    again: Arc<AtomicUsize>,
}

impl Client {
    fn filter(&self) -> String {
        format!("f{}", self.number)
    }

    /// Sends a request to one pod after the other until it is answered.
    async fn send<T, F: Future<Output = Result<T, EngineError>>>(
        &mut self,
        request: impl Fn(Engine) -> F,
    ) -> T {
        for attempt in 0u64.. {
            let engine = self.engines.read()[self.chance.below(PODS as u64) as usize].clone();
            let deadline = std::time::Instant::now() + Duration::from_millis(500);
            match request(engine.until(deadline)).await {
                Ok(answer) => return answer,
                Err(error) if is_to_be_sent_again(&error) && attempt < 20_000 => {
                    self.again.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        unreachable!()
    }

    async fn work(mut self) -> Client {
        let filter = name(&self.filter());
        let wanted = kind(self.number, 300).into();
        self.send(|engine| {
            let (filter, wanted) = (&filter, &wanted);
            async move { engine.create_filter(filter, wanted, None).await }
        })
        .await;
        for _ in 0..CHANGES {
            self.keys += 1;
            let key = Some(key(self.number << 32 | self.keys));
            let some = self.chance.below(120) + 1;
            if self.chance.below(3) > 0 {
                let first = self.chance.below(2_000);
                let items: Vec<u64> = (first..first + some).collect();
                let sent = batch(items.iter().copied());
                let options = AddOptions::default();
                let added = self.send(|engine| {
                    let (filter, sent, options) = (&filter, &sent, &options);
                    async move { engine.add(filter, sent, options, key).await }
                });
                let added = added.await.answer;
                assert!(added.iter().all(|&it| it == AddResult::Added), "{added:?}");
                for item in items {
                    *self.model.entry(item).or_default() += 1;
                }
            } else {
                let there = self.model.iter().filter(|(_, copies)| **copies > 0);
                let items: Vec<u64> = there.map(|(item, _)| *item).take(some as usize).collect();
                let sent = batch(items.iter().copied());
                let deleted = self.send(|engine| {
                    let (filter, sent) = (&filter, &sent);
                    async move { engine.delete(filter, sent, key).await }
                });
                assert!(deleted.await.answer.iter().all(|&it| it));
                for item in items {
                    *self.model.get_mut(&item).unwrap() -= 1;
                }
            }
        }
        self
    }

    /// A pod has exactly what was acknowledged.
    async fn check(&self, engine: &Engine) {
        let filter = name(&self.filter());
        let total: u64 = self.model.values().sum();
        assert_eq!(engine.filter_info(&filter).await.unwrap().items, total);
        let items: Vec<u64> = self.model.keys().copied().collect();
        let counts = engine.count(&filter, &batch(items)).await.unwrap();
        for ((item, &copies), count) in self.model.iter().zip(counts) {
            assert!(count >= copies, "item {item}: {count}, {copies} were added");
        }
    }
}

/// Moves leases and crashes pods until it is told to end.
fn disturb(
    mut cluster: Cluster,
    engines: &RwLock<Vec<Engine>>,
    seed: u64,
    is_over: &AtomicBool,
) -> Cluster {
    let mut chance = Chance {
        seed,
        drawn: 1 << 32,
    };
    let mut kept: Vec<Option<MemoryStore>> = vec![None; PODS];
    let mut crashes = 0;
    while !is_over.load(Ordering::Relaxed) {
        let pod = chance.below(PODS as u64) as usize;
        let lane = chance.below(u64::from(LANES)) as u32;
        match chance.below(12) {
            0..=2 => cluster.lead(pod, lane),
            3 => cluster.also_lead(pod, lane),
            4 | 5 => {
                let event = match chance.below(2) {
                    0 => Event::Lease(None),
                    _ => Event::Recheck,
                };
                cluster.pods[pod].engine.tell(lane, event);
            }
            6 | 7 => kept[pod] = Some(cluster.pods[pod].store.fork()),
            8 => {
                let now = cluster.pods[pod].store.fork();
                cluster.crash(pod, kept[pod].take().unwrap_or(now));
                engines.write()[pod] = cluster.pods[pod].engine.engine().clone();
                crashes += 1;
            }
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(chance.below(15)));
    }
    println!("{crashes} crashes");
    cluster
}

async fn every_change_counts_once(seed: u64) {
    println!("seed {seed}");
    let failures = Failures::new(seed, 1);
    let mut cluster = Cluster::of(PODS, SharedLog::new(seed, 10), failures);
    cluster.lead_all(0);
    let engines = cluster
        .pods
        .iter()
        .map(|it| it.engine.engine().clone())
        .collect();
    let engines = Arc::new(RwLock::new(engines));
    let is_over = Arc::new(AtomicBool::new(false));
    let again = Arc::new(AtomicUsize::new(0));
    let disturbing = {
        let (engines, is_over) = (Arc::clone(&engines), Arc::clone(&is_over));
        tokio::task::spawn_blocking(move || disturb(cluster, &engines, seed, &is_over))
    };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| Client {
            number: seed * CLIENTS + number,
            engines: Arc::clone(&engines),
            chance: Chance {
                seed: seed ^ number << 40,
                drawn: 0,
            },
            keys: 0,
            model: BTreeMap::new(),
            again: Arc::clone(&again),
        })
        .map(|client| tokio::spawn(client.work()))
        .collect();
    let mut done = Vec::new();
    for client in clients {
        done.push(client.await.unwrap());
    }
    is_over.store(true, Ordering::Relaxed);
    let mut cluster = disturbing.await.unwrap();
    cluster.log.calm_down();
    cluster.failures.set(0);
    cluster.lead_all((seed % 3) as usize);
    cluster.check_equal().await;
    for pod in &cluster.pods {
        for client in &done {
            client.check(&pod.engine).await;
        }
    }
    println!(
        "seed {seed}: sent again {} times",
        again.load(Ordering::Relaxed)
    );
}

/// By hand: `CUCKOOD_CLUSTER_SEEDS=200 cargo test --release --lib
/// every_change_counts_once -- --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_counts_once_whatever_happens_to_pods_and_log() {
    let seeds = std::env::var("CUCKOOD_CLUSTER_SEEDS");
    let seeds = seeds.map_or(6, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        every_change_counts_once(seed).await;
    }
}
