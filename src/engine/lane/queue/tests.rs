use super::*;
use crate::engine::caller::SERVER;
use crate::metrics::Metrics;

#[test]
fn a_command_that_is_put_back_has_waited_once() {
    let metrics = Metrics::new().unwrap();
    let depth = metrics.lane_queue_depth.with_label_values(&["0"]);
    let waits = metrics.lane_queue_wait_seconds.clone();
    let queue = LaneQueue::new(depth, waits.clone());
    let command = Command::Items(ItemOp::Exists, Vec::new().into());
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
