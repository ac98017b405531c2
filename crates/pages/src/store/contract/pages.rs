//! Page images, and snapshots of them.

use super::subject::{
    Open, Subject, change, create, log_sequences, message, page, read, record, remove, update,
    write_pages,
};
use crate::page::{FilterId, PageId, PageIndex, Sequence};
use crate::store::format::{MAX_IMAGE_BYTES, StoredValue};
use crate::store::{Garbage, Snapshot};
use std::ops::ControlFlow;

pub(in crate::store) fn pages_are_read_in_order_and_missing_ones_are_none<S: Subject>(
    open: Open<'_, S>,
) {
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

pub(in crate::store) fn more_pages_than_fit_one_batch_are_read_in_order<S: Subject>(
    open: Open<'_, S>,
) {
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

pub(in crate::store) fn the_last_image_of_a_page_counts<S: Subject>(open: Open<'_, S>) {
    let mut subject = open();
    write_pages(subject.store(), &[(page(1, 0, 0), &[1, 2, 3])]);
    write_pages(subject.store(), &[(page(1, 0, 0), &[0, 2])]);
    subject.reopen();
    assert_eq!(read(subject.store(), &[page(1, 0, 0)]), [Some(vec![0, 2])]);
}

pub(in crate::store) fn a_page_larger_than_allowed_is_refused_and_nothing_is_kept<S: Subject>(
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

/// What a view shows of the filter `seen` with one page, and of the log.
type Seen = (Option<Vec<u8>>, Vec<u8>, usize);

fn seen(view: &Snapshot<'_>) -> Seen {
    let meta = view.filter_by_name("seen").unwrap().map(|it| it.meta);
    let mut image = Vec::new();
    view.pages(&(page(1, 0, 0)..page(1, 0, 9)), &mut |_, bytes| {
        image.extend_from_slice(bytes?);
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

pub(in crate::store) fn a_view_stays_as_it_was_while_writes_go_on<S: Subject>(open: Open<'_, S>) {
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

pub(in crate::store) fn a_view_shows_the_pages_of_a_sub_filter_in_order<S: Subject>(
    open: Open<'_, S>,
) {
    let mut subject = open();
    let at = [(1, 0, 3), (1, 0, 256), (1, 0, 257), (1, 1, 0), (2, 0, 4)];
    let ids = at.map(|(filter, ordinal, number)| page(filter, ordinal, number));
    let images: Vec<_> = ids.iter().map(|&id| (id, vec![7; 5])).collect();
    subject.store().checkpoint(&images, Sequence(0)).unwrap();
    subject.reopen();
    let shown = |from: PageId, end, most: usize| {
        let mut shown = Vec::new();
        let view = subject.store().snapshot();
        view.pages(
            &(from..PageId {
                page: PageIndex(end),
                ..from
            }),
            &mut |id, _| {
                shown.push(id.page.0);
                Ok(match shown.len() < most {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                })
            },
        )
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
    let mut right = Vec::new();
    view.pages(&(page(1, 0, 0)..page(1, 0, 999)), &mut |id, image| {
        match image {
            Ok(_) => right.push(id.page.0),
            Err(error) => assert!(error.to_string().contains("page 256"), "{error}"),
        }
        Ok(ControlFlow::Continue(()))
    })
    .unwrap();
    assert_eq!(right, [3, 257]);
}

pub(in crate::store) fn a_damaged_page_is_an_error_that_names_it<S: Subject>(open: Open<'_, S>) {
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

pub(in crate::store) fn the_estimate_grows_with_the_pages<S: Subject>(open: Open<'_, S>) {
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
