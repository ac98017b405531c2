//! Copies that are counted beside slots, put into free slots: for a format that
//! knows slots alone.
//!
//! A copy may go into any slot where its item is looked for: in a sub-filter as
//! large as its own, or smaller, whose buckets follow from its bucket. Which
//! bucket it has in a larger one nobody knows any more. Where there is no free
//! slot, one more sub-filter takes it, if that is as large.

use super::read::each_page;
use crate::chain::address::PageAddress;
use crate::chain::meta::Chain;
use crate::cuckoo::candidates::{BucketIndex, Candidates, Fingerprint};
use crate::cuckoo::classic::Classic;
use crate::page::{FilterId, PageId};
use crate::pages::image::PageImage;
use crate::state::Pace;
use crate::store::{Snapshot, StoreError};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Classes with counted copies of one filter that are looked at, and slots in
/// which they may lie. More slots than these take too much memory.
const MAX_CLASSES: usize = 1 << 18;
const MAX_SLOTS: usize = 1 << 20;

/// Memory that each takes, with what collections leave free.
const CLASS_BYTES: usize = 2 * size_of::<Counted>();
const SLOT_BYTES: usize = 40;

/// A slot: the position of its sub-filter, and its place in that.
type Slot = (usize, u64);

/// What is put into slots that are free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) slots: BTreeMap<Slot, u8>,
    /// Whether there is one more sub-filter.
    pub(crate) has_one_more: bool,
}

/// Why copies have no slots.
pub(crate) enum NotPlaced {
    /// They fit into none, or into none of those that are looked at.
    NoRoom,
    /// The pace broke.
    Interrupted,
    /// The store can't be read.
    Unread(StoreError),
}

impl From<StoreError> for NotPlaced {
    fn from(error: StoreError) -> NotPlaced {
        NotPlaced::Unread(error)
    }
}

impl Placed {
    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.slots.len() * SLOT_BYTES
    }
}

/// Most bytes of memory that finding slots for so many copies takes.
pub(crate) fn memory(chain: &Chain, copies: u64) -> usize {
    let copies = usize::try_from(copies).unwrap_or(usize::MAX);
    let classes = copies.min(MAX_CLASSES);
    let of_a_class = 2 * usize::from(chain.params().bucket_size()) * (chain.sub_filter_count() + 1);
    let slots = classes.saturating_mul(of_a_class).min(MAX_SLOTS);
    classes * CLASS_BYTES + (slots + copies.min(slots)) * SLOT_BYTES
}

/// A class with copies that are counted.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// Position of its sub-filter.
    position: usize,
    candidates: Candidates,
    copies: u64,
}

/// Finds slots for all counted copies of a filter. Reads the filter twice.
///
/// # Errors
/// There are none, or they are not found.
pub(crate) fn place(
    view: &Snapshot<'_>,
    id: FilterId,
    chain: &Chain,
    max_entries: usize,
    pace: &mut Pace,
) -> Result<Placed, NotPlaced> {
    let mut counted = Counters {
        buckets: buckets(chain),
        classes: Vec::new(),
        slots: 0,
    };
    let page = |ordinal, page| PageId::new(id, ordinal, page);
    let subs = chain.sub_filters();
    let spans = subs.map(|sub| page(sub.ordinal, 0)..page(sub.ordinal, sub.layout.pages()));
    let spans: Vec<_> = spans.collect();
    let filter = (id, chain);
    let mut paced = || match pace() {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(NotPlaced::Interrupted),
    };
    let mut find = |at: PageAddress, page: &PageImage<'_>| counted.find(chain, at, page);
    each_page(view, filter, &spans, max_entries, &mut paced, &mut find)?;
    let mut wanted = BTreeMap::new();
    for class in &counted.classes {
        paced()?;
        for position in 0..chain.sub_filter_count() {
            for slot in class.slots(chain, position) {
                wanted.insert(slot, false);
            }
        }
    }
    let mut look = |at: PageAddress, page: &PageImage<'_>| {
        see(&mut wanted, chain, at, page);
        Ok(())
    };
    each_page(view, filter, &spans, max_entries, &mut paced, &mut look)?;
    fill(chain, &counted.classes, &wanted).ok_or(NotPlaced::NoRoom)
}

/// Buckets of each sub-filter, and of one more.
fn buckets(chain: &Chain) -> Vec<u64> {
    let all = 0..=chain.sub_filter_count();
    let layouts = all.filter_map(|position| chain.classic_at(position));
    layouts.map(|layout| layout.buckets()).collect()
}

/// Puts the copies of all classes into slots that are not in use.
fn fill(chain: &Chain, classes: &[Counted], in_use: &BTreeMap<Slot, bool>) -> Option<Placed> {
    let subs = chain.sub_filter_count();
    let mut placed = Placed::default();
    for class in classes {
        let fingerprint = u8::try_from(class.candidates.fingerprint.0).ok()?;
        let mut left = class.copies;
        for position in 0..=subs {
            for slot in class.slots(chain, position) {
                let is_free = position == subs || in_use.get(&slot) == Some(&false);
                if left > 0 && is_free && !placed.slots.contains_key(&slot) {
                    placed.slots.insert(slot, fingerprint);
                    placed.has_one_more |= position == subs;
                    left -= 1;
                }
            }
        }
        if left > 0 {
            return None;
        }
    }
    Some(placed)
}

impl Counted {
    /// The slots in which it may lie in a sub-filter, or in one more behind the
    /// last.
    fn slots(&self, chain: &Chain, position: usize) -> Vec<Slot> {
        let (own, layout) = (chain.classic_at(self.position), chain.classic_at(position));
        let (Some(own), Some(layout)) = (own, layout) else {
            return Vec::new();
        };
        if layout.buckets() > own.buckets() {
            return Vec::new();
        }
        let size = u64::from(layout.bucket_size());
        let under = layout.candidates_under(self.candidates.first, self.candidates.fingerprint);
        let of_bucket = |bucket: BucketIndex| (0..size).map(move |at| bucket.0 * size + at);
        let slots = under.buckets().flat_map(of_bucket);
        slots.map(|slot| (position, slot)).collect()
    }
}

/// The classes with counted copies.
struct Counters {
    buckets: Vec<u64>,
    classes: Vec<Counted>,
    /// In which they may lie.
    slots: usize,
}

impl Counters {
    /// Finds those of a page, unless they become too many.
    fn find(
        &mut self,
        chain: &Chain,
        at: PageAddress,
        page: &PageImage<'_>,
    ) -> Result<(), NotPlaced> {
        let position = at.sub as usize;
        let Some(layout) = chain.classic_at(position) else {
            return Ok(());
        };
        let size = u64::from(layout.bucket_size());
        // Sub-filters never become smaller.
        let fitting = self.buckets.partition_point(|&it| it <= layout.buckets());
        let slots_of_a_class = 2 * size as usize * fitting;
        for (key, copies) in page.counters.iter().flat_map(|counters| counters.iter()) {
            let slot = first_slot(layout, at) + (key.0 >> 32);
            let fingerprint = Fingerprint(key.0 as u32);
            let first = BucketIndex(slot / size.max(1));
            self.classes.push(Counted {
                position,
                candidates: Candidates {
                    fingerprint,
                    first,
                    second: layout.alternate(first, fingerprint),
                },
                copies,
            });
            self.slots = self.slots.saturating_add(slots_of_a_class);
        }
        match self.classes.len() <= MAX_CLASSES && self.slots <= MAX_SLOTS {
            true => Ok(()),
            false => Err(NotPlaced::NoRoom),
        }
    }
}

/// Number of the first slot of a page in its sub-filter.
fn first_slot(layout: Classic, at: PageAddress) -> u64 {
    u64::from(at.page) * u64::from(layout.page_bytes())
}

/// Finds out of some slots whether they are in use, those of a page.
fn see(wanted: &mut BTreeMap<Slot, bool>, chain: &Chain, at: PageAddress, page: &PageImage<'_>) {
    let position = at.sub as usize;
    let Some(layout) = chain.classic_at(position) else {
        return;
    };
    let first = first_slot(layout, at);
    let end = first + u64::from(layout.page_bytes());
    for (&(_, slot), is_in_use) in wanted.range_mut((position, first)..(position, end)) {
        let byte = page.slots.get((slot - first) as usize);
        *is_in_use = byte.is_some_and(|&byte| byte != 0);
    }
}
