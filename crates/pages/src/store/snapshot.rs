//! Reading a store as of one moment.

use super::error::Result;
use super::format::{self, Kind};
use super::kv::{Caching, Column, KeyRange, KeyValueStore, Reader};
use super::values::{Expiry, Garbage, StoredFilter};
use crate::page::{FilterId, PageId, Sequence};
use serde::de::DeserializeOwned;
use std::ops::{ControlFlow, Range, RangeInclusive};

/// Bytes of the redo log, and of pages, read ahead.
const LOG_READ_AHEAD_BYTES: usize = 4 << 20;
const PAGES_READ_AHEAD_BYTES: usize = 1 << 20;

/// Is shown redo records one by one; an error ends the visit.
pub type EachRecord<'a> = &'a mut dyn FnMut(Sequence, &[u8]) -> Result;

/// Is shown page images one by one, each as it is or as what is wrong with it,
/// until it says that it is enough.
pub type EachPage<'a> = &'a mut dyn FnMut(PageId, Result<&[u8]>) -> Result<ControlFlow<()>>;

/// A name, and the number it leads to or what is wrong with that.
pub type ListedName = (String, Result<FilterId>);

/// A name, and when its filter ends.
pub type NamedEnd = (String, Option<Expiry>);

/// A store as it was at one moment.
pub struct Snapshot<'a> {
    reader: Box<dyn Reader + 'a>,
}

impl<'a> Snapshot<'a> {
    /// Of now.
    pub(super) fn of(kv: &'a dyn KeyValueStore) -> Snapshot<'a> {
        Snapshot {
            reader: kv.snapshot(),
        }
    }

    /// Finds a filter by its name.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn filter_by_name(&self, name: &str) -> Result<Option<StoredFilter>> {
        let id = value(&*self.reader, Kind::FilterNumber, name.as_bytes())?;
        id.map(|id| format::named(name, id, self.filter_by_id(id)?))
            .transpose()
    }

    /// Finds a filter by its number.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn filter_by_id(&self, id: FilterId) -> Result<Option<StoredFilter>> {
        Ok(self.filters(&[id])?.pop().flatten())
    }

    /// Lists up to `limit` filters whose names start with `prefix` and are
    /// greater than `after`, in byte order of the names.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn list_filters(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredFilter>> {
        let names = self.names(prefix, after, limit)?;
        let ids = names.into_iter().map(|(name, id)| Ok((name, id?)));
        let names: Vec<(String, FilterId)> = ids.collect::<Result<_>>()?;
        let ids: Vec<FilterId> = names.iter().map(|&(_, id)| id).collect();
        let found = self.filters(&ids)?;
        names
            .iter()
            .zip(found)
            .map(|((name, id), filter)| format::named(name, *id, filter))
            .collect()
    }

    /// Lists names like [`list_filters`](Self::list_filters), each with the
    /// filter number it leads to, or what is wrong with that.
    ///
    /// # Errors
    /// The store can't be read, or a name is no text.
    pub fn names(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ListedName>> {
        let keys = format::names_after(prefix, after);
        list(&*self.reader, Column::Names, &keys, limit, |key, value| {
            let id = format::open_value(Kind::FilterNumber, key, value);
            Ok((format::read_name(key)?, id))
        })
    }

    /// The filter that a name leads to by a number.
    ///
    /// # Errors
    /// There is none, or it has another name; corrupt or unreadable bytes.
    pub fn named(&self, name: &str, id: FilterId) -> Result<StoredFilter> {
        format::named(name, id, self.filter_by_id(id)?)
    }

    /// Up to `limit` numbers of filters from one on, ascending.
    ///
    /// # Errors
    /// Unreadable bytes.
    pub fn filter_ids(&self, from: FilterId, limit: usize) -> Result<Vec<FilterId>> {
        let mut ids = Vec::new();
        let keys = format::filters_from(from);
        self.reader
            .scan(Column::Filters, &keys, Caching::Keep, &mut |key, _| {
                let id = format::filter_of(key)?;
                if ids.last() != Some(&id) {
                    if ids.len() == limit {
                        return Ok(ControlFlow::Break(()));
                    }
                    ids.push(id);
                }
                Ok(ControlFlow::Continue(()))
            })?;
        Ok(ids)
    }

    /// The names of filters, and when these end, by their numbers, which are
    /// distinct. What is not there is left out.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn named_ends(&self, ids: &[FilterId]) -> Result<Vec<NamedEnd>> {
        let of = |&id| [format::filter_name_key(id), format::filter_expiry_key(id)];
        let keys: Vec<[u8; 9]> = ids.iter().flat_map(of).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 9]>::as_slice).collect();
        let (mut found, mut name) = (Vec::with_capacity(ids.len()), None);
        self.reader
            .get_many(Column::Filters, &keys, &mut |at, value| {
                let Some(&id) = ids.get(at / 2) else {
                    return Ok(());
                };
                if at.is_multiple_of(2) {
                    let key = format::filter_name_key(id);
                    let opened = value.map(|it| format::open_value(Kind::FilterName, &key, it));
                    name = opened.transpose()?;
                } else if let Some(name) = name.take() {
                    let key = format::filter_expiry_key(id);
                    let end = value.map(|it| format::open_value(Kind::FilterExpiry, &key, it));
                    found.push((name, end.transpose()?));
                }
                Ok(())
            })?;
        Ok(found)
    }

    /// What waits on the reclaim list of some filters, in no order.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn garbage(&self, filters: RangeInclusive<FilterId>) -> Result<Vec<Garbage>> {
        let keys = format::reclaim_entries_of(&filters);
        list(
            &*self.reader,
            Column::Reclaim,
            &keys,
            usize::MAX,
            |key, value| Ok(format::read_reclaim(key, value)?.pages),
        )
    }

    fn filters(&self, ids: &[FilterId]) -> Result<Vec<Option<StoredFilter>>> {
        let of = |&id| format::filter_keys(id);
        let keys: Vec<[u8; 9]> = ids.iter().flat_map(of).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 9]>::as_slice).collect();
        let mut values = Vec::with_capacity(keys.len());
        self.reader
            .get_many(Column::Filters, &keys, &mut |_, value| {
                values.push(value.map(<[u8]>::to_vec));
                Ok(())
            })?;
        let (parts, _) = values.as_chunks();
        let filters = ids.iter().zip(parts);
        filters
            .map(|(&id, parts)| format::stored_filter(id, parts))
            .collect()
    }

    /// Visits the images of a range of pages in ascending order; pages that
    /// were never written are passed over, and zeros at the end of an image may
    /// be missing.
    ///
    /// # Errors
    /// The store can't be read. An error of `each` ends the visit.
    pub fn pages(&self, pages: &Range<PageId>, each: EachPage<'_>) -> Result {
        let caching = Caching::Bypass(PAGES_READ_AHEAD_BYTES);
        let mut scratch = Vec::new();
        let keys = format::pages_between(pages);
        self.reader
            .scan(Column::Pages, &keys, caching, &mut |key, value| {
                let id = format::page_of(key)?;
                each(id, format::open_page(id, value, &mut scratch))
            })
    }

    /// Shows the image of one page, if there is one.
    ///
    /// # Errors
    /// Names the page.
    pub fn page(&self, id: PageId, each: &mut dyn FnMut(&[u8])) -> Result {
        let (key, mut scratch) = (format::page_key(id), Vec::new());
        self.reader
            .get_many(Column::Pages, &[&key], &mut |_, value| {
                if let Some(value) = value {
                    each(format::open_page(id, value, &mut scratch)?);
                }
                Ok(())
            })
    }

    /// Visits every redo record from the oldest to the newest.
    ///
    /// # Errors
    /// A corrupt record names its sequence. An error of `each` ends the visit.
    pub fn replay(&self, each: EachRecord<'_>) -> Result {
        replay(&*self.reader, each)
    }
}

/// The value under a key.
pub(super) fn value<T: DeserializeOwned>(
    reader: &dyn Reader,
    kind: Kind,
    key: &[u8],
) -> Result<Option<T>> {
    one(reader, kind.column(), key, |key, value| {
        format::open_value(kind, key, value)
    })
}

/// Up to `limit` entries of a column.
pub(super) fn list<T>(
    reader: &dyn Reader,
    column: Column,
    keys: &KeyRange,
    limit: usize,
    read: impl Fn(&[u8], &[u8]) -> Result<T>,
) -> Result<Vec<T>> {
    let mut found = Vec::new();
    reader.scan(column, keys, Caching::Keep, &mut |key, value| {
        if found.len() == limit {
            return Ok(ControlFlow::Break(()));
        }
        found.push(read(key, value)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// What is under a key, opened with the key.
pub(super) fn one<T>(
    reader: &dyn Reader,
    column: Column,
    key: &[u8],
    open: impl Fn(&[u8], &[u8]) -> Result<T>,
) -> Result<Option<T>> {
    let mut found = None;
    reader.get_many(column, &[key], &mut |_, value| {
        found = value.map(|value| open(key, value)).transpose()?;
        Ok(())
    })?;
    Ok(found)
}

/// Visits every redo record from the oldest to the newest.
pub(super) fn replay(reader: &dyn Reader, each: EachRecord<'_>) -> Result {
    let caching = Caching::Bypass(LOG_READ_AHEAD_BYTES);
    reader.scan(
        Column::Log,
        &format::all_keys(),
        caching,
        &mut |key, value| {
            let sequence = format::log_sequence(key)?;
            each(sequence, format::open_redo(sequence, value)?)?;
            Ok(ControlFlow::Continue(()))
        },
    )
}
