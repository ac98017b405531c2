//! Whether all pods have what was acknowledged, and the same.

use crate::clients::{Owner, SHARED, Sharer};
use crate::cluster::COUNT;
use crate::errand::{Ask, World};
use serde_json::Value;
use std::time::{Duration, Instant};

/// Pods are equal within so long of the last change. What a leader does by itself
/// may follow it.
const EQUAL_WITHIN: Duration = Duration::from_secs(40);

/// Checks everything. Nobody changes anything meanwhile. Returns what is wrong.
pub(crate) fn check(world: &World, owners: &[&Owner], sharers: &[&Sharer]) -> Vec<String> {
    let mut wrong = Vec::new();
    for owner in owners {
        wrong.extend((0..COUNT).filter_map(|pod| owner.verify(world, pod)));
        let positions = [owner.position.as_str()];
        wrong.extend(are_equal(world, &owner.filter, &positions, owner.items()));
    }
    let positions: Vec<&str> = sharers.iter().map(|it| it.position.as_str()).collect();
    let added = sharers.iter().map(|it| it.added).sum();
    wrong.extend(are_equal(world, SHARED, &positions, added));
    for sharer in sharers {
        wrong.extend((0..COUNT).filter_map(|pod| are_there(world, pod, sharer)));
    }
    wrong
}

/// Whether all pods have the same filter with so many items; says so otherwise.
fn are_equal(world: &World, filter: &str, positions: &[&str], items: u64) -> Option<String> {
    let started = Instant::now();
    loop {
        let states: Vec<Option<State>> = (0..COUNT)
            .map(|pod| state(world, pod, filter, positions))
            .collect();
        let [first, others @ ..] = states.as_slice() else {
            unreachable!()
        };
        let is_right = first.as_ref().is_some_and(|it| it.items == items);
        if is_right && others.iter().all(|it| it == first) {
            return None;
        }
        if started.elapsed() > EQUAL_WITHIN {
            return Some(format!(
                "{filter} has {items} items at {positions:?}: {states:#?}"
            ));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What one pod has of a filter.
#[derive(Debug, PartialEq)]
struct State {
    items: u64,
    /// Says whether all of it is equal: items, slots and copies.
    dump: (Option<String>, String),
    description: Value,
}

fn state(world: &World, pod: usize, filter: &str, positions: &[&str]) -> Option<State> {
    let headers: Vec<(&str, &str)> = positions
        .iter()
        .map(|it| ("cuckood-min-position", *it))
        .collect();
    let described = world.ask_patiently(pod, Ask::get(filter).with(&headers))?;
    let mut description: Value = serde_json::from_str(&described.text).ok()?;
    // What each pod does for itself.
    for own in ["disk_bytes", "memory_bytes"] {
        description.as_object_mut()?.remove(own);
    }
    let dump = format!("{filter}/dump");
    let asked = Ask {
        kind: "application/octet-stream",
        ..Ask::get(&dump)
    };
    let dump = world.ask_patiently(pod, asked)?;
    Some(State {
        items: description["items"].as_u64()?,
        dump: (dump.etag, dump.text),
        description,
    })
}

/// Whether a pod has every item that a client added; says so otherwise.
fn are_there(world: &World, pod: usize, sharer: &Sharer) -> Option<String> {
    let items: Vec<String> = (0..sharer.added)
        .map(|it| format!("{}-{it}", sharer.number))
        .collect();
    let path = format!("{SHARED}/exists");
    items.chunks(10_000).find_map(|items| {
        let answer = world.ask_patiently(pod, Ask::lines(&path, &items.join("\n")));
        let is_right = answer.as_ref().is_some_and(|it| {
            it.status == 200
                && it.text.lines().count() == items.len()
                && it.text.lines().all(|it| it == "true")
        });
        let number = sharer.number;
        (!is_right).then(|| format!("pod {pod} lacks items of client {number}: {answer:?}"))
    })
}
