//! Clients that only ask.

use crate::clients::SHARED;
use crate::errand::{Ask, World};
use crate::random::Random;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often they ask.
const EVERY: Duration = Duration::from_millis(10);

/// Asks any pod, the next one where one does not answer, all the time.
pub(crate) fn ask_any(world: &World, mut random: Random) {
    let path = format!("{SHARED}/exists?item=0-0");
    while !world.is_over() {
        if let Ok(answer) = world.question(&mut random, Ask::get(&path))
            && ![200, 404].contains(&answer.status)
        {
            world.accuse(format!("{path}: {answer:?}"));
        }
        std::thread::sleep(EVERY);
    }
}

/// Asks one pod for a number that only grows: as long as it lives, it never goes
/// back.
pub(crate) fn watch(world: &World, pod: usize, life: &AtomicU64) {
    let (mut of_life, mut most) = (0, 0);
    while !world.is_over() {
        let before = life.load(Ordering::SeqCst);
        if let Some(answer) = world.ask(pod, Ask::get(SHARED))
            && answer.status == 200
            && life.load(Ordering::SeqCst) == before
            && let Ok(described) = serde_json::from_str::<Value>(&answer.text)
        {
            if of_life != before {
                (of_life, most) = (before, 0);
            }
            let items = described["items"].as_u64().unwrap();
            if items < most {
                world.accuse(format!("pod {pod} had {most} items, and then {items}"));
            }
            most = items;
        }
        std::thread::sleep(EVERY);
    }
}
