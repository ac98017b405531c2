//! Every key and every value, byte by byte; `docs/format.md` tabulates them.
//!
//! Keys are big-endian, so that their byte order is the order of the numbers.
//! Every value is an envelope: version, kind, checksum, payload. The
//! checksum covers the key too, so a value that turns up under another key is
//! noticed.

mod due;
mod envelope;
mod filters;
mod image;
mod info;
mod keys;
mod log;
mod pages;
mod side_records;

use super::kv::Column;
use super::values::SideRecordKey;
use crate::page::{FilterId, PageId, Sequence};

pub(super) use due::*;
pub use envelope::*;
pub(super) use filters::*;
pub use image::*;
pub use info::*;
pub(super) use keys::*;
pub(super) use log::*;
pub(super) use pages::*;
pub(super) use side_records::*;

/// Names one stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredValue {
    /// The image of a page.
    Page(PageId),
    /// A redo record.
    Redo(Sequence),
    /// The number a filter name leads to.
    FilterNumber(String),
    /// The name of a filter.
    FilterName(FilterId),
    /// The description of a filter.
    FilterMeta(FilterId),
    /// When a filter ends.
    FilterExpiry(FilterId),
    /// A side record.
    SideRecord(SideRecordKey),
}

impl StoredValue {
    /// Where it is kept.
    pub fn place(&self) -> (Column, Vec<u8>) {
        match self {
            StoredValue::Page(id) => (Column::Pages, page_key(*id).to_vec()),
            StoredValue::Redo(sequence) => (Column::Log, log_key(*sequence).to_vec()),
            StoredValue::FilterNumber(name) => (Column::Names, name.as_bytes().to_vec()),
            StoredValue::FilterName(id) => (Column::Filters, filter_name_key(*id).to_vec()),
            StoredValue::FilterMeta(id) => (Column::Filters, filter_meta_key(*id).to_vec()),
            StoredValue::SideRecord(key) => (Column::SideRecords, side_record_key(key)),
            StoredValue::FilterExpiry(id) => (Column::Filters, filter_expiry_key(*id).to_vec()),
        }
    }
}

/// Names the entry under a key, as errors do.
pub(super) fn entry_name(column: Column, key: &[u8]) -> String {
    let named = match column {
        Column::Pages => page_in(key).map(|id| id.to_string()),
        Column::Log => sequence_in(key).map(record_name),
        // The log names filters by their numbers alone.
        Column::Names => Some("the filter number that a name leads to".to_owned()),
        Column::Filters => filter_in(key).map(|id| format!("filter {id}")),
        Column::SideRecords => Some("a side record".to_owned()),
        Column::Info | Column::Reclaim | Column::Due => None,
    };
    named.unwrap_or_else(|| format!("column {}", column.name()))
}

#[cfg(test)]
mod tests;
