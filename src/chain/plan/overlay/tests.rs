use super::*;
use crate::chain::address::WordAddress;
use crate::chain::plan::ChangesInOrder;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Model = BTreeMap<(u32, u32), (i32, BTreeMap<u16, (u64, u8)>)>;

fn write(overlay: &mut Overlay, at: WordAddress, value: u64, lane: u16) {
    let number = match overlay.page(at.on()) {
        Some(number) => number,
        None => overlay.add_page(at.on()),
    };
    let grown = Growth {
        occupied: 1,
        counters: 0,
    };
    overlay.set(number, at.word, value, 1 << lane, grown);
}

#[test]
fn counters_are_put_in_order_by_page_and_count_like_words() {
    let mut overlay = Overlay::new();
    let pages = [4, 0, 2].map(|page| PageAddress { sub: 0, page });
    for (page, class) in pages
        .into_iter()
        .flat_map(|page| [3, 1, 2].map(|it| (page, it)))
    {
        if overlay.page(page).is_none() {
            overlay.add_page(page);
        }
        overlay.set_counter(page, CounterKey(class), 10 * class);
    }
    write(&mut overlay, pages[0].word(5), 1, 0);
    assert_eq!(overlay.changed_words(), 10);

    let mut changes = ChangesInOrder::of(&overlay);
    let mut turns = vec![];
    while !changes.go_on(&overlay, 3) {
        turns.push(changes.so_far.changed_words());
    }
    assert_eq!(turns, [3, 6]);
    let changes = changes.so_far;
    assert_eq!(changes, overlay.changes());
    assert_eq!(changes.changed_words(), 10);
    for (page, number) in changes.pages.iter().zip([0, 2, 4]) {
        assert_eq!(page.address.page, number);
        let counters = changes.counters_of(page).iter();
        let counters: Vec<_> = counters.map(|it| (it.key.0, it.copies)).collect();
        assert_eq!(counters, [(1, 10), (2, 20), (3, 30)]);
    }
}

proptest! {
    // Few pages get many words: both ways of keeping them are met.
    #[test]
    fn an_overlay_agrees_with_a_sorted_map_and_so_do_merged_ones(
        writes in vec((0u32..3, 0u32..6, 0u16..60, any::<u64>(), 0u16..8), 0..900),
        merged_at in 0usize..900,
    ) {
        let (mut model, mut overlay, mut later) = (Model::new(), Overlay::new(), Overlay::new());
        for (n, &(sub, page, word, value, lane)) in writes.iter().enumerate() {
            let at = WordAddress { sub, page, word };
            let of_page = model.entry((sub, page)).or_default();
            of_page.0 += 1;
            let entry = of_page.1.entry(word).or_default();
            *entry = (value, entry.1 | 1 << lane);
            write(if n < merged_at { &mut overlay } else { &mut later }, at, value, lane);
        }
        overlay.merge(later);
        let changes = overlay.changes();
        let found: Vec<_> = changes
            .pages
            .iter()
            .map(|page| {
                let words = changes.words_of(page).iter();
                assert!(words.clone().all(|word| word.at.on() == page.address));
                let words = words.map(|it| (it.at.word, (it.value, it.slots)));
                let PageAddress { sub, page: number } = page.address;
                ((sub, number), (page.occupied, words.collect::<Vec<_>>()))
            })
            .collect();
        let expected: Vec<_> = model
            .iter()
            .map(|(&at, (more, words))| (at, (*more, words.clone().into_iter().collect())))
            .collect();
        prop_assert_eq!(found, expected);
        for sub in 0..4 {
            let expected = model.keys().filter(|it| it.0 >= sub).count();
            prop_assert_eq!(overlay.new_pages(sub, |_| 0), expected);
            for (page, word) in (0..6).flat_map(|page| (0..60).map(move |word| (page, word))) {
                let planned = model.get(&(sub, page));
                let number = overlay.page(PageAddress { sub, page });
                prop_assert_eq!(number.is_some(), planned.is_some());
                let value = planned.and_then(|it| it.1.get(&word)).map(|it| it.0);
                prop_assert_eq!(number.and_then(|it| overlay.word(it, word)), value);
            }
        }
    }
}
