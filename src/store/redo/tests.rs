use super::entry::{COUNTERS, CounterWrite, SEVERAL_SLOTS, SlotWrite};
use super::*;
use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use crate::store::varint;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::{BTreeMap, BTreeSet};

type Pages = BTreeMap<(u32, u32), BTreeMap<u32, u64>>;

fn write(filter: u64, ordinal: u32, page: u32, slot_bytes: u8, slot: u32, value: u64) -> RedoWrite {
    let page = PageId {
        filter: FilterId(filter),
        ordinal: Ordinal(ordinal),
        page: PageIndex(page),
    };
    match slot_bytes {
        COUNTERS => RedoWrite::Counter(CounterWrite {
            page,
            key: u64::from(slot) << 16,
            value,
        }),
        _ => RedoWrite::Slot(SlotWrite {
            page,
            slot_bytes,
            slot,
            value,
        }),
    }
}

fn build(sections: &[(u64, u8, Pages)]) -> (Vec<u8>, Vec<RedoWrite>) {
    let mut builder = RedoBuilder::new();
    let mut writes = Vec::new();
    for (filter, slot_bytes, pages) in sections {
        match *slot_bytes {
            COUNTERS => builder.counters(FilterId(*filter)),
            slot_bytes => builder.filter(FilterId(*filter), slot_bytes),
        };
        for (&(ordinal, page), slots) in pages {
            builder.page(Ordinal(ordinal), PageIndex(page));
            for (&slot, &value) in slots {
                let value = match *slot_bytes {
                    COUNTERS => {
                        builder.counter(u64::from(slot) << 16, value);
                        value
                    }
                    slot_bytes => {
                        let value = value >> (64 - 8 * u32::from(slot_bytes));
                        builder.slot(slot, value);
                        value
                    }
                };
                writes.push(write(*filter, ordinal, page, *slot_bytes, slot, value));
            }
        }
    }
    (builder.finish(), writes)
}

fn edgy_u32() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), 0..200u32, Just(u32::MAX), Just(u32::MAX - 1)]
}

fn sections() -> impl Strategy<Value = Vec<(u64, u8, Pages)>> {
    let slots = btree_map(edgy_u32(), any::<u64>(), 0..6);
    let ordinal = prop_oneof![0..3u32, Just(u32::MAX)];
    let pages = btree_map((ordinal, edgy_u32()), slots, 0..8);
    vec(
        (any::<u64>(), select(vec![COUNTERS, 1, 2, 4, 8]), pages),
        0..5,
    )
}

proptest! {
    #[test]
    fn every_slot_write_comes_back(sections in sections()) {
        let (record, writes) = build(&sections);
        let read: Result<Vec<_>, _> = RedoReader::new(&record).collect();
        prop_assert_eq!(read, Ok(writes));
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
            let read: Vec<_> = RedoReader::new(cut).map(|write| write.unwrap()).collect();
            prop_assert!(writes.starts_with(&read));
        }
    }
}

#[test]
fn the_bytes_are_pinned() {
    let mut builder = RedoBuilder::new();
    builder.filter(FilterId(300), 2);
    builder
        .page(Ordinal(0), PageIndex(5))
        .slot(7, 0x1234)
        .slot(9, 0);
    builder.page(Ordinal(0), PageIndex(6)).slot(1, 1);
    builder.page(Ordinal(2), PageIndex(3)).slot(0, 0xffff);
    let expected = [
        0xac,
        0x02,
        2,
        3, // filter 300, two bytes a slot, three pages
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
    let mut builder = RedoBuilder::new();
    builder.filter(FilterId(3), 1);
    builder.page(Ordinal(0), PageIndex(1)).slot(2, 9);
    builder.counters(FilterId(3));
    builder
        .page(Ordinal(0), PageIndex(1))
        .counter(0x1_0000_0009, 300)
        .counter(0x1_0000_000b, 0);
    let expected = [
        3,
        1,
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
fn a_record_without_slots_is_empty() {
    let mut builder = RedoBuilder::new();
    builder
        .filter(FilterId(1), 1)
        .page(Ordinal(0), PageIndex(0));
    builder.filter(FilterId(2), 8);
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
    let mut builder = RedoBuilder::new();
    builder.filter(FilterId(1), 1);
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
    record.push(1);
    varint::put(&mut record, u64::MAX);
    varint::put(&mut record, SEVERAL_SLOTS);
    varint::put(&mut record, u64::MAX);
    record.extend([0, 1]);
    let read: Vec<_> = RedoReader::new(&record).collect();
    assert_eq!(
        read,
        [Ok(write(1, 0, 0, 1, 0, 1)), Err(RedoError::Truncated)]
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    let bad_width = [1, 3, 1, 0, 0, 0];
    assert_eq!(check(&bad_width), Err(RedoError::UnknownSlotWidth(3)));
    let no_pages = [1, 1, 0];
    assert_eq!(check(&no_pages), Err(RedoError::EmptyList));
    let no_slots = [1, 1, 1, 1, 0];
    assert_eq!(check(&no_slots), Err(RedoError::EmptyList));

    let mut wide_slot = vec![1, 1, 1, 0];
    varint::put(&mut wide_slot, u64::MAX);
    wide_slot.push(0);
    assert_eq!(check(&wide_slot), Err(RedoError::OutOfRange));

    let mut wide_page = vec![1, 1, 1];
    varint::put(&mut wide_page, !0b11);
    wide_page.extend([0, 0]);
    assert_eq!(check(&wide_page), Err(RedoError::OutOfRange));
}

#[test]
#[should_panic(expected = "slots ascend")]
fn slots_out_of_order_are_not_written() {
    let mut builder = RedoBuilder::new();
    builder
        .filter(FilterId(1), 1)
        .page(Ordinal(0), PageIndex(0))
        .slot(3, 1)
        .slot(3, 2);
}

#[test]
#[should_panic(expected = "pages ascend")]
fn pages_out_of_order_are_not_written() {
    let mut builder = RedoBuilder::new();
    builder
        .filter(FilterId(1), 1)
        .page(Ordinal(1), PageIndex(0))
        .slot(3, 1);
    builder.page(Ordinal(0), PageIndex(9));
}

#[test]
#[should_panic(expected = "wider than its slot")]
fn a_value_wider_than_its_slot_is_not_written() {
    let mut builder = RedoBuilder::new();
    builder
        .filter(FilterId(1), 1)
        .page(Ordinal(0), PageIndex(0))
        .slot(3, 256);
}

#[test]
fn an_error_names_the_record() {
    let error = RedoError::Truncated.in_record(Sequence(7));
    assert_eq!(error.to_string(), "redo record 7 is corrupt: it ends early");
}
