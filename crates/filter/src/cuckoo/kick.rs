//! The search for a path of kick-outs that ends at an empty slot.
//!
//! Breadth first, so the path found is a shortest one (RocksDB's
//! CuckooTableBuilder; Li et al., "Algorithmic Improvements for Fast
//! Concurrent Cuckoo Hashing", EuroSys 2014, which is libcuckoo). The search
//! changes nothing and knows no layout: [`Buckets`] says what slots hold and
//! where else each of these may lie. A bucket is looked into as soon as it is
//! met, so most of those that are met are never followed. Only when a path is
//! known are fingerprints moved, from the empty end backwards, so there is
//! nothing to undo.
//!
//! The search goes in levels. On a level it follows fingerprints as far as
//! they stay near, which for the layout `paged` means on one page; the buckets
//! of other pages that it meets are where the next level begins. So a path
//! that stays on the page is found first, and one over many pages never. For
//! the layout `classic` everything is near, and there is one level.

use super::candidates::BucketIndex;
use std::mem;

/// Pages that a search for kick-outs may look at, whatever the layout.
pub const MAX_PAGES_PER_SEARCH: usize = 1024;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchBounds {
    /// Buckets of a level whose fingerprints are followed. On a level the
    /// search stays on the pages where the level began.
    pub expanded_per_level: usize,
    /// Levels.
    pub levels: u8,
    /// Buckets of other pages that a level hands on to the next.
    pub crossings_per_level: usize,
    /// Buckets looked at in all.
    pub buckets: usize,
}

/// Where else the fingerprint of a slot may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The bucket.
    pub bucket: BucketIndex,
    /// What a slot there would hold.
    pub slot: u32,
    /// Whether the search follows it on the same level.
    pub is_near: bool,
}

/// What a search looks into.
pub trait Buckets {
    /// The first empty slot of a bucket, if there is one. `None`: it is not at
    /// hand, and the search passes over it.
    fn empty_slot(&mut self, bucket: BucketIndex) -> Option<Option<u8>>;

    /// Appends what each slot of a bucket holds that was looked into.
    fn read(&mut self, bucket: BucketIndex, slots: &mut Vec<u32>);

    /// Where else what a slot of a bucket holds may lie; `None`: nowhere.
    fn elsewhere(&mut self, bucket: BucketIndex, held: u32) -> Option<Elsewhere>;

    /// Says that a bucket will be looked into soon.
    fn prefetch(&mut self, bucket: BucketIndex) {
        let _ = bucket;
    }
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
    /// What that slot holds then.
    pub value: u32,
}

/// One search after another, reusing its memory.
#[derive(Default)]
pub struct KickSearch {
    /// Buckets looked into.
    nodes: Vec<Node>,
    /// Those where the next level begins.
    crossings: Vec<Node>,
    seen: Seen,
    /// What a bucket's slots hold.
    slots: Vec<u32>,
    /// The kick-outs of the path that was found, the one into the empty slot
    /// first.
    pub moves: Vec<Move>,
}

#[derive(Clone, Copy)]
struct Node {
    bucket: BucketIndex,
    /// What would move here.
    value: u32,
    /// The node whose fingerprint would move here, and that fingerprint's
    /// slot; roots are their own.
    parent: u32,
    slot: u8,
    is_at_hand: bool,
    depth: u16,
}

impl KickSearch {
    /// Searches from the candidate buckets of an item, for a path of at most
    /// `max_path` kick-outs, as far as `bounds` allow: one add is bounded work,
    /// whatever path length was asked for. Returns the slot that is free for the
    /// item once all [`moves`](Self::moves) are made.
    pub fn find(
        &mut self,
        candidates: impl Iterator<Item = BucketIndex>,
        bounds: SearchBounds,
        max_path: u16,
        buckets: &mut impl Buckets,
    ) -> Option<Slot> {
        self.nodes.clear();
        self.crossings.clear();
        self.moves.clear();
        self.seen.clear();
        for bucket in candidates {
            if self.seen.insert(bucket) {
                self.crossings.push(Node {
                    bucket,
                    value: 0,
                    parent: self.crossings.len() as u32,
                    slot: 0,
                    is_at_hand: true,
                    depth: 0,
                });
            }
        }
        (0..bounds.levels).find_map(|_| self.search_level(&bounds, max_path, buckets))
    }

    /// Follows fingerprints from where the level begins, as far as they stay
    /// near.
    fn search_level(
        &mut self,
        bounds: &SearchBounds,
        max_path: u16,
        buckets: &mut impl Buckets,
    ) -> Option<Slot> {
        let (mut index, mut expanded) = (self.nodes.len(), 0);
        self.nodes.append(&mut self.crossings);
        let mut met = index;
        loop {
            if let Some(found) = self.look_from(met, buckets) {
                return Some(found);
            }
            let node = loop {
                let node = *self.nodes.get(index)?;
                if node.is_at_hand && node.depth < max_path {
                    break node;
                }
                index += 1;
            };
            if expanded == bounds.expanded_per_level {
                return None;
            }
            met = self.nodes.len();
            self.expand(node, index, bounds, buckets);
            expanded += 1;
            index += 1;
        }
    }

    /// Looks into the buckets from that number on, which are met first now.
    #[inline]
    fn look_from(&mut self, first: usize, buckets: &mut impl Buckets) -> Option<Slot> {
        let mut found = None;
        for (index, node) in self.nodes.iter_mut().enumerate().skip(first) {
            let empty = buckets.empty_slot(node.bucket);
            node.is_at_hand = empty.is_some();
            if let Some(slot) = empty.flatten() {
                found = Some((index, slot));
                break;
            }
        }
        let (index, slot) = found?;
        Some(self.trace(index, slot))
    }

    /// Adds the buckets that a bucket's fingerprints may go to.
    #[inline]
    fn expand(
        &mut self,
        node: Node,
        index: usize,
        bounds: &SearchBounds,
        buckets: &mut impl Buckets,
    ) {
        self.slots.clear();
        buckets.read(node.bucket, &mut self.slots);
        for (slot, &held) in (0..=u8::MAX).zip(&self.slots) {
            if self.nodes.len() + self.crossings.len() >= bounds.buckets {
                return;
            }
            let Some(to) = buckets.elsewhere(node.bucket, held) else {
                continue;
            };
            if !to.is_near && self.crossings.len() >= bounds.crossings_per_level {
                continue;
            }
            if self.seen.insert(to.bucket) {
                buckets.prefetch(to.bucket);
                let nodes = match to.is_near {
                    true => &mut self.nodes,
                    false => &mut self.crossings,
                };
                nodes.push(Node {
                    bucket: to.bucket,
                    value: to.slot,
                    parent: index as u32,
                    slot,
                    is_at_hand: true,
                    depth: node.depth.saturating_add(1),
                });
            }
        }
    }

    /// Lists the kick-outs that end in that slot of a node; returns the slot that
    /// the last of them leaves.
    fn trace(&mut self, mut index: usize, slot: u8) -> Slot {
        let bucket = |node: Option<&Node>| node.map_or(BucketIndex(0), |it| it.bucket);
        let mut to = Slot {
            bucket: bucket(self.nodes.get(index)),
            slot,
        };
        while let Some(node) = self.nodes.get(index).filter(|it| it.depth > 0) {
            index = node.parent as usize;
            let from = Slot {
                bucket: bucket(self.nodes.get(index)),
                slot: node.slot,
            };
            let value = node.value;
            self.moves.push(Move { from, to, value });
            to = from;
        }
        to
    }

    /// Buckets that the search looked into, or passed over.
    pub fn looked_at(&self) -> u64 {
        self.nodes.len() as u64
    }
}

/// Buckets that a search met: an open-addressed set, small for a small search.
#[derive(Default)]
struct Seen {
    /// Each one more than it is, since 0 is free; a power of two of them.
    marks: Vec<u64>,
    count: usize,
}

impl Seen {
    const FEW: usize = 256;

    fn clear(&mut self) {
        self.count = 0;
        self.marks.clear();
        self.marks.resize(Seen::FEW, 0);
    }

    /// Says whether it is new. No more than half of the marks are taken, so the
    /// probe is short and always ends.
    #[inline]
    fn insert(&mut self, bucket: BucketIndex) -> bool {
        if 2 * self.count >= self.marks.len() {
            self.grow();
        }
        let (mark, last) = (bucket.0 + 1, self.marks.len().wrapping_sub(1));
        let mut at = (mark.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & last;
        while let Some(taken) = self.marks.get_mut(at) {
            if *taken == 0 {
                *taken = mark;
                self.count += 1;
                return true;
            }
            if *taken == mark {
                return false;
            }
            at = (at + 1) & last;
        }
        false
    }

    fn grow(&mut self) {
        let more = vec![0; 4 * self.marks.len()];
        let marks = mem::replace(&mut self.marks, more);
        self.count = 0;
        for mark in marks.into_iter().filter(|&mark| mark != 0) {
            self.insert(BucketIndex(mark - 1));
        }
    }
}

#[cfg(test)]
mod tests;
