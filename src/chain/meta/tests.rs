use super::*;
use crate::chain::params::{Defaults, FilterParams, FilterRequest, LayoutKind};
use crate::cuckoo::hash::HashKey;
use crate::page::Ordinal;
use proptest::prelude::*;

fn chain(request: FilterRequest) -> Chain {
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    Chain::new(params, HashKey([0xab; 16]), 1_700_000_000_123).unwrap()
}

#[test]
fn a_grown_chain_reads_back_as_written() {
    let mut grown = chain(FilterRequest {
        expansion: Some(2),
        ..Default::default()
    });
    for _ in 0..5 {
        grown.grow().unwrap();
    }
    grown.note_occupied(3, 1);
    assert_eq!(Chain::decode(&grown.encode()), Ok(grown));
}

#[test]
fn the_encoding_is_pinned() {
    let classic = chain(FilterRequest {
        capacity: Some(1000),
        layout: Some(LayoutKind::Classic),
        ..Default::default()
    });
    assert_eq!(
        hex::encode(classic.encode()),
        "0301010200100000e80300000000000014000100000020000000000004000000\
         7b68e5cf8b010000000000000000000001000000010000000800000000000000\
         0000000000000000000000000000000000010000000000000000000000000000\
         0000000000000000000000000000000000"
    );
    let paged = chain(FilterRequest {
        capacity: Some(1000),
        error_rate: Some(0.5),
        ..Default::default()
    });
    assert_eq!(
        hex::encode(paged.encode()),
        "0302020400100000e80300000000000000000200000020000000000004000000\
         7b68e5cf8b01000000000000000000000100000001000000080000000000\
         00e03fabababababababababababababababab01000000000000000000000000\
         00000000000000000000000000000000000000"
    );
}

#[test]
fn a_description_of_version_1_is_still_read() {
    let old = hex::decode(
        "0101010200100000e80300000000000014000100000020000000000004000000\
         7b68e5cf8b0100000000000000000000010000000100000000000000_2a00000000000000"
            .replace('_', ""),
    )
    .unwrap();
    let read = Chain::decode(&old).unwrap();
    assert_eq!(read.params().layout(), LayoutKind::Classic);
    assert_eq!(read.params().capacity(), 1000);
    assert_eq!(read.items(), 42);
    assert_eq!(Chain::decode(&read.encode()), Ok(read));
}

#[test]
fn a_description_of_version_2_is_still_read() {
    let old = hex::decode(
        "0202020400100000e80300000000000000000200000020000000000004000000\
         7b68e5cf8b01000000000000000000000100000001000000080000000000\
         00e03fabababababababababababababababab00000000000000000000000000\
         00000000000000",
    )
    .unwrap();
    let read = Chain::decode(&old).unwrap();
    assert_eq!(read.params().layout(), LayoutKind::Paged);
    assert!(!read.is_compacting());
    assert_eq!(Chain::decode(&read.encode()), Ok(read));
}

#[test]
fn as_many_sub_filters_do_as_have_room_for_all_slots_in_use() {
    let mut it = chain(FilterRequest {
        capacity: Some(10_000),
        expansion: Some(2),
        ..Default::default()
    });
    it.grow().unwrap();
    it.grow().unwrap();
    assert_eq!(it.would_do(1.0), 1);
    let reach = it.sub_filters[0].reach();
    it.sub_filters[2].occupied = reach;
    assert_eq!((it.would_do(1.0), it.would_do(0.99)), (1, 2));
    it.sub_filters[0].occupied = 1;
    assert_eq!(it.would_do(1.0), 2);
    it.sub_filters[2].occupied = 4 * reach;
    assert_eq!(it.begin_compaction(1.0), 0);
    assert!(!it.is_compacting());
    // Counted copies take no slots.
    it.sub_filters[2].occupied = reach - 1;
    it.sub_filters[2].counted = 1 << 40;
    assert_eq!(it.begin_compaction(1.0), 2);
    assert!(it.is_compacting());
    assert_eq!(Chain::decode(&it.encode()), Ok(it.clone()));
    it.sub_filters[0].occupied += it.sub_filters[2].occupied;
    it.sub_filters[0].counted = it.sub_filters[2].counted;
    (it.sub_filters[2].occupied, it.sub_filters[2].counted) = (0, 0);
    assert_eq!(it.end_compaction(), [Ordinal(2), Ordinal(1)]);
    assert!(!it.is_compacting());
}

#[test]
fn the_rate_of_a_full_chain_is_below_its_promise_until_it_has_too_many_sub_filters() {
    let mut it = chain(FilterRequest {
        error_rate: Some(0.001),
        ..Default::default()
    });
    assert!(it.full_false_positive_rate() < 0.001);
    for _ in 1..8 {
        it.grow().unwrap();
    }
    assert!(it.keeps_promise());
    let slots = it.sub_filters().iter().map(|sub| sub.layout.slots());
    let first = it.sub_filters()[0].layout.slots();
    assert_eq!(slots.sum::<u64>(), 255 * first);
    it.grow().unwrap();
    assert!(!it.keeps_promise());
}

#[test]
fn a_portable_chain_tells_nothing_of_its_server() {
    let mut it = chain(FilterRequest::default());
    it.grow().unwrap();
    it.grow().unwrap();
    it.note_occupied(0, 1);
    it.end_compaction();
    it.grow().unwrap();
    assert_eq!(it.begin_compaction(1.0), 1);
    let bytes = it.portable().encode();
    let taken = Chain::from_portable(&bytes, 1 << 20).unwrap();
    assert_eq!(taken.params().max_filter_bytes(), 1 << 20);
    assert_eq!(taken.sub_filters()[1].ordinal, Ordinal(1));
    assert_eq!(taken.portable().encode(), bytes);
    assert_eq!(
        (taken.items(), taken.created_at_ms()),
        (1, it.created_at_ms())
    );
    assert!(Chain::from_portable(&it.encode(), 1 << 20).is_err());
}

#[test]
fn a_portable_chain_was_created_at_a_time_that_a_date_shows() {
    let mut it = chain(FilterRequest::default());
    for (created_at_ms, is_taken) in [
        (253_402_300_799_999, true),
        (253_402_300_800_000, false),
        (u64::MAX, false),
    ] {
        it.created_at_ms = created_at_ms;
        let taken = Chain::from_portable(&it.portable().encode(), 1 << 30);
        assert_eq!(taken.is_ok(), is_taken, "{created_at_ms}");
    }
}

#[test]
fn a_newer_version_is_named() {
    let mut bytes = chain(FilterRequest::default()).encode();
    bytes[0] = META_VERSION + 1;
    let found = META_VERSION + 1;
    assert_eq!(Chain::decode(&bytes), Err(MetaError::Newer { found }));
}

#[test]
fn a_dropped_sub_filter_comes_back_under_a_new_ordinal() {
    let mut it = chain(FilterRequest::default());
    it.grow().unwrap();
    it.grow().unwrap();
    it.note_occupied(1, 1);
    assert_eq!(it.end_compaction(), [Ordinal(2)]);
    it.grow().unwrap();
    assert_eq!(it.sub_filters()[2].ordinal, Ordinal(3));
    assert_eq!(it.position_of(Ordinal(2)), None);
    assert_eq!(it.position_of(Ordinal(3)), Some(2));
}

#[test]
fn growth_ends_at_each_of_its_limits() {
    let mut never = chain(FilterRequest {
        expansion: Some(0),
        ..Default::default()
    });
    assert_eq!(never.grow(), Err(FullReason::ExpansionOff));

    let mut twice = chain(FilterRequest {
        max_expansions: Some(2),
        ..Default::default()
    });
    twice.grow().unwrap();
    twice.grow().unwrap();
    assert_eq!(twice.grow(), Err(FullReason::MaxExpansions));

    let small = Defaults {
        max_filter_bytes: 5 * 4096,
        ..Defaults::default()
    };
    let request = FilterRequest {
        expansion: Some(2),
        ..Default::default()
    };
    let params = FilterParams::resolve(&request, &small).unwrap();
    let mut capped = Chain::new(params, HashKey([0; 16]), 0).unwrap();
    capped.grow().unwrap();
    assert_eq!(capped.grow(), Err(FullReason::MaxFilterBytes));

    let mut huge = chain(FilterRequest {
        expansion: Some(32_768),
        ..Default::default()
    });
    while huge.grow().is_ok() {}
    assert_eq!(huge.grow(), Err(FullReason::MaxFilterBytes));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..160)) {
        let _ = Chain::decode(&bytes);
    }

    #[test]
    fn a_changed_byte_never_panics(at in 0usize..153, value: u8) {
        let mut it = chain(FilterRequest::default());
        it.grow().unwrap();
        it.grow().unwrap();
        let mut bytes = it.encode();
        bytes[at] = value;
        let _ = Chain::decode(&bytes);
    }
}
