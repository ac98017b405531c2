//! The description of a filter that splits pages: all that is known of it
//! beside its pages.
//!
//! `known.rs` counts how many entries know how many bits, `epochs.rs` how many are of
//! which epoch, and `encoding.rs` has the stored bytes and their checks.

mod encoding;
mod epochs;
mod known;

pub use epochs::Epochs;
pub use known::Known;

use crate::chain::address::Ordinal;
use crate::chain::full_reason::FullReason;
use crate::chain::params::{GrowthBounds, Window};
use crate::cuckoo::paged::rate::{self, SplitLoads};
use crate::cuckoo::paged::{PAGE_BYTES, Paged, Pair};

/// Items that a chain may hold at most, copies included: more than can be added
/// one by one, and sums of them never overflow.
pub(in crate::chain) const MAX_ITEMS: u64 = 1 << 48;

/// Share of the slots in use, and of the keys that bring splits, in thousandths, below
/// which pages are merged.
const MERGE_LOAD: u64 = 400;

/// Entries of lists a page of a level beyond which its first page is split, and those
/// beyond which its last one is. A page has room for nearly twice as many, since
/// items differ in their values.
const SPLIT_KEYS: SplitLoads = SplitLoads {
    first: 8_192,
    last: 9_216,
};

/// Whether pages with so many entries, and keys of lists, are to be merged.
pub(in crate::chain) fn is_sparse(layout: &Paged, live: u64, keys: u64) -> bool {
    let most_keys = SPLIT_KEYS.first * u64::from(layout.pages());
    1000 * live < MERGE_LOAD * layout.slots() && 1000 * keys < MERGE_LOAD * most_keys
}

/// A filter that splits pages, as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its pages.
    pub layout: Paged,
    /// Adds less deletes; none where items expire, which has them by epoch.
    pub(in crate::chain) items: u64,
    /// Slots in use, void copies included.
    pub occupied: u64,
    /// Copies that are counted beside pages.
    pub counted: u64,
    /// Counters beside all pages. None where items expire: there a page has a stamp.
    pub keys: u64,
    /// Entries by the bits that are known of them.
    pub known: Known,
    /// Entries that splits of this level copied. They don't burden the pages
    /// that are still to be split, so they are no reason to split them.
    pub(in crate::chain) void_copies: u64,
    /// Slots in use below which a merge is tried, after one that did not fit.
    pub(in crate::chain) merge_below: Option<u64>,
    /// Where items expire: the entries that have not, by epoch.
    pub epochs: Option<Epochs>,
}

impl Table {
    /// Names its pages in the store.
    pub const ORDINAL: Ordinal = Ordinal(0);

    /// An empty filter.
    pub fn new(layout: Paged) -> Table {
        Table {
            layout,
            items: 0,
            occupied: 0,
            counted: 0,
            keys: 0,
            known: Known::none_of(&layout),
            void_copies: 0,
            merge_below: None,
            epochs: None,
        }
    }

    /// The same if items expire, as of a moment in milliseconds since 1970.
    pub(in crate::chain) fn with_window(self, window: Window, now_ms: u64) -> Table {
        let epochs = Epochs::new(window, window.epoch_at(now_ms));
        Table {
            epochs: Some(epochs),
            ..self
        }
    }

    /// The value of slots that are written in the current epoch.
    pub(in crate::chain) fn epoch_value(&self) -> u32 {
        let current = self.epochs.as_ref().map_or(0, |it| it.current);
        current as u32 & self.layout.code().value_mask()
    }

    /// Slots in use whose entries have expired: they wait to be cleared.
    pub fn expired(&self) -> u64 {
        self.occupied.saturating_sub(self.live())
    }

    /// Entries that have not expired.
    #[inline]
    fn live(&self) -> u64 {
        match &self.epochs {
            Some(epochs) => epochs.live,
            None => self.occupied,
        }
    }

    /// Keeps the number of void copies below that of entries: void copies expire, too.
    pub(in crate::chain) fn forget_expired_void_copies(&mut self) {
        self.void_copies = self.void_copies.min(self.occupied);
    }

    /// Items in the filter: adds less deletes; where items expire, entries that
    /// have not.
    #[inline]
    pub fn items(&self) -> u64 {
        match &self.epochs {
            Some(epochs) => epochs.live,
            None => self.items,
        }
    }

    /// Whether values of items are in lists beside pages.
    #[inline]
    pub(in crate::chain) fn has_lists(&self) -> bool {
        self.epochs.is_none() && self.layout.code().value_bits() > 0
    }

    /// Counters beside all pages that are in lists.
    #[inline]
    pub(in crate::chain) fn list_keys(&self) -> u64 {
        match self.has_lists() {
            true => self.keys,
            false => 0,
        }
    }

    /// Adds to them, or takes off.
    #[inline]
    pub(in crate::chain) fn add_keys(&mut self, more: i64) {
        if self.epochs.is_none() {
            self.keys = self.keys.saturating_add_signed(more);
        }
    }

    /// Entries and counted copies beyond the items: as many were made by splits, and
    /// nothing tells which. None where items expire: copies do so, too.
    pub(in crate::chain) fn surplus(&self) -> u64 {
        if self.epochs.is_some() {
            return 0;
        }
        (self.occupied + self.counted).saturating_sub(self.items)
    }

    /// Probability that an item which was never added is found.
    pub fn false_positive_rate(&self) -> f64 {
        let of_all = rate::false_positive_rate(&self.layout, self.known.iter());
        match &self.epochs {
            // Entries that have expired answer no question.
            Some(epochs) if self.occupied > 0 => {
                let share = epochs.live as f64 / self.occupied as f64;
                0.0 - f64::exp_m1(share * f64::ln_1p(-of_all))
            }
            _ => of_all,
        }
    }

    /// The filter with so many items that were added before it grew.
    pub(in crate::chain) fn with_items(mut self, items: u64) -> Table {
        let fresh = self.layout.code().suffix_bits();
        self.known = Known::of(fresh, vec![items]);
        self.occupied = items;
        match &mut self.epochs {
            Some(epochs) => *epochs = epochs.with_current(items),
            None => self.items = items,
        }
        self
    }

    /// Whether the page at the pointer should be split.
    #[inline]
    pub(in crate::chain) fn is_split_due(&self) -> bool {
        1000 * self.burden() > self.split_load().0 || self.has_long_lists()
    }

    /// Whether it should be since lists are long. Not where a split may copy entries:
    /// it copies their lists, so that they would not become shorter.
    #[inline]
    pub(in crate::chain) fn has_long_lists(&self) -> bool {
        self.list_keys() > 0 && self.list_keys() > self.most_keys()
    }

    /// Keys beyond which the page at the pointer is split, as
    /// [`split_load`](Self::split_load).
    fn most_keys(&self) -> u64 {
        if !self.has_lists() || u32::from(self.layout.level()) >= self.layout.code().suffix_bits() {
            return u64::MAX;
        }
        let SplitLoads { first, last } = SPLIT_KEYS;
        let pages = u64::from(self.layout.pages_of_level());
        first * pages + (last - first) * u64::from(self.layout.pointer())
    }

    /// Splits that are due once there are so many entries more, whether in slots or in
    /// lists.
    pub(in crate::chain) fn splits_after(&self, adds: u64) -> u64 {
        let due = |number: u64, most: u64, each_more: u64| {
            number.checked_sub(most).map_or(0, |it| it / each_more + 1)
        };
        let (load, each_more) = self.split_load();
        let by_slots = due(1000 * (self.burden() + adds), load, each_more);
        let SplitLoads { first, last } = SPLIT_KEYS;
        by_slots.max(due(self.list_keys() + adds, self.most_keys(), last - first))
    }

    /// Slots in use, but for void copies and for what has expired.
    #[inline]
    pub(in crate::chain) fn burden(&self) -> u64 {
        let live = self.live();
        live - self.void_copies.min(live)
    }

    /// Slots in use beyond which the page at the pointer is split, in
    /// thousandths: at a load between that for the first and that for the last
    /// page of a level, the same share of its pages is to be split as of the
    /// way from the one load to the other. And by how much more each split puts
    /// the next one off.
    #[inline]
    pub(in crate::chain) fn split_load(&self) -> (u64, u64) {
        let loads = SplitLoads::of(self.layout.code().width());
        let pages = u64::from(self.layout.pages_of_level());
        let split = u64::from(self.layout.pointer());
        let all_first = loads.first * pages * self.layout.slots_per_page();
        let each_more = (loads.last - loads.first) * self.layout.slots_per_page();
        (all_first + each_more * split, each_more)
    }

    /// Adds of new items that are expected to fit before a page is split, or
    /// before the filter is full if it does not grow.
    pub fn adds_before_split(&self, grows: bool) -> u64 {
        match grows {
            true => {
                let slots = (self.split_load().0 / 1000).saturating_sub(self.burden());
                slots.min(self.most_keys().saturating_sub(self.list_keys()))
            }
            false => self.reachable().saturating_sub(self.live()),
        }
    }

    /// Slots that kick-outs are expected to fill.
    pub fn reachable(&self) -> u64 {
        let loads = SplitLoads::of(self.layout.code().width());
        self.layout.slots() * loads.first / 1000
    }

    /// Whether so many entries and copies more can be counted.
    #[inline]
    pub(in crate::chain) fn has_room_for(&self, more: u64) -> bool {
        self.occupied + self.counted + more <= MAX_ITEMS
    }

    /// The geometry after the next split.
    ///
    /// # Errors
    /// Why there is none.
    pub(in crate::chain) fn next_layout(&self, bounds: &GrowthBounds) -> Result<Paged, FullReason> {
        if !bounds.grows {
            return Err(FullReason::ExpansionOff);
        }
        if u16::from(self.layout.level()) >= bounds.max_doublings {
            return Err(FullReason::MaxExpansions);
        }
        // It may copy a page of entries and all that is counted; one entry more follows.
        let is_countable = self.has_room_for(self.counted + self.layout.slots_per_page() + 1);
        let next = self.layout.split().filter(|_| is_countable);
        let next = next.ok_or(FullReason::GrowthLimit)?;
        match u64::from(next.pages()) * u64::from(PAGE_BYTES) > bounds.max_bytes {
            true => Err(FullReason::MaxFilterBytes),
            false => Ok(next),
        }
    }

    /// The last pair of pages and the geometry without the second of them, if
    /// it is time to merge them.
    pub fn due_merge(&self) -> Option<(Pair, Paged)> {
        let live = self.live();
        let is_sparse = is_sparse(&self.layout, live, self.list_keys());
        let waits = self.merge_below.is_some_and(|it| live >= it);
        if !is_sparse || waits {
            return None;
        }
        let merged = self.layout.merged()?;
        Some((merged.next_pair(), merged))
    }

    /// Notes that the last pair did not fit on one page: no other try before
    /// 1 in 64 of the entries is gone.
    pub(in crate::chain) fn put_off_merge(&mut self) {
        let live = self.live();
        self.merge_below = Some(live - live / 64);
    }

    /// Takes in by how much its numbers went up, or down, in a copy.
    pub(in crate::chain) fn take_in(&mut self, before: &Table, after: &Table) {
        self.items = self.items + after.items - before.items;
        self.occupied = self.occupied + after.occupied - before.occupied;
        self.counted = self.counted + after.counted - before.counted;
        self.keys = self.keys + after.keys - before.keys;
        self.known.extend(&after.known);
        self.known.take_away(&before.known);
    }

    /// Counts an entry of which so many bits are known.
    #[inline]
    pub(in crate::chain) fn add_entry(&mut self, known: u32) {
        self.occupied += 1;
        self.known.add(known);
    }

    /// Takes one off.
    #[inline]
    pub(in crate::chain) fn forget_entry(&mut self, known: u32) {
        self.occupied -= 1;
        self.known.remove(known);
    }
}
