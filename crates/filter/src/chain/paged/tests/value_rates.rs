//! How often answers about values are wrong, against the formulas; and how full
//! a filter with values becomes before it grows.

use super::*;
use crate::chain::params::{Attributes, Codes};
use crate::chain::rows::{RowCodec, RowTest};

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
            let per_class = filter.table().items() as f64 / filter.table().occupied as f64;
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

/// Slots of 16 bits of which 5 are a row: an exact attribute of 4 labels, and a
/// hashed one. Each item has so many rows, all with one label of the exact
/// attribute, no two with one of the hashed one.
struct OfRows {
    filter: Filter,
    codec: RowCodec,
    items: u64,
}

const TAG_BITS: u8 = 3;

impl OfRows {
    fn new(rows: u64) -> OfRows {
        let plans = Codes::Exact((0..4).map(|it| format!("{it}")).collect());
        let named = [("plan", plans), ("tag", Codes::Hashed(TAG_BITS))];
        let named = named.map(|(name, codes)| (name.to_owned(), codes));
        let request = FilterRequest {
            attributes: Some(Attributes::new(named.into()).unwrap()),
            ..FilterRequest::default()
        };
        let table = table(8, code(SlotWidth::Bits16, TAG_BITS + 2, None));
        let filter = Filter::of(table, &request);
        let codec = RowCodec::of(filter.filter.chain()).unwrap();
        let items = (capacity(&filter) as f64 * 2.5) as u64;
        let mut made = OfRows {
            filter,
            codec,
            items,
        };
        for row in 0..items * rows {
            let (item, tag) = (row / rows, format!("tag {row}"));
            let plan = made.codec.part(0, format!("{}", item % 4).as_bytes());
            let tag = made.codec.part(1, tag.as_bytes());
            let added = made.filter.add_value(item, plan.unwrap() | tag.unwrap());
            assert_eq!(added, AddResult::Added);
        }
        made
    }

    /// How many of the items have a row that meets a condition on one attribute,
    /// which for each lists what is made of its number.
    fn found(
        &mut self,
        items: std::ops::Range<u64>,
        attribute: usize,
        listed: impl Fn(u64) -> Vec<String>,
    ) -> (u64, f64) {
        let mut found = 0;
        for item in items {
            if self.filter.filter.exists(hash(item)) {
                let (labels, mut test) = (listed(item), RowTest::default());
                self.codec.require(&mut test, attribute, &labels).unwrap();
                let has_row = |planner: &mut Planner<'_, Pages>| planner.has_row(hash(item), &test);
                found += u64::from(self.filter.work(has_row));
            }
        }
        (found, 1.0)
    }
}

#[test]
fn wrong_answers_about_rows_are_as_rare_as_the_formulas_say() {
    for rows in [1, 3] {
        let mut of = OfRows::new(rows);
        let (items, absent) = (of.items, 200_000);
        let rate = of.filter.table().false_positive_rate();
        println!("{items} items of {rows} rows, any row of an absent one {rate:.3e}");
        let other_plans = |item: u64| (1..4).map(|it| format!("{}", (item + it) % 4)).collect();
        // Exact: the rows of another item, of which 3 of 4 have a listed label.
        let from = 1 << 40;
        let found = of.found(from..from + absent, 0, other_plans);
        compare("exact, absent items", found, absent, rate * 0.75);
        let found = of.found(0..items, 0, other_plans);
        compare("exact, no row of the item", found, items, rate * 0.75);
        for listed in [1, 4] {
            let others = |item: u64| {
                (0..listed)
                    .map(|it| format!("no tag {item} {it}"))
                    .collect()
            };
            let found = of.found(0..items, 1, others);
            let shared = |rows: u64| {
                1.0 - (1.0 - 2f64.powi(-i32::from(TAG_BITS))).powi((rows * listed) as i32)
            };
            let what = format!("hashed, {listed} listed, no row of the item");
            // The rows of the item, and where it matches another's, as many again.
            let expected = 1.0 - (1.0 - shared(rows)) * (1.0 - rate * shared(rows));
            compare(&what, found, items, expected);
            let by_bits = found.0 as f64 / items as f64 / shared(rows);
            println!("{by_bits:.3} of the formula for the bits alone");
            assert!((by_bits - 1.0).abs() < 0.05, "{what}: {by_bits}");
        }
    }
}

/// Adds as many values to each item, in the order of the items, until a page is
/// split. Returns the slots in use before, of those at which that is due.
fn load_at_first_split(filter: &mut Filter, values_of: impl Fn(u64) -> u64) -> f64 {
    let due = capacity(filter) as f64;
    for item in 0.. {
        for value in 0..values_of(item) {
            let occupied = filter.table().occupied;
            let value = value as u32 & filter.table().layout.code().value_mask();
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
                filter.table().occupied,
            );
            assert_eq!(filter.stats.forced_splits, 0);
            assert!(load >= 0.96, "{load}");
            check(&filter);
        }
    }
}
