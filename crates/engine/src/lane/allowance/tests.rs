use super::*;
use crate::random::Random;

fn lanes(frames: usize, lanes: usize, at_work: usize) -> Vec<Allowance> {
    let all = Arc::new(Allowances::new(frames, lanes, at_work, || true));
    (0..lanes).map(|lane| Allowance::new(&all, lane)).collect()
}

#[test]
fn nothing_more_is_taken_while_commits_wait_for_a_checkpoint() {
    let all = Arc::new(Allowances::new(48_000, 16, 2, || false));
    let mut lane = Allowance::new(&all, 0);
    assert!(lane.covers(lane.pages()) && !lane.covers(lane.pages() + 1));
    // Whoever waits for a checkpoint itself may.
    assert!(lane.take_all());
}

#[test]
fn lanes_that_the_cache_has_room_for_have_all_that_they_may_hold_at_any_time() {
    let mut lanes = lanes(48_000, 4, 4);
    assert_eq!(lanes[0].all.max_pages, 2_000);
    for lane in &mut lanes {
        assert!(lane.has_all() && lane.take_all() && lane.covers(3_000));
        assert!(!lane.covers(3_001));
    }
}

#[test]
fn a_lane_of_many_may_hold_as_much_as_one_of_those_that_are_at_work() {
    for (at_work, max_pages) in [(1, 8_000), (2, 4_000), (15, 533)] {
        let mut lanes = lanes(48_000, 16, at_work);
        assert_eq!(lanes[0].all.max_pages, max_pages);
        let having_all = lanes
            .iter_mut()
            .filter_map(|it| it.try_take_all().then_some(it));
        assert_eq!(having_all.count(), at_work);
        // The others have their own part all the same.
        assert!(lanes.iter_mut().all(|it| it.covers(48_000 / 16 / 16)));
    }
}

#[test]
fn lanes_wait_with_nothing_and_are_served_in_the_order_in_which_they_came() {
    let mut lanes = lanes(48_000, 16, 2);
    assert!(lanes[0].take_all() && lanes[1].covers(1_000) && lanes[2].covers(1_000));
    assert!(!lanes[2].take_all() && !lanes[3].take_all());
    assert_eq!((lanes[2].taken, lanes[3].taken), (0, 0));
    // Nobody takes anything past them.
    assert!(!lanes[4].covers(300) && !lanes[4].try_take_all());
    lanes[1].give_back();
    assert!(!lanes[3].take_all() && lanes[2].take_all());
    // One that goes does not keep its place.
    assert!(!lanes[5].take_all());
    lanes[3].give_back();
    lanes[0].give_back();
    assert!(lanes[5].take_all());
    assert!(!lanes[5].is_waiting && !lanes[4].is_waiting);
}

#[test]
fn whatever_lanes_do_they_hold_no_more_than_there_is_and_each_gets_what_it_waits_for() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (frames, count) = (24_000, 2 + random.below(30));
        let at_work = 1 + random.below(3);
        let mut lanes = lanes(frames, count, at_work);
        let most = lanes[0].most();
        for _ in 0..500 {
            let lane = random.below(count);
            match random.below(4) {
                0 => drop(lanes[lane].take_all()),
                1 => lanes[lane].give_back(),
                _ => drop(lanes[lane].covers(random.below(most + 9))),
            }
            let held: usize = lanes.iter().map(|it| it.pages()).sum();
            assert!(held <= frames / 4 + frames / 16, "{held}");
            assert!(lanes.iter().all(|it| !it.is_waiting || it.taken == 0));
        }
        // As lanes do: who waits asks again, who does not ends.
        for _ in 0..count {
            lanes
                .iter_mut()
                .filter(|it| !it.is_waiting)
                .for_each(Allowance::give_back);
            for lane in lanes.iter_mut().filter(|it| it.is_waiting) {
                lane.take_all();
            }
        }
        assert!(lanes.iter().all(|it| !it.is_waiting));
    }
}
