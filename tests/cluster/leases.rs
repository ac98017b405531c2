//! Leases are taken, renewed, lost and given back.

use crate::nats_server;
use crate::support::Cluster;
use cuckood::cluster::jetstream::{Holder, LeaseKeeping, Leases};
use cuckood::cluster::{Event, KeptLane, Leaders, Renewal, Writer};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

const TTL: Duration = Duration::from_secs(1);

fn leases(cluster: &Cluster, pod: u8) -> Leases {
    let connection = cluster.connection().unwrap();
    let holder = Holder::new(Writer([pod; 16]), format!("http://pod-{pod}:8080"));
    let (founding, seals) = (cluster.founding.clone(), cluster.seals());
    let leases = Leases::new(&connection, founding, &seals, holder, TTL);
    cluster.runtime.block_on(leases).unwrap()
}

#[test]
fn a_lease_is_one_pods_until_it_is_not_renewed_or_given_back() {
    if !nats_server::is_there() {
        return;
    }
    let cluster = Cluster::found(1);
    let (first, second) = (leases(&cluster, 1), leases(&cluster, 2));
    cluster.runtime.block_on(async {
        let mut revision = first.take(0).await.unwrap().unwrap();
        assert_eq!(second.take(0).await.unwrap(), None);
        let held = second.held(0).await.unwrap().unwrap();
        assert_eq!(held.revision, revision);
        assert_eq!(held.holder.address, "http://pod-1:8080");
        // Renewing keeps the lifetime: it is held for longer than one, and runs
        // out after the last renewal.
        for _ in 0..6 {
            tokio::time::sleep(TTL / 3).await;
            let Renewal::Held { revision: next } = first.renew(0, revision).await else {
                panic!("it was lost");
            };
            assert!(next > revision);
            revision = next;
        }
        assert_eq!(second.take(0).await.unwrap(), None);
        // A renewal whose answer was lost is found to be the own.
        let before = revision - 1;
        assert_eq!(first.renew(0, before).await, Renewal::Held { revision });
        let ended = Instant::now();
        let taken = loop {
            if let Some(taken) = second.take(0).await.unwrap() {
                break taken;
            }
            assert!(ended.elapsed() < TTL * 5, "it never ran out");
            tokio::time::sleep(TTL / 10).await;
        };
        assert!(taken > revision);
        assert_eq!(first.renew(0, revision).await, Renewal::Lost);
        // Nor is a taking whose answer was lost.
        let again = second.take(0).await.unwrap().unwrap();
        assert!(again > taken);
        second.give_back(0, again).await.unwrap();
        assert_eq!(first.held(0).await.unwrap(), None);
        assert!(first.take(0).await.unwrap().unwrap() > again);
        // Lanes have leases of their own.
        assert!(second.take(1).await.unwrap().is_some());
    });
}

/// A lane that has caught up when it is said.
struct Late(watch::Receiver<bool>);

impl KeptLane for Late {
    fn may_lead(&self) -> bool {
        true
    }

    async fn caught_up(&self) {
        let _ = self.0.clone().wait_for(|it| *it).await;
    }

    fn tell(&self, _: Event) {}
}

#[test]
fn a_lane_that_has_not_caught_up_takes_no_lease_be_it_free_or_handed_over() {
    if !nats_server::is_there() {
        return;
    }
    let cluster = Cluster::found(1);
    let (asking, other) = (leases(&cluster, 1), leases(&cluster, 2));
    let keeping = LeaseKeeping::new(leases(&cluster, 1), TTL, Arc::new(Leaders::of_none(2)));
    cluster.runtime.block_on(async {
        let (catches_up, late) = watch::channel(false);
        let (stop, stopped) = watch::channel(false);
        let kept = Arc::clone(&keeping);
        let task = tokio::spawn(async move { kept.keep(0, Late(late), stopped).await });
        tokio::time::sleep(TTL * 2).await;
        assert_eq!(asking.held(0).await.unwrap(), None);
        let revision = other.take(0).await.unwrap().unwrap();
        let to = Holder::new(Writer([1; 16]), "http://pod-1:8080".to_owned());
        other.hand_over(0, revision, &to).await;
        // Nobody renews it.
        let ended = Instant::now();
        while asking.held(0).await.unwrap().is_some() {
            assert!(ended.elapsed() < TTL * 5, "it is kept");
            tokio::time::sleep(TTL / 10).await;
        }
        catches_up.send_replace(true);
        let since = Instant::now();
        while asking
            .held(0)
            .await
            .unwrap()
            .is_none_or(|it| it.holder != to)
        {
            assert!(since.elapsed() < TTL * 5, "it is not taken");
            tokio::time::sleep(TTL / 10).await;
        }
        stop.send_replace(true);
        task.await.unwrap();
        assert_eq!(asking.held(0).await.unwrap(), None);
    });
}

/// A lane that this pod can't lead.
struct Unable;

impl KeptLane for Unable {
    fn may_lead(&self) -> bool {
        false
    }

    async fn caught_up(&self) {}

    fn tell(&self, _: Event) {}
}

#[test]
fn a_lane_handed_to_a_pod_that_can_not_lead_it_goes_to_another_before_its_lease_runs_out() {
    if !nats_server::is_there() {
        return;
    }
    let cluster = Cluster::found(1);
    let other = leases(&cluster, 2);
    let holder = |pod: u8| Holder::new(Writer([pod; 16]), format!("http://pod-{pod}:8080"));
    let keeping = LeaseKeeping::new(leases(&cluster, 1), TTL, Arc::new(Leaders::of_none(1)));
    keeping.set_others(vec![holder(3)]);
    cluster.runtime.block_on(async {
        let (stop, stopped) = watch::channel(false);
        let kept = Arc::clone(&keeping);
        let task = tokio::spawn(async move { kept.keep(0, Unable, stopped).await });
        let revision = other.take(0).await.unwrap().unwrap();
        other.hand_over(0, revision, &holder(1)).await;
        loop {
            let held = other.held(0).await.unwrap();
            let held = held.expect("it ran out, and nobody led meanwhile").holder;
            if held == holder(3) {
                break;
            }
            assert_eq!(held, holder(1));
            tokio::time::sleep(TTL / 20).await;
        }
        stop.send_replace(true);
        task.await.unwrap();
    });
}
