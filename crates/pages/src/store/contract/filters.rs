//! Filters by name, by number and in lists.

use super::subject::{
    Open, Subject, change, create, ends, expire, message, names, remove, stored, update,
};
use crate::page::FilterId;
use crate::store::Garbage;
use crate::store::format::StoredValue;

pub(in crate::store) fn a_filter_is_found_by_name_and_by_number<S: Subject>(open: Open<'_, S>) {
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

pub(in crate::store) fn an_update_keeps_name_and_number<S: Subject>(open: Open<'_, S>) {
    let subject = open();
    change(subject.store(), 1, vec![create(1, "seen", b"old")]);
    change(subject.store(), 2, vec![update(1, b"new", &[])]);
    let expected = Some(stored(1, "seen", b"new"));
    assert_eq!(subject.store().filter_by_name("seen").unwrap(), expected);
    assert!(subject.store().garbage().unwrap().is_empty());
}

pub(in crate::store) fn changes_of_one_commit_are_applied_in_order<S: Subject>(open: Open<'_, S>) {
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

pub(in crate::store) fn filter_numbers_are_never_handed_out_twice<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    let mut handed_out = 0;
    for count in [1, 100, 3, 1] {
        let first = subject.store().reserve_serials(count).unwrap();
        assert!(first > handed_out, "{first} after {handed_out}");
        handed_out = first + count - 1;
        subject.reopen();
    }
    let reserved: Vec<u64> = std::thread::scope(|scope| {
        let store = subject.store();
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..20).map(|_| store.reserve_serials(2).unwrap()).collect()))
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

pub(in crate::store) fn numbers_that_do_not_exist_are_not_handed_out<S: Subject>(
    open: Open<'_, S>,
) {
    let subject = open();
    let first = subject.store().reserve_serials(1).unwrap();
    for count in [u64::MAX, 1 << FilterId::SERIAL_BITS] {
        assert!(subject.store().reserve_serials(count).is_err());
    }
    assert!(subject.store().reserve_serials(1).unwrap() > first);
}

pub(in crate::store) fn filters_are_listed_by_prefix_and_page<S: Subject>(open: Open<'_, S>) {
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

pub(in crate::store) fn a_damaged_filter_is_an_error_that_names_it<S: Subject>(open: Open<'_, S>) {
    let damages = [
        (
            StoredValue::FilterNumber("seen".to_owned()),
            "the filter number that a name leads to",
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
        subject.damage(&value, 6);
        let message = message(subject.store().filter_by_name("seen"));
        assert!(message.contains(named), "{message}");
        // It may end in the log, which names filters by their numbers.
        assert!(!message.contains("seen"), "{message}");
        assert!(subject.store().list_filters("", None, 9).is_err());
        // The others are not affected.
        assert_eq!(
            subject.store().filter_by_name("sent").unwrap(),
            Some(stored(2, "sent", b""))
        );
    }
}
