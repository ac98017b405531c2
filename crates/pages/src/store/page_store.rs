//! The store of an engine: filters, pages, the redo log and what goes with
//! them, as entries of a [`KeyValueStore`].

use super::commit::{self, Commit};
use super::error::Result;
use super::format::{self, Kind};
use super::kv::{
    Caching, Column, Condition, Durability, FrozenStore, Gauge, KeyRange, KeyValueStore, Reader,
    WriteBatch,
};
use super::pending::Pending;
use super::snapshot::{EachRecord, NamedEnd, Snapshot, list, one, replay, value};
use super::values::{
    Due, Garbage, LanePosition, ScrubPosition, SideRecord, SideRecordKey, SideRecordTotals,
    StoredFilter,
};
use crate::page::{FilterId, PageId, Sequence};
use parking_lot::{Mutex, MutexGuard};
use prometheus::IntCounter;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages read at once; bounds what one request pins in memory.
const MAX_READ_PAGES: usize = 4096;

/// Up to so many pages are deleted one by one: every later read in the
/// neighbourhood of a range delete pays for it.
const MAX_POINT_DELETES: usize = 64;

/// Of a lane the records with the newest so many numbers are known, of all lanes
/// together as many: some 200 MB.
pub const LANE_PAST_RECORDS: u64 = 1 << 22;

/// Of each lane so many are known, however old: a pod that was away while other lanes
/// went on stands at one of them.
pub const LANE_PAST_LEAST: usize = 1 << 14;

/// Those before are removed so many at a time.
const LANE_PAST_STEP: u64 = LANE_PAST_RECORDS / 64;

/// The numbers of a new epoch begin so far above those of the one before, whose newest
/// records stay known: pods that stopped there have to be told from those that forked.
pub const NUMBERS_OF_AN_EPOCH: u64 = 1 << 32;

/// The next commit that is forced waits for so many bytes of staged pages at most, and
/// for those that are being written.
const MAX_UNFORCED_BYTES: usize = 1 << 20;

/// Bytes read ahead when all side records are counted.
const SIDE_RECORDS_READ_AHEAD_BYTES: usize = 4 << 20;

/// Pages, descriptions and the redo log of many filters. See the docs of
/// [`store`](super) for what is promised. Every method may block on I/O.
pub struct PageStore {
    kv: Arc<dyn KeyValueStore>,
    /// No redo record below this sequence is stored.
    lowest_record: AtomicU64,
    /// Held while filter numbers are reserved.
    reserving: Mutex<()>,
    /// Held while side records that have ended are read and removed: who then finds
    /// none under a key may write one.
    removing: Mutex<()>,
    /// Pages asked for, for `/metrics`.
    pages_read: Option<IntCounter>,
    /// What the disk has been asked and has not answered yet.
    pub pending: Pending,
    /// Up to where the past of lanes was removed since the start.
    past_removed: Mutex<HashMap<u32, u64>>,
    /// Bytes of staged pages since the disk was last forced to take them.
    unforced: Mutex<usize>,
}

impl PageStore {
    /// A store of what `kv` holds.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn open(kv: Arc<dyn KeyValueStore>) -> Result<PageStore> {
        next_serial(&*kv)?;
        let (all, mut lowest) = (format::all_keys(), u64::MAX);
        kv.scan(Column::Log, &all, Caching::Keep, &mut |key, _| {
            lowest = format::log_sequence(key)?.0;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(PageStore {
            kv,
            lowest_record: AtomicU64::new(lowest),
            reserving: Mutex::new(()),
            removing: Mutex::new(()),
            pages_read: None,
            pending: Pending::default(),
            past_removed: Mutex::default(),
            unforced: Mutex::default(),
        })
    }

    /// Counts the pages it is asked for in `pages_read`.
    pub fn counting_in(mut self, pages_read: IntCounter) -> PageStore {
        self.pages_read = Some(pages_read);
        self
    }

    /// Writes one commit. One write, at most one forced write to the disk.
    ///
    /// # Errors
    /// The outcome is unknown; commit the same sequence again.
    pub fn commit(&self, commit: &Commit) -> Result {
        self.write_commit(commit, WriteBatch::default(), Durability::Configured)
    }

    /// Writes one commit of a lane that several stores have, and where the lane stands
    /// then. Not forced to the disk: what a power cut takes is read from the commit log
    /// again, from the position on that is left.
    ///
    /// # Errors
    /// The outcome is unknown; commit the same sequence again.
    pub fn commit_at(&self, commit: &Commit, lane: u32, position: &LanePosition) -> Result {
        let mut batch = WriteBatch::default();
        let key = format::lane_position_key(lane);
        batch.put_value(Kind::LanePosition, &key, position);
        let key = format::lane_past_key(lane, position.sequence);
        batch.put_bytes(Kind::LanePast, &key, &position.history);
        let before = position.sequence.saturating_sub(LANE_PAST_RECORDS);
        let from = (position.sequence + 1).saturating_sub(NUMBERS_OF_AN_EPOCH);
        let removed = self.past_removed.lock().get(&lane).copied().unwrap_or(0);
        // Now and then what is known of the lane's records of long ago is removed.
        let is_due = before >= removed.max(from) + LANE_PAST_STEP;
        if is_due {
            let keys = self.past_to_remove(lane, from, before)?;
            batch.delete_range(Column::Info, keys);
        }
        self.write_commit(commit, batch, Durability::Ordered)?;
        if is_due {
            self.past_removed.lock().insert(lane, before);
        }
        Ok(())
    }

    /// Those between two numbers that are not among the newest of the lane.
    fn past_to_remove(&self, lane: u32, from: u64, before: u64) -> Result<KeyRange> {
        let keys = |from, to, count: usize| {
            let keys = format::lane_past_between(lane, from, to);
            self.list(Column::Info, &keys, count, |key, _| Ok(key.to_vec()))
        };
        let mut remove = format::lane_past_between(lane, from, before);
        let newer = keys(before, u64::MAX, LANE_PAST_LEAST)?.len();
        if newer < LANE_PAST_LEAST {
            // A quiet lane has few.
            let older = keys(from, before, usize::MAX)?;
            let gone = older.len().saturating_sub(LANE_PAST_LEAST - newer);
            if let Some(oldest) = older.into_iter().nth(gone) {
                remove.to = oldest;
            }
        }
        Ok(remove)
    }

    /// The hash of a lane's history up to a record that it has applied; `None`: it
    /// has applied none of this number, or that was more than [`LANE_PAST_RECORDS`]
    /// numbers, and [`LANE_PAST_LEAST`] records of the lane, ago.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn lane_past(&self, lane: u32, sequence: u64) -> Result<Option<[u8; 16]>> {
        self.value(Kind::LanePast, &format::lane_past_key(lane, sequence))
    }

    /// Where a lane stands that several stores have; `None`: it never was one of
    /// those.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn lane_position(&self, lane: u32) -> Result<Option<LanePosition>> {
        self.value(Kind::LanePosition, &format::lane_position_key(lane))
    }

    /// The positions of all lanes that have one, in the order of lanes.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn lane_positions(&self) -> Result<Vec<(u32, LanePosition)>> {
        let keys = format::lane_positions();
        self.list(Column::Info, &keys, usize::MAX, |key, value| {
            let position = format::open_value(Kind::LanePosition, key, value)?;
            Ok((format::lane_of_position(key), position))
        })
    }

    /// Stores where lanes stand of which nothing is known yet.
    ///
    /// # Errors
    /// The write failed: it may be retried.
    pub fn put_lane_positions(&self, lanes: &[(u32, LanePosition)]) -> Result {
        if lanes.is_empty() {
            return Ok(());
        }
        let mut batch = WriteBatch::default();
        for (lane, position) in lanes {
            let key = format::lane_position_key(*lane);
            batch.put_value(Kind::LanePosition, &key, position);
        }
        self.write(batch, Durability::Forced)
    }

    /// How far another store was in a lane, as far as was stored.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn lane_elsewhere(&self, lane: u32) -> Result<Option<LanePosition>> {
        self.value(Kind::LanePosition, &format::lane_elsewhere_key(lane))
    }

    /// Stores how far another store is in a lane, where this one has less, or something
    /// else.
    ///
    /// # Errors
    /// The write failed: it may be retried.
    pub fn put_lane_elsewhere(&self, lane: u32, position: &LanePosition) -> Result {
        let key = format::lane_elsewhere_key(lane);
        self.change(|batch| batch.put_value(Kind::LanePosition, &key, position))
    }

    /// Whether any lane has a position: then the store is that of a pod of a
    /// cluster.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn is_of_a_cluster(&self) -> Result<bool> {
        Ok(!self.lane_positions()?.is_empty())
    }

    fn write_commit(&self, commit: &Commit, mut batch: WriteBatch, sync: Durability) -> Result {
        commit.append_to(&mut batch)?;
        // Before the write: a checkpoint that comes in between must not
        // believe that there is nothing to truncate.
        self.lowest_record
            .fetch_min(commit.sequence.0, Ordering::SeqCst);
        self.write(batch, sync)
    }

    /// Reads the images of `ids`, which are sorted and distinct, in one batch,
    /// and calls `each` once for every index of `ids`, in order, with the
    /// page's bytes (zeros at the end may be missing) or `None` if it was
    /// never written.
    ///
    /// # Errors
    /// Corrupt bytes name the page. What `each` saw before is right.
    pub fn read_pages(&self, ids: &[PageId], each: &mut dyn FnMut(usize, Option<&[u8]>)) -> Result {
        let _pending = self.pending.reads.begin();
        if let Some(pages_read) = &self.pages_read {
            pages_read.inc_by(ids.len() as u64);
        }
        let (mut first, mut scratch) = (0, Vec::new());
        ids.chunks(MAX_READ_PAGES).try_for_each(|ids| {
            let keys: Vec<[u8; 16]> = ids.iter().map(|&id| format::page_key(id)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(<[u8; 16]>::as_slice).collect();
            let mut page_ids = ids.iter();
            self.kv
                .get_many(Column::Pages, &keys, &mut |index, value| {
                    let image = match (page_ids.next(), value) {
                        (Some(&id), Some(value)) => {
                            Some(format::open_page(id, value, &mut scratch)?)
                        }
                        _ => None,
                    };
                    each(first + index, image);
                    Ok(())
                })?;
            first += ids.len();
            Ok(())
        })
    }

    /// Writes page images, then removes every redo record below
    /// `truncate_before`; atomically.
    ///
    /// # Errors
    /// The images may or may not be there; the records still are.
    pub fn checkpoint(&self, images: &[(PageId, Vec<u8>)], truncate_before: Sequence) -> Result {
        self.write_back(images, &[], truncate_before)
    }

    /// Writes images of a filter that has no name yet. All who do so take turns, and
    /// wait for the disk, so that commits beside them need not.
    ///
    /// # Errors
    /// The images may or may not be there.
    pub fn stage_pages(&self, images: &[(PageId, Vec<u8>)]) -> Result {
        let mut unforced = self.unforced.lock();
        // Nothing is cut off the log by this.
        self.checkpoint(images, Sequence(0))?;
        *unforced += images.iter().map(|(_, image)| image.len()).sum::<usize>();
        if *unforced >= MAX_UNFORCED_BYTES {
            self.sync()?;
            *unforced = 0;
        }
        Ok(())
    }

    /// As [`checkpoint`](Self::checkpoint), and removes the images of pages
    /// that are no more; none of them is among `images`.
    ///
    /// # Errors
    /// The images may or may not be there; the records still are.
    pub fn write_back(
        &self,
        images: &[(PageId, Vec<u8>)],
        gone: &[PageId],
        truncate_before: Sequence,
    ) -> Result {
        let mut batch = WriteBatch::default();
        for &id in gone {
            batch.delete(Column::Pages, &format::page_key(id));
        }
        commit::put_pages(images, &mut batch)?;
        let lowest = self.lowest_record.load(Ordering::SeqCst);
        let truncates = lowest < truncate_before.0;
        if truncates {
            let below = format::log_below(Sequence(lowest), truncate_before);
            batch.delete_range(Column::Log, below);
        }
        self.write(batch, Durability::Ordered)?;
        if truncates {
            // Not if a lower record came meanwhile: it keeps its own mark.
            let _ = self.lowest_record.compare_exchange(
                lowest,
                truncate_before.0,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
        }
        Ok(())
    }

    /// Visits every redo record from the oldest to the newest.
    ///
    /// # Errors
    /// A corrupt record names its sequence. An error of `each` ends the visit.
    pub fn replay(&self, each: EachRecord<'_>) -> Result {
        replay(&*self.kv, each)
    }

    /// Reads all of a column; see [`KeyValueStore::read_through`].
    ///
    /// # Errors
    /// Unreadable bytes.
    pub fn read_through(
        &self,
        column: Column,
        read: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result {
        self.kv.read_through(column, read)
    }

    /// Everything as of one moment between two commits; commits go on
    /// meanwhile.
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::of(&*self.kv)
    }

    /// Finds a filter by its name.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn filter_by_name(&self, name: &str) -> Result<Option<StoredFilter>> {
        let _pending = self.pending.reads.begin();
        self.snapshot().filter_by_name(name)
    }

    /// Finds a filter by its number.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn filter_by_id(&self, id: FilterId) -> Result<Option<StoredFilter>> {
        let _pending = self.pending.reads.begin();
        self.snapshot().filter_by_id(id)
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
        let _pending = self.pending.reads.begin();
        self.snapshot().list_filters(prefix, after, limit)
    }

    /// Up to `limit` names that start with `prefix` and are greater than `after`, in
    /// byte order.
    ///
    /// # Errors
    /// Unreadable bytes.
    pub fn names(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>> {
        let _pending = self.pending.reads.begin();
        let names = self.snapshot().names(prefix, after, limit)?;
        Ok(names.into_iter().map(|(name, _)| name).collect())
    }

    /// Up to `limit` names that start with `prefix` and are greater than `after`, in
    /// byte order, and when their filters end.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn named_ends(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<NamedEnd>> {
        let _pending = self.pending.reads.begin();
        let snapshot = self.snapshot();
        let names = snapshot.names(prefix, after, limit)?;
        let ids: Result<Vec<_>, _> = names.into_iter().map(|(_, id)| id).collect();
        snapshot.named_ends(&ids?)
    }

    /// The same of up to `limit` filters by their numbers, from one on, and the last
    /// of these numbers, if there may be more.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn named_ends_by_number(
        &self,
        from: FilterId,
        limit: usize,
    ) -> Result<(Vec<NamedEnd>, Option<FilterId>)> {
        let _pending = self.pending.reads.begin();
        let snapshot = self.snapshot();
        let ids = snapshot.filter_ids(from, limit)?;
        let last = ids.last().copied().filter(|_| ids.len() == limit);
        Ok((snapshot.named_ends(&ids)?, last))
    }

    /// Reserves `count` serial numbers of filters that were never handed out before
    /// and never will be again, and returns the first. Durable when it returns.
    ///
    /// # Errors
    /// The numbers may be lost, never handed out twice.
    pub fn reserve_serials(&self, count: u64) -> Result<u64> {
        let _reserving = self.reserving.lock();
        let first = next_serial(&*self.kv)?;
        let next = format::serial_after(first, count)?;
        let mut batch = WriteBatch::default();
        batch.put_value(Kind::NextSerial, format::NEXT_SERIAL_KEY, &next);
        self.write(batch, Durability::Forced)?;
        Ok(first)
    }

    /// Up to where all pages were read; nothing before the first slice of a pass.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn scrub_position(&self) -> Result<Option<ScrubPosition>> {
        self.value(Kind::ScrubPosition, format::SCRUB_POSITION_KEY)
    }

    /// Keeps up to where all pages were read. Not forced to the disk.
    ///
    /// # Errors
    /// It may or may not be kept.
    pub fn keep_scrub_position(&self, position: Option<ScrubPosition>) -> Result {
        let key = format::SCRUB_POSITION_KEY;
        self.change(|batch| match position {
            Some(it) => batch.put_value(Kind::ScrubPosition, key, &it),
            None => batch.delete(Column::Info, key),
        })
    }

    /// Puts the pages of a filter that has no name yet on the reclaim list,
    /// before the first of them is written: should no
    /// [`FilterChange::Restore`](super::FilterChange::Restore) name it, they
    /// are removed after the next start.
    ///
    /// # Errors
    /// The pages may or may not be on the list.
    pub fn stage(&self, id: FilterId) -> Result {
        // In the log before the pages, so it is there if one of them is.
        self.change(|batch| commit::put_garbage(Garbage::Filter(id), batch))
    }

    /// What waits on the reclaim list, in ascending order, but for filters that a
    /// commit has staged.
    ///
    /// # Errors
    /// Unreadable bytes.
    pub fn garbage(&self) -> Result<Vec<Garbage>> {
        let listed = self.reclaim_list()?.into_iter();
        let mut garbage: Vec<_> = listed
            .filter(|it| !it.is_staged)
            .map(|it| it.pages)
            .collect();
        garbage.sort_unstable();
        Ok(garbage)
    }

    /// The filters that commits have staged, and that were neither named nor given
    /// up since.
    ///
    /// # Errors
    /// Unreadable bytes.
    pub fn staged(&self) -> Result<Vec<FilterId>> {
        let listed = self.reclaim_list()?.into_iter().filter(|it| it.is_staged);
        Ok(listed.map(|it| it.pages.filter()).collect())
    }

    fn reclaim_list(&self) -> Result<Vec<format::ReclaimEntry>> {
        let all = format::all_keys();
        self.list(Column::Reclaim, &all, usize::MAX, format::read_reclaim)
    }

    /// Whether a commit has staged this filter, which was neither named nor given up
    /// since.
    ///
    /// # Errors
    /// Unreadable bytes.
    pub fn is_staged(&self, id: FilterId) -> Result<bool> {
        let key = format::reclaim_key(Garbage::Filter(id));
        let _pending = self.pending.reads.begin();
        let entry = one(&*self.kv, Column::Reclaim, &key, format::read_reclaim)?;
        Ok(entry.is_some_and(|it| it.is_staged))
    }

    /// Removes the pages of one entry and the entry, atomically. The caller
    /// has seen to it that no checkpoint writes to them any more.
    ///
    /// # Errors
    /// The entry is still there.
    pub fn reclaim(&self, garbage: Garbage) -> Result {
        let pages = format::pages_of(garbage);
        let caching = Caching::Bypass(0);
        let mut batch = WriteBatch::default();
        self.kv
            .scan(Column::Pages, &pages, caching, &mut |key, _| {
                batch.delete(Column::Pages, key);
                Ok(match batch.changes.len() <= MAX_POINT_DELETES {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                })
            })?;
        if batch.changes.len() > MAX_POINT_DELETES {
            batch.changes.clear();
            batch.delete_range(Column::Pages, pages);
        }
        batch.delete(Column::Reclaim, &format::reclaim_key(garbage));
        self.write(batch, Durability::Ordered)
    }

    /// Gives the disk space of pages that were reclaimed back now, where it is
    /// left for later otherwise: for a disk that is short of it. May take a
    /// while.
    ///
    /// # Errors
    /// The space comes back later, if at all.
    pub fn compact_range(&self, garbage: Garbage) -> Result {
        self.kv
            .compact_range(Column::Pages, &format::pages_of(garbage))
    }

    /// Bytes that the filter's page images take on disk and in write buffers,
    /// an estimate.
    ///
    /// # Errors
    /// Unreadable bytes.
    pub fn approximate_page_bytes(&self, id: FilterId) -> Result<u64> {
        let _pending = self.pending.reads.begin();
        let pages = format::pages_of(Garbage::Filter(id));
        self.kv.approximate_bytes(Column::Pages, &pages)
    }

    /// The first `limit` entries of the list of what ends from one moment to
    /// another, both included, by time.
    ///
    /// # Errors
    /// Unreadable bytes.
    pub fn due(&self, from_ms: u64, until_ms: u64, limit: usize) -> Result<Vec<Due>> {
        let entries = self.due_entries(from_ms, until_ms, limit)?;
        entries.into_iter().collect()
    }

    /// The same, with what is wrong with entries in their places; these do not
    /// count towards the limit.
    ///
    /// # Errors
    /// Unreadable bytes.
    pub fn due_entries(
        &self,
        from_ms: u64,
        until_ms: u64,
        limit: usize,
    ) -> Result<Vec<Result<Due>>> {
        let keys = format::due_between(from_ms, until_ms);
        let (mut entries, mut sound) = (Vec::new(), 0);
        self.kv
            .scan(Column::Due, &keys, Caching::Keep, &mut |key, value| {
                if sound == limit {
                    return Ok(ControlFlow::Break(()));
                }
                let due = format::read_due(key, value);
                sound += usize::from(due.is_ok());
                entries.push(due);
                Ok(ControlFlow::Continue(()))
            })?;
        Ok(entries)
    }

    /// Takes an entry off that list which belongs to nothing any more.
    ///
    /// # Errors
    /// The entry is still there.
    pub fn forget_due(&self, due: &Due) -> Result {
        self.change(|batch| batch.delete(Column::Due, &format::due_key(due)))
    }

    /// The side record under a key, whether it has ended or not.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn side_record(&self, key: &SideRecordKey) -> Result<Option<SideRecord>> {
        self.value(Kind::SideRecord, &format::side_record_key(key))
    }

    /// Up to `limit` imports into a filter whose names are greater than `after`, by
    /// name, and what is recorded of each, whether it has ended or not.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn imports(
        &self,
        filter: FilterId,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, SideRecord)>> {
        let keys = format::imports_after(filter, after);
        self.list(Column::SideRecords, &keys, limit, format::read_import)
    }

    /// Removes the side record under a key if it has ended, beside all commits;
    /// returns it then. The caller has seen to it that none writes under the key.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes, or the side record is still there.
    pub fn forget_ended(&self, key: &SideRecordKey, now_ms: u64) -> Result<Option<SideRecord>> {
        let _one_at_a_time = self.removing.lock();
        let ended = self.side_record(key)?.filter(|it| it.ends_at_ms <= now_ms);
        if let Some(record) = &ended {
            self.change(|batch| commit::forget_side_record(key, record, batch))?;
        }
        Ok(ended)
    }

    /// Removes side records that have ended and their entries on the list of what
    /// ends, and entries that belong to nothing any more, in one write. Returns what
    /// was removed, or what is wrong with it, in their order. As
    /// [`forget_ended`](Self::forget_ended) otherwise.
    ///
    /// # Errors
    /// Unreadable bytes, or all of them are still there.
    pub fn forget_all_ended(
        &self,
        due: &[(u64, SideRecordKey)],
        now_ms: u64,
    ) -> Result<Vec<Result<Option<SideRecord>>>> {
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let _one_at_a_time = self.removing.lock();
        let mut batch = WriteBatch::default();
        let removed = due.iter().map(|(at_ms, key)| -> Result<_> {
            let record = self.side_record(key)?;
            let ended = record.filter(|it| it.ends_at_ms <= now_ms);
            match &ended {
                Some(record) => commit::forget_side_record(key, record, &mut batch),
                None => {
                    let (at_ms, key) = (*at_ms, key.clone());
                    let due = Due::SideRecord { at_ms, key };
                    batch.delete(Column::Due, &format::due_key(&due));
                }
            }
            Ok(ended)
        });
        let removed = removed.collect();
        self.write(batch, Durability::Ordered)?;
        Ok(removed)
    }

    /// Has no side record be removed as ended as long as this is held: for who
    /// writes another one in its place without asking what is there.
    pub fn hold_removals(&self) -> MutexGuard<'_, ()> {
        self.removing.lock()
    }

    /// How many side records there are; reads all of them.
    ///
    /// # Errors
    /// Corrupt or unreadable bytes.
    pub fn side_record_totals(&self) -> Result<SideRecordTotals> {
        let (all, mut totals) = (format::all_keys(), SideRecordTotals::default());
        let caching = Caching::Bypass(SIDE_RECORDS_READ_AHEAD_BYTES);
        self.kv
            .scan(Column::SideRecords, &all, caching, &mut |key, value| {
                format::count_side_record(&mut totals, key, value)?;
                Ok(ControlFlow::Continue(()))
            })?;
        Ok(totals)
    }

    /// Forces everything written so far to the disk; called on a clean stop.
    ///
    /// # Errors
    /// The disk refused.
    pub fn sync(&self) -> Result {
        let _pending = self.pending.writes.begin();
        self.kv.sync()
    }

    /// Makes a copy of everything; see [`KeyValueStore::freeze`].
    ///
    /// # Errors
    /// [`StoreError::Unsupported`](super::StoreError::Unsupported) where there are no files, or the disk
    /// refused; nothing of the copy is left then.
    pub fn freeze(&self) -> Result<Box<dyn FrozenStore>> {
        self.kv.freeze()
    }

    /// How the store and its disk are; see [`KeyValueStore::condition`].
    pub fn condition(&self) -> Condition {
        let _pending = self.pending.writes.begin();
        self.kv.condition()
    }

    /// Gauges for `/metrics`; see [`KeyValueStore::gauges`].
    pub fn gauges(&self) -> Vec<Gauge> {
        self.kv.gauges()
    }

    /// Writes what is put into a batch, which need not be forced to the disk.
    fn change(&self, put: impl FnOnce(&mut WriteBatch)) -> Result {
        let mut batch = WriteBatch::default();
        put(&mut batch);
        self.write(batch, Durability::Ordered)
    }

    fn write(&self, batch: WriteBatch, durability: Durability) -> Result {
        let _pending = self.pending.writes.begin();
        self.kv.write(batch, durability)
    }

    /// The value under a key.
    fn value<T: DeserializeOwned>(&self, kind: Kind, key: &[u8]) -> Result<Option<T>> {
        let _pending = self.pending.reads.begin();
        value(&*self.kv, kind, key)
    }

    fn list<T>(
        &self,
        column: Column,
        keys: &KeyRange,
        limit: usize,
        read: impl Fn(&[u8], &[u8]) -> Result<T>,
    ) -> Result<Vec<T>> {
        let _pending = self.pending.reads.begin();
        list(&*self.kv, column, keys, limit, read)
    }
}

fn next_serial(reader: &dyn Reader) -> Result<u64> {
    let next = value(reader, Kind::NextSerial, format::NEXT_SERIAL_KEY)?;
    Ok(next.unwrap_or(format::FIRST_SERIAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryStore;
    use crate::page::{Ordinal, PageIndex};

    #[test]
    fn it_counts_the_pages_that_it_is_asked_for() {
        let counter = IntCounter::new("pages", "Pages.").unwrap();
        let store = PageStore::open(Arc::new(MemoryStore::new())).unwrap();
        let store = store.counting_in(counter.clone());
        let [there, missing] = [0, 1].map(|page| PageId {
            filter: FilterId(1),
            ordinal: Ordinal(0),
            page: PageIndex(page),
        });
        let commit = Commit {
            sequence: Sequence(1),
            redo: vec![7; 30],
            ..Commit::default()
        };
        store.commit(&commit).unwrap();
        store
            .checkpoint(&[(there, vec![1; 100])], Sequence(2))
            .unwrap();
        store.read_pages(&[there, missing], &mut |_, _| {}).unwrap();

        assert_eq!(counter.get(), 2);
    }
}
