//! A rolling upgrade: pods are stopped and started again one after the other, under
//! load.

use crate::cluster::{COUNT, Cluster};
use crate::hosts::{Place, place};
use crate::load::during_load;
use crate::nats_server;
use crate::random::{Random, from_environment, seed};
use std::time::Duration;

/// How often each pod is restarted.
const TIMES: u64 = 1;

#[test]
fn pods_are_restarted_one_after_the_other_and_no_change_is_lost() {
    if !nats_server::is_there() {
        return;
    }
    let place = place("upgrade::pods_are_restarted_one_after_the_other_and_no_change_is_lost");
    if place == Place::Passed {
        return;
    }
    let seed = seed("CUCKOOD_UPGRADE_SEED");
    let times = from_environment("CUCKOOD_UPGRADE_TIMES").unwrap_or(TIMES);
    println!("CUCKOOD_UPGRADE_SEED={seed} CUCKOOD_UPGRADE_TIMES={times}");
    let mut cluster = Cluster::start(place);
    during_load(&mut cluster, &mut Random(seed), |_, cluster, load| {
        load.world.pauses.take();
        let mut stopping = Duration::ZERO;
        for _ in 0..times {
            for pod in 0..COUNT {
                stopping = stopping.max(cluster.pods[pod].terminate());
                cluster.start_pod(pod);
                // As readiness gates do.
                cluster.wait_until_ready();
                load.go_on(cluster);
            }
        }
        println!("{:?}; a stop took {stopping:?}", load.world.pauses.take());
        load.check(cluster);
    });
}
