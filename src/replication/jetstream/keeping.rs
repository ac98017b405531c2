//! Keeps the lease of a lane: does what a [`LeaseKeeper`] says.
//!
//! A pod that leads few lanes takes a free lease sooner than one that leads many,
//! so that lanes spread over the pods.

use super::leases::Leases;
use crate::replication::leaders::{Leader, Leaders};
use crate::replication::lease::{Duty, LeaseKeeper, Renewal};
use crate::replication::replica::Event;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How often a lane looks whether the log is still the same.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What keeps the leases of a pod.
pub struct LeaseKeeping {
    leases: Leases,
    /// How long a lease lives.
    ttl: Duration,
    /// Leases that the pod has.
    held: AtomicUsize,
    leaders: Arc<Leaders>,
}

impl LeaseKeeping {
    /// Of a pod that has no lease. Leases live for `ttl`, as `leases` takes them.
    pub fn new(leases: Leases, ttl: Duration, leaders: Arc<Leaders>) -> Arc<LeaseKeeping> {
        Arc::new(LeaseKeeping {
            leases,
            ttl,
            held: AtomicUsize::new(0),
            leaders,
        })
    }

    /// Keeps the lease of a lane until it is told to stop, then gives it back.
    /// Tells the lane whenever it is held or lost, and now and then to look at
    /// the log.
    pub async fn keep(&self, lane: u32, tell: impl Fn(Event), mut stop: watch::Receiver<bool>) {
        let mut keeper = LeaseKeeper::new(self.ttl, Instant::now());
        let mut told = None;
        let mut looked = Instant::now();
        let mut heard = Instant::now();
        while !*stop.borrow() {
            let rest = self.work(lane, &mut keeper, &mut heard).await;
            self.tell(lane, &keeper, &mut told, &tell);
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                tell(Event::InDoubt);
            }
            // What holds the sender has gone if there is none: that is a stop.
            if let Ok(Err(_)) = timeout(rest, stop.changed()).await {
                break;
            }
        }
        let given_up = keeper.give_up(Instant::now());
        self.tell(lane, &keeper, &mut told, &tell);
        if let Some(revision) = given_up {
            // It runs out by itself otherwise.
            let _ = timeout(self.ttl, self.leases.give_back(lane, revision)).await;
        }
    }

    /// Does what is to be done now. Returns how long there is nothing more.
    async fn work(&self, lane: u32, keeper: &mut LeaseKeeper, heard: &mut Instant) -> Duration {
        let now = Instant::now();
        match keeper.duty(now) {
            Duty::Take => {
                let taken = timeout(self.ttl, self.take(lane, heard)).await;
                // Nobody said whose it is, in words or by silence: whoever had it has
                // it no more.
                if heard.elapsed() > self.ttl {
                    self.leaders.note(lane, None);
                }
                keeper.asked(now, taken.unwrap_or_default());
            }
            Duty::Renew { revision } => {
                let renewal = timeout(self.ttl / 4, self.leases.renew(lane, revision)).await;
                keeper.renewed(now, renewal.unwrap_or(Renewal::Unknown));
            }
            // It may run out before it is renewed.
            Duty::Rest { until } => return (until - now).min(self.ttl / 8),
        }
        Duration::ZERO
    }

    /// Takes a lease if it is free and nobody with fewer leases does. Notes who has
    /// it otherwise.
    async fn take(&self, lane: u32, heard: &mut Instant) -> Option<u64> {
        if self.is_anothers(lane, heard).await? {
            return None;
        }
        let held = self.held.load(Ordering::Relaxed) as u32;
        if held > 0 {
            sleep((self.ttl / 8 * held).min(self.ttl / 2)).await;
        }
        self.leases.take(lane).await.ok().flatten()
    }

    /// Whether another pod has a lease; `None`: nobody says.
    async fn is_anothers(&self, lane: u32, heard: &mut Instant) -> Option<bool> {
        match self.leases.held(lane).await {
            Ok(lease) => {
                *heard = Instant::now();
                let other = lease.filter(|it| it.holder != *self.leases.holder());
                let is_anothers = other.is_some();
                let leader = other.map(|it| Leader::At(it.holder.address.into()));
                self.leaders.note(lane, leader);
                Some(is_anothers)
            }
            Err(_) => None,
        }
    }

    fn tell(&self, lane: u32, keeper: &LeaseKeeper, told: &mut Option<u64>, tell: &impl Fn(Event)) {
        let held = keeper.held(Instant::now());
        if held == *told {
            return;
        }
        match (told.is_some(), held.is_some()) {
            (false, true) => drop(self.held.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.held.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        let leader = held.map(|_| Leader::Own);
        self.leaders.note(lane, leader);
        *told = held;
        tell(Event::Lease(held));
    }
}
