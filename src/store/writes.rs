//! What each write of the seam puts and deletes, in one place for all stores.

use super::format::{self, Column, KeyRange};
use super::{Commit, Due, FilterChange, Garbage, Note, NoteChange, NoteKey, StoreError};
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
    for NoteChange { key, was, now } in &commit.notes {
        if let Some(was) = was {
            forget_note(key, was, sink);
        }
        if let Some(now) = now {
            put_note(key, now, sink);
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
        FilterChange::Expire { id, was, now } => {
            if let Some(was) = was {
                let key = format::due_key(&Due::Filter {
                    at_ms: was.at_ms,
                    id: *id,
                });
                sink.delete(Column::Due, &key);
            }
            let expiry_key = format::filter_expiry_key(*id);
            match now {
                None => sink.delete(Column::Filters, &expiry_key),
                Some(now) => {
                    let sealed = format::seal_filter_expiry(*id, *now);
                    sink.put(Column::Filters, &expiry_key, sealed);
                    let key = format::due_key(&Due::Filter {
                        at_ms: now.at_ms,
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

fn put_note(key: &NoteKey, note: &Note, sink: &mut impl WriteSink) {
    let note_key = format::note_key(key);
    sink.put(Column::Notes, &note_key, format::seal_note(&note_key, note));
    let due_key = due_key_of(key, note);
    sink.put(Column::Due, &due_key, format::seal_due(&due_key));
}

/// Removes a note and its entry on the list of what ends.
pub(super) fn forget_note(key: &NoteKey, note: &Note, sink: &mut impl WriteSink) {
    sink.delete(Column::Notes, &format::note_key(key));
    sink.delete(Column::Due, &due_key_of(key, note));
}

fn due_key_of(key: &NoteKey, note: &Note) -> Vec<u8> {
    format::due_key(&Due::Note {
        at_ms: note.ends_at_ms,
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
