//! The power goes in the middle of a load, and the disk keeps what was forced
//! to it: of the rest nothing, or anything.
//!
//! `CUCKOOD_POWER_CYCLES` sets how often (default 6), `CUCKOOD_POWER_SEED`
//! repeats the choices of an earlier run.

use crate::disk::Cut;
use crate::kill::{TIGHT, check};
use crate::load::Load;
use crate::mount::Mounted;
use crate::ports::free_port;
use crate::random::{Random, from_environment, seed};
use crate::required::missing;
use crate::server::Server;
use crate::writers::Extent;
use serde_json::json;
use std::thread;
use std::time::{Duration, Instant};

/// A disk of ours, or why there is none.
pub(crate) fn mounted() -> Option<Mounted> {
    match Mounted::new() {
        Ok(mounted) => Some(mounted),
        Err(error) => {
            let why = format!("a disk of our own can't be mounted through /dev/fuse: {error}");
            missing("fuse", why);
            None
        }
    }
}

#[test]
fn what_was_acknowledged_survives_a_disk_that_forgets_what_was_not_forced_to_it() {
    let Some(disk) = mounted() else { return };
    let cycles = from_environment("CUCKOOD_POWER_CYCLES").unwrap_or(6);
    let seed = seed("CUCKOOD_POWER_SEED");
    println!("CUCKOOD_POWER_SEED={seed} CUCKOOD_POWER_CYCLES={cycles}");
    let (mut random, started) = (Random(seed), Instant::now());
    let data_dir = disk.path().join("data");

    let mut server = Server::start(&data_dir, TIGHT);
    let mut load = Load::new(&server, &mut random);
    let (mut bytes_lost, mut names_lost, mut interruptions) = (0, 0, 0);
    let mut marked = 0;
    for cycle in 1..=cycles {
        // Up to where changes were forced is noted every second.
        let pause = Duration::from_millis(200 + random.below(2000));
        let (client, base) = (server.client().clone(), server.url(""));
        load.during(&client, &base, |life| {
            thread::sleep(pause);
            life.end();
            server.end();
        });
        // It goes again while the server recovers, at times.
        loop {
            let cut = match random.below(2) {
                0 => Cut::Nothing,
                _ => Cut::Some,
            };
            let lost = disk.cut(cut, &mut random);
            bytes_lost += lost.bytes;
            names_lost += lost.names;
            marked += u64::from(data_dir.join("FORCED").is_file());
            if random.below(2) == 0 {
                break;
            }
            let interrupted = Server::spawn(free_port(), &data_dir, TIGHT);
            thread::sleep(Duration::from_millis(random.below(200)));
            interrupted.kill();
            interruptions += 1;
        }
        server = Server::start(&data_dir, TIGHT);
        let extent = match cycle % 25 {
            0 => Extent::All,
            _ => Extent::Sample,
        };
        load.verify(&server, extent);
        if extent == Extent::All {
            println!("cycle {cycle}: {}", load.figures());
        }
    }
    load.verify_all(&server);
    server.stop();
    check(&data_dir);
    assert!(bytes_lost > 0, "nothing was lost: that tests nothing");
    assert!(marked > 0, "no start had to prove that nothing was lost");
    let mut figures = load.figures();
    figures["test"] = json!("power");
    figures["seed"] = json!(seed);
    figures["cycles"] = json!(cycles);
    figures["starts_that_knew_what_was_forced"] = json!(marked);
    figures["recoveries_interrupted"] = json!(interruptions);
    figures["unforced_bytes_lost"] = json!(bytes_lost);
    figures["unforced_names_lost"] = json!(names_lost);
    figures["times_forced"] = json!(disk.forced());
    figures["seconds"] = json!(started.elapsed().as_secs());
    println!("{figures}");
}

/// That the disk does forget: where nothing is forced to it, items are lost
/// that were acknowledged. What is left makes sense all the same.
#[test]
fn without_forced_writes_the_same_disk_loses_what_was_acknowledged() {
    let Some(disk) = mounted() else { return };
    let data_dir = disk.path().join("data");
    let flags = &["--wal-sync=never"];
    let mut server = Server::start(&data_dir, flags);
    server.create_filter("f", &json!({"capacity": 10_000}));
    server.stop();
    server = Server::start(&data_dir, flags);
    let names: Vec<String> = (0..1000).map(|item| format!("item {item}")).collect();
    server.post_lines("/filters/f/items", &names).unwrap();
    assert_eq!(server.items("f"), 1000);
    server.kill();
    disk.cut(Cut::Nothing, &mut Random(1));

    let server = Server::start(&data_dir, flags);
    assert_eq!(server.items("f"), 0);
    server.stop();
    check(&data_dir);
}
