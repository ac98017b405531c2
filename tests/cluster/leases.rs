//! Leases are taken, renewed, lost and given back.

use crate::nats_server;
use crate::support::Cluster;
use cuckood::replication::jetstream::{Holder, Leases};
use cuckood::replication::{Renewal, Writer};
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(1);

fn leases(cluster: &Cluster, pod: u8) -> Leases {
    let connection = cluster.connection().unwrap();
    let holder = Holder::new(Writer([pod; 16]), format!("http://pod-{pod}:8080"));
    let leases = Leases::new(&connection, cluster.founding.clone(), holder, TTL);
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
