//! What each write of the seam puts and deletes, in one place for all stores.

use super::format::{self, Column, KeyRange};
use super::{
    Commit, Due, FilterChange, Garbage, SideRecord, SideRecordChange, SideRecordKey, StoreError,
};
use crate::page::{FilterId, PageId};

/// Takes puts and deletes that become visible together.
pub(super) trait WriteSink {
    fn put(&mut self, column: Column, key: &[u8], value: Vec<u8>);
    fn delete(&mut self, column: Column, key: &[u8]);
    fn delete_range(&mut self, column: Column, keys: &KeyRange);
}

/// The writes of one commit, in order; every one of them is absolute, so the
/// same commit may be written again.
pub(super) fn commit(commit: &Commit, sink: &mut impl WriteSink) {
    let log_key = format::log_key(commit.sequence);
    if commit.redo.is_empty() {
        sink.delete(Column::Log, &log_key);
    } else {
        sink.put(
            Column::Log,
            &log_key,
            format::seal_redo(commit.sequence, &commit.redo),
        );
    }
    for change in &commit.filters {
        filter_change(change, sink);
    }
    for SideRecordChange { key, before, after } in &commit.side_records {
        if let Some(before) = before {
            forget_side_record(key, before, sink);
        }
        if let Some(after) = after {
            put_side_record(key, after, sink);
        }
    }
}

fn filter_change(change: &FilterChange, sink: &mut impl WriteSink) {
    match change {
        FilterChange::Create { id, name, meta } => put_filter(*id, name, meta, sink),
        FilterChange::Update { id, meta, dropped } => {
            put_meta(*id, meta, sink);
            for &ordinal in dropped {
                put_garbage(Garbage::SubFilter(*id, ordinal), sink);
            }
        }
        FilterChange::Remove { id, name } => {
            sink.delete(Column::Names, name.as_bytes());
            sink.delete(Column::Filters, &format::filter_name_key(*id));
            sink.delete(Column::Filters, &format::filter_meta_key(*id));
            sink.delete(Column::Filters, &format::filter_expiry_key(*id));
            put_garbage(Garbage::Filter(*id), sink);
        }
        FilterChange::Restore { id, name, meta } => {
            put_filter(*id, name, meta, sink);
            sink.delete_range(Column::Reclaim, &format::reclaim_entries_of(*id));
        }
        FilterChange::Expire { id, before, after } => {
            if let Some(before) = before {
                let key = format::due_key(&Due::Filter {
                    at_ms: before.at_ms,
                    id: *id,
                });
                sink.delete(Column::Due, &key);
            }
            let expiry_key = format::filter_expiry_key(*id);
            match after {
                None => sink.delete(Column::Filters, &expiry_key),
                Some(after) => {
                    let sealed = format::seal_filter_expiry(*id, *after);
                    sink.put(Column::Filters, &expiry_key, sealed);
                    let key = format::due_key(&Due::Filter {
                        at_ms: after.at_ms,
                        id: *id,
                    });
                    sink.put(Column::Due, &key, format::seal_due(&key));
                }
            }
        }
    }
}

/// A filter that has no name yet.
pub(super) fn stage(id: FilterId, sink: &mut impl WriteSink) {
    put_garbage(Garbage::Filter(id), sink);
}

fn put_filter(id: FilterId, name: &str, meta: &[u8], sink: &mut impl WriteSink) {
    sink.put(
        Column::Names,
        name.as_bytes(),
        format::seal_filter_number(name, id),
    );
    let name_key = format::filter_name_key(id);
    sink.put(
        Column::Filters,
        &name_key,
        format::seal_filter_name(id, name),
    );
    put_meta(id, meta, sink);
}

fn put_meta(id: FilterId, meta: &[u8], sink: &mut impl WriteSink) {
    sink.put(
        Column::Filters,
        &format::filter_meta_key(id),
        format::seal_filter_meta(id, meta),
    );
}

fn put_side_record(key: &SideRecordKey, record: &SideRecord, sink: &mut impl WriteSink) {
    let side_record_key = format::side_record_key(key);
    sink.put(
        Column::SideRecords,
        &side_record_key,
        format::seal_side_record(&side_record_key, record),
    );
    let due_key = due_key_of(key, record);
    sink.put(Column::Due, &due_key, format::seal_due(&due_key));
}

/// Removes a side record and its entry on the list of what ends.
pub(super) fn forget_side_record(
    key: &SideRecordKey,
    record: &SideRecord,
    sink: &mut impl WriteSink,
) {
    sink.delete(Column::SideRecords, &format::side_record_key(key));
    sink.delete(Column::Due, &due_key_of(key, record));
}

fn due_key_of(key: &SideRecordKey, record: &SideRecord) -> Vec<u8> {
    format::due_key(&Due::SideRecord {
        at_ms: record.ends_at_ms,
        key: key.clone(),
    })
}

fn put_garbage(garbage: Garbage, sink: &mut impl WriteSink) {
    let key = format::reclaim_key(garbage);
    sink.put(Column::Reclaim, &key, format::seal_reclaim(&key));
}

/// The page images of one checkpoint slice.
///
/// # Errors
/// A page that is too large; nothing must be written then.
pub(super) fn images(
    images: &[(PageId, Vec<u8>)],
    sink: &mut impl WriteSink,
) -> Result<(), StoreError> {
    for (id, image) in images {
        sink.put(
            Column::Pages,
            &format::page_key(*id),
            format::seal_page(*id, image)?,
        );
    }
    Ok(())
}
