//! The persistent description of a chain. `docs/format.md` tabulates the
//! encoding byte by byte.

use super::params::{
    ErrorRate, FilterParams, LayoutKind, MAX_CAPACITY, PAGE_BYTES, Placement, StoredParams,
};
use super::plan::FullReason;
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::classic::Classic;
use crate::cuckoo::hash::{HashId, HashKey, ItemHash};
use crate::cuckoo::layout::Layout;
use crate::page::Ordinal;

/// Newest version of the encoding.
pub const META_VERSION: u8 = 3;

/// Sub-filters a chain can have at most: `max_expansions` beyond the first.
const MAX_SUB_FILTERS: usize = u16::MAX as usize + 1;

/// Items that a chain may hold at most, copies included: so many that nobody
/// adds them one by one, and that sums of them never overflow.
pub(super) const MAX_ITEMS: u64 = 1 << 48;

/// A filter: its parameters and its sub-filters, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    params: FilterParams,
    hash: HashId,
    created_at_ms: u64,
    deletions: u64,
    next_ordinal: u32,
    sub_filters: Vec<SubFilter>,
    /// Sub-filters that take adds, the oldest ones; those after them are being
    /// emptied into them.
    open: usize,
    /// What `deletions` was when the filter was last compacted.
    compacted_at: u64,
}

/// One link of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubFilter {
    /// Names its pages; never reused within the filter.
    pub ordinal: Ordinal,
    /// Slots in use.
    pub occupied: u64,
    /// Copies of hot items that are counted beside its pages.
    pub counted: u64,
    /// Its geometry.
    pub layout: Layout,
    /// Slots that may be in use.
    usable: u64,
}

/// A chain of the layout `classic` that another program made, by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignChain {
    /// Buckets of the first sub-filter.
    pub first_buckets: u64,
    /// Slots per bucket.
    pub bucket_size: u8,
    /// Longest kick-out path.
    pub max_iterations: u16,
    /// Growth factor of each further sub-filter; 0 = never grow.
    pub expansion: u32,
    /// Sub-filters.
    pub sub_filters: usize,
    /// Deletes that found their item.
    pub deletions: u64,
    /// Milliseconds since 1970 when it came here.
    pub created_at_ms: u64,
    /// Most bytes that the slots of all sub-filters together may take.
    pub max_filter_bytes: u64,
    /// Most sub-filters beyond the first, unless it has more already.
    pub max_expansions: u64,
}

/// Bytes that are no description of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// A newer program wrote them.
    #[error("filter metadata has version {found}, this program reads up to {META_VERSION}")]
    Newer {
        /// The version found.
        found: u8,
    },
    /// They contradict the format.
    #[error("filter metadata is corrupt: {0}")]
    Corrupt(&'static str),
}

impl SubFilter {
    /// Items in it, in slots and counted.
    pub fn items(&self) -> u64 {
        self.occupied + self.counted
    }

    /// Share of the slots in use, 0 to 1.
    pub fn load(&self) -> f64 {
        self.occupied as f64 / self.layout.slots() as f64
    }

    /// Whether one more slot may be used; with all of them used, the filter's
    /// error rate would exceed what was promised.
    pub(super) fn has_room(&self) -> bool {
        self.occupied < self.usable
    }

    /// Slots that kick-outs are expected to fill, as far as they may be used.
    fn reach(&self) -> u64 {
        let reachable = self.layout.slots() as f64 * self.layout.target_load();
        (reachable as u64).min(self.usable)
    }

    /// Whether kick-outs are expected to find room for one more.
    pub(super) fn is_within_reach(&self) -> bool {
        self.occupied < self.reach()
    }

    /// Probability that an item which was never added is found in it.
    pub fn false_positive_rate(&self) -> f64 {
        self.layout.false_positive_rate(self.load())
    }
}

impl Chain {
    /// An empty chain of one sub-filter; `key` is for layouts with a keyed
    /// hash. `None` if its pages could not be numbered, which parameters that
    /// passed their checks do not ask for.
    pub fn new(params: FilterParams, key: HashKey, created_at_ms: u64) -> Option<Chain> {
        let mut chain = Chain {
            hash: match params.layout() {
                LayoutKind::Classic => HashId::Murmur64A,
                LayoutKind::Paged => HashId::SipHash13(key),
            },
            params,
            created_at_ms,
            deletions: 0,
            next_ordinal: 0,
            sub_filters: Vec::new(),
            open: 0,
            compacted_at: 0,
        };
        let layout = chain.params.layout_at(0)?;
        chain.push(layout);
        Some(chain)
    }

    /// What the filter was asked to be.
    pub fn params(&self) -> &FilterParams {
        &self.params
    }

    /// Milliseconds since 1970 when it was created.
    pub fn created_at_ms(&self) -> u64 {
        self.created_at_ms
    }

    /// Deletes that found their item.
    pub fn deletions(&self) -> u64 {
        self.deletions
    }

    /// Items in the filter: adds less deletes.
    pub fn items(&self) -> u64 {
        self.sub_filters.iter().map(SubFilter::items).sum()
    }

    /// The sub-filters, oldest first; never empty.
    #[inline]
    pub fn sub_filters(&self) -> &[SubFilter] {
        &self.sub_filters
    }

    /// Bytes that all slots take when every page is written.
    pub fn slot_bytes(&self) -> u64 {
        self.sub_filters
            .iter()
            .map(|sub| slot_bytes(&sub.layout))
            .sum()
    }

    /// Share of all slots in use, 0 to 1.
    pub fn load(&self) -> f64 {
        let slots: u64 = self.sub_filters.iter().map(|sub| sub.layout.slots()).sum();
        let occupied: u64 = self.sub_filters.iter().map(|sub| sub.occupied).sum();
        occupied as f64 / slots as f64
    }

    /// Hashes an item with the filter's hash.
    #[inline]
    pub fn hash(&self, item: &[u8]) -> ItemHash {
        self.hash.hash(item)
    }

    /// The filter's hash. Filters of an equal one hash an item alike.
    pub fn hash_id(&self) -> HashId {
        self.hash
    }

    /// Position of the sub-filter that has this ordinal.
    pub fn position_of(&self, ordinal: Ordinal) -> Option<usize> {
        // Ordinals grow along the chain.
        self.sub_filters
            .binary_search_by_key(&ordinal, |sub| sub.ordinal)
            .ok()
    }

    /// Probability that an item which was never added is found, from the
    /// loads as they are: the chain misses only if every sub-filter misses.
    pub fn false_positive_rate(&self) -> f64 {
        let misses: f64 = self
            .sub_filters
            .iter()
            .map(|sub| 1.0 - sub.false_positive_rate())
            .product();
        1.0 - misses
    }

    /// Probability that an item which was never added is found when the chain
    /// has as many sub-filters as its promise is for, all of them full.
    pub fn full_false_positive_rate(&self) -> f64 {
        let Some(sub) = self.sub_filters.first() else {
            return 0.0;
        };
        let load = sub.layout.target_load();
        let missed = 1.0 - sub.layout.false_positive_rate(load);
        1.0 - missed.powi(self.params.promised_sub_filters() as i32)
    }

    /// Whether the chain is as short as its promise reckons with; without a
    /// promise there is none to break.
    pub fn keeps_promise(&self) -> bool {
        self.params.error_rate().is_none()
            || self.sub_filters.len() <= self.params.promised_sub_filters() as usize
    }

    /// Adds that are expected to fit before the chain grows: the slots that
    /// kick-outs reach, less those in use.
    pub fn adds_before_expansion(&self) -> u64 {
        self.sub_filters
            .iter()
            .map(|sub| {
                let reachable = sub.layout.slots() as f64 * sub.layout.target_load();
                (reachable as u64).saturating_sub(sub.occupied)
            })
            .sum()
    }

    /// Appends a sub-filter, `expansion` times as large as the newest.
    ///
    /// # Errors
    /// Why it may not grow; the chain is as it was.
    pub(super) fn grow(&mut self) -> Result<(), FullReason> {
        let layout = self.next_layout()?;
        self.push(layout);
        Ok(())
    }

    /// The geometry of the sub-filter that comes next.
    fn next_layout(&self) -> Result<Layout, FullReason> {
        if self.params.expansion() == 0 {
            return Err(FullReason::ExpansionOff);
        }
        if self.sub_filters.len() > usize::from(self.params.max_expansions())
            || self.next_ordinal == u32::MAX
        {
            return Err(FullReason::MaxExpansions);
        }
        let layout = self
            .params
            .layout_at(self.sub_filters.len())
            .ok_or(FullReason::MaxFilterBytes)?;
        let bytes = self.slot_bytes().checked_add(slot_bytes(&layout));
        if bytes.is_none_or(|bytes| bytes > self.params.max_filter_bytes()) {
            return Err(FullReason::MaxFilterBytes);
        }
        Ok(layout)
    }

    /// The share of the slots that kick-outs reach which is in use, 0 to 1, for
    /// a chain that may not grow any more; `None` while it may.
    pub fn final_fill(&self) -> Option<f64> {
        self.next_layout().err()?;
        let occupied: u64 = self.sub_filters.iter().map(|sub| sub.occupied).sum();
        let reachable: f64 = self
            .sub_filters
            .iter()
            .map(|sub| sub.layout.slots() as f64 * sub.layout.target_load())
            .sum();
        Some((occupied as f64 / reachable).min(1.0))
    }

    /// How many sub-filters take adds, the oldest ones. All, but while the
    /// chain is compacted: then the others are emptied into them.
    #[inline]
    pub fn open(&self) -> usize {
        self.open
    }

    /// Whether some sub-filters are being emptied into the others.
    pub fn is_compacting(&self) -> bool {
        self.open < self.sub_filters.len()
    }

    /// Deletes that found their item since the chain was last compacted.
    pub fn deletions_since_compaction(&self) -> u64 {
        self.deletions.saturating_sub(self.compacted_at)
    }

    /// How many sub-filters would do for what is in slots: the fewest, from the
    /// oldest on, that have room for what the others hold when they are filled
    /// to a `share` of the load that kick-outs reach.
    pub fn would_do(&self, share: f64) -> usize {
        let mut beyond: u64 = self.sub_filters.iter().map(|sub| sub.occupied).sum();
        let mut room = 0u64;
        for (position, sub) in self.sub_filters.iter().enumerate() {
            beyond -= sub.occupied;
            let reach = (sub.reach() as f64 * share) as u64;
            room = room.saturating_add(reach.saturating_sub(sub.occupied));
            if beyond <= room {
                return position + 1;
            }
        }
        self.sub_filters.len()
    }

    /// Closes the sub-filters beyond those that [`would do`](Self::would_do):
    /// adds leave them alone until [`end_compaction`](Self::end_compaction),
    /// or until there is room nowhere else. Returns how many are closed.
    pub fn begin_compaction(&mut self, share: f64) -> usize {
        self.open = self.would_do(share);
        self.sub_filters.len() - self.open
    }

    /// Opens all sub-filters to adds. Says whether there were closed ones.
    pub(super) fn reopen(&mut self) -> bool {
        let was_compacting = self.is_compacting();
        self.open = self.sub_filters.len();
        was_compacting
    }

    /// Drops the newest sub-filters that are empty, but never the first, opens
    /// what is left, and returns the ordinals of those that are gone. Should
    /// the chain grow again, the new sub-filters get new ordinals.
    pub fn end_compaction(&mut self) -> Vec<Ordinal> {
        let mut dropped = Vec::new();
        while let [_, .., newest] = self.sub_filters.as_slice() {
            if newest.items() > 0 {
                break;
            }
            dropped.push(newest.ordinal);
            self.sub_filters.pop();
        }
        self.reopen();
        self.compacted_at = self.deletions;
        dropped
    }

    pub(super) fn note_added(&mut self, position: usize) {
        if let Some(sub) = self.sub_filters.get_mut(position) {
            sub.occupied += 1;
        }
    }

    pub(super) fn note_deleted(&mut self, position: usize) {
        if let Some(sub) = self.sub_filters.get_mut(position) {
            sub.occupied -= 1;
            self.deletions = self.deletions.saturating_add(1);
        }
    }

    pub(super) fn note_copy_added(&mut self, position: usize) {
        if let Some(sub) = self.sub_filters.get_mut(position) {
            sub.counted += 1;
        }
    }

    pub(super) fn note_copy_deleted(&mut self, position: usize) {
        if let Some(sub) = self.sub_filters.get_mut(position) {
            sub.counted -= 1;
            self.deletions = self.deletions.saturating_add(1);
        }
    }

    /// An entry left a slot for another sub-filter, or one that was to move in
    /// was taken back.
    pub(super) fn note_moved_out(&mut self, position: usize) {
        if let Some(sub) = self.sub_filters.get_mut(position) {
            sub.occupied -= 1;
        }
    }

    /// Counted copies moved with the last slot of their class.
    pub(super) fn note_copies_moved(&mut self, from: usize, to: usize, copies: u64) {
        if let Some(sub) = self.sub_filters.get_mut(from) {
            sub.counted -= copies;
        }
        if let Some(sub) = self.sub_filters.get_mut(to) {
            sub.counted += copies;
        }
    }

    fn push(&mut self, layout: Layout) {
        self.sub_filters.push(SubFilter {
            ordinal: Ordinal(self.next_ordinal),
            occupied: 0,
            counted: 0,
            layout,
            usable: usable_slots(&self.params, &layout),
        });
        self.next_ordinal += 1;
        self.open = self.sub_filters.len();
    }

    /// The description as it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(93 + 20 * self.sub_filters.len());
        let key = match self.hash {
            HashId::Murmur64A => HashKey([0; 16]),
            HashId::SipHash13(key) => key,
        };
        out.push(META_VERSION);
        out.push(match self.params.layout() {
            LayoutKind::Classic => 1,
            LayoutKind::Paged => 2,
        });
        out.push(match self.hash {
            HashId::Murmur64A => 1,
            HashId::SipHash13(_) => 2,
        });
        out.push(self.params.bucket_size());
        out.extend_from_slice(&self.params.page_bytes().to_le_bytes());
        out.extend_from_slice(&self.params.capacity().to_le_bytes());
        out.extend_from_slice(&self.params.max_iterations().unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&self.params.expansion().to_le_bytes());
        out.extend_from_slice(&self.params.max_expansions().to_le_bytes());
        out.extend_from_slice(&self.params.max_filter_bytes().to_le_bytes());
        out.extend_from_slice(&self.created_at_ms.to_le_bytes());
        out.extend_from_slice(&self.deletions.to_le_bytes());
        out.extend_from_slice(&self.next_ordinal.to_le_bytes());
        out.extend_from_slice(&(self.sub_filters.len() as u32).to_le_bytes());
        out.push(self.params.slot_width().bits() as u8);
        out.extend_from_slice(&self.params.error_rate().unwrap_or(0.0).to_le_bytes());
        out.extend_from_slice(&key.0);
        out.extend_from_slice(&(self.open as u32).to_le_bytes());
        out.extend_from_slice(&self.compacted_at.to_le_bytes());
        for sub in &self.sub_filters {
            out.extend_from_slice(&sub.ordinal.0.to_le_bytes());
            out.extend_from_slice(&sub.occupied.to_le_bytes());
            out.extend_from_slice(&sub.counted.to_le_bytes());
        }
        out
    }

    /// The chain as another server may take it: without what is this one's
    /// own, the numbers of its sub-filters, the bytes that it may take, and
    /// what came of compactions. Equal filters have equal ones.
    pub fn portable(&self) -> Chain {
        let mut chain = self.clone();
        chain.reopen();
        chain.compacted_at = 0;
        chain.params = chain.params.with_max_filter_bytes(u64::MAX);
        for (sub, ordinal) in chain.sub_filters.iter_mut().zip(0..) {
            sub.ordinal = Ordinal(ordinal);
        }
        chain.next_ordinal = chain.sub_filters.len() as u32;
        chain
    }

    /// The chain with one more sub-filter.
    #[cfg(test)]
    pub(crate) fn grown_for_tests(mut self) -> Chain {
        assert_eq!(self.grow(), Ok(()));
        self
    }

    /// A chain of the layout `classic` that another program made, none of its
    /// slots in use. `None` if there can't be such a chain here.
    pub fn of_foreign(foreign: &ForeignChain) -> Option<Chain> {
        let (buckets, bucket_size) = (foreign.first_buckets, foreign.bucket_size);
        let first = Classic::new(buckets, bucket_size, PAGE_BYTES)?;
        let slots = buckets.checked_mul(u64::from(bucket_size))?;
        if slots > MAX_CAPACITY {
            return None;
        }
        // The number of buckets follows from the capacity.
        let params = FilterParams::from_stored(StoredParams {
            capacity: (slots as f64 * first.target_load()) as u64,
            placement: Placement::Classic {
                bucket_size,
                max_iterations: foreign.max_iterations,
            },
            page_bytes: PAGE_BYTES,
            expansion: foreign.expansion,
            max_expansions: u16::try_from(foreign.max_expansions)
                .unwrap_or(u16::MAX)
                .max(u16::try_from(foreign.sub_filters.checked_sub(1)?).ok()?),
            max_filter_bytes: foreign.max_filter_bytes,
        })?;
        // Its hash has no key.
        let mut chain = Chain::new(params, HashKey([0; 16]), foreign.created_at_ms)?;
        for position in 1..foreign.sub_filters {
            let layout = chain.params.layout_at(position)?;
            chain.push(layout);
        }
        chain.deletions = foreign.deletions;
        let is_alike = chain.sub_filters.first()?.layout == Layout::Classic(first);
        is_alike.then_some(chain)
    }

    /// The chain with so many slots in use, by sub-filter. `None` if there are
    /// not so many.
    pub fn with_occupied(mut self, occupied: &[u64]) -> Option<Chain> {
        for (sub, &occupied) in self.sub_filters.iter_mut().zip(occupied) {
            if occupied > sub.layout.slots() {
                return None;
            }
            sub.occupied = occupied;
        }
        Some(self)
    }

    /// Reads what [`encode`](Self::encode) made of a
    /// [`portable`](Self::portable) chain, for a server where a filter may
    /// take so many bytes.
    ///
    /// # Errors
    /// A newer version, or bytes that are no such chain.
    pub fn from_portable(bytes: &[u8], max_filter_bytes: u64) -> Result<Chain, MetaError> {
        let mut chain = Chain::decode(bytes)?;
        // Older versions are not written any more.
        if bytes.first() == Some(&META_VERSION) && chain.portable().encode() != bytes {
            return Err(MetaError::Corrupt("it is not as it would be written"));
        }
        chain = chain.portable();
        chain.params = chain.params.with_max_filter_bytes(max_filter_bytes);
        Ok(chain)
    }

    /// Reads a stored description, of this version or an older one.
    ///
    /// # Errors
    /// A newer version, or bytes that no chain encodes to.
    pub fn decode(bytes: &[u8]) -> Result<Chain, MetaError> {
        let mut reader = Reader(bytes);
        let version = reader.byte()?;
        if version > META_VERSION {
            return Err(MetaError::Newer { found: version });
        }
        if version == 0 {
            return Err(MetaError::Corrupt("unknown version"));
        }
        let (layout, hash, bucket_size) = (reader.byte()?, reader.byte()?, reader.byte()?);
        let page_bytes = u32::from_le_bytes(reader.array()?);
        let capacity = u64::from_le_bytes(reader.array()?);
        let max_iterations = u16::from_le_bytes(reader.array()?);
        let expansion = u32::from_le_bytes(reader.array()?);
        let max_expansions = u16::from_le_bytes(reader.array()?);
        let max_filter_bytes = u64::from_le_bytes(reader.array()?);
        let created_at_ms = u64::from_le_bytes(reader.array()?);
        let deletions = u64::from_le_bytes(reader.array()?);
        let next_ordinal = u32::from_le_bytes(reader.array()?);
        let count = u32::from_le_bytes(reader.array()?) as usize;
        // Version 1 knew the layout `classic` only, and no side counters.
        let (slot_bits, error_rate, key) = match version {
            1 => (8, 0.0, [0; 16]),
            _ => (
                reader.byte()?,
                f64::from_le_bytes(reader.array()?),
                reader.array()?,
            ),
        };
        // Versions before 3 knew no compaction.
        let (open, compacted_at) = match version {
            1 | 2 => (count, 0),
            _ => (
                u32::from_le_bytes(reader.array()?) as usize,
                u64::from_le_bytes(reader.array()?),
            ),
        };
        let placement = match (layout, version) {
            (1, _) => Placement::Classic {
                bucket_size,
                max_iterations,
            },
            (2, 2..) => Placement::Paged {
                width: SlotWidth::from_bits(u64::from(slot_bits))
                    .ok_or(MetaError::Corrupt("unknown slot width"))?,
                error_rate: match error_rate {
                    0.0 => None,
                    rate => Some(
                        ErrorRate::new(rate)
                            .ok_or(MetaError::Corrupt("a parameter is out of range"))?,
                    ),
                },
            },
            _ => return Err(MetaError::Corrupt("unknown layout")),
        };
        // Each layout has its hash.
        let hash = match (hash, layout) {
            (1, 1) => HashId::Murmur64A,
            (2, 2) => HashId::SipHash13(HashKey(key)),
            _ => return Err(MetaError::Corrupt("unknown hash")),
        };
        let params = FilterParams::from_stored(StoredParams {
            capacity,
            placement,
            page_bytes,
            expansion,
            max_expansions,
            max_filter_bytes,
        })
        .ok_or(MetaError::Corrupt("a parameter is out of range"))?;
        let entry_bytes = if version == 1 { 12 } else { 20 };
        if count == 0 || count > MAX_SUB_FILTERS || reader.0.len() != entry_bytes * count {
            return Err(MetaError::Corrupt("wrong number of sub-filters"));
        }
        if open == 0 || open > count || compacted_at > deletions {
            return Err(MetaError::Corrupt("a compaction that can't be"));
        }
        let mut chain = Chain {
            params,
            hash,
            created_at_ms,
            deletions,
            next_ordinal,
            sub_filters: Vec::with_capacity(count),
            open,
            compacted_at,
        };
        let mut smallest_ordinal = 0;
        let mut items = 0u64;
        for position in 0..count {
            let ordinal = u32::from_le_bytes(reader.array()?);
            let occupied = u64::from_le_bytes(reader.array()?);
            let counted = match version {
                1 => 0,
                _ => u64::from_le_bytes(reader.array()?),
            };
            let layout = chain
                .params
                .layout_at(position)
                .ok_or(MetaError::Corrupt("a sub-filter is too large"))?;
            if ordinal < smallest_ordinal || ordinal >= next_ordinal {
                return Err(MetaError::Corrupt("sub-filter numbers do not ascend"));
            }
            if occupied > layout.slots() {
                return Err(MetaError::Corrupt("more items than slots"));
            }
            items = occupied
                .checked_add(counted)
                .and_then(|more| items.checked_add(more))
                .filter(|&items| items <= MAX_ITEMS)
                .ok_or(MetaError::Corrupt("more items than can be counted"))?;
            smallest_ordinal = ordinal + 1;
            chain.sub_filters.push(SubFilter {
                ordinal: Ordinal(ordinal),
                occupied,
                counted,
                layout,
                usable: usable_slots(&chain.params, &layout),
            });
        }
        Ok(chain)
    }
}

/// Slots of a sub-filter that may be in use.
fn usable_slots(params: &FilterParams, layout: &Layout) -> u64 {
    (layout.slots() as f64 * params.load_limit()) as u64
}

fn slot_bytes(layout: &Layout) -> u64 {
    u64::from(layout.pages()) * u64::from(layout.page_bytes())
}

/// Takes bytes off the front, or says that they ended.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], MetaError> {
        let (front, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(MetaError::Corrupt("it ends too early"))?;
        self.0 = rest;
        Ok(*front)
    }

    fn byte(&mut self) -> Result<u8, MetaError> {
        self.array::<1>().map(|[byte]| byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::params::{Defaults, FilterRequest};
    use proptest::prelude::*;

    fn chain(request: FilterRequest) -> Chain {
        let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
        Chain::new(params, HashKey([0xab; 16]), 1_700_000_000_123).unwrap()
    }

    #[test]
    fn a_grown_chain_reads_back_as_written() {
        let mut grown = chain(FilterRequest {
            expansion: Some(2),
            ..Default::default()
        });
        for _ in 0..5 {
            grown.grow().unwrap();
        }
        grown.note_added(3);
        assert_eq!(Chain::decode(&grown.encode()), Ok(grown));
    }

    #[test]
    fn the_encoding_is_pinned() {
        let classic = chain(FilterRequest {
            capacity: Some(1000),
            layout: Some(LayoutKind::Classic),
            ..Default::default()
        });
        assert_eq!(
            hex::encode(classic.encode()),
            "0301010200100000e80300000000000014000100000020000000000004000000\
             7b68e5cf8b010000000000000000000001000000010000000800000000000000\
             0000000000000000000000000000000000010000000000000000000000000000\
             0000000000000000000000000000000000"
        );
        let paged = chain(FilterRequest {
            capacity: Some(1000),
            error_rate: Some(0.5),
            ..Default::default()
        });
        assert_eq!(
            hex::encode(paged.encode()),
            "0302020400100000e80300000000000000000200000020000000000004000000\
             7b68e5cf8b01000000000000000000000100000001000000080000000000\
             00e03fabababababababababababababababab01000000000000000000000000\
             00000000000000000000000000000000000000"
        );
    }

    #[test]
    fn a_description_of_version_1_is_still_read() {
        let old = hex::decode(
            "0101010200100000e80300000000000014000100000020000000000004000000\
             7b68e5cf8b0100000000000000000000010000000100000000000000_2a00000000000000"
                .replace('_', ""),
        )
        .unwrap();
        let read = Chain::decode(&old).unwrap();
        assert_eq!(read.params().layout(), LayoutKind::Classic);
        assert_eq!(read.params().capacity(), 1000);
        assert_eq!(read.items(), 42);
        assert_eq!(Chain::decode(&read.encode()), Ok(read));
    }

    #[test]
    fn a_description_of_version_2_is_still_read() {
        let old = hex::decode(
            "0202020400100000e80300000000000000000200000020000000000004000000\
             7b68e5cf8b01000000000000000000000100000001000000080000000000\
             00e03fabababababababababababababababab00000000000000000000000000\
             00000000000000",
        )
        .unwrap();
        let read = Chain::decode(&old).unwrap();
        assert_eq!(read.params().layout(), LayoutKind::Paged);
        assert!(!read.is_compacting());
        assert_eq!(Chain::decode(&read.encode()), Ok(read));
    }

    #[test]
    fn as_many_sub_filters_do_as_have_room_for_all_slots_in_use() {
        let mut it = chain(FilterRequest {
            capacity: Some(10_000),
            expansion: Some(2),
            ..Default::default()
        });
        it.grow().unwrap();
        it.grow().unwrap();
        assert_eq!(it.would_do(1.0), 1);
        let reach = it.sub_filters[0].reach();
        it.sub_filters[2].occupied = reach;
        assert_eq!((it.would_do(1.0), it.would_do(0.99)), (1, 2));
        it.sub_filters[0].occupied = 1;
        assert_eq!(it.would_do(1.0), 2);
        it.sub_filters[2].occupied = 4 * reach;
        assert_eq!(it.begin_compaction(1.0), 0);
        assert!(!it.is_compacting());
        // Counted copies take no slots.
        it.sub_filters[2].occupied = reach - 1;
        it.sub_filters[2].counted = 1 << 40;
        assert_eq!(it.begin_compaction(1.0), 2);
        assert!(it.is_compacting());
        assert_eq!(Chain::decode(&it.encode()), Ok(it.clone()));
        it.sub_filters[0].occupied += it.sub_filters[2].occupied;
        it.sub_filters[0].counted = it.sub_filters[2].counted;
        (it.sub_filters[2].occupied, it.sub_filters[2].counted) = (0, 0);
        assert_eq!(it.end_compaction(), [Ordinal(2), Ordinal(1)]);
        assert!(!it.is_compacting());
    }

    #[test]
    fn the_rate_of_a_full_chain_is_below_its_promise_until_it_has_too_many_sub_filters() {
        let mut it = chain(FilterRequest {
            error_rate: Some(0.001),
            ..Default::default()
        });
        assert!(it.full_false_positive_rate() < 0.001);
        for _ in 1..8 {
            it.grow().unwrap();
        }
        assert!(it.keeps_promise());
        let slots = it.sub_filters().iter().map(|sub| sub.layout.slots());
        let first = it.sub_filters()[0].layout.slots();
        assert_eq!(slots.sum::<u64>(), 255 * first);
        it.grow().unwrap();
        assert!(!it.keeps_promise());
    }

    #[test]
    fn a_portable_chain_tells_nothing_of_its_server() {
        let mut it = chain(FilterRequest::default());
        it.grow().unwrap();
        it.grow().unwrap();
        it.note_added(0);
        it.end_compaction();
        it.grow().unwrap();
        assert_eq!(it.begin_compaction(1.0), 1);
        let bytes = it.portable().encode();
        let taken = Chain::from_portable(&bytes, 1 << 20).unwrap();
        assert_eq!(taken.params().max_filter_bytes(), 1 << 20);
        assert_eq!(taken.sub_filters()[1].ordinal, Ordinal(1));
        assert_eq!(taken.portable().encode(), bytes);
        assert_eq!(
            (taken.items(), taken.created_at_ms()),
            (1, it.created_at_ms())
        );
        assert!(Chain::from_portable(&it.encode(), 1 << 20).is_err());
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut bytes = chain(FilterRequest::default()).encode();
        bytes[0] = META_VERSION + 1;
        let found = META_VERSION + 1;
        assert_eq!(Chain::decode(&bytes), Err(MetaError::Newer { found }));
    }

    #[test]
    fn a_dropped_sub_filter_comes_back_under_a_new_ordinal() {
        let mut it = chain(FilterRequest::default());
        it.grow().unwrap();
        it.grow().unwrap();
        it.note_added(1);
        assert_eq!(it.end_compaction(), [Ordinal(2)]);
        it.grow().unwrap();
        assert_eq!(it.sub_filters()[2].ordinal, Ordinal(3));
        assert_eq!(it.position_of(Ordinal(2)), None);
        assert_eq!(it.position_of(Ordinal(3)), Some(2));
    }

    #[test]
    fn growth_ends_at_each_of_its_limits() {
        let mut never = chain(FilterRequest {
            expansion: Some(0),
            ..Default::default()
        });
        assert_eq!(never.grow(), Err(FullReason::ExpansionOff));

        let mut twice = chain(FilterRequest {
            max_expansions: Some(2),
            ..Default::default()
        });
        twice.grow().unwrap();
        twice.grow().unwrap();
        assert_eq!(twice.grow(), Err(FullReason::MaxExpansions));

        let small = Defaults {
            max_filter_bytes: 5 * 4096,
            ..Defaults::default()
        };
        let request = FilterRequest {
            expansion: Some(2),
            ..Default::default()
        };
        let params = FilterParams::resolve(&request, &small).unwrap();
        let mut capped = Chain::new(params, HashKey([0; 16]), 0).unwrap();
        capped.grow().unwrap();
        assert_eq!(capped.grow(), Err(FullReason::MaxFilterBytes));

        let mut huge = chain(FilterRequest {
            expansion: Some(32_768),
            ..Default::default()
        });
        while huge.grow().is_ok() {}
        assert_eq!(huge.grow(), Err(FullReason::MaxFilterBytes));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..160)) {
            let _ = Chain::decode(&bytes);
        }

        #[test]
        fn a_changed_byte_never_panics(at in 0usize..153, value: u8) {
            let mut it = chain(FilterRequest::default());
            it.grow().unwrap();
            it.grow().unwrap();
            let mut bytes = it.encode();
            bytes[at] = value;
            let _ = Chain::decode(&bytes);
        }
    }
}
