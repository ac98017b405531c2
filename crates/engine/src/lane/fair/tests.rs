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

/// A lane whose keys ask for short and long commands without end. While a plan is
/// suspended no other begins.
struct Plans {
    queue: FairQueue<&'static str, u32, Asked>,
    quantum: i64,
    is_suspended: bool,
    /// Slices of a plan behind its first, at least.
    fewest: u64,
    /// What was done so far, in all and of each flow.
    clock: i64,
    done: BTreeMap<(&'static str, u32), i64>,
    seed: u64,
    drawn: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Short,
    Long,
    /// Slices of the suspended plan that are left.
    Plan(u64),
}

impl Plans {
    fn new(quantum: i64, seed: u64, fewest: u64) -> Plans {
        Plans {
            queue: FairQueue::new(quantum),
            quantum,
            is_suspended: false,
            fewest,
            clock: 0,
            done: BTreeMap::new(),
            seed,
            drawn: 0,
        }
    }

    fn random(&mut self, below: i64) -> i64 {
        self.drawn += 1;
        (murmur64a(&self.drawn.to_le_bytes(), self.seed) % below as u64) as i64
    }

    /// Serves one, and says which it was if it ended.
    fn serve(&mut self) -> Option<(&'static str, u32, Asked)> {
        let waiting = match self.is_suspended {
            true => None,
            false => self.queue.next_waiting(|it| *it == Asked::Long),
        };
        let is_suspended = self.is_suspended;
        let next = waiting.or_else(|| self.queue.next(|it| !is_suspended || *it != Asked::Long));
        let (key, flow, it) = next.expect("there is always something to do");
        let (cost, left) = match it {
            Asked::Short => (1 + self.random(self.quantum + self.quantum / 2), 0),
            // No slice costs less than a quantum.
            Asked::Long => (
                self.quantum + self.random(self.quantum),
                self.fewest + self.random(6) as u64,
            ),
            Asked::Plan(left) => (self.quantum + self.random(5), left - 1),
        };
        self.queue.charge(&key, &flow, cost);
        self.clock += cost;
        *self.done.entry((key, flow)).or_default() += cost;
        let is_plan = it != Asked::Short;
        if is_plan {
            self.is_suspended = left > 0;
        }
        if is_plan && left > 0 {
            let plan = Asked::Plan(left);
            self.queue.put_back_under_way(&key, &flow, plan);
            let waits_for_it = |it: &Asked| *it == Asked::Long;
            self.queue
                .bring_forward_for_others(&key, &flow, waits_for_it);
            return None;
        }
        let asked = match is_plan {
            true => Asked::Long,
            false => Asked::Short,
        };
        Some((key, flow, asked))
    }
}

#[test]
fn nobody_starves_who_asks_for_short_and_long_commands_beside_others_who_do() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut plans = Plans::new(10 + seed as i64 / 2, seed / 2, 1 - seed % 2);
        let keys = ["a", "b", "c", "d"];
        // Each flow has the same commands without end, or both kinds by turns.
        let mut flows = Vec::new();
        for key in keys {
            for flow in 0..1 + plans.random(4) as u32 {
                flows.push((key, flow, plans.random(3)));
            }
        }
        let ask = |kind: i64, n: i64| match kind {
            0 => Asked::Short,
            1 => Asked::Long,
            _ if n % 2 == 0 => Asked::Short,
            _ => Asked::Long,
        };
        for &(key, flow, kind) in &flows {
            for n in 0..3 {
                plans.queue.push(&key, &flow, ask(kind, n));
            }
        }
        let mut last: BTreeMap<_, _> = flows.iter().map(|it| ((it.0, it.1), 0)).collect();
        // A plan takes seven slices of up to two quanta, in a round of four keys that
        // overdraw by as much; each flow of each key may have one before.
        let longest = 7 * 2 * 4 * 2 * flows.len() as i64 * plans.quantum;
        for n in 0..10_000 {
            if let Some((key, flow, _)) = plans.serve() {
                let &(.., kind) = flows.iter().find(|it| (it.0, it.1) == (key, flow)).unwrap();
                plans.queue.push(&key, &flow, ask(kind, n));
                last.insert((key, flow), plans.clock);
            }
            for (of, &at) in &last {
                let waited = plans.clock - at;
                assert!(
                    waited <= longest,
                    "seed {seed}: {of:?} waited {waited} of {longest}"
                );
            }
        }
    }
}

#[test]
fn long_commands_take_turns_by_key_and_within_a_key_by_filter() {
    for quantum in [1, 5, 10, 30] {
        println!("quantum {quantum}");
        let mut plans = Plans::new(quantum, 1, 1);
        for _ in 0..300 {
            for (key, flow) in [("a", 1), ("a", 2), ("b", 3)] {
                plans.queue.push(&key, &flow, Asked::Long);
            }
        }
        for _ in 0..1_000 {
            plans.serve();
        }
        let of = |key| of_key(&plans.done, key);
        // What two plans cost at most.
        let two = 2 * 7 * 2 * quantum;
        assert!(of("a").abs_diff(of("b")) <= two as u64, "{:?}", plans.done);
        let of_flow = |flow| plans.done[&("a", flow)];
        assert!(of_flow(1) - of_flow(2) <= two, "{:?}", plans.done);
    }
}

#[test]
fn a_plan_that_another_key_waits_for_goes_on_before_the_rest_of_its_own_key() {
    let quantum = 10;
    let mut plans = Plans::new(quantum, 1, 20);
    plans.queue.push(&"much", &0, Asked::Long);
    for flow in 1..=400 {
        for _ in 0..100 {
            plans.queue.push(&"much", &flow, Asked::Short);
        }
    }
    plans.queue.push(&"waits", &0, Asked::Long);
    while !plans.is_suspended {
        plans.serve();
    }
    let began = plans.clock;
    while !plans.done.contains_key(&("waits", 0)) {
        plans.serve();
    }
    // Up to 26 slices of less than two quanta, and at first what is owed.
    let waited = plans.clock - began;
    assert!(waited <= 27 * 2 * quantum, "{waited}");
}

#[test]
fn long_commands_that_end_in_their_first_slice_hold_up_nobody() {
    let mut queue = Queue::new(10);
    for _ in 0..100 {
        queue.push(&"long", &1, 13);
        queue.push(&"too", &2, 13);
        queue.push(&"short", &3, 1);
    }
    let (mut got, mut longs) = (BTreeMap::<_, u64>::new(), Vec::new());
    for _ in 0..40 {
        let waiting = queue.next_waiting(|it| *it == 13);
        longs.extend(waiting.map(|it| it.0));
        let (key, flow, cost) = waiting.or_else(|| queue.next(|_| true)).unwrap();
        queue.charge(&key, &flow, cost as i64);
        *got.entry(key).or_default() += 1;
    }
    assert!(got["short"] >= 10, "{got:?}");
    // None comes twice in a row.
    assert!(longs.windows(2).all(|it| it[0] != it[1]), "{longs:?}");
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
