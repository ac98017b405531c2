//! What ends by itself: filters and side records.

use super::subject::{
    Open, Subject, change, create, ends, expire, message, remove, restore, stored, update,
};
use crate::page::{FilterId, Sequence};
use crate::store::Garbage;
use crate::store::format::StoredValue;
use crate::store::{Commit, Due, PageStore, SideRecord, SideRecordChange, SideRecordKey};

fn due(store: &PageStore, until_ms: u64, limit: usize) -> Vec<(u64, u64)> {
    let due = store.due(0, until_ms, limit).unwrap();
    due.iter()
        .map(|due| match due {
            Due::Filter { at_ms, id } => (*at_ms, id.0),
            Due::SideRecord { at_ms, .. } => (*at_ms, 0),
        })
        .collect()
}

pub(in crate::store) fn what_ends_is_listed_by_time_up_to_the_moment_asked_for<S: Subject>(
    open: Open<'_, S>,
) {
    let mut subject = open();
    let ends_at = [(1, 5_000), (2, 300), (3, 70_000), (4, 300)];
    for (id, at_ms) in ends_at {
        let changes = vec![
            create(id, &format!("f{id}"), b""),
            expire(id, None, ends(at_ms)),
        ];
        change(subject.store(), id, changes);
    }
    subject.reopen();
    let store = subject.store();
    assert_eq!(due(store, 299, 9), []);
    assert_eq!(due(store, 300, 9), [(300, 2), (300, 4)]);
    assert_eq!(due(store, 69_999, 9), [(300, 2), (300, 4), (5_000, 1)]);
    assert_eq!(due(store, u64::MAX, 9).len(), 4);
    assert_eq!(due(store, u64::MAX, 2), [(300, 2), (300, 4)]);
    assert_eq!(due(store, u64::MAX, 0), []);
    let from = |from_ms| store.due(from_ms, u64::MAX, 9).unwrap().len();
    assert_eq!([300, 301, 70_000, 70_001].map(from), [4, 2, 1, 0]);
    let found = store.filter_by_name("f3").unwrap().unwrap();
    assert_eq!(found.expiry, ends(70_000));
    let listed = store.list_filters("f", None, 9).unwrap();
    let listed: Vec<_> = listed.into_iter().map(|filter| filter.expiry).collect();
    assert_eq!(listed, ends_at.map(|(_, at_ms)| ends(at_ms)));
    let gone = Due::Filter {
        at_ms: 300,
        id: FilterId(2),
    };
    store.forget_due(&gone).unwrap();
    assert_eq!(due(store, 300, 9), [(300, 4)]);
}

pub(in crate::store) fn an_end_moves_and_goes_with_all_its_traces<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    let store = subject.store();
    let created = vec![create(1, "seen", b"meta"), expire(1, None, ends(1_000))];
    change(store, 1, created);
    change(store, 2, vec![expire(1, ends(1_000), ends(9_000))]);
    assert_eq!(due(store, u64::MAX, 9), [(9_000, 1)]);
    change(store, 3, vec![update(1, b"later", &[])]);
    let found = store.filter_by_name("seen").unwrap().unwrap();
    assert_eq!((found.meta, found.expiry), (b"later".to_vec(), ends(9_000)));

    // A removal of unknown outcome that is taken back.
    let removal = vec![expire(1, ends(9_000), None), remove(1, "seen")];
    change(store, 4, removal.clone());
    assert_eq!(due(store, u64::MAX, 9), []);
    assert_eq!(store.filter_by_id(FilterId(1)).unwrap(), None);
    let back = vec![
        restore(1, "seen", b"later", [Garbage::Filter(FilterId(1))]),
        expire(1, None, ends(9_000)),
    ];
    change(store, 4, back);
    let found = store.filter_by_name("seen").unwrap().unwrap();
    assert_eq!(found.expiry, ends(9_000));
    assert_eq!(due(store, u64::MAX, 9), [(9_000, 1)]);

    change(store, 5, removal);
    subject.reopen();
    let store = subject.store();
    assert_eq!(due(store, u64::MAX, 9), []);
    // A filter of the name that is made afterwards has no end of its own.
    change(store, 6, vec![create(2, "seen", b"new")]);
    assert_eq!(
        store.filter_by_name("seen").unwrap(),
        Some(stored(2, "seen", b"new"))
    );
}

fn side_record(ends_at_ms: u64, payload: &[u8]) -> Option<SideRecord> {
    Some(SideRecord {
        ends_at_ms,
        owner: None,
        payload: payload.to_vec(),
    })
}

fn change_side_record(
    store: &PageStore,
    sequence: u64,
    before: Option<SideRecord>,
    after: Option<SideRecord>,
) {
    let key = SideRecordKey::Retry([7; 32]);
    let commit = Commit {
        sequence: Sequence(sequence),
        side_records: vec![SideRecordChange { key, before, after }],
        ..Commit::default()
    };
    store.commit(&commit).unwrap();
}

pub(in crate::store) fn a_side_record_comes_and_goes_with_its_commit<S: Subject>(
    open: Open<'_, S>,
) {
    let mut subject = open();
    let (key, other) = (SideRecordKey::Retry([7; 32]), SideRecordKey::Retry([8; 32]));
    let due = |store: &PageStore| store.due(0, u64::MAX, 9).unwrap();
    change_side_record(subject.store(), 1, None, side_record(500, b"first"));
    change_side_record(
        subject.store(),
        2,
        side_record(500, b"first"),
        side_record(900, b"second"),
    );
    subject.reopen();
    let store = subject.store();
    assert_eq!(
        store.side_record(&key).unwrap(),
        side_record(900, b"second")
    );
    assert_eq!(store.side_record(&other).unwrap(), None);
    let at_ms = 900;
    assert_eq!(
        due(store),
        [Due::SideRecord {
            at_ms,
            key: key.clone()
        }]
    );
    assert_eq!(
        store.side_record_totals().unwrap().retry_bytes,
        SideRecord::stored_bytes(6)
    );

    // A commit of unknown outcome that is taken back.
    change_side_record(store, 3, side_record(900, b"second"), None);
    assert_eq!(
        (store.side_record(&key).unwrap(), due(store)),
        (None, vec![])
    );
    change_side_record(store, 3, None, side_record(900, b"second"));
    assert_eq!(
        store.side_record(&key).unwrap(),
        side_record(900, b"second")
    );

    assert_eq!(store.forget_ended(&key, 899).unwrap(), None);
    let ended = store.forget_ended(&key, 900).unwrap();
    assert_eq!(ended, side_record(900, b"second"));
    subject.reopen();
    let store = subject.store();
    assert_eq!(
        (store.side_record(&key).unwrap(), due(store)),
        (None, vec![])
    );
    assert_eq!(store.side_record_totals().unwrap().retry_bytes, 0);
}

pub(in crate::store) fn a_damaged_side_record_is_an_error<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    let key = SideRecordKey::Retry([7; 32]);
    change_side_record(subject.store(), 1, None, side_record(500, b"first"));
    subject.damage(&StoredValue::SideRecord(key.clone()), 9);
    assert!(message(subject.store().side_record(&key)).starts_with("a side record is corrupt"));
    assert!(subject.store().side_record_totals().is_err());
}
