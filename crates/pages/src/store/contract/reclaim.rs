//! Pages that can't be reached any more, and what undoes that.

use super::subject::{
    Open, Subject, change, create, page, read, remove, restore, stored, update, write_pages,
};
use crate::page::{FilterId, Ordinal, Sequence};
use crate::store::{FilterChange, Garbage};

pub(in crate::store) fn a_name_is_free_after_removal_and_never_shows_old_pages<S: Subject>(
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

pub(in crate::store) fn dropped_sub_filters_are_reclaimed_alone<S: Subject>(open: Open<'_, S>) {
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

pub(in crate::store) fn a_staged_filter_is_reclaimed_unless_it_is_named<S: Subject>(
    open: Open<'_, S>,
) {
    let mut subject = open();
    for id in [1, 2] {
        subject.store().stage(FilterId(id)).unwrap();
        write_pages(subject.store(), &[(page(id, 0, 0), &[1])]);
    }
    subject.reopen();
    let garbage = [1, 2].map(|id| Garbage::Filter(FilterId(id)));
    assert_eq!(subject.store().garbage().unwrap(), garbage);
    change(
        subject.store(),
        1,
        vec![restore(2, "seen", b"meta", [garbage[1]])],
    );
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

pub(in crate::store) fn many_pages_are_reclaimed_like_few<S: Subject>(open: Open<'_, S>) {
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

pub(in crate::store) fn restore_undoes_a_removal<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    change(subject.store(), 1, vec![create(1, "seen", b"meta")]);
    write_pages(subject.store(), &[(page(1, 0, 0), &[1])]);
    change(subject.store(), 2, vec![remove(1, "seen")]);
    change(
        subject.store(),
        2,
        vec![restore(1, "seen", b"meta", [Garbage::Filter(FilterId(1))])],
    );
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

pub(in crate::store) fn restore_undoes_an_update_that_dropped_sub_filters<S: Subject>(
    open: Open<'_, S>,
) {
    let mut subject = open();
    change(subject.store(), 1, vec![create(1, "seen", b"long")]);
    change(
        subject.store(),
        2,
        vec![update(1, b"short", &[1, 2, u32::MAX])],
    );
    let dropped = [1, 2, u32::MAX].map(|ordinal| Garbage::SubFilter(FilterId(1), Ordinal(ordinal)));
    change(
        subject.store(),
        2,
        vec![restore(1, "seen", b"long", dropped)],
    );
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

pub(in crate::store) fn restore_leaves_other_garbage<S: Subject>(open: Open<'_, S>) {
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
    let removed = Garbage::Filter(FilterId(2));
    change(subject.store(), 3, vec![restore(2, "f2", b"", [removed])]);
    // What an earlier commit dropped of the same filter still waits.
    change(subject.store(), 4, vec![update(1, b"", &[5])]);
    let dropped = Garbage::SubFilter(FilterId(1), Ordinal(5));
    change(subject.store(), 4, vec![restore(1, "f1", b"", [dropped])]);
    let expected =
        [(1, u32::MAX), (3, 0)].map(|(id, at)| Garbage::SubFilter(FilterId(id), Ordinal(at)));
    assert_eq!(subject.store().garbage().unwrap(), expected);
}

pub(in crate::store) fn what_a_commit_has_staged_stays_until_it_is_named_or_given_up<S: Subject>(
    open: Open<'_, S>,
) {
    let mut subject = open();
    let stage = |id: u64, pages: &[u32]| FilterChange::Stage {
        id: FilterId(id),
        pages: pages.iter().map(|&at| (page(id, 0, at), vec![9])).collect(),
    };
    change(subject.store(), 1, vec![stage(1, &[]), stage(2, &[3])]);
    change(subject.store(), 2, vec![stage(1, &[0, 7])]);
    subject.reopen();
    let store = subject.store();
    assert_eq!(store.staged().unwrap(), [FilterId(1), FilterId(2)]);
    assert!(store.garbage().unwrap().is_empty());
    assert!(store.is_staged(FilterId(1)).unwrap() && !store.is_staged(FilterId(3)).unwrap());
    assert_eq!(read(store, &[page(1, 0, 7)]), [Some(vec![9])]);
    // What is on the list is known to belong to it.
    let all = FilterId(1)..=FilterId(9);
    assert_eq!(store.snapshot().garbage(all).unwrap().len(), 2);

    change(store, 3, vec![FilterChange::GiveUp { id: FilterId(2) }]);
    let named = Garbage::Filter(FilterId(1));
    change(store, 4, vec![restore(1, "seen", b"", [named])]);
    subject.reopen();
    let store = subject.store();
    assert!(store.staged().unwrap().is_empty() && !store.is_staged(FilterId(2)).unwrap());
    let given_up = Garbage::Filter(FilterId(2));
    assert_eq!(store.garbage().unwrap(), [given_up]);
    store.reclaim(given_up).unwrap();
    let pages = [page(1, 0, 0), page(1, 0, 7), page(2, 0, 3)];
    let there = || Some(vec![9]);
    assert_eq!(read(store, &pages), [there(), there(), None]);
    assert!(store.garbage().unwrap().is_empty());
}
