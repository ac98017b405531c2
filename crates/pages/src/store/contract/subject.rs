//! A store under test, and what the tests do with it.

use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use crate::store::Garbage;
use crate::store::format::StoredValue;
use crate::store::{Commit, Expiry, FilterChange, PageStore, StoreError, StoredFilter};

/// A store under test.
pub(in crate::store) trait Subject {
    /// The store as it is open now.
    fn store(&self) -> &PageStore;
    /// Closes the store and opens it again on what it has kept.
    fn reopen(&mut self);
    /// Inverts one byte of a stored value, which must be there.
    fn damage(&mut self, value: &StoredValue, byte: usize);
}

/// Makes an empty store under test.
pub(in crate::store) type Open<'a, S> = &'a mut dyn FnMut() -> S;

pub(super) fn page(filter: u64, ordinal: u32, page: u32) -> PageId {
    PageId {
        filter: FilterId(filter),
        ordinal: Ordinal(ordinal),
        page: PageIndex(page),
    }
}

pub(super) fn record(store: &PageStore, sequence: u64, redo: &[u8]) {
    let commit = Commit {
        sequence: Sequence(sequence),
        redo: redo.to_vec(),
        filters: Vec::new(),
        ..Commit::default()
    };
    store.commit(&commit).unwrap();
}

pub(super) fn change(store: &PageStore, sequence: u64, filters: Vec<FilterChange>) {
    let commit = Commit {
        sequence: Sequence(sequence),
        redo: Vec::new(),
        filters,
        ..Commit::default()
    };
    store.commit(&commit).unwrap();
}

pub(super) fn create(id: u64, name: &str, meta: &[u8]) -> FilterChange {
    FilterChange::Create {
        id: FilterId(id),
        name: name.to_owned(),
        meta: meta.to_vec(),
    }
}

pub(super) fn update(id: u64, meta: &[u8], dropped: &[u32]) -> FilterChange {
    let dropped = dropped.iter().copied().map(Ordinal).collect();
    FilterChange::Update {
        id: FilterId(id),
        meta: meta.to_vec(),
        dropped,
    }
}

pub(super) fn remove(id: u64, name: &str) -> FilterChange {
    FilterChange::Remove {
        id: FilterId(id),
        name: name.to_owned(),
    }
}

pub(super) fn restore(
    id: u64,
    name: &str,
    meta: &[u8],
    reclaimed: impl IntoIterator<Item = Garbage>,
) -> FilterChange {
    FilterChange::Restore {
        id: FilterId(id),
        name: name.to_owned(),
        meta: meta.to_vec(),
        reclaimed: reclaimed.into_iter().collect(),
    }
}

pub(super) fn stored(id: u64, name: &str, meta: &[u8]) -> StoredFilter {
    StoredFilter {
        id: FilterId(id),
        name: name.to_owned(),
        meta: meta.to_vec(),
        expiry: None,
        owner: None,
    }
}

pub(super) fn write_pages(store: &PageStore, pages: &[(PageId, &[u8])]) {
    let images: Vec<_> = pages
        .iter()
        .map(|(id, image)| (*id, image.to_vec()))
        .collect();
    store.checkpoint(&images, Sequence(0)).unwrap();
}

pub(super) fn read(store: &PageStore, ids: &[PageId]) -> Vec<Option<Vec<u8>>> {
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

pub(super) fn log(store: &PageStore) -> Vec<(u64, Vec<u8>)> {
    let mut records = Vec::new();
    store
        .replay(&mut |sequence, redo| {
            records.push((sequence.0, redo.to_vec()));
            Ok(())
        })
        .unwrap();
    records
}

pub(super) fn log_sequences(store: &PageStore) -> Vec<u64> {
    log(store)
        .into_iter()
        .map(|(sequence, _)| sequence)
        .collect()
}

pub(super) fn names(listed: Vec<StoredFilter>) -> Vec<String> {
    listed.into_iter().map(|filter| filter.name).collect()
}

pub(super) fn message<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> String {
    let error = outcome.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    error.to_string()
}

pub(super) fn ends(at_ms: u64) -> Option<Expiry> {
    Some(Expiry {
        at_ms,
        ttl_seconds: at_ms / 1000,
    })
}

pub(super) fn expire(id: u64, before: Option<Expiry>, after: Option<Expiry>) -> FilterChange {
    let id = FilterId(id);
    FilterChange::Expire { id, before, after }
}
