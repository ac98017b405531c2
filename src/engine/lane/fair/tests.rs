use super::*;
use crate::cuckoo::hash::murmur64a;
use std::collections::BTreeMap;

type Queue = FairQueue<&'static str, u32, u64>;

/// Serves until `budget` is spent; what waits costs what it says. Returns what
/// each key and flow got.
fn serve(queue: &mut Queue, mut budget: i64) -> BTreeMap<(&'static str, u32), i64> {
    let mut got = BTreeMap::new();
    while budget > 0
        && let Some((key, flow, cost)) = queue.next(|_| true)
    {
        queue.charge(&key, &flow, cost as i64);
        *got.entry((key, flow)).or_default() += cost as i64;
        budget -= cost as i64;
    }
    got
}

fn of_key(got: &BTreeMap<(&'static str, u32), i64>, key: &str) -> i64 {
    got.iter()
        .filter(|(it, _)| it.0 == key)
        .map(|(_, it)| it)
        .sum()
}

#[test]
fn one_flow_is_first_in_first_out() {
    let mut queue = Queue::new(10);
    for n in 1..=100 {
        queue.push(&"a", &1, n);
    }
    for n in 1..=100 {
        assert_eq!(queue.next(|_| true), Some(("a", 1, n)));
        queue.charge(&"a", &1, n as i64);
    }
    assert_eq!(queue.next(|_| true), None);
    assert_eq!(queue.len(), 0);
}

#[test]
fn keys_get_equal_shares_whatever_their_commands_cost_and_however_many_filters_they_have() {
    let mut queue = Queue::new(100);
    for n in 0..50_000 {
        queue.push(&"small", &0, 1);
        queue.push(&"large", &0, 97);
        queue.push(&"many", &(n % 100), 10);
    }
    let got = serve(&mut queue, 30_000);
    for key in ["small", "large", "many"] {
        let share = of_key(&got, key);
        assert!((9_500..10_500).contains(&share), "{key}: {share}");
    }
    // Within the key, filters take turns.
    for flow in 0..100 {
        let share = got.get(&("many", flow)).copied().unwrap_or(0);
        assert!((0..=200).contains(&share), "{flow}: {share}");
    }
}

#[test]
fn who_overdrew_waits_until_the_others_had_as_much() {
    let mut queue = Queue::new(10);
    queue.push(&"a", &1, 1_000);
    queue.push(&"a", &1, 1);
    assert_eq!(queue.next(|_| true), Some(("a", 1, 1_000)));
    queue.charge(&"a", &1, 1_000);
    for _ in 0..2_000 {
        queue.push(&"b", &1, 1);
    }
    let mut before_a = 0;
    while let Some((key, flow, cost)) = queue.next(|_| true) {
        queue.charge(&key, &flow, cost as i64);
        if key == "a" {
            break;
        }
        before_a += 1;
    }
    assert!((950..=1_050).contains(&before_a), "{before_a}");
    // Debts are not forgotten by having nothing to do.
    queue.charge(&"b", &1, 500);
    assert!(queue.next(|_| true).is_some());
}

#[test]
fn a_newcomer_comes_after_one_turn_of_each_other_key() {
    let mut queue = Queue::new(10);
    for _ in 0..1_000 {
        queue.push(&"a", &1, 5);
    }
    serve(&mut queue, 500);
    queue.push(&"b", &1, 1);
    let mut before = 0;
    while let Some((key, flow, cost)) = queue.next(|_| true) {
        if key == "b" {
            break;
        }
        queue.charge(&key, &flow, cost as i64);
        before += cost;
    }
    assert!(before <= 20, "{before}");
}

#[test]
fn what_may_not_go_holds_up_its_own_flow_alone() {
    let mut queue = Queue::new(10);
    queue.push(&"a", &1, 13);
    queue.push(&"a", &1, 2);
    queue.push(&"a", &2, 3);
    queue.push(&"b", &1, 4);
    let even_bad_luck = |it: &u64| *it != 13;
    let mut got: Vec<u64> =
        std::iter::from_fn(|| queue.next(even_bad_luck).map(|it| it.2)).collect();
    got.sort_unstable();
    assert_eq!(got, [3, 4]);
    assert_eq!(queue.len(), 2);
    assert_eq!(queue.next(|_| true), Some(("a", 1, 13)));
    queue.put_back(&"a", &1, 13);
    assert_eq!(queue.take_out(|it| *it == 13), [13]);
    assert_eq!(queue.next(|_| true), Some(("a", 1, 2)));
}

/// Serves plans of one slice after another, one plan at a time, as a lane does:
/// while one is suspended, no other begins. Returns whose plans ended.
fn plans_in_turn(queue: &mut Queue, most: usize) -> Vec<(&'static str, u32)> {
    const SLICES: u64 = 3;
    const SUSPENDED: u64 = 1_000;
    let (mut ended, mut is_suspended) = (Vec::new(), false);
    while ended.len() < most
        && let Some((key, flow, left)) = queue.next(|it| !is_suspended || *it > SUSPENDED)
    {
        let left = if is_suspended {
            left - 1
        } else {
            SUSPENDED + SLICES
        };
        is_suspended = left > SUSPENDED;
        if is_suspended {
            queue.charge(&key, &flow, 10);
            queue.put_back(&key, &flow, left);
        } else {
            // Its commit costs less than what is left.
            queue.charge(&key, &flow, 1);
            queue.end_turn(&key, &flow);
            ended.push((key, flow));
        }
    }
    ended
}

#[test]
fn who_ends_a_long_command_lets_those_of_other_keys_and_filters_go_first() {
    for quantum in [10, 11, 15, 29, 40, 1_000] {
        let mut queue = Queue::new(quantum);
        for n in 0..20 {
            queue.push(&"a", &1, n);
            queue.push(&"a", &2, n);
            queue.push(&"b", &3, n);
        }
        let ended = plans_in_turn(&mut queue, 24);
        let of = |key| ended.iter().filter(|it| it.0 == key).count();
        let of_filter = |filter| ended.iter().filter(|it| it.1 == filter).count();
        println!("quantum {quantum}: {ended:?}");
        assert!(of("a").abs_diff(of("b")) <= 2);
        assert!(of_filter(1).abs_diff(of_filter(2)) <= 2);
        assert_eq!(of_filter(1).min(1) + of_filter(2).min(1), 2);
    }
}

#[test]
fn nothing_is_lost_and_nobody_starves_whatever_is_asked() {
    let keys: Vec<String> = (0..400).map(|n| n.to_string()).collect();
    for seed in 0..20 {
        println!("seed {seed}");
        let mut drawn = 0u64;
        let mut random = |below: i64| {
            drawn += 1;
            (murmur64a(&drawn.to_le_bytes(), seed) % below as u64) as i64
        };
        let quantum = 1 + random(99);
        let mut queue = FairQueue::<&str, u32, u64>::new(quantum);
        let (mut pushed, mut served) = (Vec::new(), Vec::new());
        for n in 0..2_000u64 {
            if random(10) < 6 {
                let key = keys[random(400) as usize].as_str();
                queue.push(&key, &(random(500) as u32), n);
                pushed.push(n);
            } else if let Some((key, flow, n)) = queue.next(|it| it % 7 != 0) {
                assert_ne!(n % 7, 0);
                queue.charge(&key, &flow, random(3 * quantum));
                served.push(n);
            }
        }
        while let Some((key, flow, n)) = queue.next(|_| true) {
            queue.charge(&key, &flow, random(3 * quantum));
            served.push(n);
        }
        served.sort_unstable();
        assert_eq!(served, pushed);
        assert_eq!(queue.len(), 0);
        // Nobody is remembered once all debts are paid.
        queue.push(&"z", &9, 1);
        for _ in 0..1_000 {
            queue.next(|_| false);
            queue.push(&"z", &9, 1);
            queue.next(|_| true).unwrap();
            queue.charge(&"z", &9, quantum);
        }
        assert!(queue.keys.members.len() <= REMEMBERED, "seed {seed}");
        for flows in queue.keys.members.values() {
            assert!(flows.of.members.len() <= REMEMBERED, "seed {seed}");
        }
    }
}
