use super::*;
use crate::page::{FilterId, Ordinal, PageId, PageIndex};
use crate::store::commit::{FilterChange, SideRecordChange};
use crate::store::values::{Expiry, Garbage, SideRecord, SideRecordKey};
use proptest::option;
use proptest::prelude::*;
use std::sync::Arc;

fn ids() -> impl Strategy<Value = FilterId> {
    any::<u64>().prop_map(FilterId)
}

fn payloads() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

fn garbages() -> impl Strategy<Value = Garbage> {
    (ids(), option::of(any::<u32>())).prop_map(|(id, ordinal)| match ordinal {
        None => Garbage::Filter(id),
        Some(ordinal) => Garbage::SubFilter(id, Ordinal(ordinal)),
    })
}

fn expiries() -> impl Strategy<Value = Option<Expiry>> {
    option::of(any::<(u64, u64)>())
        .prop_map(|it| it.map(|(at_ms, ttl_seconds)| Expiry { at_ms, ttl_seconds }))
}

fn filter_changes() -> impl Strategy<Value = FilterChange> {
    let ordinals = prop::collection::vec(any::<u32>().prop_map(Ordinal), 0..4);
    prop_oneof![
        (ids(), ".{0,20}", payloads()).prop_map(|(id, name, meta)| FilterChange::Create {
            id,
            name,
            meta
        }),
        (ids(), payloads(), ordinals).prop_map(|(id, meta, dropped)| FilterChange::Update {
            id,
            meta,
            dropped
        }),
        (ids(), ".{0,20}").prop_map(|(id, name)| FilterChange::Remove { id, name }),
        (
            ids(),
            ".{0,20}",
            payloads(),
            prop::collection::vec(garbages(), 0..4)
        )
            .prop_map(|(id, name, meta, reclaimed)| FilterChange::Restore {
                id,
                name,
                meta,
                reclaimed
            }),
        (ids(), ".{0,20}").prop_map(|(id, owner)| FilterChange::Own { id, owner }),
        (ids(), prop::collection::vec(any::<(u32, u32, u8)>(), 0..3)).prop_map(|(id, pages)| {
            // Bytes at the end are not zero.
            let image = |(ordinal, page, byte)| {
                let at = PageId {
                    filter: id,
                    ordinal: Ordinal(ordinal),
                    page: PageIndex(page),
                };
                (at, [vec![0; usize::from(byte)], vec![byte | 1]].concat())
            };
            FilterChange::Stage {
                id,
                pages: pages.into_iter().map(image).collect(),
            }
        }),
        ids().prop_map(|id| FilterChange::GiveUp { id }),
        (ids(), expiries(), expiries()).prop_map(|(id, before, after)| FilterChange::Expire {
            id,
            before,
            after
        }),
    ]
}

fn side_records() -> impl Strategy<Value = SideRecord> {
    (any::<u64>(), option::of(".{0,10}"), payloads()).prop_map(|(ends_at_ms, owner, payload)| {
        SideRecord {
            ends_at_ms,
            owner: owner.map(Arc::from),
            payload,
        }
    })
}

fn side_record_changes() -> impl Strategy<Value = SideRecordChange> {
    let keys = prop_oneof![
        any::<[u8; 32]>().prop_map(SideRecordKey::Retry),
        (ids(), ".{0,20}").prop_map(|(filter, import)| SideRecordKey::Import { filter, import }),
    ];
    (keys, option::of(side_records()), option::of(side_records()))
        .prop_map(|(key, before, after)| SideRecordChange { key, before, after })
}

fn commits() -> impl Strategy<Value = Commit> {
    (
        payloads(),
        prop::collection::vec(filter_changes(), 0..5),
        prop::collection::vec(side_record_changes(), 0..3),
    )
        .prop_map(|(redo, filters, side_records)| Commit {
            sequence: Sequence(9),
            redo,
            filters,
            side_records,
        })
}

#[test]
fn the_bytes_of_a_commit_are_these() {
    let commit = Commit {
        sequence: Sequence(1),
        redo: vec![0xaa, 0xbb],
        filters: vec![
            FilterChange::Remove {
                id: FilterId(300),
                name: "a".to_owned(),
            },
            FilterChange::Expire {
                id: FilterId(1),
                before: None,
                after: Some(Expiry {
                    at_ms: 5,
                    ttl_seconds: 6,
                }),
            },
        ],
        side_records: Vec::new(),
    };
    let bytes = encode(&commit);
    assert_eq!(hex::encode(&bytes), "0102aabb0202ac02016105010001050600");
    assert_eq!(decode(&bytes, Sequence(1)).unwrap(), commit);
    // Nothing of it depends on the sequence.
    let elsewhere = decode(&bytes, Sequence(8)).unwrap();
    assert_eq!(elsewhere.sequence, Sequence(8));
    assert_eq!(encode(&elsewhere), bytes);
}

#[test]
fn a_newer_commit_is_told_from_damage() {
    let newer = decode(&[2], Sequence(0)).unwrap_err();
    assert!(matches!(newer, StoreError::NewerFormat { found: 2, .. }));
    // Counts and lengths that nothing follows take no memory.
    for bytes in [
        &[][..],
        &[0],
        &[1],
        &[1, 0xff, 0xff, 0xff, 0x7f],
        &[1, 0, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[1, 0, 1, 9, 0],
        &[1, 0, 0, 0, 0],
    ] {
        let error = decode(bytes, Sequence(0)).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn every_commit_comes_back(commit in commits()) {
        prop_assert_eq!(decode(&encode(&commit), Sequence(9)).unwrap(), commit);
    }

    #[test]
    fn a_commit_that_was_cut_is_refused(commit in commits(), at: prop::sample::Index) {
        let bytes = encode(&commit);
        let cut = bytes.get(..at.index(bytes.len())).unwrap();
        prop_assert!(decode(cut, Sequence(9)).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = decode(&bytes, Sequence(0));
    }
}
