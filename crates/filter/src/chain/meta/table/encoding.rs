//! The stored bytes of a description, all numbers little endian:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | families |
//! | 1 | level |
//! | 4 | pointer |
//! | 8 | items; 0 with a window |
//! | 8 | copies counted beside pages |
//! | 8 | entries that splits of this level copied |
//! | 8 | slots in use below which a merge is tried again, 2^64 - 1: at once |
//! | 1 | how many counters follow |
//! | 8 each | entries of which `F + 1` bits are known, `F + 2`, and so on; the last is not 0 |
//!
//! | 8 | without a window: keys under which copies are counted |
//! | 8 | with a window: the current epoch |
//! | 8 each | with a window: entries of the current epoch, of the one before, and so on, one more number than the window has epochs |
//!
//! The slots in use are the sum of the counters. Where items expire, their number
//! is the sum of the last.

use super::epochs::Epochs;
use super::known::Known;
use super::{MAX_ITEMS, Table};
use crate::chain::counters::most_counters;
use crate::chain::meta::MetaError;
use crate::chain::params::Window;
use crate::cuckoo::paged::Paged;

/// Bytes before the counters.
const HEAD_BYTES: usize = 42;

impl Table {
    /// The description as it is stored, beside the code.
    pub fn encode(&self) -> Vec<u8> {
        let known = &self.known.entries;
        let mut out = Vec::with_capacity(HEAD_BYTES + 8 * known.len());
        out.extend_from_slice(&self.layout.families().to_le_bytes());
        out.push(self.layout.level());
        out.extend_from_slice(&self.layout.pointer().to_le_bytes());
        let again = self.merge_below.unwrap_or(u64::MAX);
        for number in [self.items, self.counted, self.void_copies, again] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        // No more than levels.
        out.push(known.len() as u8);
        for entries in known {
            out.extend_from_slice(&entries.to_le_bytes());
        }
        match &self.epochs {
            None => out.extend_from_slice(&self.keys.to_le_bytes()),
            Some(epochs) => {
                out.extend_from_slice(&epochs.current.to_le_bytes());
                for entries in &epochs.by_age {
                    out.extend_from_slice(&entries.to_le_bytes());
                }
            }
        }
        out
    }

    /// Reads what [`encode`](Self::encode) wrote, of a filter that began with
    /// these pages and has that window, if any.
    ///
    /// # Errors
    /// Bytes that no filter encodes to. Nothing is allocated before the
    /// numbers are known to make sense.
    pub fn decode(bytes: &[u8], first: &Paged, window: Option<Window>) -> Result<Table, MetaError> {
        let early = MetaError::Corrupt("it ends too early");
        let (&head, rest) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or(early)?;
        let [f0, f1, f2, f3, level, p0, p1, p2, p3, numbers @ .., count] = head;
        let (numbers, _) = numbers.as_chunks::<8>();
        let &[items, counted, void_copies, again] = numbers else {
            return Err(early);
        };
        let [items, counted, void_copies, again] =
            [items, counted, void_copies, again].map(u64::from_le_bytes);
        let (families, code) = (u32::from_le_bytes([f0, f1, f2, f3]), first.code());
        let pointer = u32::from_le_bytes([p0, p1, p2, p3]);
        let layout = Paged::grown(families.into(), level, pointer, code)
            .filter(|layout| layout.families() == first.families())
            .ok_or(MetaError::Corrupt("pages that can't be"))?;
        let (rest, epochs, keys) = match window {
            Some(window) => {
                let numbers = 8 * (window.epochs() as usize + 2);
                let behind = rest.len().checked_sub(numbers).ok_or(early)?;
                let (rest, numbers) = rest.split_at(behind);
                (rest, Some(epochs(window, numbers)?), 0)
            }
            None => {
                let (rest, keys) = rest.split_last_chunk().ok_or(early)?;
                (rest, None, u64::from_le_bytes(*keys))
            }
        };
        let known = known(&layout, count, rest)?;
        let occupied = known.total();
        let merge_below = (again != u64::MAX).then_some(again);

        let mass = occupied.checked_add(counted);
        if mass.is_none_or(|mass| mass > MAX_ITEMS || mass < items) {
            return Err(MetaError::Corrupt("not as many items as entries"));
        }
        let is_off = |it: &Epochs| it.live > occupied || items + counted > 0;
        if epochs.as_ref().is_some_and(is_off) {
            return Err(MetaError::Corrupt("not as many items as epochs have"));
        }
        let most_keys = u64::from(layout.pages()) * most_counters(&layout) as u64;
        // Void copies that a merge put together can be counted without being any.
        if !(counted.min(1)..=counted.min(most_keys)).contains(&keys) {
            return Err(MetaError::Corrupt("counters that can't be"));
        }
        let may_copy = u32::from(level) >= code.suffix_bits();
        if void_copies > occupied || void_copies > 0 && !may_copy {
            return Err(MetaError::Corrupt("copied entries that can't be"));
        }
        if merge_below.is_some_and(|it| it > layout.slots()) {
            return Err(MetaError::Corrupt("a merge that can't be"));
        }
        Ok(Table {
            layout,
            items,
            occupied,
            counted,
            keys,
            known,
            void_copies,
            merge_below,
            epochs,
        })
    }
}

/// Reads the current epoch, and the entries of each.
fn epochs(window: Window, bytes: &[u8]) -> Result<Epochs, MetaError> {
    let (numbers, _) = bytes.as_chunks::<8>();
    let mut numbers = numbers.iter().map(|&it| u64::from_le_bytes(it));
    let current = numbers.next().unwrap_or(0);
    // One more is a stamp, and all of them are moments in milliseconds.
    let may_be = current <= window.epoch_at(u64::MAX);
    let epochs = Epochs::of(window, current, numbers.collect());
    epochs
        .filter(|_| may_be)
        .ok_or(MetaError::Corrupt("epochs that can't be"))
}

/// Reads counters: so many, of a filter of that geometry.
fn known(layout: &Paged, count: u8, bytes: &[u8]) -> Result<Known, MetaError> {
    let (numbers, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() || numbers.len() != usize::from(count) {
        return Err(MetaError::Corrupt("wrong number of counters"));
    }
    // An entry of a page of level 0 or 1 knows F + 1 bits, one of a deeper
    // page at most one more for each level.
    let deepest = layout.level() + u8::from(layout.pointer() > 0);
    if count > deepest.max(1) {
        return Err(MetaError::Corrupt("entries that know more than can be"));
    }
    let entries = || numbers.iter().map(|&it| u64::from_le_bytes(it));
    let total = entries().try_fold(0u64, u64::checked_add);
    if total.is_none_or(|total| total > layout.slots()) {
        return Err(MetaError::Corrupt("more entries than slots"));
    }
    if entries().next_back() == Some(0) {
        return Err(MetaError::Corrupt("a counter that is not needed"));
    }
    Ok(Known::of(layout.code().suffix_bits(), entries().collect()))
}
