//! A disk that is full and stays so.

use crate::clients::SHARED;
use crate::cluster::Cluster;
use crate::errand::Ask;
use crate::hosts::{Place, place};
use crate::load::during_load;
use crate::nats_server;
use crate::random::{Random, seed};
use std::time::{Duration, Instant};

#[test]
fn a_pod_whose_disk_is_full_leaves_its_lanes_to_others() {
    if !nats_server::is_there() {
        return;
    }
    let place = place("full::a_pod_whose_disk_is_full_leaves_its_lanes_to_others");
    if place == Place::Passed {
        return;
    }
    let mut cluster = Cluster::start(place);
    if !cluster.pods.iter().all(crate::node::Node::can_forget) {
        return;
    }
    let mut random = Random(seed("CUCKOOD_FULL_SEED"));
    during_load(&mut cluster, &mut random, |_, cluster, load| {
        load.world.pauses.take();
        let pod = cluster.busiest_pod().unwrap();
        cluster.pods[pod].set_full(true);
        // It can't have the log asked, and leaves that to whoever leads instead.
        let path = format!("{SHARED}/exists?item=0-0");
        let strong = [("cuckood-consistency", "strong")];
        let mut answers = [0; 2];
        while answers[0] < 20 {
            if let Some(answer) = load.world.ask(pod, Ask::get(&path).with(&strong)) {
                match answer.status {
                    200 => answers[0] += 1,
                    503 => answers[1] += 1,
                    _ => panic!("{answer:?}"),
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        println!(
            "{} strong questions answered, {} to be asked again",
            answers[0], answers[1]
        );
        // Nobody makes room.
        load.go_on(cluster);
        println!("{:?}", load.world.pauses.take());
        // Nor does anybody hand it a lane for leading the fewest.
        let deposed = Instant::now();
        while deposed.elapsed() < Duration::from_secs(8) {
            let led = cluster.led().unwrap();
            assert_eq!(led[pod], 0, "{led:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        cluster.pods[pod].set_full(false);
        cluster.wait_until_ready();
        load.check(cluster);
    });
}
