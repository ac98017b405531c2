use super::*;
use crate::chain::meta::Chain;
use crate::chain::params::{Defaults, FilterParams, FilterRequest};
use crate::cuckoo::hash::HashKey;
use crate::memory::MemoryStore;
use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use crate::store::format::StoredValue;
use crate::store::redo::RedoBuilder;
use crate::store::{Commit, FilterChange, SideRecord, SideRecordChange, SideRecordKey};
use std::sync::Arc;

fn empty() -> (MemoryStore, PageStore) {
    let memory = MemoryStore::new();
    let store = PageStore::open(Arc::new(memory.clone())).unwrap();
    (memory, store)
}

fn stored(meta: Vec<u8>) -> (MemoryStore, PageStore) {
    let (memory, store) = empty();
    store
        .commit(&Commit {
            sequence: Sequence(1),
            redo: Vec::new(),
            filters: vec![FilterChange::Create {
                id: FilterId(1),
                name: "coupons".to_owned(),
                meta,
            }],
            ..Commit::default()
        })
        .unwrap();
    (memory, store)
}

/// Two sub-filters of a few pages each.
fn chain() -> Chain {
    let request = FilterRequest {
        capacity: Some(10_000),
        bucket_size: Some(2),
        ..FilterRequest::default()
    };
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    let mut chain = Chain::new(params, HashKey([1; 16]), 0).unwrap();
    chain.grow().unwrap();
    chain
}

/// Pages of its sub-filters: 3 slots in use in an image of the first, 2 in the
/// log of the second.
fn with_pages() -> (MemoryStore, PageStore) {
    let chain = chain().with_occupied(&[3, 2]).unwrap();
    let (memory, store) = stored(chain.encode());
    write(&store, page(1, 0, 3), &[1, 2, 0, 3]);
    let mut record = RedoBuilder::default();
    record.filter(FilterId(1), 8);
    record.page(Ordinal(1), PageIndex(0)).slot(0, 9).slot(4, 9);
    log(&store, 2, record);
    (memory, store)
}

fn page(filter: u64, ordinal: u32, page: u32) -> PageId {
    PageId::new(FilterId(filter), Ordinal(ordinal), page)
}

fn write(store: &PageStore, page: PageId, image: &[u8]) {
    store
        .checkpoint(&[(page, image.to_vec())], Sequence(0))
        .unwrap();
}

fn log(store: &PageStore, sequence: u64, record: RedoBuilder) {
    let commit = Commit {
        sequence: Sequence(sequence),
        redo: record.finish(),
        ..Commit::default()
    };
    store.commit(&commit).unwrap();
}

/// Takes all faults.
#[derive(Default)]
struct All(Vec<String>);

impl Inspector for All {
    fn read(&mut self, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn fault(&mut self, fault: Fault) {
        let logged = fault.error.to_string();
        assert!(
            !logged.contains("coupons"),
            "the log names a filter: {logged}"
        );
        self.0.push(fault.to_string());
    }
}

fn faults(store: &PageStore) -> Vec<String> {
    let mut all = All::default();
    inspect(store, &mut all);
    all.0
}

#[test]
fn a_sound_store_is_counted_whatever_is_compared_at_once() {
    let (_, store) = with_pages();
    let findings = check(&store).unwrap();
    let expected = Findings {
        filters: 1,
        items: 5,
        pages: 2,
        records: 1,
    };
    assert_eq!(findings, expected);
    let (view, mut from, mut pages, mut slices) = (store.snapshot(), Some(FIRST_PAGE), 0, 0);
    let bounds = SliceBounds {
        bytes: 1,
        sub_filters: 1,
        log_entries: 1,
    };
    let mut all = All::default();
    while let Some(first) = from {
        let compared = compare(&view, first, bounds, &mut all).unwrap();
        (from, pages, slices) = (compared.next, pages + compared.pages, slices + 1);
    }
    assert_eq!((pages, slices), (2, 2));
    assert_eq!(all.0, [""; 0]);
}

#[test]
fn pages_that_hold_other_than_their_filter_says_are_found() {
    let (_, store) = with_pages();
    write(&store, page(1, 0, 3), &[1, 2, 0, 0]);
    let mut record = RedoBuilder::default();
    record.filter(FilterId(1), 8);
    record.page(Ordinal(1), PageIndex(1)).slot(0, 9);
    log(&store, 3, record);
    let found = faults(&store);
    let [first, second] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert!(
        first.contains("\"coupons\": filter 1 sub-filter 0 is corrupt: its pages have 2 slots"),
        "{first}"
    );
    assert!(
        second.contains("sub-filter 1 is corrupt: its pages have 3 slots"),
        "{second}"
    );
    assert!(check(&store).is_err());
}

#[test]
fn pages_of_nothing_that_is_described_are_found_unless_they_wait_to_be_reclaimed() {
    let (_, store) = with_pages();
    let beyond = chain().sub_filter(0).unwrap().layout.pages();
    for stray in [page(0, 0, 0), page(1, 2, 1), page(1, 2, 2), page(9, 0, 0)] {
        write(&store, stray, &[1]);
    }
    write(&store, page(1, 0, beyond), &[1]);
    let found = faults(&store);
    assert_eq!(found.len(), 4, "{found:?}");
    for (fault, named) in found.iter().zip([
        "filter 0 sub-filter 0 page 0".to_owned(),
        format!("filter 1 sub-filter 0 page {beyond}"),
        "filter 1 sub-filter 2 page 1".to_owned(),
        "filter 9 sub-filter 0 page 0".to_owned(),
    ]) {
        assert!(fault.contains(&named), "{fault}");
    }
    // The one beyond the end of a sub-filter that is described goes with it.
    assert_eq!(remove_unreachable(&store).unwrap(), 3);
    let left = faults(&store);
    assert_eq!(left, [found[1].as_str()]);
    let read = |page| {
        let mut bytes = None;
        let read = store.read_pages(&[page], &mut |_, image| bytes = image.map(<[u8]>::to_vec));
        read.unwrap();
        bytes
    };
    assert_eq!(read(page(1, 0, 3)), Some(vec![1, 2, 0, 3]));
    assert_eq!(read(page(1, 2, 1)), None);
    let (_, store) = with_pages();
    store.stage(FilterId(9)).unwrap();
    write(&store, page(9, 0, 0), &[1]);
    assert_eq!(faults(&store), [""; 0]);
}

#[test]
fn every_page_that_cannot_be_read_is_named_and_its_sum_is_not() {
    let (memory, store) = with_pages();
    write(&store, page(1, 0, 2), &[0; 5]);
    for damaged in [page(1, 0, 3), page(1, 0, 2)] {
        assert!(memory.damage(&StoredValue::Page(damaged), 3));
    }
    let found = faults(&store);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[1].contains("filter 1 sub-filter 0 page 3"),
        "{found:?}"
    );
    assert!(
        found[0].contains("filter 1 sub-filter 0 page 2"),
        "{found:?}"
    );
}

#[test]
fn a_name_that_leads_nowhere_and_a_filter_that_none_leads_to_are_found() {
    let (memory, store) = with_pages();
    let name = StoredValue::FilterNumber("coupons".to_owned());
    assert!(memory.damage(&name, 6));
    let found = faults(&store);
    // Its pages can be compared all the same, so there is nothing else.
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found.iter().all(|fault| fault.contains("\"coupons\"")),
        "{found:?}"
    );
}

#[test]
fn a_damaged_side_record_is_found() {
    let ((memory, store), key) = (empty(), SideRecordKey::Retry([7; 32]));
    let after = Some(SideRecord {
        ends_at_ms: 1,
        owner: None,
        payload: vec![1],
    });
    let commit = Commit {
        sequence: Sequence(1),
        side_records: vec![SideRecordChange {
            key: key.clone(),
            before: None,
            after,
        }],
        ..Commit::default()
    };
    store.commit(&commit).unwrap();
    assert!(check(&store).is_ok());
    assert!(memory.damage(&StoredValue::SideRecord(key), 8));
    assert!(check(&store).is_err());
}

#[test]
fn a_description_that_makes_no_sense_is_named() {
    let found = faults(&stored(b"nonsense".to_vec()).1);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("\"coupons\": metadata of filter 1"),
        "{found:?}"
    );
}

/// A filter of the layout `paged` that has doubled twice, with one entry, which
/// knows no more bits than when it was added.
fn grown_twice() -> (MemoryStore, PageStore) {
    let request = FilterRequest {
        capacity: Some(1_000),
        fingerprint_bits: Some(16),
        ..FilterRequest::default()
    };
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    let chain = Chain::new(params, HashKey([1; 16]), 0).unwrap();
    let mut meta = chain.with_occupied(&[1]).unwrap().encode();
    // The level of the description, as `docs/format.md` says.
    meta[81] = 2;
    stored(meta)
}

#[test]
fn entries_that_know_other_bits_than_their_filter_says_are_found() {
    for (suffix, found) in [(0b10, None), (0b01, Some("bits of their items"))] {
        let (_memory, store) = grown_twice();
        write(&store, page(1, 0, 3), &[suffix, 1]);
        let faults = faults(&store);
        assert_eq!(faults.len(), usize::from(found.is_some()), "{faults:?}");
        assert!(faults.iter().all(|it| it.contains(found.unwrap())));
    }
    // One that knows fewer bits than any entry, and one that tells nothing.
    for suffix in [0b100, 0] {
        let (_memory, store) = grown_twice();
        write(&store, page(1, 0, 3), &[suffix, 1]);
        let faults = faults(&store);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains("does not fit"), "{faults:?}");
    }
}
