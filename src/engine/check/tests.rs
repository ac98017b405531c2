use super::*;
use crate::chain::meta::Chain;
use crate::chain::params::{Defaults, FilterParams, FilterRequest};
use crate::cuckoo::hash::HashKey;
use crate::page::{FilterId, Sequence};
use crate::store::format::StoredValue;
use crate::store::memory::MemoryStore;
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

fn chain() -> Chain {
    let params = FilterParams::resolve(&FilterRequest::default(), &Defaults::default()).unwrap();
    Chain::new(params, HashKey([1; 16]), 0).unwrap()
}

#[test]
fn a_sound_store_is_counted() {
    let chain = chain();
    let (_, store) = stored(chain.encode());
    let page = PageId {
        filter: FilterId(1),
        ordinal: chain.sub_filters()[0].ordinal,
        page: PageIndex(0),
    };
    store
        .checkpoint(&[(page, vec![1, 2, 3])], Sequence(0))
        .unwrap();
    let findings = check(&store).unwrap();
    assert_eq!(
        (findings.filters, findings.pages, findings.records),
        (1, 1, 0)
    );
}

#[test]
fn a_damaged_side_record_is_found() {
    let ((memory, store), key) = (empty(), SideRecordKey::Retry([7; 32]));
    let after = Some(SideRecord {
        ends_at_ms: 1,
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
    let error = check(&stored(b"nonsense".to_vec()).1).unwrap_err();
    assert!(error.to_string().contains("coupons"), "{error}");
}
