//! The tests that every [`PageStore`] passes. [`contract_tests`] turns them
//! into tests of one store.

use super::format::{MAX_IMAGE_BYTES, StoredValue};
use super::redo::{RedoBuilder, RedoReader, RedoWrite};
use super::{
    Commit, Due, Expiry, FilterChange, Garbage, PageStore, SideRecord, SideRecordChange,
    SideRecordKey, Snapshot, StoreError, StoredFilter,
};
use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A store under test.
pub(super) trait Subject {
    /// The store as it is open now.
    fn store(&self) -> &PageStore;
    /// Closes the store and opens it again on what it has kept.
    fn reopen(&mut self);
    /// Inverts one byte of a stored value, which must be there.
    fn damage(&mut self, value: &StoredValue, byte: usize);
}

/// Makes a test of each test of the suite; `$open` makes an empty store.
macro_rules! contract_tests {
    ($open:expr) => {
        $crate::store::contract::contract_tests!(@each $open;
            a_commit_is_there_as_a_whole_after_a_restart,
            a_record_under_the_same_sequence_is_replaced,
            an_empty_record_removes_the_one_that_is_there,
            records_are_replayed_in_the_order_of_their_sequences,
            replaying_twice_gives_the_same_bytes,
            an_error_of_the_visitor_ends_the_replay,
            a_checkpoint_truncates_the_log_below_its_mark_only,
            truncating_an_empty_log_is_nothing,
            a_record_committed_below_the_last_mark_is_truncated_by_the_next_one,
            pages_are_read_in_order_and_missing_ones_are_none,
            more_pages_than_fit_one_batch_are_read_in_order,
            the_last_image_of_a_page_counts,
            a_page_larger_than_allowed_is_refused_and_nothing_is_kept,
            a_filter_is_found_by_name_and_by_number,
            an_update_keeps_name_and_number,
            changes_of_one_commit_are_applied_in_order,
            a_name_is_free_after_removal_and_never_shows_old_pages,
            dropped_sub_filters_are_reclaimed_alone,
            many_pages_are_reclaimed_like_few,
            restore_undoes_a_removal,
            restore_undoes_an_update_that_dropped_sub_filters,
            restore_leaves_the_garbage_of_other_filters,
            a_staged_filter_is_reclaimed_unless_it_is_named,
            a_view_stays_as_it_was_while_writes_go_on,
            a_view_shows_the_pages_of_a_sub_filter_in_order,
            a_repeated_commit_changes_nothing,
            what_ends_is_listed_by_time_up_to_the_moment_asked_for,
            an_end_moves_and_goes_with_all_its_traces,
            a_side_record_comes_and_goes_with_its_commit,
            a_damaged_side_record_is_an_error,
            filter_numbers_are_never_handed_out_twice,
            numbers_that_do_not_exist_are_not_handed_out,
            filters_are_listed_by_prefix_and_page,
            a_damaged_page_is_an_error_that_names_it,
            a_damaged_record_is_an_error_that_names_it,
            a_damaged_filter_is_an_error_that_names_it,
            the_estimate_grows_with_the_pages,
            any_history_reads_like_a_map,
        );
    };
    (@each $open:expr; $($test:ident,)*) => {
        mod suite {
            use super::*;
            $(#[test] fn $test() { contract::$test(&mut || $open); })*
        }
    };
}
pub(super) use contract_tests;

/// Makes an empty store under test.
type Open<'a, S> = &'a mut dyn FnMut() -> S;

fn page(filter: u64, ordinal: u32, page: u32) -> PageId {
    PageId {
        filter: FilterId(filter),
        ordinal: Ordinal(ordinal),
        page: PageIndex(page),
    }
}

fn record(store: &PageStore, sequence: u64, redo: &[u8]) {
    let commit = Commit {
        sequence: Sequence(sequence),
        redo: redo.to_vec(),
        filters: Vec::new(),
        ..Commit::default()
    };
    store.commit(&commit).unwrap();
}

fn change(store: &PageStore, sequence: u64, filters: Vec<FilterChange>) {
    let commit = Commit {
        sequence: Sequence(sequence),
        redo: Vec::new(),
        filters,
        ..Commit::default()
    };
    store.commit(&commit).unwrap();
}

fn create(id: u64, name: &str, meta: &[u8]) -> FilterChange {
    FilterChange::Create {
        id: FilterId(id),
        name: name.to_owned(),
        meta: meta.to_vec(),
    }
}

fn update(id: u64, meta: &[u8], dropped: &[u32]) -> FilterChange {
    let dropped = dropped.iter().copied().map(Ordinal).collect();
    FilterChange::Update {
        id: FilterId(id),
        meta: meta.to_vec(),
        dropped,
    }
}

fn remove(id: u64, name: &str) -> FilterChange {
    FilterChange::Remove {
        id: FilterId(id),
        name: name.to_owned(),
    }
}

fn restore(id: u64, name: &str, meta: &[u8]) -> FilterChange {
    FilterChange::Restore {
        id: FilterId(id),
        name: name.to_owned(),
        meta: meta.to_vec(),
    }
}

fn stored(id: u64, name: &str, meta: &[u8]) -> StoredFilter {
    StoredFilter {
        id: FilterId(id),
        name: name.to_owned(),
        meta: meta.to_vec(),
        expiry: None,
    }
}

fn write_pages(store: &PageStore, pages: &[(PageId, &[u8])]) {
    let images: Vec<_> = pages
        .iter()
        .map(|(id, image)| (*id, image.to_vec()))
        .collect();
    store.checkpoint(&images, Sequence(0)).unwrap();
}

fn read(store: &PageStore, ids: &[PageId]) -> Vec<Option<Vec<u8>>> {
    let mut pages = Vec::new();
    store
        .read_pages(ids, &mut |index, page| {
            assert_eq!(index, pages.len(), "pages come in order, each once");
            pages.push(page.map(<[u8]>::to_vec));
        })
        .unwrap();
    assert_eq!(pages.len(), ids.len());
    pages
}

fn log(store: &PageStore) -> Vec<(u64, Vec<u8>)> {
    let mut records = Vec::new();
    store
        .replay(&mut |sequence, redo| {
            records.push((sequence.0, redo.to_vec()));
            Ok(())
        })
        .unwrap();
    records
}

fn log_sequences(store: &PageStore) -> Vec<u64> {
    log(store)
        .into_iter()
        .map(|(sequence, _)| sequence)
        .collect()
}

fn names(listed: Vec<StoredFilter>) -> Vec<String> {
    listed.into_iter().map(|filter| filter.name).collect()
}

fn message<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> String {
    let error = outcome.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    error.to_string()
}

pub(super) fn a_commit_is_there_as_a_whole_after_a_restart<S: Subject>(open: Open<'_, S>) {
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

pub(super) fn a_record_under_the_same_sequence_is_replaced<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    record(subject.store(), 3, b"first");
    record(subject.store(), 3, b"second");
    assert_eq!(log(subject.store()), [(3, b"second".to_vec())]);
}

pub(super) fn an_empty_record_removes_the_one_that_is_there<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    record(subject.store(), 3, b"first");
    record(subject.store(), 4, b"second");
    record(subject.store(), 3, b"");
    record(subject.store(), 5, b"");
    assert_eq!(log_sequences(subject.store()), [4]);
    subject.reopen();
    assert_eq!(log_sequences(subject.store()), [4]);
}

pub(super) fn records_are_replayed_in_the_order_of_their_sequences<S: Subject>(open: Open<'_, S>) {
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

pub(super) fn replaying_twice_gives_the_same_bytes<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    for sequence in 1..=9u32 {
        let mut redo = RedoBuilder::new();
        redo.filter(FilterId(1), 1);
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

pub(super) fn an_error_of_the_visitor_ends_the_replay<S: Subject>(open: Open<'_, S>) {
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

pub(super) fn a_checkpoint_truncates_the_log_below_its_mark_only<S: Subject>(open: Open<'_, S>) {
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

pub(super) fn truncating_an_empty_log_is_nothing<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    subject.store().checkpoint(&[], Sequence(10)).unwrap();
    record(subject.store(), 10, b"slots");
    subject.store().checkpoint(&[], Sequence(10)).unwrap();
    assert_eq!(log_sequences(subject.store()), [10]);
}

pub(super) fn a_record_committed_below_the_last_mark_is_truncated_by_the_next_one<S: Subject>(
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

pub(super) fn pages_are_read_in_order_and_missing_ones_are_none<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    let dense: Vec<u8> = (0..4096).map(|at| (at % 251) as u8 + 1).collect();
    let mut sparse = vec![0; 4096];
    sparse[17] = 1;
    sparse[4000] = 200;
    write_pages(
        subject.store(),
        &[
            (page(2, 0, 0), &dense),
            (page(1, 1, 5), &sparse),
            (page(1, 0, 256), &[0; 4096]),
        ],
    );
    let ids = [
        page(1, 0, 0),
        page(1, 0, 256),
        page(1, 1, 5),
        page(1, 1, 6),
        page(2, 0, 0),
        page(u64::MAX, 0, 0),
    ];
    for _ in 0..2 {
        let expected = [
            None,
            Some(vec![]),
            Some(sparse[..=4000].to_vec()),
            None,
            Some(dense.clone()),
            None,
        ];
        assert_eq!(read(subject.store(), &ids), expected);
        subject.reopen();
    }
    assert!(read(subject.store(), &[]).is_empty());
}

pub(super) fn more_pages_than_fit_one_batch_are_read_in_order<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    let images: Vec<_> = (0..9000u32)
        .step_by(2)
        .map(|at| (page(1, 0, at), (at + 1).to_le_bytes().to_vec()))
        .collect();
    subject.store().checkpoint(&images, Sequence(0)).unwrap();
    let ids: Vec<_> = (0..9000).map(|at| page(1, 0, at)).collect();
    for (at, image) in (0..9000u32).zip(read(subject.store(), &ids)) {
        let expected = (at % 2 == 0).then(|| {
            let mut image = (at + 1).to_le_bytes().to_vec();
            image.truncate(image.iter().rposition(|&byte| byte != 0).unwrap() + 1);
            image
        });
        assert_eq!(image, expected, "page {at}");
    }
}

pub(super) fn the_last_image_of_a_page_counts<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    write_pages(subject.store(), &[(page(1, 0, 0), &[1, 2, 3])]);
    write_pages(subject.store(), &[(page(1, 0, 0), &[0, 2])]);
    subject.reopen();
    assert_eq!(read(subject.store(), &[page(1, 0, 0)]), [Some(vec![0, 2])]);
}

pub(super) fn a_page_larger_than_allowed_is_refused_and_nothing_is_kept<S: Subject>(
    open: Open<'_, S>,
) {
    let subject = open();
    record(subject.store(), 1, b"slots");
    let images = [
        (page(1, 0, 0), vec![1]),
        (page(1, 0, 1), vec![1; MAX_IMAGE_BYTES + 1]),
    ];
    assert!(subject.store().checkpoint(&images, Sequence(9)).is_err());
    assert_eq!(
        read(subject.store(), &[page(1, 0, 0), page(1, 0, 1)]),
        [None, None]
    );
    assert_eq!(log_sequences(subject.store()), [1]);
}

pub(super) fn a_filter_is_found_by_name_and_by_number<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    let store = subject.store();
    assert_eq!(store.filter_by_name("seen").unwrap(), None);
    assert_eq!(store.filter_by_id(FilterId(1)).unwrap(), None);
    change(
        store,
        1,
        vec![create(1, "seen", b""), create(2, "seen.again", b"meta")],
    );
    assert_eq!(
        store.filter_by_name("seen").unwrap(),
        Some(stored(1, "seen", b""))
    );
    assert_eq!(
        store.filter_by_id(FilterId(2)).unwrap(),
        Some(stored(2, "seen.again", b"meta"))
    );
    assert_eq!(store.filter_by_name("see").unwrap(), None);
    assert_eq!(store.filter_by_name("").unwrap(), None);
    assert_eq!(store.filter_by_id(FilterId(3)).unwrap(), None);
}

pub(super) fn an_update_keeps_name_and_number<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    change(subject.store(), 1, vec![create(1, "seen", b"old")]);
    change(subject.store(), 2, vec![update(1, b"new", &[])]);
    let expected = Some(stored(1, "seen", b"new"));
    assert_eq!(subject.store().filter_by_name("seen").unwrap(), expected);
    assert!(subject.store().garbage().unwrap().is_empty());
}

pub(super) fn changes_of_one_commit_are_applied_in_order<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    let store = subject.store();
    let changes = vec![
        create(1, "seen", b"a"),
        update(1, b"b", &[]),
        remove(1, "seen"),
        create(2, "seen", b"c"),
    ];
    change(store, 1, changes);
    assert_eq!(
        store.filter_by_name("seen").unwrap(),
        Some(stored(2, "seen", b"c"))
    );
    assert_eq!(store.filter_by_id(FilterId(1)).unwrap(), None);
    assert_eq!(store.garbage().unwrap(), [Garbage::Filter(FilterId(1))]);
}

pub(super) fn a_name_is_free_after_removal_and_never_shows_old_pages<S: Subject>(
    open: Open<'_, S>,
) {
    let mut subject = open();
    let old = [page(1, 0, 0), page(1, 0, 1), page(1, 7, 0)];
    change(subject.store(), 1, vec![create(1, "seen", b"old")]);
    write_pages(
        subject.store(),
        &[(old[0], &[1]), (old[1], &[2]), (old[2], &[3])],
    );
    change(subject.store(), 2, vec![remove(1, "seen")]);
    assert_eq!(subject.store().filter_by_name("seen").unwrap(), None);
    change(subject.store(), 3, vec![create(2, "seen", b"new")]);
    write_pages(subject.store(), &[(page(2, 0, 0), &[9])]);
    subject.reopen();
    assert_eq!(
        subject.store().garbage().unwrap(),
        [Garbage::Filter(FilterId(1))]
    );
    subject
        .store()
        .reclaim(Garbage::Filter(FilterId(1)))
        .unwrap();
    for _ in 0..2 {
        let store = subject.store();
        assert!(store.garbage().unwrap().is_empty());
        assert_eq!(read(store, &old), [None, None, None]);
        assert_eq!(read(store, &[page(2, 0, 0)]), [Some(vec![9])]);
        assert_eq!(
            store.filter_by_name("seen").unwrap(),
            Some(stored(2, "seen", b"new"))
        );
        subject.reopen();
    }
}

pub(super) fn dropped_sub_filters_are_reclaimed_alone<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    change(
        subject.store(),
        1,
        vec![create(1, "seen", b"three"), create(2, "sent", b"")],
    );
    let pages = [
        page(1, 0, 9),
        page(1, 1, 0),
        page(1, 1, u32::MAX),
        page(1, 2, 0),
        page(2, 1, 0),
    ];
    write_pages(subject.store(), &pages.map(|id| (id, &[1u8] as &[u8])));
    change(subject.store(), 2, vec![update(1, b"one", &[2, 1])]);
    let first = Garbage::SubFilter(FilterId(1), Ordinal(1));
    let second = Garbage::SubFilter(FilterId(1), Ordinal(2));
    subject.reopen();
    assert_eq!(subject.store().garbage().unwrap(), [first, second]);
    subject.store().reclaim(first).unwrap();
    assert_eq!(subject.store().garbage().unwrap(), [second]);
    let there = || Some(vec![1]);
    assert_eq!(
        read(subject.store(), &pages),
        [there(), None, None, there(), there()]
    );
    // Reclaiming what is gone is nothing.
    subject.store().reclaim(first).unwrap();
    subject.store().reclaim(second).unwrap();
    assert_eq!(
        read(subject.store(), &pages),
        [there(), None, None, None, there()]
    );
}

pub(super) fn a_staged_filter_is_reclaimed_unless_it_is_named<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    for id in [1, 2] {
        subject.store().stage(FilterId(id)).unwrap();
        write_pages(subject.store(), &[(page(id, 0, 0), &[1])]);
    }
    subject.reopen();
    let garbage = [1, 2].map(|id| Garbage::Filter(FilterId(id)));
    assert_eq!(subject.store().garbage().unwrap(), garbage);
    change(subject.store(), 1, vec![restore(2, "seen", b"meta")]);
    subject.reopen();
    assert_eq!(subject.store().garbage().unwrap(), garbage[..1]);
    subject.store().reclaim(garbage[0]).unwrap();
    assert_eq!(
        read(subject.store(), &[page(1, 0, 0), page(2, 0, 0)]),
        [None, Some(vec![1])]
    );
    assert_eq!(
        subject.store().filter_by_name("seen").unwrap(),
        Some(stored(2, "seen", b"meta"))
    );
}

/// What a view shows of the filter `seen` with one page, and of the log.
type Seen = (Option<Vec<u8>>, Vec<u8>, usize);

fn seen(view: &Snapshot<'_>) -> Seen {
    let meta = view.filter_by_name("seen").unwrap().map(|it| it.meta);
    let mut image = Vec::new();
    view.pages(page(1, 0, 0), PageIndex(9), &mut |_, bytes| {
        image.extend_from_slice(bytes);
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    let mut records = 0;
    view.replay(&mut |_, _| {
        records += 1;
        Ok(())
    })
    .unwrap();
    (meta, image, records)
}

pub(super) fn a_view_stays_as_it_was_while_writes_go_on<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    let store = subject.store();
    change(store, 1, vec![create(1, "seen", b"old")]);
    write_pages(store, &[(page(1, 0, 0), &[1])]);
    record(store, 2, b"record");
    let expected: Seen = (Some(b"old".to_vec()), vec![1], 1);
    let view = store.snapshot();
    assert_eq!(seen(&view), expected);
    change(store, 3, vec![update(1, b"new", &[])]);
    record(store, 4, b"another");
    write_pages(store, &[(page(1, 0, 0), &[2])]);
    store.checkpoint(&[], Sequence(4)).unwrap();
    assert_eq!(seen(&view), expected);
    change(store, 5, vec![remove(1, "seen")]);
    store.reclaim(Garbage::Filter(FilterId(1))).unwrap();
    assert_eq!(seen(&view), expected);
    assert_eq!(seen(&store.snapshot()), (None, Vec::new(), 1));
}

pub(super) fn a_view_shows_the_pages_of_a_sub_filter_in_order<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    let at = [(1, 0, 3), (1, 0, 256), (1, 0, 257), (1, 1, 0), (2, 0, 4)];
    let ids = at.map(|(filter, ordinal, number)| page(filter, ordinal, number));
    let images: Vec<_> = ids.iter().map(|&id| (id, vec![7; 5])).collect();
    subject.store().checkpoint(&images, Sequence(0)).unwrap();
    subject.reopen();
    let shown = |from, end, most: usize| {
        let mut shown = Vec::new();
        let view = subject.store().snapshot();
        view.pages(from, PageIndex(end), &mut |PageIndex(number), _| {
            shown.push(number);
            Ok(match shown.len() < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        })
        .unwrap();
        shown
    };
    assert_eq!(shown(page(1, 0, 0), u32::MAX, 9), [3, 256, 257]);
    assert_eq!(shown(page(1, 0, 3), 257, 9), [3, 256]);
    assert_eq!(shown(page(1, 0, 4), 257, 9), [256]);
    assert_eq!(shown(page(1, 0, 0), u32::MAX, 2), [3, 256]);
    assert_eq!(shown(page(1, 2, 0), u32::MAX, 9), [0; 0]);
    subject.damage(&StoredValue::Page(page(1, 0, 256)), 9);
    let view = subject.store().snapshot();
    let outcome = view.pages(page(1, 0, 0), PageIndex(999), &mut |_, _| {
        Ok(ControlFlow::Continue(()))
    });
    assert!(message(outcome).contains("page 256"));
}

pub(super) fn many_pages_are_reclaimed_like_few<S: Subject>(open: Open<'_, S>) {
    for count in [0, 1, 64, 65, 300] {
        let mut subject = open();
        let ids: Vec<_> = (0..count).map(|at| page(5, at % 2, at)).collect();
        let mut images: Vec<_> = ids.iter().map(|&id| (id, vec![1])).collect();
        let neighbours = [page(4, u32::MAX, u32::MAX), page(6, 0, 0)];
        images.extend(neighbours.map(|id| (id, vec![2])));
        subject.store().checkpoint(&images, Sequence(0)).unwrap();
        change(subject.store(), 1, vec![create(5, "seen", b"")]);
        change(subject.store(), 2, vec![remove(5, "seen")]);
        subject
            .store()
            .reclaim(Garbage::Filter(FilterId(5)))
            .unwrap();
        subject.reopen();
        assert!(subject.store().garbage().unwrap().is_empty());
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        assert!(
            read(subject.store(), &sorted).iter().all(Option::is_none),
            "{count} pages"
        );
        assert_eq!(
            read(subject.store(), &neighbours),
            [Some(vec![2]), Some(vec![2])]
        );
    }
}

pub(super) fn restore_undoes_a_removal<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    change(subject.store(), 1, vec![create(1, "seen", b"meta")]);
    write_pages(subject.store(), &[(page(1, 0, 0), &[1])]);
    change(subject.store(), 2, vec![remove(1, "seen")]);
    change(subject.store(), 2, vec![restore(1, "seen", b"meta")]);
    for _ in 0..2 {
        let store = subject.store();
        assert_eq!(
            store.filter_by_name("seen").unwrap(),
            Some(stored(1, "seen", b"meta"))
        );
        assert_eq!(
            store.filter_by_id(FilterId(1)).unwrap(),
            Some(stored(1, "seen", b"meta"))
        );
        assert!(store.garbage().unwrap().is_empty());
        assert_eq!(read(store, &[page(1, 0, 0)]), [Some(vec![1])]);
        subject.reopen();
    }
}

pub(super) fn restore_undoes_an_update_that_dropped_sub_filters<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    change(subject.store(), 1, vec![create(1, "seen", b"long")]);
    change(
        subject.store(),
        2,
        vec![update(1, b"short", &[1, 2, u32::MAX])],
    );
    change(subject.store(), 2, vec![restore(1, "seen", b"long")]);
    // What is dropped after it counts again.
    change(subject.store(), 3, vec![update(1, b"other", &[2])]);
    subject.reopen();
    let store = subject.store();
    assert_eq!(
        store.filter_by_name("seen").unwrap(),
        Some(stored(1, "seen", b"other"))
    );
    assert_eq!(
        store.garbage().unwrap(),
        [Garbage::SubFilter(FilterId(1), Ordinal(2))]
    );
}

pub(super) fn restore_leaves_the_garbage_of_other_filters<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    let created = [1, 2, 3].map(|id| create(id, &format!("f{id}"), b""));
    change(subject.store(), 1, created.to_vec());
    change(
        subject.store(),
        2,
        vec![
            update(1, b"", &[u32::MAX]),
            remove(2, "f2"),
            update(3, b"", &[0]),
        ],
    );
    change(subject.store(), 3, vec![restore(2, "f2", b"")]);
    let expected =
        [(1, u32::MAX), (3, 0)].map(|(id, at)| Garbage::SubFilter(FilterId(id), Ordinal(at)));
    assert_eq!(subject.store().garbage().unwrap(), expected);
}

pub(super) fn a_repeated_commit_changes_nothing<S: Subject>(open: Open<'_, S>) {
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

fn ends(at_ms: u64) -> Option<Expiry> {
    Some(Expiry {
        at_ms,
        ttl_seconds: at_ms / 1000,
    })
}

fn expire(id: u64, before: Option<Expiry>, after: Option<Expiry>) -> FilterChange {
    let id = FilterId(id);
    FilterChange::Expire { id, before, after }
}

fn due(store: &PageStore, until_ms: u64, limit: usize) -> Vec<(u64, u64)> {
    let due = store.due(0, until_ms, limit).unwrap();
    due.iter()
        .map(|due| match due {
            Due::Filter { at_ms, id } => (*at_ms, id.0),
            Due::SideRecord { at_ms, .. } => (*at_ms, 0),
        })
        .collect()
}

pub(super) fn what_ends_is_listed_by_time_up_to_the_moment_asked_for<S: Subject>(
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

pub(super) fn an_end_moves_and_goes_with_all_its_traces<S: Subject>(open: Open<'_, S>) {
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
    let back = vec![restore(1, "seen", b"later"), expire(1, None, ends(9_000))];
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

pub(super) fn a_side_record_comes_and_goes_with_its_commit<S: Subject>(open: Open<'_, S>) {
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

    store
        .forget_side_record(&key, &side_record(900, b"second").unwrap())
        .unwrap();
    subject.reopen();
    let store = subject.store();
    assert_eq!(
        (store.side_record(&key).unwrap(), due(store)),
        (None, vec![])
    );
    assert_eq!(store.side_record_totals().unwrap().retry_bytes, 0);
}

pub(super) fn a_damaged_side_record_is_an_error<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    let key = SideRecordKey::Retry([7; 32]);
    change_side_record(subject.store(), 1, None, side_record(500, b"first"));
    subject.damage(&StoredValue::SideRecord(key.clone()), 9);
    assert!(message(subject.store().side_record(&key)).starts_with("a side record is corrupt"));
    assert!(subject.store().side_record_totals().is_err());
}

pub(super) fn filter_numbers_are_never_handed_out_twice<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    let mut handed_out = 0;
    for count in [1, 100, 3, 1] {
        let first = subject.store().reserve_filter_ids(count).unwrap();
        assert!(first.0 > handed_out, "{first} after {handed_out}");
        handed_out = first.0 + count - 1;
        subject.reopen();
    }
    let reserved: Vec<u64> = std::thread::scope(|scope| {
        let store = subject.store();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    (0..20)
                        .map(|_| store.reserve_filter_ids(2).unwrap().0)
                        .collect()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| -> Vec<u64> { thread.join().unwrap() })
            .collect()
    });
    let mut distinct = reserved.clone();
    distinct.sort_unstable();
    assert!(distinct[0] > handed_out);
    assert!(distinct.windows(2).all(|pair| pair[1] >= pair[0] + 2));
}

pub(super) fn numbers_that_do_not_exist_are_not_handed_out<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    let first = subject.store().reserve_filter_ids(1).unwrap();
    assert!(subject.store().reserve_filter_ids(u64::MAX).is_err());
    assert!(subject.store().reserve_filter_ids(1).unwrap() > first);
}

pub(super) fn filters_are_listed_by_prefix_and_page<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    let all = ["a", "ab", "ab.c", "ab.d", "ab~", "ac", "b"];
    for (id, name) in (1..).zip(all.iter().rev()) {
        change(subject.store(), id, vec![create(id, name, name.as_bytes())]);
    }
    subject.reopen();
    let list = |prefix: &str, after: Option<&str>, limit: usize| {
        names(subject.store().list_filters(prefix, after, limit).unwrap())
    };
    assert_eq!(list("", None, 100), all);
    assert_eq!(list("ab", None, 100), ["ab", "ab.c", "ab.d", "ab~"]);
    assert_eq!(list("ab", None, 2), ["ab", "ab.c"]);
    assert_eq!(list("ab", Some("ab.c"), 2), ["ab.d", "ab~"]);
    assert_eq!(list("ab", Some("ab.cc"), 100), ["ab.d", "ab~"]);
    assert_eq!(list("ab", Some("a"), 100), ["ab", "ab.c", "ab.d", "ab~"]);
    assert!(list("ab", Some("b"), 100).is_empty());
    assert!(list("x", None, 100).is_empty());
    assert!(list("", None, 0).is_empty());
    let listed = subject.store().list_filters("ac", None, 1).unwrap();
    assert_eq!(listed, [stored(2, "ac", b"ac")]);
}

pub(super) fn a_damaged_page_is_an_error_that_names_it<S: Subject>(open: Open<'_, S>) {
    for byte in 0..9 {
        let mut subject = open();
        let (good, bad) = (page(3, 0, 1), page(3, 1, 2));
        write_pages(subject.store(), &[(good, &[5]), (bad, &[6, 7, 8])]);
        subject.damage(&StoredValue::Page(bad), byte);
        let mut seen = Vec::new();
        let outcome = subject
            .store()
            .read_pages(&[good, bad], &mut |index, page| {
                seen.push((index, page.map(<[u8]>::to_vec)));
            });
        let message = message(outcome);
        assert!(
            message.starts_with("filter 3 sub-filter 1 page 2 is corrupt"),
            "{message}"
        );
        assert_eq!(seen, [(0, Some(vec![5]))]);
    }
}

pub(super) fn a_damaged_record_is_an_error_that_names_it<S: Subject>(open: Open<'_, S>) {
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

pub(super) fn a_damaged_filter_is_an_error_that_names_it<S: Subject>(open: Open<'_, S>) {
    let damages = [
        (
            StoredValue::FilterNumber("seen".to_owned()),
            "filter \"seen\"",
        ),
        (StoredValue::FilterName(FilterId(1)), "filter 1"),
        (StoredValue::FilterMeta(FilterId(1)), "filter 1"),
        (StoredValue::FilterExpiry(FilterId(1)), "filter 1"),
    ];
    for (value, named) in damages {
        let mut subject = open();
        change(
            subject.store(),
            1,
            vec![
                create(1, "seen", b"meta"),
                create(2, "sent", b""),
                expire(1, None, ends(1_000)),
            ],
        );
        subject.damage(&value, 8);
        let message = message(subject.store().filter_by_name("seen"));
        assert!(message.contains(named), "{message}");
        assert!(subject.store().list_filters("", None, 9).is_err());
        // The others are not affected.
        assert_eq!(
            subject.store().filter_by_name("sent").unwrap(),
            Some(stored(2, "sent", b""))
        );
    }
}

pub(super) fn the_estimate_grows_with_the_pages<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    let size = || subject.store().approximate_page_bytes(FilterId(1)).unwrap();
    assert_eq!(size(), 0);
    let images: Vec<_> = (0..100)
        .map(|at| (page(1, 0, at), vec![at as u8 + 1; 4096]))
        .collect();
    subject.store().checkpoint(&images, Sequence(0)).unwrap();
    let full = size();
    assert!((400_000..1_000_000).contains(&full), "{full}");
    write_pages(subject.store(), &[(page(2, 0, 0), &[1; 4096])]);
    assert_eq!(size(), full);
}

#[derive(Clone, Debug)]
enum Step {
    Commit {
        sequence: u64,
        redo: Vec<u8>,
    },
    Checkpoint {
        pages: Vec<(u32, u8)>,
        truncate_before: u64,
    },
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let commit = (1..20u64, proptest::collection::vec(any::<u8>(), 0..4))
        .prop_map(|(sequence, redo)| Step::Commit { sequence, redo });
    let checkpoint = (
        proptest::collection::vec((0..6u32, any::<u8>()), 0..4),
        0..22u64,
    )
        .prop_map(|(pages, truncate_before)| Step::Checkpoint {
            pages,
            truncate_before,
        });
    prop_oneof![5 => commit, 3 => checkpoint, 1 => Just(Step::Reopen)]
}

/// Log and pages against two maps, in any order of writes, with restarts.
pub(super) fn any_history_reads_like_a_map<S: Subject>(open: Open<'_, S>) {
    let config = Config {
        cases: 12,
        failure_persistence: None,
        ..Config::default()
    };
    // The same histories on every run.
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let subjects = std::cell::RefCell::new(open);
    let histories = proptest::collection::vec(step(), 1..40);
    let outcome = runner.run(&histories, |history| {
        let mut subject = (*subjects.borrow_mut())();
        let (mut expected_log, mut expected_pages) = (BTreeMap::new(), BTreeMap::new());
        for step in history {
            match step {
                Step::Commit { sequence, redo } => {
                    record(subject.store(), sequence, &redo);
                    match redo.is_empty() {
                        true => expected_log.remove(&sequence),
                        false => expected_log.insert(sequence, redo),
                    };
                }
                Step::Checkpoint {
                    pages,
                    truncate_before,
                } => {
                    let images: Vec<_> = pages
                        .iter()
                        .map(|&(at, byte)| (page(1, 0, at), vec![byte]))
                        .collect();
                    subject
                        .store()
                        .checkpoint(&images, Sequence(truncate_before))
                        .unwrap();
                    expected_pages.extend(pages);
                    expected_log.retain(|&sequence, _| sequence >= truncate_before);
                }
                Step::Reopen => subject.reopen(),
            }
            prop_assert_eq!(
                log(subject.store()),
                expected_log.clone().into_iter().collect::<Vec<_>>()
            );
        }
        let ids: Vec<_> = (0..6).map(|at| page(1, 0, at)).collect();
        let expected: Vec<_> = (0..6)
            .map(|at| {
                expected_pages
                    .get(&at)
                    .map(|&byte| if byte == 0 { vec![] } else { vec![byte] })
            })
            .collect();
        prop_assert_eq!(read(subject.store(), &ids), expected);
        Ok(())
    });
    outcome.unwrap();
}
