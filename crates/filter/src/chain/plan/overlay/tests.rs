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
    let mut overlay = Overlay::default();
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

/// An overlay with a word on each of so many pages.
fn of_pages(pages: u32) -> Overlay {
    let mut overlay = Overlay::default();
    overlay.reserve(pages as usize);
    for page in 0..pages {
        write(
            &mut overlay,
            WordAddress {
                sub: 0,
                page,
                word: 7,
            },
            9,
            0,
        );
    }
    overlay
}

#[test]
fn a_spare_overlay_is_as_good_as_a_new_one() {
    let mut spare = SpareOverlays::default();
    assert!(spare.take().is_empty());
    let mut used = of_pages(300);
    let whole = PageAddress { sub: 0, page: 12 };
    used.set_whole(whole, Arc::new(WholePage::empty()));
    used.drop_page(PageAddress { sub: 1, page: 0 });
    used.set_counter(PageAddress { sub: 0, page: 1 }, CounterKey(3), 4);
    let room = used.room();
    spare.give_back(used);
    let mut again = spare.take();
    assert_eq!(again.room(), room);
    assert!(again.is_empty() && !again.reshapes);
    assert_eq!((again.changed_words(), again.new_pages(0, |_| 0)), (0, 0));
    for page in 0..300 {
        assert_eq!(again.page(PageAddress { sub: 0, page }), None);
    }
    // Other pages than before, in another order.
    for page in (100..500).rev() {
        write(
            &mut again,
            WordAddress {
                sub: 0,
                page,
                word: 8,
            },
            page.into(),
            1,
        );
    }
    let mut new = Overlay::default();
    for page in (100..500).rev() {
        write(
            &mut new,
            WordAddress {
                sub: 0,
                page,
                word: 8,
            },
            page.into(),
            1,
        );
    }
    assert_eq!(again.changes(), new.changes());
}

#[test]
fn spare_overlays_take_no_more_memory_than_is_said() {
    let mut spare = SpareOverlays::default();
    // One without memory, and one with too much of it, are of no use.
    spare.give_back(Overlay::default());
    spare.give_back(of_pages(SpareOverlays::KEPT_ROOM as u32 + 1));
    assert_eq!(spare.0.len(), 0);
    for _ in 0..SpareOverlays::KEPT + 3 {
        spare.give_back(of_pages(SpareOverlays::KEPT_ROOM as u32));
    }
    assert_eq!(spare.0.len(), SpareOverlays::KEPT);
    let bytes = |it: &Overlay| {
        it.pages.capacity() * size_of::<Page>() + it.numbers.bytes() + it.words.bytes()
    };
    let bytes: usize = spare.0.iter().map(bytes).sum();
    // docs/limits.md adds it up.
    assert!((4 << 20..=5 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn room_for_nothing_is_room_to_look_for_a_page() {
    let mut overlay = Overlay::default();
    overlay.reserve(0);
    assert_eq!(overlay.page(PageAddress { sub: 0, page: 0 }), None);
    write(
        &mut overlay,
        WordAddress {
            sub: 0,
            page: 3,
            word: 0,
        },
        1,
        0,
    );
    assert!(overlay.page(PageAddress { sub: 0, page: 3 }).is_some());
}

proptest! {
    // Few pages get many words: both ways of keeping them are met. Many pages get
    // few: both ways of putting pages in order are.
    #[test]
    fn an_overlay_agrees_with_a_sorted_map_and_so_do_merged_ones(
        writes in vec((0u32..3, any::<u32>(), 0u16..60, any::<u64>(), 0u16..8), 0..900),
        merged_at in 0usize..900,
        pages in prop_oneof![1u32..6, 6u32..200],
        spread in prop_oneof![Just(1u32), Just(1_000), Just(20_000_000)],
    ) {
        let (mut model, mut overlay, mut later) =
            (Model::new(), Overlay::default(), Overlay::default());
        for (n, &(sub, page, word, value, lane)) in writes.iter().enumerate() {
            // Their numbers differ in one digit, or in all.
            let page = page % pages * spread;
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
            let words = |page| (0..60).map(move |word| (page * spread, word));
            for (page, word) in (0..pages + 1).flat_map(words) {
                let planned = model.get(&(sub, page));
                let number = overlay.page(PageAddress { sub, page });
                prop_assert_eq!(number.is_some(), planned.is_some());
                let value = planned.and_then(|it| it.1.get(&word)).map(|it| it.0);
                prop_assert_eq!(number.and_then(|it| overlay.word(it, word)), value);
            }
        }
    }
}
