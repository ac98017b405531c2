use super::*;
use crate::chain::address::Ordinal;
use crate::chain::params::{Defaults, FilterParams, FilterRequest, LayoutKind};
use crate::cuckoo::hash::HashKey;
use proptest::prelude::*;

fn chain(request: FilterRequest) -> Chain {
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    Chain::new(params, HashKey([0xab; 16]), 1_700_000_000_123).unwrap()
}

/// A chain of sub-filters.
fn classic(request: FilterRequest) -> Chain {
    chain(FilterRequest {
        layout: Some(LayoutKind::Classic),
        ..request
    })
}

fn links(chain: &mut Chain) -> &mut Vec<Link> {
    &mut chain.links_mut().unwrap().links
}

#[test]
fn a_grown_chain_reads_back_as_written() {
    let mut grown = classic(FilterRequest {
        expansion: Some(2),
        ..Default::default()
    });
    for _ in 0..5 {
        grown.grow().unwrap();
    }
    links(&mut grown)[3].occupied = 1;
    assert_eq!(Chain::decode(&grown.encode()), Ok(grown));
}

#[test]
fn the_encoding_is_pinned() {
    let classic = chain(FilterRequest {
        capacity: Some(1000),
        layout: Some(LayoutKind::Classic),
        ..Default::default()
    });
    let classic = classic.with_lineage(Lineage(*b"sixteen at rando"), 0x19a_4c2b_7e60);
    assert_eq!(
        hex::encode(classic.encode()),
        "01010100100000e80300000000000001000000200000000000040000007b68e5\
         cf8b010000000000000000000000000000000000000000000000000000021400\
         0100000001000000010000000000000000000000000000000000000000000000\
         00000000000000000000000000000000\
         7369787465656e2061742072616e646f0000000000000000607e2b4c9a010000"
    );
    let paged = chain(FilterRequest {
        capacity: Some(1000),
        error_rate: Some(0.5),
        ..Default::default()
    });
    assert_eq!(
        hex::encode(paged.encode()),
        "01020200100000e80300000000000002000000200000000000040000007b68e5\
         cf8b0100000000000000000000abababababababababababababababab0c0000\
         00000000e03f4000000000000001000000000000000000000000000000000000\
         0000000000000000000000000000ffffffffffffffff000000000000000000\
         00000000000000000000000000000000\
         00000000000000000000000000000000"
    );
}

#[test]
fn a_version_is_shown_and_read_back_in_one_way() {
    let it = classic(FilterRequest::default()).with_lineage(Lineage([0xab; 16]), 0x19a_4c2b_7e60);
    let mut it = it.version().to_owned();
    it.changes = 31;
    let shown = "abababababababababababababababab-1f-19a4c2b7e60";
    assert_eq!(it.to_string(), shown);
    assert_eq!(FilterVersion::parse(shown), Some(it));
    for other in [
        "",
        "-",
        &shown.to_uppercase(),
        &shown[1..],
        &format!("{shown}-0"),
    ] {
        assert_eq!(FilterVersion::parse(other), None, "{other}");
    }
    let padded = shown.replace("-1f-", "-+1f-");
    assert_eq!(FilterVersion::parse(&padded), None);
}

#[test]
fn a_newer_version_is_named() {
    for layout in LayoutKind::ALL {
        let mut bytes = chain(FilterRequest {
            layout: Some(layout),
            ..Default::default()
        })
        .encode();
        bytes[0] = 0;
        assert!(matches!(Chain::decode(&bytes), Err(MetaError::Corrupt(_))));
        bytes[0] = META_VERSION + 1;
        let error = Chain::decode(&bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "filter metadata has version 2, this program reads 1 alone: use a newer one"
        );
    }
}

#[test]
fn as_many_sub_filters_do_as_have_room_for_all_slots_in_use() {
    let mut it = classic(FilterRequest {
        capacity: Some(10_000),
        expansion: Some(2),
        ..Default::default()
    });
    it.grow().unwrap();
    it.grow().unwrap();
    assert_eq!(it.would_do(1.0), 1);
    let reach = links(&mut it)[0].reachable();
    links(&mut it)[2].occupied = reach;
    assert_eq!((it.would_do(1.0), it.would_do(0.99)), (1, 2));
    links(&mut it)[0].occupied = 1;
    assert_eq!(it.would_do(1.0), 2);
    links(&mut it)[2].occupied = 4 * reach;
    assert_eq!(it.begin_compaction(1.0), 0);
    assert!(!it.is_compacting());
    // Counted copies take no slots.
    links(&mut it)[2].occupied = reach - 1;
    (links(&mut it)[2].counted, links(&mut it)[2].keys) = (1 << 40, 3);
    assert_eq!(it.begin_compaction(1.0), 2);
    assert!(it.is_compacting());
    assert_eq!(Chain::decode(&it.encode()), Ok(it.clone()));
    links(&mut it)[0].occupied += reach - 1;
    (links(&mut it)[0].counted, links(&mut it)[0].keys) = (1 << 40, 3);
    let emptied = &mut links(&mut it)[2];
    (emptied.occupied, emptied.counted, emptied.keys) = (0, 0, 0);
    assert_eq!(it.end_compaction(), [Ordinal(2), Ordinal(1)]);
    assert!(!it.is_compacting());
}

#[test]
fn the_rate_of_a_filter_is_below_its_promise_until_it_has_grown_too_far() {
    let it = chain(FilterRequest {
        capacity: Some(1_900),
        error_rate: Some(0.001),
        ..Default::default()
    });
    assert!(it.full_false_positive_rate() < 0.001);
    let table = it.table().unwrap().clone();
    let holding = |items| {
        it.clone()
            .with_table_for_tests(table.clone().with_items(items))
    };
    assert_eq!((it.keeps_promise(), it.is_within_promise()), (true, true));
    // Items of the first page know least: 8 times as many as it has.
    assert!(holding(8 * 1_900).keeps_promise() && !holding(9 * 1_900).keeps_promise());
}

#[test]
fn a_portable_chain_tells_nothing_of_its_server() {
    let mut it = classic(FilterRequest::default());
    it.grow().unwrap();
    it.grow().unwrap();
    links(&mut it)[0].occupied = 1;
    it.end_compaction();
    it.grow().unwrap();
    assert_eq!(it.begin_compaction(1.0), 1);
    let bytes = it.portable().encode();
    let taken = Chain::from_portable(&bytes, 1 << 20).unwrap();
    assert_eq!(taken.params().max_filter_bytes(), 1 << 20);
    assert_eq!(taken.sub_filter(1).unwrap().ordinal, Ordinal(1));
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
fn a_dropped_sub_filter_comes_back_under_a_new_ordinal() {
    let mut it = classic(FilterRequest::default());
    it.grow().unwrap();
    it.grow().unwrap();
    links(&mut it)[1].occupied = 1;
    assert_eq!(it.end_compaction(), [Ordinal(2)]);
    it.grow().unwrap();
    assert_eq!(it.sub_filter(2).unwrap().ordinal, Ordinal(3));
    assert_eq!(it.position_of(Ordinal(2)), None);
    assert_eq!(it.position_of(Ordinal(3)), Some(2));
}

#[test]
fn growth_ends_at_each_of_its_limits() {
    let mut never = classic(FilterRequest {
        expansion: Some(0),
        ..Default::default()
    });
    assert_eq!(never.grow(), Err(FullReason::ExpansionOff));

    let mut twice = classic(FilterRequest {
        max_expansions: Some(2),
        ..Default::default()
    });
    twice.grow().unwrap();
    twice.grow().unwrap();
    assert_eq!(twice.grow(), Err(FullReason::MaxExpansions));

    let small = Defaults {
        max_filter_bytes: 7_000,
        ..Defaults::default()
    };
    let request = FilterRequest {
        layout: Some(LayoutKind::Classic),
        expansion: Some(2),
        ..Default::default()
    };
    let params = FilterParams::resolve(&request, &small).unwrap();
    let mut capped = Chain::new(params, HashKey([0; 16]), 0).unwrap();
    capped.grow().unwrap();
    assert_eq!(capped.grow(), Err(FullReason::MaxFilterBytes));

    let mut huge = classic(FilterRequest {
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
    fn a_changed_byte_never_panics(at in 0usize..130, value: u8, is_classic: bool) {
        let mut it = chain(FilterRequest::default());
        if is_classic {
            it = classic(FilterRequest::default());
            it.grow().unwrap();
            it.grow().unwrap();
        }
        let mut bytes = it.encode();
        if let Some(byte) = bytes.get_mut(at) {
            *byte = value;
        }
        if let Ok(read) = Chain::decode(&bytes) {
            prop_assert_eq!(read.sub_filter_count(), it.sub_filter_count());
        }
    }
}
