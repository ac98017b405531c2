//! Commits and the redo log.

use super::subject::{
    Open, Subject, change, create, log, log_sequences, message, page, read, record, stored, update,
};
use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use crate::store::format::StoredValue;
use crate::store::redo::{RedoBuilder, RedoReader, RedoWrite};
use crate::store::{
    Commit, Garbage, LANE_PAST_LEAST, LANE_PAST_RECORDS, LanePosition, PageStore, StoreError,
    commit_bytes,
};
use std::collections::BTreeMap;

pub(in crate::store) fn a_lanes_position_is_that_of_its_last_commit<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    assert_eq!(subject.store().lane_position(1).unwrap(), None);
    let position = |sequence: u64| LanePosition {
        founding: [1; 16],
        epoch: 2,
        sequence,
        history: [sequence as u8; 16],
        stamp_ms: 10 * sequence,
        last_serial: 2 * sequence,
    };
    for sequence in [3, 8] {
        let commit = Commit {
            sequence: Sequence(sequence),
            redo: b"slots".to_vec(),
            filters: vec![create(sequence, &format!("filter {sequence}"), b"meta")],
            ..Commit::default()
        };
        // It is the same commit wherever it is made.
        let bytes = commit_bytes::encode(&commit);
        let commit = commit_bytes::decode(&bytes, Sequence(sequence)).unwrap();
        let store = subject.store();
        store.commit_at(&commit, 1, &position(sequence)).unwrap();
    }
    for _ in 0..2 {
        let store = subject.store();
        assert_eq!(store.lane_position(1).unwrap(), Some(position(8)));
        assert_eq!(store.lane_position(0).unwrap(), None);
        assert_eq!(log(store).len(), 2);
        assert!(store.filter_by_name("filter 3").unwrap().is_some());
        // All that it was before is known, too.
        for (sequence, history) in [(3, Some([3; 16])), (4, None), (8, Some([8; 16]))] {
            assert_eq!(store.lane_past(1, sequence).unwrap(), history);
            assert_eq!(store.lane_past(0, sequence).unwrap(), None);
        }
        subject.reopen();
    }
}

/// But for those of long ago, of which the newest are known all the same.
pub(in crate::store) fn the_past_of_a_lane_is_known_by_numbers_and_by_records<S: Subject>(
    open: Open<'_, S>,
) {
    let subject = open();
    let store = subject.store();
    let mut commits = 0;
    let mut commit_at = |lane: u32, sequence: u64| {
        commits += 1;
        let commit = Commit {
            sequence: Sequence(commits),
            ..Commit::default()
        };
        let position = LanePosition {
            founding: [1; 16],
            epoch: 1,
            sequence,
            history: [lane as u8; 16],
            stamp_ms: 0,
            last_serial: 0,
        };
        store.commit_at(&commit, lane, &position).unwrap();
    };
    let known = |lane, sequence| store.lane_past(lane, sequence).unwrap().is_some();
    let (quiet, busy, other) = (0, 1, 2);
    let least = LANE_PAST_LEAST as u64;
    (1..=10).for_each(|it| commit_at(quiet, it));
    (1..=least + 10).for_each(|it| commit_at(busy, it));
    // Other lanes go on, and each of these two then has one more.
    let far = 2 * LANE_PAST_RECORDS;
    commit_at(other, far);
    commit_at(quiet, far + 1);
    commit_at(busy, far + 2);
    assert!((1..=10).all(|it| known(quiet, it)));
    assert!(known(quiet, far + 1));
    // Those were the newest when it came, and no others are left.
    let first = 11;
    assert!((first..=least + 10).all(|it| known(busy, it)));
    assert!((1..first).all(|it| !known(busy, it)));
    assert!(known(busy, far + 2));
    // What is kept so is not kept for ever.
    commit_at(quiet, 2 * far);
    commit_at(busy, 2 * far + 1);
    assert!((1..=10).all(|it| known(quiet, it)));
    assert_eq!([first, first + 1].map(|it| known(busy, it)), [false, true]);
}

pub(in crate::store) fn a_commit_is_there_as_a_whole_after_a_restart<S: Subject>(
    open: Open<'_, S>,
) {
    let mut subject = open();
    let commit = Commit {
        sequence: Sequence(7),
        redo: b"slots".to_vec(),
        filters: vec![
            create(1, "seen", b"one"),
            create(2, "sent", b"two"),
            update(1, b"three", &[4]),
        ],
        ..Commit::default()
    };
    subject.store().commit(&commit).unwrap();
    for _ in 0..2 {
        let store = subject.store();
        assert_eq!(log(store), [(7, b"slots".to_vec())]);
        assert_eq!(
            store.filter_by_name("seen").unwrap(),
            Some(stored(1, "seen", b"three"))
        );
        assert_eq!(
            store.filter_by_id(FilterId(2)).unwrap(),
            Some(stored(2, "sent", b"two"))
        );
        assert_eq!(
            store.garbage().unwrap(),
            [Garbage::SubFilter(FilterId(1), Ordinal(4))]
        );
        store.sync().unwrap();
        subject.reopen();
    }
}

pub(in crate::store) fn a_record_under_the_same_sequence_is_replaced<S: Subject>(
    open: Open<'_, S>,
) {
    let subject = open();
    record(subject.store(), 3, b"first");
    record(subject.store(), 3, b"second");
    assert_eq!(log(subject.store()), [(3, b"second".to_vec())]);
}

pub(in crate::store) fn an_empty_record_removes_the_one_that_is_there<S: Subject>(
    open: Open<'_, S>,
) {
    let mut subject = open();
    record(subject.store(), 3, b"first");
    record(subject.store(), 4, b"second");
    record(subject.store(), 3, b"");
    record(subject.store(), 5, b"");
    assert_eq!(log_sequences(subject.store()), [4]);
    subject.reopen();
    assert_eq!(log_sequences(subject.store()), [4]);
}

pub(in crate::store) fn records_are_replayed_in_the_order_of_their_sequences<S: Subject>(
    open: Open<'_, S>,
) {
    let mut subject = open();
    for sequence in [300, 2, u64::MAX, 1, 256] {
        record(subject.store(), sequence, &sequence.to_le_bytes());
    }
    subject.reopen();
    let expected: Vec<_> = [1, 2, 256, 300, u64::MAX]
        .map(|sequence| (sequence, sequence.to_le_bytes().to_vec()))
        .into();
    assert_eq!(log(subject.store()), expected);
}

/// Applies the whole log to `pages` as recovery does.
fn apply_log(store: &PageStore, pages: &mut BTreeMap<PageId, Vec<u8>>) {
    store
        .replay(&mut |sequence, redo| {
            for write in RedoReader::new(redo) {
                let RedoWrite::Slot(write) = write.map_err(|error| error.in_record(sequence))?
                else {
                    continue;
                };
                let image = pages.entry(write.page).or_insert_with(|| vec![0; 64]);
                image[write.slot as usize] = write.value as u8;
            }
            Ok(())
        })
        .unwrap();
}

pub(in crate::store) fn replaying_twice_gives_the_same_bytes<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    for sequence in 1..=9u32 {
        let mut redo = RedoBuilder::default();
        redo.filter(FilterId(1), 8);
        redo.page(Ordinal(0), PageIndex(sequence % 3))
            .slot(sequence % 5, u64::from(sequence));
        redo.page(Ordinal(1), PageIndex(0))
            .slot(9, u64::from(sequence % 2));
        record(subject.store(), u64::from(sequence), &redo.finish());
    }
    let mut pages = BTreeMap::new();
    apply_log(subject.store(), &mut pages);
    let once = pages.clone();
    apply_log(subject.store(), &mut pages);
    assert_eq!(pages, once);
    // As after a crash between the images and the truncation.
    let images: Vec<_> = once
        .iter()
        .map(|(id, image)| (*id, image.clone()))
        .collect();
    subject.store().checkpoint(&images, Sequence(0)).unwrap();
    let ids: Vec<_> = once.keys().copied().collect();
    let mut reread: BTreeMap<_, _> = ids
        .iter()
        .copied()
        .zip(read(subject.store(), &ids))
        .map(|(id, image)| {
            let mut image = image.unwrap();
            image.resize(64, 0);
            (id, image)
        })
        .collect();
    apply_log(subject.store(), &mut reread);
    assert_eq!(reread, once);
}

pub(in crate::store) fn an_error_of_the_visitor_ends_the_replay<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    record(subject.store(), 1, b"one");
    record(subject.store(), 2, b"two");
    let mut visited = 0;
    let outcome = subject.store().replay(&mut |sequence, _| {
        visited += 1;
        Err(StoreError::Corrupt {
            what: format!("record {}", sequence.0),
            reason: "no".to_owned(),
        })
    });
    assert_eq!(message(outcome), "record 1 is corrupt: no");
    assert_eq!(visited, 1);
}

pub(in crate::store) fn a_checkpoint_truncates_the_log_below_its_mark_only<S: Subject>(
    open: Open<'_, S>,
) {
    let mut subject = open();
    for sequence in 1..=6 {
        record(subject.store(), sequence, b"slots");
    }
    subject
        .store()
        .checkpoint(&[(page(1, 0, 0), vec![9])], Sequence(4))
        .unwrap();
    assert_eq!(log_sequences(subject.store()), [4, 5, 6]);
    // An older mark brings nothing back and takes nothing away.
    subject.store().checkpoint(&[], Sequence(2)).unwrap();
    assert_eq!(log_sequences(subject.store()), [4, 5, 6]);
    subject.reopen();
    subject.store().checkpoint(&[], Sequence(6)).unwrap();
    assert_eq!(log_sequences(subject.store()), [6]);
    assert_eq!(read(subject.store(), &[page(1, 0, 0)]), [Some(vec![9])]);
    subject.store().checkpoint(&[], Sequence(u64::MAX)).unwrap();
    subject.reopen();
    assert!(log(subject.store()).is_empty());
}

pub(in crate::store) fn truncating_an_empty_log_is_nothing<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    subject.store().checkpoint(&[], Sequence(10)).unwrap();
    record(subject.store(), 10, b"slots");
    subject.store().checkpoint(&[], Sequence(10)).unwrap();
    assert_eq!(log_sequences(subject.store()), [10]);
}

pub(in crate::store) fn a_record_committed_below_the_last_mark_is_truncated_by_the_next_one<
    S: Subject,
>(
    open: Open<'_, S>,
) {
    let subject = open();
    record(subject.store(), 10, b"slots");
    subject.store().checkpoint(&[], Sequence(11)).unwrap();
    record(subject.store(), 5, b"late");
    assert_eq!(log_sequences(subject.store()), [5]);
    subject.store().checkpoint(&[], Sequence(11)).unwrap();
    assert!(log(subject.store()).is_empty());
}

pub(in crate::store) fn a_repeated_commit_changes_nothing<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    let store = subject.store();
    change(store, 1, vec![create(1, "seen", b"")]);
    let commit = Commit {
        sequence: Sequence(2),
        redo: b"slots".to_vec(),
        filters: vec![update(1, b"short", &[3]), create(2, "sent", b"")],
        ..Commit::default()
    };
    store.commit(&commit).unwrap();
    let state = |store: &PageStore| {
        (
            log(store),
            store.list_filters("", None, 9).unwrap(),
            store.garbage().unwrap(),
        )
    };
    let once = state(store);
    store.commit(&commit).unwrap();
    assert_eq!(state(store), once);
}

pub(in crate::store) fn a_damaged_record_is_an_error_that_names_it<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    record(subject.store(), 1, b"good");
    record(subject.store(), 2, b"bad");
    subject.damage(&StoredValue::Redo(Sequence(2)), 7);
    let mut seen = Vec::new();
    let outcome = subject.store().replay(&mut |sequence, _| {
        seen.push(sequence.0);
        Ok(())
    });
    assert!(message(outcome).starts_with("redo record 2 is corrupt"));
    assert_eq!(seen, [1]);
}
