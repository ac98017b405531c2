use super::*;
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
