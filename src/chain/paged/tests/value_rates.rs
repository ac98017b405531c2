//! How often answers about values are wrong, against the formulas; and how full
//! a filter with values becomes before it grows.

use super::*;

/// What was found of what was asked, beside what the formula says.
/// Foreign values come several at once, `each`.
fn compare(what: &str, (found, each): (u64, f64), asked: u64, expected: f64) {
    let measured = found as f64 / asked as f64;
    let ratio = measured / expected;
    println!(
        "{what}: {found} of {asked}, {measured:.3e}; by the formula {expected:.3e}, {ratio:.3} of it"
    );
    // Five standard deviations, and 5 % where that is more.
    let allowed = (5.0 / (expected * asked as f64 / each).sqrt()).max(0.05);
    assert!((ratio - 1.0).abs() < allowed, "{what}: {ratio}");
}

#[test]
fn wrong_answers_about_values_are_as_rare_as_the_formulas_say() {
    // By hand, more of the rare ones.
    let asked: u64 = match peak() {
        ..1_000_000 => 400_000,
        _ => 60_000_000,
    };
    let mut filters = 0;
    for (width, value_bits) in [
        (SlotWidth::Bits16, 4),
        (SlotWidth::Bits21, 8),
        (SlotWidth::Bits32, 16),
    ] {
        for (each, growth) in [(1, 0.95), (3, 0.95), (3, 2.5)] {
            filters += 1;
            let code = code(width, value_bits, None);
            let mut filter = filter(4, code);
            let mut random = SEED;
            let items = (capacity(&filter) as f64 * growth) as u64;
            for pair in 0..items * each {
                let value = below(&mut random, 1 << value_bits) as u32;
                let added = filter.add_value(pair / each, value);
                assert_eq!(added, AddResult::Added);
            }
            let rate = filter.table().false_positive_rate();
            let (mut any, mut with_value, mut foreign) = (0, 0, 0);
            for absent in 0..asked {
                let item = filters << 40 | absent;
                if filter.filter.exists(hash(item)) {
                    any += 1;
                    let value = absent as u32 & code.value_mask();
                    with_value += u64::from(filter.has_value(item, value));
                    foreign += filter.values(item).iter().map(|it| it.copies).sum::<u64>();
                }
            }
            println!("{code:?}, {each} values an item, {growth} of its capacity");
            let per_class = filter.table().items() as f64 / filter.table().occupied() as f64;
            let values = 2f64.powi(i32::from(value_bits));
            // A value that comes twice in a class is met once.
            let different = values * -f64::exp_m1(-per_class / values);
            compare("any value of an absent item", (any, 1.0), asked, rate);
            let of_pair = rate * different / values;
            compare(
                "a value of an absent item",
                (with_value, 1.0),
                asked,
                of_pair,
            );
            compare(
                "foreign values of an absent item",
                (foreign, per_class),
                asked,
                rate * per_class,
            );
        }
    }
}

/// Adds as many values to each item, in the order of the items, until a page is
/// split. Returns the slots in use before, of those at which that is due.
fn load_at_first_split(filter: &mut Filter, values_of: impl Fn(u64) -> u64) -> f64 {
    let due = capacity(filter) as f64;
    for item in 0.. {
        for value in 0..values_of(item) {
            let occupied = filter.table().occupied();
            let value = value as u32 & filter.table().layout().code().value_mask();
            assert_eq!(filter.add_value(item, value), AddResult::Added);
            if filter.stats.splits > 0 {
                return occupied as f64 / due;
            }
        }
    }
    unreachable!("some item is one too many")
}

#[test]
fn further_values_of_an_item_take_no_slots() {
    for (width, value_bits) in [
        (SlotWidth::Bits16, 4),
        (SlotWidth::Bits21, 8),
        (SlotWidth::Bits32, 16),
    ] {
        for (name, values_of) in [
            ("1 to 4", (|item| item % 4 + 1) as fn(u64) -> u64),
            // The number of items with so many falls with the power 1.25.
            ("a few with many", |item| {
                let share = (item.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64;
                let share = (share + 1.0) / (1u64 << 24) as f64;
                share.powf(-0.8).min(500.0) as u64
            }),
        ] {
            let mut filter = filter(16, code(width, value_bits, None));
            let load = load_at_first_split(&mut filter, values_of);
            println!(
                "{width:?}, {value_bits} bits of value, {name} values an item: {load:.4} of the slots at which a split is due, {} pairs in {} slots",
                filter.table().items(),
                filter.table().occupied(),
            );
            assert_eq!(filter.stats.forced_splits, 0);
            assert!(load >= 0.96, "{load}");
            check(&filter);
        }
    }
}
