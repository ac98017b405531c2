use super::*;
use crate::engine::caller::SERVER;
use crate::engine::lane::command::ItemOp;
use crate::metrics::Metrics;
use crate::replication::Event;

#[test]
fn a_command_that_is_put_back_has_waited_once() {
    let metrics = Metrics::new().unwrap();
    let depth = metrics.lane_queue_depth.with_label_values(&["0"]);
    let waits = metrics.lane_queue_wait_seconds.clone();
    let queue = LaneQueue::new(depth, waits.clone());
    let command = Command::Items(ItemOp::Exists(None), Vec::new().into(), 0);
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
        let command = Command::Items(ItemOp::Exists(None), Vec::new().into(), 0);
        let (request, reply) = Request::new(&SERVER, command, None, None);
        let progress = request.progress.clone();
        queue.push(request).unwrap();
        (progress, reply)
    };
    let waiting = [push(), push(), push()];
    assert!(waiting[1].0.withdraw());
    // Whoever withdraws it says so afterwards.
    assert!(!queue.drop_withdrawn());
    queue.note_withdrawn();
    assert!(queue.drop_withdrawn() && !queue.drop_withdrawn());
    assert_eq!(depth.get(), 2);
    queue.note_withdrawn();
    assert!(!queue.drop_withdrawn());
}

#[test]
fn a_doubt_that_waits_already_is_not_told_twice() {
    let metrics = Metrics::new().unwrap();
    let depth = metrics.lane_queue_depth.with_label_values(&["0"]);
    let queue = LaneQueue::new(depth, metrics.lane_queue_wait_seconds.clone());
    for _ in 0..3 {
        queue.tell(Event::InDoubt);
        queue.tell(Event::Level(1));
    }
    let told: Vec<Event> = std::iter::from_fn(|| queue.next_event()).collect();
    let doubts = told.iter().filter(|it| matches!(it, Event::InDoubt));
    assert_eq!((told.len(), doubts.count()), (4, 1));
    // Once it is taken, another one is news.
    queue.tell(Event::InDoubt);
    assert!(matches!(queue.next_event(), Some(Event::InDoubt)));
}
