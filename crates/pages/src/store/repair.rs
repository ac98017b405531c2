//! Takes entries out of a store that can't be read and that belong to no filter, and
//! writes the names of filters anew.
//!
//! One bit that a disk has flipped in such an entry is damage that deleting a
//! filter does not remove: it would keep every backup from being complete, or the
//! server from starting. Nor can a filter be deleted that its name does not lead to.
//! But two entries say what a filter is called, and each tells the other. Where
//! neither can be read both stay: a person may still see what one of them says.

use super::error::{Result, StoreError};
use super::format::{self, Kind};
use super::kv::{Caching, Column, Durability, KeyValueStore, Reader, WriteBatch};
use super::snapshot::one;
use super::values::{Due, Expiry, SideRecord};
use crate::page::FilterId;
use serde::de::DeserializeOwned;
use std::fmt;
use std::ops::ControlFlow;

/// Changes written at once.
const CHANGES_AT_ONCE: usize = 10_000;

/// Bytes read ahead when a whole column is read.
const READ_AHEAD: Caching = Caching::Bypass(1 << 20);

/// Entries that were taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Of the list of what ends when. Nothing is lost with them: the list is made
    /// anew of what ends.
    pub due: u64,
    /// Of the list of pages to be reclaimed. The pages stay, and belong to nothing.
    pub reclaim: u64,
    /// Side records. What they said is lost: a request that is sent again with its
    /// key may be done again, an import may begin anew.
    pub side_records: u64,
    /// Names that led to no filter. Nothing is lost with them either.
    pub names: u64,
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// What can't be read and was taken out.
    pub removed: Removed,
    /// Filters that have their name again.
    pub named: u64,
    /// Filters of which neither entry with the name can be read.
    pub nameless: Vec<FilterId>,
    /// Entries of names that can't be read and were kept because there are such
    /// filters: one of them may be all that is left of what a filter is called.
    pub kept_names: Vec<String>,
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} entries of what ends when, {} of what is to be reclaimed, {} answers and imports kept for retries, {} names",
            self.due, self.reclaim, self.side_records, self.names
        )
    }
}

/// Takes out what can't be read, and puts all that ends on the list of what ends
/// when, and each filter under its name. Forced to the disk when it returns. Nobody else may change the store
/// meanwhile.
///
/// # Errors
/// Some of it may be done; to be repeated.
pub fn repair(kv: &dyn KeyValueStore) -> Result<Repaired> {
    let named = name_filters(kv)?;
    let nameless = nameless(kv)?;
    let mut kept_names = Vec::new();
    let removed = Removed {
        due: remove(kv, Column::Due, format::read_due)?,
        reclaim: remove(kv, Column::Reclaim, format::read_reclaim)?,
        side_records: remove(kv, Column::SideRecords, |key, value| {
            format::open_value::<SideRecord>(Kind::SideRecord, key, value)
        })?,
        // Those that are a filter's can be read by now, if it has a name.
        names: match nameless.is_empty() {
            true => remove(kv, Column::Names, open_name)?,
            false => {
                kept_names = unreadable_names(kv)?;
                0
            }
        },
    };
    list_what_ends(kv)?;
    kv.sync()?;
    Ok(Repaired {
        removed,
        named,
        nameless,
        kept_names,
    })
}

fn open_name(name: &[u8], value: &[u8]) -> Result<FilterId> {
    format::open_value(Kind::FilterNumber, name, value)
}

/// The filters that are described and have no name that can be read.
fn nameless(kv: &dyn KeyValueStore) -> Result<Vec<FilterId>> {
    let (view, mut nameless) = (kv.snapshot(), Vec::new());
    change(kv, Column::Filters, &mut |key, _, _| {
        let id = format::filter_of(key)?;
        if *key == format::filter_meta_key(id)
            && !is_readable::<String>(&*view, Kind::FilterName, &format::filter_name_key(id))?
        {
            nameless.push(id);
        }
        Ok(())
    })?;
    Ok(nameless)
}

/// The names whose entries can't be read, as far as they are text.
fn unreadable_names(kv: &dyn KeyValueStore) -> Result<Vec<String>> {
    let mut names = Vec::new();
    change(kv, Column::Names, &mut |name, value, _| {
        if readable(open_name(name, value))?.is_none() {
            names.push(String::from_utf8_lossy(name).into_owned());
        }
        Ok(())
    })?;
    Ok(names)
}

/// Has each name lead to the filter that has it, and each filter have the name that
/// leads to it, where one of the two can't be read. Says how many.
fn name_filters(kv: &dyn KeyValueStore) -> Result<u64> {
    let (view, mut named) = (kv.snapshot(), 0);
    change(kv, Column::Filters, &mut |key, value, batch| {
        let id = format::filter_of(key)?;
        if *key != format::filter_name_key(id) {
            return Ok(());
        }
        let Some(name) = readable(format::open_value::<String>(Kind::FilterName, key, value))?
        else {
            return Ok(());
        };
        if !is_readable::<FilterId>(&*view, Kind::FilterNumber, name.as_bytes())? {
            batch.put_value(Kind::FilterNumber, name.as_bytes(), &id);
            named += 1;
        }
        Ok(())
    })?;
    change(kv, Column::Names, &mut |key, value, batch| {
        let Some(id) = readable(format::open_value(Kind::FilterNumber, key, value))? else {
            return Ok(());
        };
        let name_key = format::filter_name_key(id);
        if !is_readable::<String>(&*view, Kind::FilterName, &name_key)?
            && stored(&*view, Column::Filters, &format::filter_meta_key(id))?.is_some()
        {
            batch.put_value(Kind::FilterName, &name_key, &format::read_name(key)?);
            named += 1;
        }
        Ok(())
    })?;
    Ok(named)
}

/// Nothing if it can't be read. What a newer program wrote is sound.
fn readable<T>(opened: Result<T>) -> Result<Option<T>> {
    match opened {
        Err(StoreError::Corrupt { .. }) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Whether an entry is there and can be read.
fn is_readable<T: DeserializeOwned>(view: &dyn Reader, kind: Kind, key: &[u8]) -> Result<bool> {
    let Some(value) = stored(view, kind.column(), key)? else {
        return Ok(false);
    };
    Ok(readable(format::open_value::<T>(kind, key, &value))?.is_some())
}

fn stored(view: &dyn Reader, column: Column, key: &[u8]) -> Result<Option<Vec<u8>>> {
    one(view, column, key, |_, value| Ok(value.to_vec()))
}

fn remove<T>(
    kv: &dyn KeyValueStore,
    column: Column,
    read: fn(&[u8], &[u8]) -> Result<T>,
) -> Result<u64> {
    let mut removed = 0;
    change(kv, column, &mut |key, value, batch| {
        if readable(read(key, value))?.is_none() {
            removed += 1;
            batch.delete(column, key);
        }
        Ok(())
    })?;
    Ok(removed)
}

fn list_what_ends(kv: &dyn KeyValueStore) -> Result {
    let list = |due: &Due, batch: &mut WriteBatch| {
        batch.put_bytes(Kind::Due, &format::due_key(due), &[]);
    };
    change(kv, Column::Filters, &mut |key, value, batch| {
        let id = format::filter_of(key)?;
        if *key == format::filter_expiry_key(id)
            // That it can't be read is a fault of its filter.
            && let Ok(expiry) = format::open_value::<Expiry>(Kind::FilterExpiry, key, value)
        {
            let at_ms = expiry.at_ms;
            list(&Due::Filter { at_ms, id }, batch);
        }
        Ok(())
    })?;
    change(kv, Column::SideRecords, &mut |key, value, batch| {
        let record: SideRecord = format::open_value(Kind::SideRecord, key, value)?;
        let at_ms = record.ends_at_ms;
        if let Some(key) = format::read_side_record_key(key) {
            list(&Due::SideRecord { at_ms, key }, batch);
        }
        Ok(())
    })
}

type EachChange<'a> = &'a mut dyn FnMut(&[u8], &[u8], &mut WriteBatch) -> Result;

/// Goes through a column as it is now, and writes what is to be changed.
fn change(kv: &dyn KeyValueStore, column: Column, each: EachChange<'_>) -> Result {
    let (view, all, mut batch) = (kv.snapshot(), format::all_keys(), WriteBatch::default());
    view.scan(column, &all, READ_AHEAD, &mut |key, value| {
        each(key, value, &mut batch)?;
        if batch.changes.len() >= CHANGES_AT_ONCE {
            kv.write(std::mem::take(&mut batch), Durability::Ordered)?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    kv.write(batch, Durability::Ordered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;
    use crate::page::Sequence;
    use crate::store::kv::{Change, WriteBatch};
    use crate::store::{
        Commit, Expiry, FilterChange, Garbage, PageStore, SideRecord, SideRecordChange,
        SideRecordKey,
    };
    use std::sync::Arc;

    fn retry(number: u8) -> SideRecordKey {
        SideRecordKey::Retry([number; 32])
    }

    /// A filter and two side records that end, and a filter that is gone.
    fn filled() -> (MemoryStore, PageStore) {
        let memory = MemoryStore::new();
        let store = PageStore::open(Arc::new(memory.clone())).unwrap();
        let kept = |number: u8| SideRecordChange {
            key: retry(number),
            before: None,
            after: Some(SideRecord {
                ends_at_ms: 100 * u64::from(number),
                owner: None,
                payload: vec![number],
            }),
        };
        let expiry = Expiry {
            ttl_seconds: 50,
            at_ms: 70,
        };
        let commit = Commit {
            sequence: Sequence(1),
            filters: vec![
                FilterChange::Create {
                    id: FilterId(1),
                    name: "seen".to_owned(),
                    meta: vec![1],
                },
                FilterChange::Expire {
                    id: FilterId(1),
                    before: None,
                    after: Some(expiry),
                },
            ],
            side_records: vec![kept(1), kept(2)],
            ..Commit::default()
        };
        store.commit(&commit).unwrap();
        store.stage(FilterId(9)).unwrap();
        (memory, store)
    }

    /// Flips a bit of an entry, key and value in a row.
    fn flip_a_bit(memory: &MemoryStore, entry: (Column, &[u8], &[u8]), bit: usize) {
        let (column, key, value) = entry;
        let mut bytes = [key, value].concat();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (new_key, new_value) = bytes.split_at(key.len());
        write(memory, Change::Delete(column, key.to_vec()));
        write(
            memory,
            Change::Put(column, new_key.to_vec(), new_value.to_vec()),
        );
    }

    /// All that is stored.
    fn all(memory: &MemoryStore) -> Vec<(Column, Vec<u8>, Vec<u8>)> {
        let (mut all, keys) = (Vec::new(), format::all_keys());
        for column in Column::ALL {
            let scanned = memory
                .snapshot()
                .scan(column, &keys, Caching::Keep, &mut |k, v| {
                    all.push((column, k.to_vec(), v.to_vec()));
                    Ok(ControlFlow::Continue(()))
                });
            scanned.unwrap();
        }
        all
    }

    fn write(memory: &MemoryStore, change: Change) {
        let changes = vec![change];
        let batch = WriteBatch { changes };
        memory.write(batch, Durability::Ordered).unwrap();
    }

    #[test]
    fn what_a_filter_was_called_is_kept_where_neither_entry_can_be_read() {
        let (memory, store) = filled();
        let sound = all(&memory);
        let name_key = format::filter_name_key(FilterId(1));
        for (column, key, value) in &sound {
            let is_name = *column == Column::Filters && *key == name_key;
            if is_name || *column == Column::Names {
                flip_a_bit(&memory, (*column, key, value), 8 * key.len() + 3);
            }
        }
        let damaged = all(&memory);
        let repaired = repair(&memory).unwrap();
        assert_eq!(repaired.nameless, [FilterId(1)]);
        assert_eq!(repaired.kept_names, ["seen"]);
        assert_eq!((repaired.removed.names, repaired.named), (0, 0));
        assert_eq!(all(&memory), damaged);

        // Once no filter is without a name, what can't be read leads to none.
        for (column, key, value) in sound.iter().filter(|(_, key, _)| *key == name_key) {
            write(&memory, Change::Put(*column, key.clone(), value.clone()));
        }
        let again = repair(&memory).unwrap();
        assert_eq!((again.named, again.removed.names), (1, 0));
        assert!(again.nameless.is_empty() && again.kept_names.is_empty());
        assert!(matches!(store.filter_by_name("seen"), Ok(Some(_))));
    }

    #[test]
    fn a_sound_store_stays_as_it_is() {
        let (memory, _) = filled();
        let before = all(&memory);
        assert_eq!(repair(&memory).unwrap(), Repaired::default());
        assert_eq!(all(&memory), before);
    }

    #[test]
    fn whatever_bit_of_an_entry_has_flipped_all_can_be_read_again_and_all_else_is_there() {
        let (memory, _) = filled();
        let sound = all(&memory);
        let lists = [Column::Due, Column::Reclaim, Column::SideRecords];
        let entries = sound.iter().filter(|(column, _, _)| lists.contains(column));
        let mut tried = 0;
        for (column, key, value) in entries {
            for bit in 0..8 * (key.len() + value.len()) {
                let (memory, store) = filled();
                flip_a_bit(&memory, (*column, key, value), bit);
                let Repaired { removed, named, .. } = repair(&memory).unwrap();
                let Removed {
                    due,
                    reclaim,
                    side_records,
                    names,
                } = removed;
                assert_eq!(
                    (due + reclaim + side_records, names, named),
                    (1, 0, 0),
                    "{column:?} bit {bit}: {removed}"
                );
                // The list of what ends is as it was; of the others one is gone.
                let mut expected = sound.clone();
                if *column != Column::Due {
                    expected.retain(|(at, it, _)| (at, it) != (column, key));
                }
                let mut found = all(&memory);
                if *column == Column::SideRecords {
                    // Its end leads to nothing, and goes when its time has come.
                    let is_due = |(at, _, _): &(Column, Vec<u8>, Vec<u8>)| *at == Column::Due;
                    expected.retain(|entry| !is_due(entry));
                    found.retain(|entry| !is_due(entry));
                }
                assert_eq!(found, expected, "{column:?} bit {bit}");
                assert_eq!(store.due(0, u64::MAX, 9).unwrap().len(), 3);
                tried += 1;
            }
        }
        assert!(tried > 1000, "{tried}");
        let (_, store) = filled();
        assert_eq!(store.garbage().unwrap(), [Garbage::Filter(FilterId(9))]);
    }

    #[test]
    fn whatever_bit_of_a_filters_name_or_of_what_leads_to_it_has_flipped_it_has_its_name_again() {
        let (memory, _) = filled();
        let sound = all(&memory);
        let name_key = format::filter_name_key(FilterId(1));
        let of_names = |(column, key, _): &&(Column, Vec<u8>, Vec<u8>)| {
            *column == Column::Names || *column == Column::Filters && *key == name_key
        };
        let mut tried = 0;
        for (column, key, value) in sound.iter().filter(of_names) {
            // A filter's number can't be told from that of another.
            let first = match column {
                Column::Names => 0,
                _ => 8 * key.len(),
            };
            for bit in first..8 * (key.len() + value.len()) {
                let (memory, store) = filled();
                flip_a_bit(&memory, (*column, key, value), bit);
                let found = store.filter_by_name("seen");
                assert!(!matches!(found, Ok(Some(_))), "{column:?} bit {bit}");
                let repaired = repair(&memory).unwrap();
                assert_eq!(repaired.named, 1, "{column:?} bit {bit}");
                assert_eq!(all(&memory), sound, "{column:?} bit {bit}");
                tried += 1;
            }
        }
        assert!(tried > 150, "{tried}");
    }
}
