use super::*;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

fn of(bound: u64, percent: u8, kind: Kind) -> Resource<&'static str> {
    Resource::new("test", kind, bound, percent, &Metrics::new().unwrap())
}

fn rival(holder: &'static str) -> Claimant<&'static str> {
    let terms = Terms {
        has_rivals: true,
        most: None,
    };
    Claimant { holder, terms }
}

fn take_all(
    resource: &Resource<&'static str>,
    by: &Claimant<&'static str>,
) -> Vec<Permit<&'static str>> {
    std::iter::from_fn(|| resource.try_take(Some(by), 1).ok()).collect()
}

#[test]
fn a_holder_gets_no_more_than_it_leaves_free_and_whoever_comes_gets_something() {
    let resource = of(16, 50, Kind::Lent);
    let mut all = Vec::new();
    for (holder, gets) in [("a", 8), ("b", 4), ("c", 2), ("d", 1), ("e", 1), ("f", 0)] {
        let taken = take_all(&resource, &rival(holder));
        assert_eq!(taken.len(), gets, "{holder}");
        assert_eq!(resource.held_by(&holder), gets as u64);
        all.push(taken);
    }
    assert_eq!(
        resource.try_take(Some(&rival("f")), 1).unwrap_err(),
        UsedUp::All { bound: 16 }
    );
    // Who leaves makes room for all.
    all.remove(0);
    assert_eq!(
        resource.try_take(Some(&rival("b")), 9).unwrap_err(),
        UsedUp::Share { held: 4, bound: 16 }
    );
    assert_eq!(
        resource.try_take(Some(&rival("f")), 9).unwrap_err(),
        UsedUp::All { bound: 16 }
    );
    assert_eq!(take_all(&resource, &rival("f")).len(), 4);
    drop(all);
    assert_eq!(resource.held(), 0);
    assert!(resource.0.state.lock().accounts.is_empty());
}

#[test]
fn without_rivals_one_holder_gets_all_and_nobody_in_particular_too() {
    let resource = of(5, 50, Kind::Lent);
    let alone = Claimant {
        holder: "alone",
        terms: Terms::default(),
    };
    assert_eq!(take_all(&resource, &alone).len(), 5);
    let all = resource.try_take(None, 5).unwrap();
    assert_eq!(all.amount(), 5);
    assert!(resource.try_take(Some(&rival("other")), 1).is_err());
}

#[test]
fn the_share_is_a_percentage_of_the_bound() {
    for (percent, gets) in [(1, 1), (10, 10), (50, 50), (90, 90), (100, 100)] {
        let resource = of(100, percent, Kind::Lent);
        assert_eq!(take_all(&resource, &rival("a")).len(), gets, "{percent}");
    }
}

#[test]
fn what_is_lent_is_never_too_little_for_one_request_but_what_is_kept_may_be() {
    let lent = of(10, 50, Kind::Lent);
    let mut first = lent.try_take(Some(&rival("a")), 1).unwrap();
    first.try_grow_to(9).unwrap();
    assert_eq!(
        lent.try_take(Some(&rival("a")), 1).unwrap_err(),
        UsedUp::Share { held: 9, bound: 10 }
    );
    assert!(first.try_grow_to(11).is_err());
    assert_eq!(first.amount(), 9);
    first.shrink_to(3);
    assert_eq!(lent.held(), 3);

    let kept = of(10, 50, Kind::Kept);
    assert!(kept.try_take(Some(&rival("a")), 6).is_err());
    let five = kept.try_take(Some(&rival("a")), 5).unwrap();
    assert_eq!(five.amount(), 5);
}

#[test]
fn a_holder_may_have_a_bound_of_its_own() {
    let resource = of(u64::MAX, 100, Kind::Lent);
    let terms = Terms {
        has_rivals: false,
        most: Some(3),
    };
    let by = Claimant { holder: "a", terms };
    let taken = take_all(&resource, &by);
    assert_eq!(taken.len(), 3);
    assert_eq!(
        resource.try_take(Some(&by), 1).unwrap_err(),
        UsedUp::Most { held: 3, most: 3 }
    );
}

#[test]
fn what_is_noted_counts_whatever_the_bound() {
    let resource = of(10, 50, Kind::Kept);
    resource.adjust(Some(&"a"), 0, 25);
    assert!(resource.try_take(None, 1).is_err());
    resource.adjust(Some(&"a"), 25, 4);
    assert_eq!(resource.held_by(&"a"), 4);
    assert_eq!(take_all(&resource, &rival("a")).len(), 1);
    assert_eq!(take_all(&resource, &rival("b")).len(), 3);
    resource.adjust(Some(&"a"), 4, 0);
    assert_eq!(resource.held(), 0);
}

#[tokio::test]
async fn those_who_wait_are_served_holder_by_holder() {
    let resource = of(4, 50, Kind::Lent);
    let held = [1, 1, 1, 1].map(|one| resource.try_take(None, one).unwrap());
    let served = Arc::new(AtomicU64::new(0));
    let wait = |holder: &'static str| {
        let (resource, served) = (resource.clone(), Arc::clone(&served));
        tokio::spawn(async move {
            let longest = Duration::from_secs(20);
            let permit = resource
                .take(Some(&rival(holder)), 1, longest)
                .await
                .unwrap();
            (permit, served.fetch_add(1, Ordering::SeqCst))
        })
    };
    let mut greedy = Vec::new();
    for _ in 0..20 {
        greedy.push(wait("greedy"));
        tokio::task::yield_now().await;
    }
    let modest = wait("modest");
    tokio::task::yield_now().await;
    let mut held = held.into_iter();
    drop(held.next());
    drop(held.next());
    // The second place is not for the second of the twenty.
    let (modest, turn) = modest.await.unwrap();
    assert!(turn <= 1, "{turn}");
    drop((modest, held));
    for waiting in greedy {
        drop(waiting.await.unwrap());
    }
    assert_eq!(resource.held(), 0);
}

#[tokio::test]
async fn who_waits_for_much_is_not_passed_by_those_who_come_for_little() {
    let resource = of(10, 50, Kind::Lent);
    let held = [5, 5].map(|amount| resource.try_take(None, amount).unwrap());
    let wait = |holder: &'static str, amount: u64| {
        let resource = resource.clone();
        tokio::spawn(async move {
            let longest = Duration::from_secs(20);
            resource.take(Some(&rival(holder)), amount, longest).await
        })
    };
    let much = wait("a", 8);
    tokio::task::yield_now().await;
    let little = wait("b", 1);
    tokio::task::yield_now().await;
    let [first, second] = held;
    drop(first);
    tokio::task::yield_now().await;
    assert_eq!(resource.held(), 5);
    drop(second);
    let much = much.await.unwrap().unwrap();
    assert_eq!(
        (much.amount(), little.await.unwrap().unwrap().amount()),
        (8, 1)
    );
}

/// What a waiter was given, if it was.
fn given(waiting: &mut Waiting<'_, &'static str>) -> Option<Permit<&'static str>> {
    waiting.granted.try_recv().ok()
}

#[test]
fn who_is_over_its_share_and_asks_for_more_than_is_free_keeps_nobody_waiting() {
    let resource = of(10, 50, Kind::Lent);
    let [a, b] = ["a", "b"].map(rival);
    let half = resource.try_take(Some(&a), 5).unwrap();
    let one = resource.try_take(Some(&b), 1).unwrap();
    let mut more = resource.wait(Some(&a), 6);
    let mut little = resource.wait(Some(&b), 1);
    let little = given(&mut little).expect("it is within its share, and fits");
    assert!(given(&mut more).is_none());
    // Once it holds nothing, what comes back is kept for it.
    drop(half);
    let mut behind = resource.wait(Some(&b), 3);
    assert_eq!(given(&mut more).map(|it| it.amount()), Some(6));
    drop((one, little));
    assert!(given(&mut behind).is_some());
}

#[test]
fn who_gives_up_lets_those_behind_it_be_served() {
    let resource = of(10, 50, Kind::Lent);
    let _for_ever = resource.try_take(None, 5).unwrap();
    let [a, b] = ["a", "b"].map(rival);
    let much = resource.wait(Some(&a), 8);
    let mut next_of_a = resource.wait(Some(&a), 1);
    let mut little = resource.wait(Some(&b), 1);
    assert!(given(&mut little).is_none() && given(&mut next_of_a).is_none());
    drop(much);
    assert!(given(&mut little).is_some());
    assert!(given(&mut next_of_a).is_some());
}

#[tokio::test]
async fn what_never_will_be_there_is_not_waited_for() {
    let resource = of(10, 50, Kind::Lent);
    let by = rival("a");
    let asked = resource.take(Some(&by), 11, Duration::MAX);
    let refused = timeout(Duration::from_secs(5), asked).await.unwrap();
    assert_eq!(refused.unwrap_err(), UsedUp::All { bound: 10 });
}

#[tokio::test]
async fn who_waits_too_long_is_refused_and_leaves_the_queue() {
    let resource = of(1, 50, Kind::Lent);
    let held = resource.try_take(None, 1).unwrap();
    let moment = Duration::from_millis(10);
    let refused = resource.take(Some(&rival("a")), 1, moment).await;
    assert_eq!(refused.unwrap_err(), UsedUp::All { bound: 1 });
    let patient = rival("b");
    let forever = resource.take(Some(&patient), 1, Duration::MAX);
    assert!(timeout(moment, forever).await.is_err());
    let is_left = || {
        let state = resource.0.state.lock();
        state.turns.is_empty() && state.accounts.len() == 1
    };
    assert!(is_left());
    drop(held);
    assert_eq!(resource.held(), 0);
    let again = resource.take(Some(&rival("a")), 1, moment).await;
    assert_eq!(again.unwrap().amount(), 1);
}

proptest! {
    /// Whatever is taken, grown, shrunk and given back: no more than the bound
    /// is held, the sum of the accounts is what is held, and whoever holds
    /// nothing gets one while one is left.
    #[test]
    fn the_accounts_add_up(
        bound in 1u64..50,
        percent in 1u8..=100,
        steps in prop::collection::vec((0usize..4, 0u64..12, 0usize..4), 1..80),
    ) {
        let resource = of(bound, percent, Kind::Lent);
        let names = ["a", "b", "c", "d"];
        let mut held: Vec<(usize, Permit<&'static str>)> = Vec::new();
        for (who, amount, what) in steps {
            match what {
                0 | 1 => if let Ok(permit) = resource.try_take(Some(&rival(names[who])), amount) {
                    held.push((who, permit));
                },
                2 => if let Some((_, permit)) = held.first_mut() {
                    let _ = permit.try_grow_to(amount);
                },
                _ => if !held.is_empty() {
                    drop(held.remove(amount as usize % held.len()));
                },
            }
            let sum: u64 = held.iter().map(|(_, permit)| permit.amount()).sum();
            prop_assert_eq!(resource.held(), sum);
            prop_assert!(sum <= bound);
            for (index, name) in names.iter().enumerate() {
                let own: u64 = held.iter().filter(|(who, _)| *who == index).map(|(_, it)| it.amount()).sum();
                prop_assert_eq!(resource.held_by(name), own);
                if own == 0 && sum < bound {
                    prop_assert!(resource.try_take(Some(&rival(name)), 1).is_ok());
                }
            }
        }
        drop(held);
        prop_assert!(resource.0.state.lock().accounts.is_empty());
    }

    /// Whoever waits, gives up and gives back: nobody who fits and is within its
    /// share stays waiting, unless behind one who holds nothing and asks for more
    /// than is free; all are served in the end, and nothing is left then.
    #[test]
    fn nobody_waits_for_what_it_may_have(
        bound in 1u64..40,
        percent in 1u8..=99,
        steps in prop::collection::vec((0usize..4, 1u64..30, 0usize..5), 1..80),
    ) {
        let resource = of(bound, percent, Kind::Lent);
        let names = ["a", "b", "c", "d"];
        let mut held: Vec<(usize, Permit<&'static str>)> = Vec::new();
        // In the order in which they came.
        let mut waiting = Vec::new();
        for (who, amount, what) in steps {
            let amount = amount.min(bound);
            match what {
                0 => if let Ok(permit) = resource.try_take(Some(&rival(names[who])), amount) {
                    held.push((who, permit));
                },
                1 | 2 => waiting.push((who, amount, resource.wait(Some(&rival(names[who])), amount))),
                3 => if !waiting.is_empty() {
                    drop(waiting.remove(amount as usize % waiting.len()));
                },
                _ => if !held.is_empty() {
                    drop(held.remove(amount as usize % held.len()));
                },
            }
            collect(&mut waiting, &mut held);
            let sum: u64 = held.iter().map(|(_, permit)| permit.amount()).sum();
            prop_assert!(sum <= bound);
            prop_assert_eq!(resource.held(), sum);
            let free = bound - sum;
            let mut may_have = false;
            let mut is_kept = false;
            for (who, name) in names.iter().enumerate() {
                let own: u64 = held.iter().filter(|it| it.0 == who).map(|it| it.1.amount()).sum();
                prop_assert_eq!(resource.held_by(name), own);
                let Some(&(_, amount, _)) = waiting.iter().find(|it| it.0 == who) else {
                    continue;
                };
                is_kept |= own == 0 && amount > free;
                let is_within = amount <= free && {
                    let left = (free - amount) * u64::from(percent);
                    own == 0 || (own + amount) * u64::from(100 - percent) <= left
                };
                may_have |= is_within;
            }
            prop_assert!(is_kept || !may_have, "{} waits", waiting.len());
        }
        while !waiting.is_empty() {
            let before = waiting.len();
            held.clear();
            collect(&mut waiting, &mut held);
            prop_assert!(waiting.len() < before, "{before} wait for nothing");
        }
        held.clear();
        let state = resource.0.state.lock();
        prop_assert!(state.held == 0 && state.accounts.is_empty() && state.turns.is_empty());
    }
}

/// Moves those who were served to what is held.
fn collect<'a>(
    waiting: &mut Vec<(usize, u64, Waiting<'a, &'static str>)>,
    held: &mut Vec<(usize, Permit<&'static str>)>,
) {
    waiting.retain_mut(|(who, _, waiter)| match given(waiter) {
        Some(permit) => {
            held.push((*who, permit));
            false
        }
        None => true,
    });
}
