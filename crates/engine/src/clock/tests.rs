use super::*;
use crate::random::Random;
use proptest::prelude::*;

const START: Reading = Reading {
    wall_ms: 1_800_000_000_000,
    since_boot_ms: 5_000,
};

fn at(wall_ms: i64, since_boot_ms: i64) -> Reading {
    Reading {
        wall_ms: START.wall_ms + wall_ms,
        since_boot_ms: START.since_boot_ms + since_boot_ms,
    }
}

#[test]
fn a_jump_is_not_believed_until_it_is_confirmed_or_taken_back() {
    let belief = Belief::confirmed(START).after(at(10_300, 10_000));
    let jumped = at(3_600_000, 11_000);
    assert_eq!(
        belief.tell(jumped),
        Told {
            now_ms: START.wall_ms + 11_300,
            jump_ms: Some(3_588_700),
        }
    );
    assert_eq!(belief.after(jumped), belief);
    let back = at(12_000, 12_000);
    assert_eq!(belief.tell(back).jump_ms, None);
    let confirmed = Belief::confirmed(jumped);
    assert_eq!(
        confirmed.tell(at(3_601_000, 12_000)).now_ms,
        START.wall_ms + 3_601_000
    );
}

#[test]
fn silence_is_no_jump_and_backwards_changes_nothing() {
    let belief = Belief::confirmed(START);
    let year = 365 * 86_400_000;
    assert_eq!(belief.tell(at(year, year)).jump_ms, None);
    let back = at(-year, 1_000);
    assert_eq!(belief.tell(back).now_ms, back.wall_ms);
    // Where it was at first is no jump, where it never was is one.
    let belief = belief.after(back);
    assert_eq!(belief.tell(at(2_000, 2_000)).jump_ms, None);
    assert!(belief.tell(at(year, 3_000)).jump_ms.is_some());
}

#[test]
fn a_jump_is_none_the_more_believed_after_a_month() {
    let month = 30 * 86_400_000;
    // It drifts by two minutes, a little at a time.
    let looks = (0..=1_000).map(|n| at(n * month / 1_000 + n * 120, n * month / 1_000));
    let belief = looks.fold(Belief::confirmed(START), Belief::after);
    let now = month + 120_000;
    assert_eq!(belief.tell(at(now, month)).jump_ms, None);
    assert_eq!(belief.tell(at(now + LEEWAY_MS, month)).jump_ms, None);
    let jumped = belief.tell(at(now + 10 * LEEWAY_MS, month));
    assert_eq!(jumped.jump_ms, Some(10 * LEEWAY_MS));
    assert_eq!(jumped.now_ms, START.wall_ms + now);
}

proptest! {
    /// Whatever the wall clock does, no more time passes unconfirmed than the
    /// other clock says, and the leeway.
    #[test]
    fn time_runs_ahead_by_no_more_than_the_leeway(
        steps in proptest::collection::vec((0i64..600_000, -100_000_000i64..100_000_000), 1..50)
    ) {
        let (mut belief, mut reading) = (Belief::confirmed(START), START);
        for (passed, moved) in steps {
            reading.since_boot_ms += passed;
            reading.wall_ms += passed + moved;
            let told = belief.tell(reading);
            let since = reading.since_boot_ms - START.since_boot_ms;
            let most = START.wall_ms + since + LEEWAY_MS + since / LEEWAY_PART;
            prop_assert!(told.now_ms <= most);
            let ahead = told.now_ms - reading.since_boot_ms - belief.furthest_difference;
            prop_assert!(ahead <= LEEWAY_MS);
            prop_assert!(told.now_ms <= reading.wall_ms);
            prop_assert_eq!(told.jump_ms.is_none(), told.now_ms == reading.wall_ms);
            belief = belief.after(reading);
        }
    }

    /// A wall clock that only drifts, is put right in small steps or back, is
    /// always believed.
    #[test]
    fn small_steps_and_steps_back_are_believed(
        steps in proptest::collection::vec((0i64..600_000, -100_000_000i64..1_000), 1..50)
    ) {
        let (mut belief, mut reading) = (Belief::confirmed(START), START);
        for (passed, moved) in steps {
            reading.since_boot_ms += passed;
            reading.wall_ms += passed + moved;
            prop_assert_eq!(belief.tell(reading).jump_ms, None);
            belief = belief.after(reading);
        }
    }
}

/// An engine's clock in a cluster, and both clocks that it reads.
fn in_a_cluster() -> (EngineClock, Arc<AtomicU64>, Arc<AtomicU64>) {
    let wall_ms = Arc::new(AtomicU64::new(START.wall_ms as u64));
    let since_boot_ms = Arc::new(AtomicU64::new(START.since_boot_ms as u64));
    let clock = Clock::Both {
        wall_ms: Arc::clone(&wall_ms),
        since_boot_ms: Arc::clone(&since_boot_ms),
    };
    (EngineClock::start(clock), wall_ms, since_boot_ms)
}

fn set(clock: &AtomicU64, start: i64, ms: i64) {
    clock.store((start + ms) as u64, Ordering::SeqCst);
}

const HOUR: i64 = 3_600_000;

#[test]
fn time_goes_on_from_the_newest_stamp_whatever_the_wall_clock_says() {
    for ahead in [-5 * HOUR, -30_000, 0, 30_000, 5 * HOUR] {
        let (clock, wall, boot) = in_a_cluster();
        set(&wall, START.wall_ms, ahead);
        clock.hear(START.wall_ms as u64, true);
        set(&boot, START.since_boot_ms, HOUR);
        set(&wall, START.wall_ms, ahead + HOUR);
        let now = (START.wall_ms + HOUR) as u64;
        assert_eq!(clock.now_ms(), now, "{ahead}");
        let is_jump = ahead > LEEWAY_MS + HOUR / LEEWAY_PART;
        assert_eq!(clock.state().jump_ms, is_jump.then_some(ahead as u64));
        // A little ahead it is what is stamped; behind, time does not stand still.
        let least = now - (HOUR / LEEWAY_PART) as u64;
        let stamp = match (is_jump, ahead < 0) {
            (true, _) => now,
            (false, true) => least,
            (false, false) => now + ahead as u64,
        };
        assert_eq!(clock.stamp_ms(), stamp, "{ahead}");
    }
}

#[test]
fn a_stamp_from_long_ago_and_one_that_comes_late_change_nothing() {
    let (clock, wall, boot) = in_a_cluster();
    let now = START.wall_ms as u64;
    clock.hear(now - 3 * HOUR as u64, false);
    assert_eq!((clock.now_ms(), clock.state().jump_ms), (now, None));
    // Nobody has a clock that is far behind what was stamped already.
    clock.hear(now + 2 * HOUR as u64, false);
    assert_eq!(clock.now_ms(), now + 2 * HOUR as u64);
    clock.hear(now, true);
    assert_eq!(clock.now_ms(), now + 2 * HOUR as u64);
    set(&boot, START.since_boot_ms, HOUR);
    set(&wall, START.wall_ms, HOUR);
    clock.hear(now + 3 * HOUR as u64 - 3_000, true);
    assert_eq!(clock.now_ms(), now + 3 * HOUR as u64 - 3_000);
}

#[test]
fn who_confirms_the_wall_clock_has_it_stamped() {
    let (clock, wall, _) = in_a_cluster();
    clock.hear(START.wall_ms as u64, true);
    set(&wall, START.wall_ms, 2 * HOUR);
    let (now, wall_ms) = (START.wall_ms as u64, (START.wall_ms + 2 * HOUR) as u64);
    assert_eq!((clock.now_ms(), clock.stamp_ms()), (now, now));
    clock.confirm();
    assert_eq!((clock.now_ms(), clock.stamp_ms()), (wall_ms, wall_ms));
    assert_eq!(clock.look().jump_ms, None);
}

/// A pod whose wall clock does what it likes. The time since the machine's start is right.
struct Wayward {
    clock: EngineClock,
    wall_ms: Arc<AtomicU64>,
    since_boot_ms: Arc<AtomicU64>,
    /// Milliseconds of the wall clock for each that passes.
    speed: u64,
}

impl Wayward {
    fn start(wall_ms: i64, passed: i64) -> Wayward {
        let wall_ms = Arc::new(AtomicU64::new(wall_ms as u64));
        let since_boot_ms = Arc::new(AtomicU64::new((START.since_boot_ms + passed) as u64));
        let clock = Clock::Both {
            wall_ms: Arc::clone(&wall_ms),
            since_boot_ms: Arc::clone(&since_boot_ms),
        };
        Wayward {
            clock: EngineClock::start(clock),
            wall_ms,
            since_boot_ms,
            speed: 1,
        }
    }

    fn pass(&self, ms: u64) {
        self.wall_ms.fetch_add(ms * self.speed, Ordering::SeqCst);
        self.since_boot_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

/// Pods that stamp by turns, each with another clock, and start again.
fn wayward_clocks(seed: u64) {
    const PODS: usize = 3;
    let mut random = Random::new(seed);
    let start = |_| Wayward::start(START.wall_ms, 0);
    let mut pods: Vec<Wayward> = (0..PODS).map(start).collect();
    let (mut passed, mut newest) = (0, START.wall_ms);
    pods.iter()
        .for_each(|it| it.clock.hear(newest as u64, true));
    for _ in 0..300 {
        let pod = random.below(PODS);
        match random.below(12) {
            0 => pods[pod].speed = [0, 1, 2, 100][random.below(4)],
            1 => {
                let wall_ms = random.next() % (4 * START.wall_ms as u64);
                pods[pod].wall_ms.store(wall_ms, Ordering::SeqCst);
            }
            // Never so far that it would be a jump.
            2 | 3 => {
                let step = pods[pod].clock.now_ms() + random.next() % LEEWAY_MS as u64;
                pods[pod].wall_ms.store(step, Ordering::SeqCst);
            }
            4 => {
                let others = (0..PODS).filter(|other| *other != pod);
                let others = others.map(|it| &pods[it].clock);
                let told = others.map(|it| (it.now_ms(), it.reckoned_ms()));
                let now = told.clone().map(|it| it.0).min().unwrap();
                let reckoned = told.map(|it| it.1).min().unwrap();
                let wall_ms = pods[pod].wall_ms.load(Ordering::SeqCst) as i64;
                let again = Wayward::start(wall_ms, passed);
                again.clock.hear(now, true);
                again.clock.reckon_from(reckoned);
                again.clock.hear(newest as u64, false);
                pods[pod] = again;
            }
            _ => {
                let stamp = (pods[pod].clock.stamp_ms() as i64).max(newest);
                let most = START.wall_ms + passed + LEEWAY_MS + passed / LEEWAY_PART;
                assert!(stamp <= most, "seed {seed}: {} too much", stamp - most);
                newest = stamp;
                let hears = |_: &&Wayward| random.percent(80);
                let hearing = pods.iter().filter(hears);
                hearing.for_each(|it| it.clock.hear(stamp as u64, true));
                pods[pod].clock.hear(stamp as u64, true);
            }
        }
        let ms = random.next() % 5_000;
        passed += ms as i64;
        pods.iter().for_each(|it| it.pass(ms));
    }
}

/// Whatever wall clocks do, stamped time passes no faster than the time since the
/// machines' start, and the leeway of one clock.
#[test]
fn clocks_at_any_speed_that_step_and_start_again_drag_the_time_of_a_cluster_nowhere() {
    (1..2_000).for_each(wayward_clocks);
}

#[test]
fn a_clock_that_steps_again_and_again_is_believed_once_and_then_told_of() {
    let (clock, wall, boot) = in_a_cluster();
    clock.hear(START.wall_ms as u64, true);
    let mut told = None;
    for step in 1..=10 {
        set(&boot, START.since_boot_ms, step * 1_000);
        set(&wall, START.wall_ms, step * 51_000);
        let stamp = clock.stamp_ms();
        clock.hear(stamp, true);
        assert!(stamp as i64 <= START.wall_ms + LEEWAY_MS + step * 1_001);
        told = clock.state().jump_ms;
    }
    assert!(told.is_some_and(|ms| ms as i64 > 400_000), "{told:?}");
}
