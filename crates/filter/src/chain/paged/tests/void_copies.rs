//! Entries that splits copied because nothing told which page is theirs.

use super::*;

/// Whether a filter has no more pages than its entries need.
pub(super) fn is_contracted(filter: &Filter) -> bool {
    let layout = &filter.table().layout;
    layout.pages() == layout.families() || filter.filter.chain().load() > 0.38
}

fn delete_all(filter: &mut Filter, items: impl Iterator<Item = u64>) {
    for item in items {
        assert!(filter.exists(hash(item)), "{item} is lost");
        assert!(filter.delete(hash(item)), "{item} can't be deleted");
    }
}

#[test]
fn a_filter_that_grew_beyond_what_slots_record_shrinks_and_grows_again_and_again() {
    // Four bits of suffix; by hand six, too.
    let mut runs = vec![
        (SlotCode::of(SlotWidth::Bits12).with_anchor_bits(8), 1, 100),
        (SlotCode::of(SlotWidth::Bits16).with_anchor_bits(12), 1, 60),
        (SlotCode::of(SlotWidth::Bits32).with_anchor_bits(28), 2, 60),
    ];
    if peak() >= 1_000_000 {
        runs.push((SlotCode::of(SlotWidth::Bits12), 1, 512));
    }
    for (code, pages, growth) in runs {
        let mut filter = filter(pages, code);
        let items = growth * capacity(&filter);
        let (mut first, mut left) = (0, Vec::new());
        for round in 0..4 {
            fill(&mut filter, first, items);
            check(&filter);
            let grown = filter.table().layout.pages();
            // Half of the items go, and come again.
            delete_all(&mut filter, (first..first + items / 2).step_by(2));
            check(&filter);
            for item in (first..first + items / 2).step_by(2) {
                assert_eq!(filter.add(hash(item)), AddResult::Added);
            }
            for item in first..first + items {
                assert!(filter.count(hash(item)) > 0, "{item} is lost");
            }
            delete_all(&mut filter, first..first + items);
            check(&filter);
            let table = filter.table();
            println!(
                "{:?}, {} anchor bits, round {round}: {grown} pages, {} with {} entries are left, {} counted; {:?}",
                code.width(),
                code.anchor_bits(),
                table.layout.pages(),
                table.occupied,
                table.counted,
                PlanStats {
                    kick_paths: Vec::new(),
                    ..filter.stats.clone()
                },
            );
            assert!(filter.stats.void_copies > items / 50);
            assert!(is_contracted(&filter));
            // One that finds no room is tried again.
            assert!(100 * filter.stats.failed_merges <= filter.stats.merges);
            left.push(table.layout.pages());
            assert!(4 * left[round] <= grown);
            first += items;
        }
        // What is left does not add up.
        assert!(2 * left[3] <= 3 * left[0], "{left:?}");
    }
}

#[test]
fn copies_of_copies_are_not_counted_without_bound() {
    let mut filter = filter(1, SlotCode::of(SlotWidth::Bits16).with_anchor_bits(12));
    let items = 40 * capacity(&filter);
    for round in 0..8 {
        fill(&mut filter, round * items, items);
        delete_all(&mut filter, round * items..(round + 1) * items);
        let pages = (0..filter.table().layout.pages()).map(|it| filter.page(it).unwrap());
        let most = pages
            .flat_map(|it| it.counters.iter().map(|it| it.1).max())
            .max();
        println!("round {round}: {most:?}");
        assert!(most.unwrap() < items, "round {round}: {most:?}");
    }
}
