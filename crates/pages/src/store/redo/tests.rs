use super::entry::{SEVERAL_SLOTS, SlotWrite};
use super::*;
use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use crate::store::format::MAX_IMAGE_BYTES;
use cuckood_filter::varint;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::{BTreeMap, BTreeSet};

type Pages = BTreeMap<(u32, u32), BTreeMap<u32, u64>>;

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Slot(PageId, u8, u32, u64),
    Counter(PageId, u64, u64),
    Whole(PageId, Vec<u8>),
    Dropped(PageId),
}

fn said(write: RedoWrite<'_>) -> Said {
    match write {
        RedoWrite::Slot(it) => Said::Slot(it.page, it.slot_bits, it.slot, it.value),
        RedoWrite::Counter(it) => Said::Counter(it.page, it.key, it.value),
        RedoWrite::Whole(it) => Said::Whole(it.page, it.image(&mut Vec::new()).unwrap().to_vec()),
        RedoWrite::Dropped(page) => Said::Dropped(page),
    }
}

fn read(record: &[u8]) -> Result<Vec<Said>, RedoError> {
    RedoReader::new(record)
        .map(|write| write.map(said))
        .collect()
}

/// A section of a record that tests write.
#[derive(Clone, Debug)]
enum Section {
    Slots(u8, Pages),
    Counters(Pages),
    Wholes(BTreeMap<(u32, u32), Vec<u8>>),
    Dropped(BTreeSet<(u32, u32)>),
}

fn page_of(filter: u64, (ordinal, page): (u32, u32)) -> PageId {
    PageId {
        filter: FilterId(filter),
        ordinal: Ordinal(ordinal),
        page: PageIndex(page),
    }
}

fn build(sections: &[(u64, Section)]) -> (Vec<u8>, Vec<Said>) {
    let mut builder = RedoBuilder::default();
    let mut writes = Vec::new();
    for (filter, section) in sections {
        let page_of = |place| page_of(*filter, place);
        match section {
            Section::Slots(bits, pages) => {
                builder.filter(FilterId(*filter), *bits);
                for (&place, slots) in pages {
                    let page = page_of(place);
                    builder.page(page.ordinal, page.page);
                    for (&slot, &value) in slots {
                        let value = value >> (64 - bits);
                        builder.slot(slot, value);
                        writes.push(Said::Slot(page, *bits, slot, value));
                    }
                }
            }
            Section::Counters(pages) => {
                builder.counters(FilterId(*filter));
                for (&place, counters) in pages {
                    let page = page_of(place);
                    builder.page(page.ordinal, page.page);
                    for (&key, &value) in counters {
                        let key = u64::from(key) << 16;
                        builder.counter(key, value);
                        writes.push(Said::Counter(page, key, value));
                    }
                }
            }
            Section::Wholes(pages) => {
                builder.wholes(FilterId(*filter));
                for (&place, image) in pages {
                    let page = page_of(place);
                    builder.whole(page.ordinal, page.page, image);
                    let used = image.iter().rposition(|&byte| byte != 0);
                    let used = image[..used.map_or(0, |last| last + 1)].to_vec();
                    writes.push(Said::Whole(page, used));
                }
            }
            Section::Dropped(pages) => {
                builder.dropped(FilterId(*filter));
                for &place in pages {
                    let page = page_of(place);
                    builder.dropped_page(page.ordinal, page.page);
                    writes.push(Said::Dropped(page));
                }
            }
        }
    }
    (builder.finish(), writes)
}

fn edgy_u32() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), 0..200u32, Just(u32::MAX), Just(u32::MAX - 1)]
}

fn places() -> impl Strategy<Value = (u32, u32)> {
    (prop_oneof![0..3u32, Just(u32::MAX)], edgy_u32())
}

fn sections() -> impl Strategy<Value = Vec<(u64, Section)>> {
    let slots = || btree_map(edgy_u32(), any::<u64>(), 0..6);
    let pages = move || btree_map(places(), slots(), 0..8);
    // Images full of zeros, and without any.
    let image = prop_oneof![
        vec(any::<u8>(), 0..80),
        vec(select(vec![0, 0, 0, 9]), 0..200)
    ];
    let section = prop_oneof![
        (select(vec![8, 12, 16, 21, 32]), pages()).prop_map(|(bits, it)| Section::Slots(bits, it)),
        pages().prop_map(Section::Counters),
        btree_map(places(), image, 0..4).prop_map(Section::Wholes),
        proptest::collection::btree_set(places(), 0..6).prop_map(Section::Dropped),
    ];
    vec((any::<u64>(), section), 0..6)
}

proptest! {
    #[test]
    fn every_entry_comes_back(sections in sections()) {
        let (record, writes) = build(&sections);
        prop_assert_eq!(check(&record), Ok(()));
        prop_assert_eq!(read(&record), Ok(writes));
    }

    #[test]
    fn hostile_bytes_never_panic(bytes: Vec<u8>) {
        let _ = RedoReader::new(&bytes).count();
    }

    #[test]
    fn a_damaged_record_never_panics_and_never_grows(
        sections in sections(), at: prop::sample::Index, flip in 1u8..,
    ) {
        let (mut record, _) = build(&sections);
        prop_assume!(!record.is_empty());
        let at = at.index(record.len());
        record[at] ^= flip;
        prop_assert!(RedoReader::new(&record).count() <= record.len());
    }

    #[test]
    fn a_record_cut_short_is_an_error_or_a_whole_prefix(
        sections in sections(), at: prop::sample::Index,
    ) {
        let (record, writes) = build(&sections);
        prop_assume!(!record.is_empty());
        let cut = &record[..at.index(record.len())];
        if check(cut).is_ok() {
            prop_assert!(writes.starts_with(&read(cut).unwrap()));
        }
    }
}

#[test]
fn the_bytes_are_pinned() {
    let mut builder = RedoBuilder::default();
    builder.filter(FilterId(300), 16);
    builder
        .page(Ordinal(0), PageIndex(5))
        .slot(7, 0x1234)
        .slot(9, 0);
    builder.page(Ordinal(0), PageIndex(6)).slot(1, 1);
    builder.page(Ordinal(2), PageIndex(3)).slot(0, 0xffff);
    let expected = [
        0xac,
        0x02,
        16,
        3, // filter 300, 16 bits a slot, three pages
        5 << 2 | 1,
        2,
        7,
        0x34,
        0x12,
        1,
        0,
        0, // page 5, two slots
        0,
        1,
        1,
        0, // next page, one slot
        3 << 2 | 2,
        2,
        0,
        0xff,
        0xff, // two ordinals on, page 3, one slot
    ];
    assert_eq!(builder.finish(), expected);
}

#[test]
fn the_bytes_of_counters_are_pinned() {
    let mut builder = RedoBuilder::default();
    builder.filter(FilterId(3), 8);
    builder.page(Ordinal(0), PageIndex(1)).slot(2, 9);
    builder.counters(FilterId(3));
    builder
        .page(Ordinal(0), PageIndex(1))
        .counter(0x1_0000_0009, 300)
        .counter(0x1_0000_000b, 0);
    let expected = [
        3,
        8,
        1,
        1 << 2,
        2,
        9, // slot 2 of page 1 = 9
        3,
        0,
        1,
        1 << 2 | 1,
        2, // two counters of page 1
        0x89,
        0x80,
        0x80,
        0x80,
        0x10,
        0xac,
        0x02, // the first = 300
        1,
        0, // the one after the next = 0
    ];
    assert_eq!(builder.finish(), expected);
}

#[test]
fn the_bytes_of_whole_and_dropped_pages_are_pinned() {
    let mut builder = RedoBuilder::default();
    builder.filter(FilterId(3), 12);
    builder.page(Ordinal(0), PageIndex(1)).slot(2, 0xabc);
    builder.wholes(FilterId(3));
    builder
        .whole(Ordinal(0), PageIndex(5), &[1, 2, 3, 0, 0])
        .whole(Ordinal(0), PageIndex(7), &[0, 0, 0, 0, 0, 0, 9]);
    builder.dropped(FilterId(3));
    builder.dropped_page(Ordinal(0), PageIndex(8));
    builder.dropped_page(Ordinal(0), PageIndex(9));
    let expected = [
        3,
        12,
        1,
        1 << 2,
        2,
        0xbc,
        0x0a, // slot 2 of page 1 = 0xabc
        3,
        1,
        2, // two whole pages
        5 << 2,
        4,
        0,
        1,
        2,
        3, // page 5: four bytes, as they are
        1 << 2,
        3,
        1,
        6,
        9, // page 7: three bytes, packed: six zeros and a 9
        3,
        2,
        2, // two pages that are no more
        8 << 2,
        0, // 8 and the next
    ];
    assert_eq!(builder.finish(), expected);
}

#[test]
fn a_record_without_entries_is_empty() {
    let mut builder = RedoBuilder::default();
    builder
        .filter(FilterId(1), 8)
        .page(Ordinal(0), PageIndex(0));
    builder.filter(FilterId(2), 21);
    builder.wholes(FilterId(2));
    builder.dropped(FilterId(2));
    assert!(builder.finish().is_empty());
    assert_eq!(RedoReader::new(&[]).next(), None);
}

#[test]
fn a_thousand_random_slots_cost_less_than_five_bytes_each() {
    // xorshift, fixed seed: the sizes are the same on every run.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let slots: BTreeSet<(u32, u32)> = (0..1000)
        .map(|_| (random(5000) as u32, random(4096) as u32))
        .collect();
    let mut builder = RedoBuilder::default();
    builder.filter(FilterId(1), 8);
    let mut open = None;
    for &(page, slot) in &slots {
        if open != Some(page) {
            builder.page(Ordinal(0), PageIndex(page));
            open = Some(page);
        }
        builder.slot(slot, 255);
    }
    let per_slot = builder.finish().len() as f64 / slots.len() as f64;
    assert!(per_slot < 4.2, "{per_slot} bytes a slot");
}

#[test]
fn announced_lengths_are_not_believed() {
    let mut record = Vec::new();
    varint::put(&mut record, 1);
    record.push(8);
    varint::put(&mut record, u64::MAX);
    varint::put(&mut record, SEVERAL_SLOTS);
    varint::put(&mut record, u64::MAX);
    record.extend([0, 1]);
    let read: Vec<_> = RedoReader::new(&record).collect();
    let slot = SlotWrite {
        page: page_of(1, (0, 0)),
        slot_bits: 8,
        slot: 0,
        value: 1,
    };
    assert_eq!(read, [Ok(RedoWrite::Slot(slot)), Err(RedoError::Truncated)]);

    let mut whole = vec![1, 1, 1, 0];
    varint::put(&mut whole, u64::MAX);
    whole.push(0);
    assert_eq!(check(&whole), Err(RedoError::Truncated));
}

#[test]
fn numbers_out_of_range_are_refused() {
    // Three bytes, as older versions counted.
    for width in [3, 4, 7, 9, 24, 64] {
        let bad_width = [1, width, 1, 0, 0, 0];
        assert_eq!(check(&bad_width), Err(RedoError::UnknownSlotWidth(width)));
    }
    let no_pages = [1, 8, 0];
    assert_eq!(check(&no_pages), Err(RedoError::EmptyList));
    let no_slots = [1, 8, 1, 1, 0];
    assert_eq!(check(&no_slots), Err(RedoError::EmptyList));
    let thirteenth_bit = [1, 12, 1, 0, 0, 0, 0x10];
    assert_eq!(check(&thirteenth_bit), Err(RedoError::OutOfRange));

    let mut wide_slot = vec![1, 8, 1, 0];
    varint::put(&mut wide_slot, u64::MAX);
    wide_slot.push(0);
    assert_eq!(check(&wide_slot), Err(RedoError::OutOfRange));

    let mut wide_page = vec![1, 8, 1];
    varint::put(&mut wide_page, !0b11);
    wide_page.extend([0, 0]);
    assert_eq!(check(&wide_page), Err(RedoError::OutOfRange));
}

#[test]
fn pages_that_can_not_be_unpacked_or_come_twice_are_refused() {
    let unpacks = |image: &[u8]| {
        let mut record = vec![1, 1, 1, 0];
        varint::put(&mut record, image.len() as u64);
        record.extend(image);
        check(&record)
    };
    assert_eq!(unpacks(&[0, 1, 2]), Ok(()));
    for bad in [
        &[][..],
        &[7, 1],
        &[1, 5],
        &[1, 0xff, 0xff, 0xff, 0xff, 9, 1],
    ] {
        assert!(matches!(unpacks(bad), Err(RedoError::Image(_))), "{bad:?}");
    }
    let too_large = vec![0; MAX_IMAGE_BYTES + 2];
    assert!(matches!(unpacks(&too_large), Err(RedoError::Image(_))));

    let dropped_twice = [1, 2, 1, SEVERAL_SLOTS as u8, 2];
    assert_eq!(check(&dropped_twice), Err(RedoError::OutOfRange));
}

#[test]
#[should_panic(expected = "slots ascend")]
fn slots_out_of_order_are_not_written() {
    let mut builder = RedoBuilder::default();
    builder
        .filter(FilterId(1), 8)
        .page(Ordinal(0), PageIndex(0))
        .slot(3, 1)
        .slot(3, 2);
}

#[test]
#[should_panic(expected = "pages ascend")]
fn pages_out_of_order_are_not_written() {
    let mut builder = RedoBuilder::default();
    builder
        .filter(FilterId(1), 8)
        .page(Ordinal(1), PageIndex(0))
        .slot(3, 1);
    builder.page(Ordinal(0), PageIndex(9));
}

#[test]
#[should_panic(expected = "wider than its slot")]
fn a_value_wider_than_its_slot_is_not_written() {
    let mut builder = RedoBuilder::default();
    builder
        .filter(FilterId(1), 8)
        .page(Ordinal(0), PageIndex(0))
        .slot(3, 256);
}

#[test]
fn an_error_names_the_record() {
    let error = RedoError::Truncated.in_record(Sequence(7));
    assert_eq!(error.to_string(), "redo record 7 is corrupt: it ends early");
}
