//! Keeps the lease of a lane: does what a [`LeaseKeeper`] says.
//!
//! A pod that leads few lanes takes a free lease sooner than one that leads many,
//! and one that leads more than another hands lanes over to it, one at a time. So
//! lanes spread over the pods. All of them watch the leases: who leads is known
//! everywhere as soon as it is written.

use super::error::Result;
use super::leases::{Holder, Lease, Leases};
use crate::leaders::{Leader, Leaders};
use crate::lease::{Duty, KeptLane, LeaseKeeper, Renewal};
use crate::replica::Event;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

/// How often a lane looks whether the log is still the same.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How often the pod compares itself with others, to hand over a lane or none.
const COMPARE_EVERY: Duration = Duration::from_secs(1);

/// How long changes that are under way have before a lane is handed over. Those
/// that come meanwhile wait for the other pod.
const RUN_DOWN: Duration = Duration::from_millis(20);

/// How long it is before leases are watched again that could not be.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// What keeps the leases of a pod.
pub struct LeaseKeeping {
    leases: Leases,
    /// How long a lease lives.
    ttl: Duration,
    /// Leases that the pod has.
    held: AtomicUsize,
    leaders: Arc<Leaders>,
    /// The other pods that may lead.
    others: Mutex<Vec<Holder>>,
    /// When the pod compared itself with them last.
    compared: Mutex<Option<Instant>>,
    /// By lane: something was said of its lease.
    changed: Vec<Notify>,
}

impl LeaseKeeping {
    /// Of a pod that has no lease. Leases live for `ttl`, as `leases` takes them.
    pub fn new(leases: Leases, ttl: Duration, leaders: Arc<Leaders>) -> Arc<LeaseKeeping> {
        Arc::new(LeaseKeeping {
            leases,
            ttl,
            held: AtomicUsize::new(0),
            changed: (0..leaders.lanes()).map(|_| Notify::new()).collect(),
            leaders,
            others: Mutex::default(),
            compared: Mutex::default(),
        })
    }

    /// Sets which other pods are there and may lead lanes.
    pub fn set_others(&self, others: Vec<Holder>) {
        *self.others.lock() = others;
    }

    /// Hears what is said of leases until it is told to stop.
    pub async fn watch(&self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let watching = async {
                if let Ok(mut watch) = self.leases.watch().await {
                    while let Some((lane, holder)) = watch.next().await {
                        self.heard(lane, holder);
                    }
                }
                // Meanwhile leases are looked at every now and then.
                sleep(WATCH_AGAIN).await;
            };
            tokio::select! {
                () = watching => {}
                _ = stop.changed() => return,
            }
        }
    }

    fn heard(&self, lane: u32, holder: Option<Holder>) {
        let is_own = holder.as_ref().is_some_and(|it| self.leases.is_own(it));
        // What is the own is known better here.
        if !is_own && self.leaders.of(lane) != Some(Leader::Own) {
            let leader = holder.map(|it| Leader::At(it.address.into()));
            self.leaders.set(lane, leader);
        }
        if let Some(changed) = self.changed.get(lane as usize) {
            changed.notify_one();
        }
    }

    /// Keeps the lease of a lane, once that has caught up, until it is told to stop, then
    /// gives it to another pod, or back. Tells the lane whenever it is held or lost, and now and then to
    /// look at the log.
    pub async fn keep(&self, lane: u32, kept: impl KeptLane, mut stop: watch::Receiver<bool>) {
        // Whoever leads before keeps all changes waiting until all is read.
        tokio::select! {
            () = kept.caught_up() => {}
            _ = stop.changed() => {}
        }
        let mut lease = KeptLease {
            lane,
            keeper: LeaseKeeper::new(self.ttl, Instant::now()),
            told: None,
            heard: Instant::now(),
            passed_on: None,
        };
        let (mut looked, mut connects) = (Instant::now(), self.leases.connects());
        while !*stop.borrow() {
            let rest = match kept.may_lead() {
                true => self.work(&mut lease).await,
                false => self.leave_alone(&mut lease, &kept).await,
            };
            self.tell(&mut lease, &kept);
            // It may have become another while nobody was connected.
            let now_connects = self.leases.connects();
            if looked.elapsed() >= LOOK_EVERY || now_connects != connects {
                (looked, connects) = (Instant::now(), now_connects);
                kept.tell(Event::Recheck);
            }
            if let Some(to) = self.who_should_lead(&lease) {
                self.hand_over(&mut lease, &kept, &to).await;
            }
            tokio::select! {
                () = sleep(rest) => {}
                () = self.changed(lane) => lease.keeper.look_now(Instant::now()),
                // What holds the sender has gone if there is none: that is a stop.
                changed = stop.changed() => if changed.is_err() { break },
            }
        }
        self.let_go_to_others(&mut lease, &kept).await;
    }

    async fn changed(&self, lane: u32) {
        match self.changed.get(lane as usize) {
            Some(changed) => changed.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Does what is to be done now. Returns how long there is nothing more.
    async fn work(&self, lease: &mut KeptLease) -> Duration {
        let now = Instant::now();
        match lease.keeper.duty(now) {
            Duty::Take => {
                let taken = timeout(self.ttl, self.take(lease.lane, &mut lease.heard)).await;
                // Nobody said whose it is, in words or by silence: whoever had it has
                // it no more.
                if lease.heard.elapsed() > self.ttl {
                    self.leaders.set(lease.lane, None);
                }
                lease.keeper.asked(now, taken.unwrap_or_default());
            }
            Duty::Renew { revision } => {
                let renewal = self.leases.renew(lease.lane, revision);
                let renewal = timeout(self.ttl / 4, renewal).await;
                lease
                    .keeper
                    .renewed(now, renewal.unwrap_or(Renewal::Unknown));
            }
            // It may run out before it is renewed.
            Duty::Rest { until } => return (until - now).min(self.ttl / 8),
        }
        Duration::ZERO
    }

    /// A lane that this pod can't lead is another's; who that is has to be known.
    async fn leave_alone(&self, lease: &mut KeptLease, kept: &impl KeptLane) -> Duration {
        self.let_go_to_others(lease, kept).await;
        // It is noted. Where nobody says, it is asked again.
        let looked = timeout(self.ttl / 4, self.look(lease.lane, &mut lease.heard)).await;
        if let Ok(Ok(Some(held))) = looked
            && self.leases.is_own(&held.holder)
        {
            // Whoever handed it over did not know; until it ran out, nobody would lead. If
            // that one can't lead either, it does not come and go between the two.
            let is_back = lease.passed_on.is_some_and(|it| it.elapsed() < self.ttl);
            let to = self.leads_fewest().filter(|_| !is_back).map(|(to, _)| to);
            lease.passed_on = Some(Instant::now());
            self.give(lease.lane, held.revision, to.as_ref()).await;
        }
        self.ttl / 4
    }

    /// The pod that leads so few lanes that this one should give it one, now.
    fn who_should_lead(&self, lease: &KeptLease) -> Option<Holder> {
        lease.told?;
        let mut compared = self.compared.lock();
        if compared.is_some_and(|it| it.elapsed() < COMPARE_EVERY) {
            return None;
        }
        *compared = Some(Instant::now());
        let (to, leads) = self.leads_fewest()?;
        // With a difference of one, the other pod would have as much reason.
        (self.held.load(Ordering::Relaxed) >= leads + 2).then_some(to)
    }

    /// The other pod that leads the fewest lanes, and how many.
    fn leads_fewest(&self) -> Option<(Holder, usize)> {
        let leads = |it: &Holder| {
            let its = Some(Leader::At(it.address.as_str().into()));
            let lanes = 0..self.leaders.lanes() as u32;
            lanes.filter(|&lane| self.leaders.of(lane) == its).count()
        };
        let others = self.others.lock();
        let counted = others.iter().map(|it| (it.clone(), leads(it)));
        counted.min_by_key(|(_, leads)| *leads)
    }

    async fn hand_over(&self, lease: &mut KeptLease, kept: &impl KeptLane, to: &Holder) {
        // Changes that come from here on wait until somebody leads.
        self.leaders.set(lease.lane, None);
        sleep(RUN_DOWN).await;
        tracing::info!(
            lane = lease.lane,
            to = to.address,
            "the lane is handed over"
        );
        self.let_go(lease, kept, Some(to)).await;
    }

    async fn let_go_to_others(&self, lease: &mut KeptLease, kept: &impl KeptLane) {
        let to = self.leads_fewest().map(|(to, _)| to);
        self.let_go(lease, kept, to.as_ref()).await;
    }

    /// Gives a lease up, if it is held: to another pod, or to whoever takes it.
    async fn let_go(&self, lease: &mut KeptLease, kept: &impl KeptLane, to: Option<&Holder>) {
        let given_up = lease.keeper.give_up(Instant::now());
        self.tell(lease, kept);
        if let Some(revision) = given_up {
            self.give(lease.lane, revision, to).await;
        }
    }

    /// Gives a lease to another pod, or to whoever takes it.
    async fn give(&self, lane: u32, revision: u64, to: Option<&Holder>) {
        // It runs out by itself if nothing comes of this.
        let given = async {
            match to {
                Some(to) => {
                    // Changes may go there and wait. And the next lane is perhaps for
                    // another pod.
                    let leader = Leader::At(to.address.as_str().into());
                    self.leaders.set(lane, Some(leader));
                    self.leases.hand_over(lane, revision, to).await;
                }
                None => drop(self.leases.give_back(lane, revision).await),
            }
        };
        let _ = timeout(self.ttl, given).await;
    }

    /// Takes a lease if it is free and nobody with fewer leases does. Notes who has
    /// it otherwise.
    async fn take(&self, lane: u32, heard: &mut Instant) -> Option<u64> {
        match self.look(lane, heard).await.ok()? {
            Some(it) if !self.leases.is_own(&it.holder) => return None,
            // It was handed over.
            Some(_) => {}
            None => {
                let held = self.held.load(Ordering::Relaxed) as u32;
                sleep((self.ttl / 8 * held).min(self.ttl / 2)).await;
            }
        }
        self.leases.take(lane).await.ok().flatten()
    }

    /// Whose a lease is, which is noted; an error: nobody says.
    async fn look(&self, lane: u32, heard: &mut Instant) -> Result<Option<Lease>> {
        let held = self.leases.held(lane).await?;
        *heard = Instant::now();
        let others = held.as_ref().map(|it| &it.holder);
        let others = others.filter(|it| !self.leases.is_own(it));
        let leader = others.map(|it| Leader::At(it.address.as_str().into()));
        self.leaders.set(lane, leader);
        Ok(held)
    }

    fn tell(&self, lease: &mut KeptLease, kept: &impl KeptLane) {
        let held = lease.keeper.held(Instant::now());
        if held == lease.told {
            return;
        }
        match (lease.told.is_some(), held.is_some()) {
            (false, true) => drop(self.held.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.held.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
        let leader = held.map(|_| Leader::Own);
        self.leaders.set(lease.lane, leader);
        lease.told = held;
        kept.tell(Event::Lease(held));
    }
}

/// The lease of a lane, as it is kept.
struct KeptLease {
    lane: u32,
    keeper: LeaseKeeper,
    /// What the lane was told last.
    told: Option<u64>,
    /// When somebody said last whose it is.
    heard: Instant,
    /// When it was passed on last, since this pod could not lead.
    passed_on: Option<Instant>,
}
