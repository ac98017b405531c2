//! The search for a path of kick-outs that ends at an empty slot.
//!
//! Breadth first, so the path found is a shortest one (RocksDB's
//! CuckooTableBuilder; Li et al., "Algorithmic Improvements for Fast
//! Concurrent Cuckoo Hashing", EuroSys 2014, which is libcuckoo). The search
//! changes nothing and knows no layout: it asks for one bucket at a time, and
//! the caller says what its slots hold and where else each of these may lie.
//! Only when a path is known are fingerprints moved, from the empty end
//! backwards, so there is nothing to undo.
//!
//! The search goes in levels. On a level it follows fingerprints as far as
//! they stay near, which for the layout `paged` means on one page; the buckets
//! of other pages that it meets are where the next level begins. So a path
//! that stays on the page is found first, and one over many pages never. For
//! the layout `classic` everything is near, and there is one level.

use super::candidates::BucketIndex;

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
    /// What would move here.
    value: u32,
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
    /// What that slot holds then.
    pub value: u32,
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
            marks: Vec::new(),
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
        // Twice the buckets, so that a probe for a free mark is short and
        // always ends.
        let marks = (2 * bounds.buckets + 2).next_power_of_two();
        if self.marks.len() < marks {
            self.marks = vec![(0, BucketIndex(0)); marks];
        }
        for bucket in candidates {
            if self.mark(bucket) {
                self.nodes.push(Node {
                    bucket,
                    value: 0,
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
    /// named, slot by slot; 0 is an empty slot. `elsewhere` says of the slot at
    /// a position, and what it holds, where else that may lie; `None`: nowhere.
    pub fn look(&mut self, slots: &[u32], elsewhere: impl FnMut(usize, u32) -> Option<Elsewhere>) {
        let Some(&node) = self.nodes.get(self.cursor) else {
            return;
        };
        let index = self.cursor;
        self.cursor += 1;
        self.added_from = self.nodes.len();
        self.follow(node, index, slots, elsewhere);
        self.begin_level();
    }

    fn follow(
        &mut self,
        node: Node,
        index: usize,
        slots: &[u32],
        mut elsewhere: impl FnMut(usize, u32) -> Option<Elsewhere>,
    ) {
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
            let Some(to) = elsewhere(slot, fingerprint) else {
                continue;
            };
            if !to.is_near && self.crossings.len() >= self.bounds.crossings_per_level {
                continue;
            }
            if self.mark(to.bucket) {
                let nodes = match to.is_near {
                    true => &mut self.nodes,
                    false => &mut self.crossings,
                };
                nodes.push(Node {
                    bucket: to.bucket,
                    value: to.slot,
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

    /// Buckets looked at so far, or passed over.
    pub fn looked_at(&self) -> u64 {
        self.cursor as u64
    }

    /// Passes over the bucket that [`next_bucket`](Self::next_bucket) named
    /// because its contents are not at hand.
    pub fn pass(&mut self) {
        self.cursor += 1;
        self.begin_level();
    }

    /// The empty slot that the search ended at, if it found one.
    pub fn empty_slot(&self) -> Option<Slot> {
        self.end().map(|(_, slot)| slot)
    }

    /// The node that the search ended at, and its empty slot.
    fn end(&self) -> Option<(Node, Slot)> {
        let found = self.found?;
        let node = *self.nodes.get(found.node)?;
        let (bucket, slot) = (node.bucket, found.slot);
        Some((node, Slot { bucket, slot }))
    }

    /// The kick-outs of the path, the one into the empty slot first. After the
    /// last, the slot it left is free for the new fingerprint; without any,
    /// the empty slot itself is.
    pub fn moves(&self) -> impl Iterator<Item = Move> + '_ {
        let mut next = self.end();
        std::iter::from_fn(move || {
            let (node, to) = next?;
            let (parent, slot) = node.parent?;
            let parent = *self.nodes.get(parent as usize)?;
            let from = Slot {
                bucket: parent.bucket,
                slot,
            };
            next = Some((parent, from));
            let value = node.value;
            Some(Move { from, to, value })
        })
    }

    /// Marks a bucket as seen; says whether it is new. There are more
    /// marks than nodes, so the probe always ends.
    fn mark(&mut self, bucket: BucketIndex) -> bool {
        let last = self.marks.len() - 1;
        let mut at = (bucket.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & last;
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
            at = (at + 1) & last;
        }
    }
}

#[cfg(test)]
mod tests;
