//! A commit, and the entries that it and its parts come to. Every change is
//! absolute, so the same commit may be written again.

use super::error::Result;
use super::format::{self, Kind};
use super::kv::{Column, WriteBatch};
use super::values::{Due, Expiry, Garbage, SideRecord, SideRecordKey};
use crate::page::{FilterId, Ordinal, PageId, Sequence};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One atomic unit of change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Number of the commit; a record already stored under it is replaced.
    #[serde(skip)]
    pub sequence: Sequence,
    /// Redo record as [`redo`](super::redo) encodes it. Empty: the record stored under the
    /// sequence, if any, is removed.
    #[serde(with = "serde_bytes")]
    pub redo: Vec<u8>,
    /// Changes to filters, applied in order.
    pub filters: Vec<FilterChange>,
    /// Changes to side records, applied in order.
    pub side_records: Vec<SideRecordChange>,
}

impl Commit {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.redo.is_empty() && self.filters.is_empty() && self.side_records.is_empty()
    }
}

/// A change to one side record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideRecordChange {
    /// Its key.
    pub key: SideRecordKey,
    /// What stood under the key before it, exactly.
    pub before: Option<SideRecord>,
    /// What stands under the key after it; `None`: nothing.
    pub after: Option<SideRecord>,
}

/// A change to one filter's description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterChange {
    /// A filter that was not there before.
    Create {
        /// Its number.
        id: FilterId,
        /// Its name; the key users gave.
        name: String,
        /// Its description, opaque here.
        #[serde(with = "serde_bytes")]
        meta: Vec<u8>,
    },
    /// A new description of a filter that is there.
    Update {
        /// Its number.
        id: FilterId,
        /// Its whole description.
        #[serde(with = "serde_bytes")]
        meta: Vec<u8>,
        /// Sub-filters that the description names no more; their pages are
        /// put on the reclaim list.
        dropped: Vec<Ordinal>,
    },
    /// The filter is gone: its name is free, its pages are put on the reclaim
    /// list. Costs the same for a page and for a million.
    Remove {
        /// Its number.
        id: FilterId,
        /// Its name.
        name: String,
    },
    /// Undoes whatever a commit of unknown outcome did to this filter: the
    /// name leads to it, it has this description, and what the commit put on the
    /// reclaim list is not there. What was there before stays.
    Restore {
        /// Its number.
        id: FilterId,
        /// Its name.
        name: String,
        /// Its whole description.
        #[serde(with = "serde_bytes")]
        meta: Vec<u8>,
        /// What is taken off the reclaim list.
        reclaimed: Vec<Garbage>,
    },
    /// The filter counts as that of this API key. Goes with the filter.
    Own {
        /// Its number.
        id: FilterId,
        /// The key's name.
        owner: String,
    },
    /// The filter ends at another moment, or never; it is on the list of what
    /// ends accordingly. A removed filter must be told to end never, too.
    Expire {
        /// Its number.
        id: FilterId,
        /// When it was to end before.
        before: Option<Expiry>,
        /// When it is to end now.
        after: Option<Expiry>,
    },
    /// Pages of a filter that has no name yet, in a lane that several stores have.
    /// They are removed once the filter is given up, and at no start before.
    Stage {
        /// Its number.
        id: FilterId,
        /// Its pages, as they are set.
        #[serde(with = "super::commit_bytes::packed_pages")]
        pages: Arc<[PageImage]>,
    },
    /// A filter that was staged gets no name: its pages are put on the reclaim
    /// list.
    GiveUp {
        /// Its number.
        id: FilterId,
    },
}

/// A page, and its bytes; zeros at the end may be missing.
pub type PageImage = (PageId, Vec<u8>);

impl Commit {
    /// Appends the entries of the commit, in order.
    ///
    /// # Errors
    /// A page that is larger than any page may be.
    pub(super) fn append_to(&self, batch: &mut WriteBatch) -> Result {
        let log_key = format::log_key(self.sequence);
        match self.redo.is_empty() {
            true => batch.delete(Column::Log, &log_key),
            false => batch.put_bytes(Kind::Redo, &log_key, &self.redo),
        }
        for change in &self.filters {
            filter_change(change, batch)?;
        }
        for SideRecordChange { key, before, after } in &self.side_records {
            if let Some(before) = before {
                forget_side_record(key, before, batch);
            }
            if let Some(after) = after {
                batch.put_value(Kind::SideRecord, &format::side_record_key(key), after);
                batch.put_bytes(Kind::Due, &due_key_of(key, after), &[]);
            }
        }
        Ok(())
    }
}

fn filter_change(change: &FilterChange, batch: &mut WriteBatch) -> Result {
    match change {
        FilterChange::Create { id, name, meta } => put_filter(*id, name, meta, batch),
        FilterChange::Update { id, meta, dropped } => {
            put_meta(*id, meta, batch);
            for &ordinal in dropped {
                put_garbage(Garbage::SubFilter(*id, ordinal), batch);
            }
        }
        FilterChange::Remove { id, name } => {
            batch.delete(Column::Names, name.as_bytes());
            for key in format::filter_keys(*id) {
                batch.delete(Column::Filters, &key);
            }
            put_garbage(Garbage::Filter(*id), batch);
        }
        FilterChange::Restore {
            id,
            name,
            meta,
            reclaimed,
        } => {
            put_filter(*id, name, meta, batch);
            for &garbage in reclaimed {
                batch.delete(Column::Reclaim, &format::reclaim_key(garbage));
            }
        }
        FilterChange::Own { id, owner } => {
            batch.put_value(Kind::FilterOwner, &format::filter_owner_key(*id), owner);
        }
        FilterChange::Expire { id, before, after } => {
            let due_key =
                |&Expiry { at_ms, .. }: &Expiry| format::due_key(&Due::Filter { at_ms, id: *id });
            if let Some(before) = before {
                batch.delete(Column::Due, &due_key(before));
            }
            let expiry_key = format::filter_expiry_key(*id);
            match after {
                None => batch.delete(Column::Filters, &expiry_key),
                Some(after) => {
                    batch.put_value(Kind::FilterExpiry, &expiry_key, after);
                    batch.put_bytes(Kind::Due, &due_key(after), &[]);
                }
            }
        }
        FilterChange::Stage { id, pages } => {
            let key = format::reclaim_key(Garbage::Filter(*id));
            batch.put_bytes(Kind::Reclaim, &key, &[format::STAGED]);
            put_pages(pages, batch)?;
        }
        FilterChange::GiveUp { id } => put_garbage(Garbage::Filter(*id), batch),
    }
    Ok(())
}

/// Puts the images of pages.
pub(super) fn put_pages(pages: &[PageImage], batch: &mut WriteBatch) -> Result {
    for (id, image) in pages {
        let sealed = format::seal_page(*id, image)?;
        batch.put(Column::Pages, &format::page_key(*id), sealed);
    }
    Ok(())
}

fn put_filter(id: FilterId, name: &str, meta: &[u8], batch: &mut WriteBatch) {
    batch.put_value(Kind::FilterNumber, name.as_bytes(), &id);
    batch.put_value(Kind::FilterName, &format::filter_name_key(id), &name);
    put_meta(id, meta, batch);
}

fn put_meta(id: FilterId, meta: &[u8], batch: &mut WriteBatch) {
    batch.put_bytes(Kind::FilterMeta, &format::filter_meta_key(id), meta);
}

/// Removes a side record and its entry on the list of what ends.
pub(super) fn forget_side_record(key: &SideRecordKey, record: &SideRecord, batch: &mut WriteBatch) {
    batch.delete(Column::SideRecords, &format::side_record_key(key));
    batch.delete(Column::Due, &due_key_of(key, record));
}

fn due_key_of(key: &SideRecordKey, record: &SideRecord) -> Vec<u8> {
    format::due_key(&Due::SideRecord {
        at_ms: record.ends_at_ms,
        key: key.clone(),
    })
}

/// Puts pages on the reclaim list.
pub(super) fn put_garbage(garbage: Garbage, batch: &mut WriteBatch) {
    batch.put_bytes(Kind::Reclaim, &format::reclaim_key(garbage), &[]);
}
