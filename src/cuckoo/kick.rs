//! The search for a path of kick-outs that ends at an empty slot.
//!
//! Breadth first, so the path found is a shortest one (RocksDB's
//! CuckooTableBuilder; Li et al., "Algorithmic Improvements for Fast
//! Concurrent Cuckoo Hashing", EuroSys 2014, which is libcuckoo). The search
//! changes nothing: it asks for one bucket at a time and the caller decides
//! where its contents come from. Only when a path is known are fingerprints
//! moved, from the empty end backwards, so there is nothing to undo.

//!
//! The search goes in levels. On a level it follows fingerprints as far as
//! they stay near, which for the layout `paged` means on one page; the buckets
//! of other pages that it meets are where the next level begins. So a path
//! that stays on the page is found first, and one over many pages never. For
//! the layout `classic` everything is near, and there is one level.

use super::layout::{BucketIndex, Fingerprint, Layout, MAX_BUCKETS_PER_SEARCH, SearchBounds};

/// Room for the marks of a search, a power of two: twice the buckets that it may
/// look at, so that a probe for a free one is short and always ends.
const MARKS: usize = (2 * MAX_BUCKETS_PER_SEARCH).next_power_of_two();

/// One search after another, reusing its memory.
pub struct KickSearch {
    nodes: Vec<Node>,
    /// Which of `nodes` is looked at next.
    cursor: usize,
    /// Where the nodes begin that the last look added.
    added_from: usize,
    bounds: SearchBounds,
    /// Buckets of this level whose fingerprints were followed.
    expanded: usize,
    /// Levels begun.
    level: u8,
    /// Where the next level begins.
    crossings: Vec<Node>,
    max_path: u32,
    found: Option<Found>,
    /// Open-addressed set of the buckets seen. An entry counts only if it
    /// carries the number of the current call, so nothing is ever reset.
    marks: Vec<(u64, BucketIndex)>,
    call: u64,
}

#[derive(Clone, Copy)]
struct Node {
    bucket: BucketIndex,
    /// The node whose fingerprint would move here, and that fingerprint's
    /// slot; roots have none.
    parent: Option<(u32, u8)>,
    depth: u32,
}

#[derive(Clone, Copy)]
struct Found {
    node: usize,
    slot: u8,
}

/// A slot of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The bucket.
    pub bucket: BucketIndex,
    /// The slot within the bucket, 0-based.
    pub slot: u8,
}

/// One kick-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Where the fingerprint lies.
    pub from: Slot,
    /// The empty slot it moves to.
    pub to: Slot,
}

impl Default for KickSearch {
    fn default() -> Self {
        Self::new()
    }
}

impl KickSearch {
    /// Memory for searches; nothing is searched yet.
    pub fn new() -> Self {
        KickSearch {
            nodes: Vec::with_capacity(1024),
            cursor: 0,
            added_from: 0,
            bounds: SearchBounds {
                expanded_per_level: 0,
                levels: 0,
                crossings_per_level: 0,
                buckets: 0,
            },
            expanded: 0,
            level: 0,
            crossings: Vec::with_capacity(16),
            max_path: 0,
            found: None,
            marks: vec![(0, BucketIndex(0)); MARKS],
            call: 0,
        }
    }

    /// Starts a search from the candidate buckets of an item, for a path of at
    /// most `max_path` kick-outs, as far as `bounds` allow: one add is bounded
    /// work, whatever path length was asked for.
    pub fn start(
        &mut self,
        candidates: impl Iterator<Item = BucketIndex>,
        bounds: SearchBounds,
        max_path: u16,
    ) {
        self.nodes.clear();
        self.crossings.clear();
        self.cursor = 0;
        self.added_from = 0;
        self.bounds = bounds;
        self.expanded = 0;
        self.level = 1;
        self.max_path = u32::from(max_path);
        self.found = None;
        self.call += 1;
        for bucket in candidates {
            if self.mark(bucket) {
                self.nodes.push(Node {
                    bucket,
                    parent: None,
                    depth: 0,
                });
            }
        }
    }

    /// The bucket to look at next; `None` when the search is over.
    pub fn next_bucket(&self) -> Option<BucketIndex> {
        if self.found.is_some() {
            return None;
        }
        self.nodes.get(self.cursor).map(|node| node.bucket)
    }

    /// Takes the contents of the bucket that [`next_bucket`](Self::next_bucket)
    /// named, slot by slot; 0 is an empty slot.
    pub fn look(&mut self, layout: &Layout, slots: &[u32]) {
        let Some(&node) = self.nodes.get(self.cursor) else {
            return;
        };
        let index = self.cursor;
        self.cursor += 1;
        self.added_from = self.nodes.len();
        self.follow(layout, node, index, slots);
        self.begin_level();
    }

    fn follow(&mut self, layout: &Layout, node: Node, index: usize, slots: &[u32]) {
        if let Some(empty) = slots.iter().position(|&slot| slot == 0) {
            self.found = Some(Found {
                node: index,
                slot: empty as u8,
            });
            return;
        }
        if node.depth >= self.max_path || self.expanded >= self.bounds.expanded_per_level {
            return;
        }
        self.expanded += 1;
        for (slot, &fingerprint) in slots.iter().enumerate() {
            if self.nodes.len() + self.crossings.len() >= self.bounds.buckets {
                return;
            }
            let bucket = layout.alternate(node.bucket, Fingerprint(fingerprint));
            let is_near = layout.is_near(node.bucket, bucket);
            if !is_near && self.crossings.len() >= self.bounds.crossings_per_level {
                continue;
            }
            if self.mark(bucket) {
                let to = match is_near {
                    true => &mut self.nodes,
                    false => &mut self.crossings,
                };
                to.push(Node {
                    bucket,
                    parent: Some((index as u32, slot as u8)),
                    depth: node.depth + 1,
                });
            }
        }
    }

    /// Goes on to the next level when there is nothing left to look at on this.
    fn begin_level(&mut self) {
        let ended = self.found.is_none() && self.cursor >= self.nodes.len();
        if ended && self.level < self.bounds.levels {
            self.level += 1;
            self.expanded = 0;
            self.nodes.append(&mut self.crossings);
        }
    }

    /// The buckets that the last look added to those to be looked at: a caller
    /// may ask for their memory already.
    pub fn added(&self) -> impl Iterator<Item = BucketIndex> + '_ {
        let added = self.nodes.get(self.added_from..).unwrap_or_default();
        added.iter().map(|node| node.bucket)
    }

    /// Passes over the bucket that [`next_bucket`](Self::next_bucket) named
    /// because its contents are not at hand.
    pub fn pass(&mut self) {
        self.cursor += 1;
        self.begin_level();
    }

    /// The empty slot that the search ended at, if it found one.
    pub fn empty_slot(&self) -> Option<Slot> {
        let found = self.found?;
        let node = self.nodes.get(found.node)?;
        Some(Slot {
            bucket: node.bucket,
            slot: found.slot,
        })
    }

    /// The kick-outs of the path, the one into the empty slot first. After the
    /// last, the slot it left is free for the new fingerprint; without any,
    /// the empty slot itself is.
    pub fn moves(&self) -> impl Iterator<Item = Move> + '_ {
        let mut next = self.found.and_then(|found| {
            let node = *self.nodes.get(found.node)?;
            Some((
                node,
                Slot {
                    bucket: node.bucket,
                    slot: found.slot,
                },
            ))
        });
        std::iter::from_fn(move || {
            let (node, to) = next?;
            let (parent, slot) = node.parent?;
            let parent = *self.nodes.get(parent as usize)?;
            let from = Slot {
                bucket: parent.bucket,
                slot,
            };
            next = Some((parent, from));
            Some(Move { from, to })
        })
    }

    /// Marks a bucket as seen; says whether it is new. There are more
    /// marks than nodes, so the probe always ends.
    fn mark(&mut self, bucket: BucketIndex) -> bool {
        let mut at = (bucket.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % MARKS;
        loop {
            let Some(entry) = self.marks.get_mut(at) else {
                return false;
            };
            if entry.0 != self.call {
                *entry = (self.call, bucket);
                return true;
            }
            if entry.1 == bucket {
                return false;
            }
            at = (at + 1) % MARKS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuckoo::bucket::SlotWidth;
    use crate::cuckoo::classic::Classic;
    use crate::cuckoo::hash::{ItemHash, murmur64a};
    use crate::cuckoo::layout::MAX_PAGES_PER_SEARCH;
    use crate::cuckoo::paged::Paged;

    fn classic(buckets: u64, size: u8) -> Layout {
        Layout::Classic(Classic::new(buckets, size, 4096).unwrap())
    }

    fn paged(pages: u64, width: SlotWidth) -> Layout {
        Layout::Paged(Paged::new(pages, 0, width).unwrap())
    }

    /// What adding until the first failure found.
    #[derive(Default, Debug)]
    struct Filled {
        load: f64,
        longest_path: usize,
        /// Pages that an add wrote to between loads 0.90 and 0.95, on average.
        pages_written: f64,
    }

    /// Adds with one plain rule, the emptier candidate first, until the first
    /// failure; checks every kick-out.
    fn fill(layout: Layout, seed: u64, max_path: u16) -> Filled {
        let size = usize::from(layout.bucket_size());
        let mut slots = vec![0u32; layout.slots() as usize];
        let mut occupied = vec![0u32; layout.pages() as usize];
        let at = |slot: Slot| slot.bucket.0 as usize * size + usize::from(slot.slot);
        let page = |bucket: BucketIndex| layout.place(bucket).page as usize;
        let mut search = KickSearch::new();
        let mut filled = Filled::default();
        let (mut adds, mut pages_written) = (0u64, 0u64);
        for n in 0u64.. {
            let word = |seed| u128::from(murmur64a(&n.to_le_bytes(), seed));
            let it = layout.candidates(ItemHash(word(seed) << 64 | word(seed + 1)));
            let free = |bucket: BucketIndex| {
                let first = at(Slot { bucket, slot: 0 });
                slots[first..first + size]
                    .iter()
                    .filter(|&&slot| slot == 0)
                    .count()
            };
            let swap = match page(it.first) == page(it.second) {
                true => free(it.second) > free(it.first),
                false => occupied[page(it.second)] < occupied[page(it.first)],
            };
            let order = if swap {
                [it.second, it.first]
            } else {
                [it.first, it.second]
            };
            search.start(order.into_iter(), layout.search_bounds(), max_path);
            while let Some(bucket) = search.next_bucket() {
                let start = at(Slot { bucket, slot: 0 });
                search.look(&layout, &slots[start..start + size]);
            }
            filled.load = n as f64 / slots.len() as f64;
            let Some(mut free) = search.empty_slot() else {
                filled.pages_written = pages_written as f64 / adds as f64;
                return filled;
            };
            let moves: Vec<Move> = search.moves().collect();
            filled.longest_path = filled.longest_path.max(moves.len());
            let mut pages = vec![page(free.bucket)];
            occupied[page(free.bucket)] += 1;
            for step in moves {
                assert_eq!(step.to, free);
                assert_eq!(slots[at(step.to)], 0);
                let fingerprint = Fingerprint(slots[at(step.from)]);
                assert_eq!(
                    layout.alternate(step.from.bucket, fingerprint),
                    step.to.bucket
                );
                slots[at(step.to)] = slots[at(step.from)];
                slots[at(step.from)] = 0;
                free = step.from;
                pages.push(page(free.bucket));
            }
            assert!(it.buckets().any(|bucket| bucket == free.bucket));
            slots[at(free)] = it.fingerprint.0;
            if (0.90..0.95).contains(&filled.load) {
                pages.sort_unstable();
                pages.dedup();
                adds += 1;
                pages_written += pages.len() as u64;
            }
        }
        unreachable!("a filter of finite size fills up")
    }

    #[test]
    fn kick_outs_reach_the_load_that_sizing_relies_on() {
        // Buckets of one slot can't hold three items of one class, so with 8-bit
        // fingerprints they fail below the load of 0.5 that they are sized for.
        for (size, target) in [(1, 0.40), (2, 0.85), (3, 0.93), (4, 0.955), (8, 0.955)] {
            let filled = fill(classic(1 << 16, size), 0, 20);
            assert!(filled.load >= target, "bucket size {size}: {filled:?}");
        }
    }

    #[test]
    fn pages_fill_to_0_96_and_an_add_writes_one_of_them() {
        for (width, pages, target) in [
            (SlotWidth::Bits16, 512, 0.96),
            (SlotWidth::Bits16, 613, 0.96),
            (SlotWidth::Bits16, 1_021, 0.96),
            (SlotWidth::Bits8, 256, 0.95),
            (SlotWidth::Bits8, 389, 0.95),
            (SlotWidth::Bits32, 1_024, 0.96),
            (SlotWidth::Bits32, 1_351, 0.96),
        ] {
            let filled = fill(paged(pages, width), 1, u16::MAX);
            assert!(
                filled.load >= target,
                "{pages} pages of {width:?}: {filled:?}"
            );
            assert!(
                filled.pages_written <= 1.02,
                "{pages} pages of {width:?}: {filled:?}"
            );
        }
    }

    #[test]
    fn few_pages_reach_the_load_that_sizing_relies_on() {
        for width in SlotWidth::ALL {
            for pages in [1, 2, 3, 5, 8, 21, 64] {
                let layout = paged(pages, width);
                for seed in 0..6 {
                    let filled = fill(layout, 100 * seed, u16::MAX);
                    assert!(
                        filled.load >= layout.target_load(),
                        "{pages} pages of {width:?}, seed {seed}: {filled:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn no_path_is_longer_than_asked_for() {
        let short = fill(classic(1 << 12, 2), 0, 1);
        assert_eq!(short.longest_path, 1);
        let long = fill(classic(1 << 12, 2), 0, 20);
        assert!(long.longest_path <= 20);
        assert!(long.load > short.load);
    }

    #[test]
    fn a_search_among_full_buckets_of_255_slots_is_bounded() {
        let layout = classic(1 << 16, 255);
        let full: Vec<u32> = (1..=255).collect();
        let mut search = KickSearch::new();
        let candidates = [BucketIndex(0), BucketIndex(9)].into_iter();
        search.start(candidates, layout.search_bounds(), u16::MAX);
        let mut looked = 0;
        while search.next_bucket().is_some() {
            search.look(&layout, &full);
            looked += 1;
        }
        assert!(search.empty_slot().is_none());
        assert!(looked <= MAX_PAGES_PER_SEARCH);
    }

    #[test]
    fn a_search_among_full_pages_looks_at_few_of_them() {
        let layout = paged(1 << 12, SlotWidth::Bits16);
        let mut search = KickSearch::new();
        for n in 0u128..200 {
            let it = layout.candidates(ItemHash((n << 64 | n).wrapping_mul(0x9e37_79b9 << 57)));
            search.start(it.buckets(), layout.search_bounds(), u16::MAX);
            let mut pages = std::collections::BTreeSet::new();
            let mut next = 0u32;
            while let Some(bucket) = search.next_bucket() {
                pages.insert(layout.place(bucket).page);
                let full = [0u32; 4].map(|_| {
                    next = next.wrapping_mul(75) % 65_537 + 7;
                    next % 65_535 + 1
                });
                search.look(&layout, &full);
            }
            assert!(search.empty_slot().is_none());
            assert!(pages.len() <= 2 + 32 + 32, "{} pages", pages.len());
        }
    }
}
