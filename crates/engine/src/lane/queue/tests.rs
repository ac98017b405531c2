use super::*;
use crate::caller::{Caller, SERVER};
use crate::lane::command::ItemChange;
use crate::lane::units::{UNITS_ALONE, UNITS_PER_COMMAND};
use crate::metrics::Metrics;

#[test]
fn a_command_that_is_put_back_has_waited_once() {
    let metrics = Metrics::new().unwrap();
    let depth = metrics.lane_queue_depth.with_label_values(&["0"]);
    let waits = metrics.lane_queue_wait_seconds.clone();
    let queue = LaneQueue::new(depth, waits.clone());
    let command = Command::Items(ItemChange::Delete, Vec::new().into(), 0);
    let (request, _reply) = Request::new(&SERVER, command, None, None);
    queue.push(request).unwrap();
    for _ in 0..3 {
        let Next::Command(turn, request) = queue.next(|_| true, Duration::ZERO) else {
            panic!("it waits");
        };
        queue.put_back(&turn, *request);
    }
    assert_eq!(waits.get_sample_count(), 1);
}

#[test]
fn commands_that_were_withdrawn_are_looked_for_only_after_one_was() {
    let metrics = Metrics::new().unwrap();
    let depth = metrics.lane_queue_depth.with_label_values(&["0"]);
    let queue = LaneQueue::new(depth.clone(), metrics.lane_queue_wait_seconds.clone());
    let push = || {
        let command = Command::Items(ItemChange::Delete, Vec::new().into(), 0);
        let (request, reply) = Request::new(&SERVER, command, None, None);
        let progress = request.progress.clone();
        queue.push(request).unwrap();
        (progress, reply)
    };
    let waiting = [push(), push(), push()];
    assert!(waiting[1].0.withdraw());
    // Whoever withdraws it says so afterwards.
    assert!(!queue.drop_withdrawn());
    queue.mark_withdrawn();
    assert!(queue.drop_withdrawn() && !queue.drop_withdrawn());
    assert_eq!(depth.get(), 2);
    queue.mark_withdrawn();
    assert!(!queue.drop_withdrawn());
}

#[test]
fn what_a_lane_is_woken_for_comes_before_its_next_command() {
    let metrics = Metrics::new().unwrap();
    let depth = metrics.lane_queue_depth.with_label_values(&["0"]);
    let queue = LaneQueue::new(depth, metrics.lane_queue_wait_seconds.clone());
    let command = Command::Items(ItemChange::Delete, Vec::new().into(), 0);
    let (request, _reply) = Request::new(&SERVER, command, None, None);
    queue.push(request).unwrap();
    queue.wake();
    // Also if it takes more than one turn to hear of it.
    for _ in 0..2 {
        assert!(matches!(
            queue.next(|_| true, Duration::from_secs(60)),
            Next::Nothing
        ));
    }
    queue.clear_wake();
    assert!(matches!(
        queue.next(|_| true, Duration::ZERO),
        Next::Command(..)
    ));
}

#[test]
fn a_key_whose_commands_have_commits_of_their_own_has_one_before_another_key() {
    let metrics = Metrics::new().unwrap();
    let depth = metrics.lane_queue_depth.with_label_values(&["0"]);
    let queue = LaneQueue::new(depth, metrics.lane_queue_wait_seconds.clone());
    let mut replies = Vec::new();
    let mut push = |key: &str, command: Command| {
        let caller = Caller {
            key: Some(key.into()),
            ..Caller::default()
        };
        let (request, reply) = Request::new(&caller, command, None, None);
        queue.push(request).unwrap();
        replies.push(reply);
    };
    (0..64).for_each(|_| push("many", Command::Remove));
    let mut came_before = Vec::new();
    for _ in 0..10 {
        push(
            "one",
            Command::Items(ItemChange::Delete, Vec::new().into(), 0),
        );
        let mut alone = 0;
        loop {
            let Next::Command(turn, request) = queue.next(|_| true, Duration::ZERO) else {
                panic!("they wait");
            };
            if !matches!(request.command, Command::Remove) {
                queue.charge(&turn, UNITS_PER_COMMAND);
                break;
            }
            queue.charge(&turn, UNITS_ALONE);
            alone += 1;
        }
        came_before.push(alone);
    }
    assert!(came_before.iter().all(|&it| it <= 1), "{came_before:?}");
}
