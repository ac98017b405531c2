//! Rounds of faults.
//!
//! `CUCKOOD_CHAOS_ROUNDS` sets how many, `CUCKOOD_CHAOS_SEED` repeats the choices of
//! an earlier run, `CUCKOOD_CHAOS_ONLY` has only those faults whose name has these
//! words, such as `1 pod` or `paused`. `CUCKOOD_CHAOS_LOGS` names a directory in which logs stay,
//! `CUCKOOD_CHAOS_HOLD` how many seconds the processes stay once something is wrong,
//! `CUCKOOD_CHAOS_PROGRAM` another program than the one that was built.

use crate::cluster::Cluster;
use crate::faults::{Fault, Kind};
use crate::hosts::{Place, place};
use crate::load::during_load;
use crate::nats_server;
use crate::pauses::Table;
use crate::random::{Random, from_environment, seed};
use std::sync::atomic::Ordering;

/// Rounds where nobody says how many.
const FEW: u64 = 4;

#[test]
fn nothing_acknowledged_is_lost_whatever_fails() {
    if !nats_server::is_there() {
        return;
    }
    let place = place("rounds::nothing_acknowledged_is_lost_whatever_fails");
    if place == Place::Passed {
        return;
    }
    let rounds = from_environment("CUCKOOD_CHAOS_ROUNDS").unwrap_or(FEW);
    let seed = seed("CUCKOOD_CHAOS_SEED");
    println!("CUCKOOD_CHAOS_SEED={seed} CUCKOOD_CHAOS_ROUNDS={rounds}");
    let mut random = Random(seed);
    let mut cluster = Cluster::start(place);
    let only = std::env::var("CUCKOOD_CHAOS_ONLY").ok();
    let only = only.as_deref();
    let mut deck = Vec::new();
    let mut table = Table::default();
    during_load(&mut cluster, &mut random, |random, cluster, load| {
        load.world.pauses.take();
        for round in 1..=rounds {
            // Each kind once, then all of them again.
            if deck.is_empty() {
                deck = Kind::all(cluster);
                deck.retain(|kind| only.is_none_or(|it| kind.to_string().contains(it)));
            }
            let kind = deck.swap_remove(random.below(deck.len() as u64) as usize);
            let fault = Fault::new(kind, cluster, random);
            println!("round {round}: {fault}");
            fault.begin(cluster, random);
            load.wait(cluster, |_, waited| waited >= fault.lasts);
            fault.end(cluster);
            load.go_on(cluster);
            let taken = load.world.pauses.take();
            println!("round {round}: {taken:?}");
            table.add(&kind.to_string(), fault.lasts, taken);
            cluster.wait_until_ready();
            load.check(cluster);
            load.world.pauses.take();
        }
        let own = load.world.own.load(Ordering::Relaxed);
        println!("{own} questions for own changes, by position or strong, on any pod");
    });
    println!("{table}");
}
