//! The search for a path of kick-outs that ends at an empty slot.
//!
//! Breadth first, so the path found is a shortest one (RocksDB's
//! CuckooTableBuilder; Li et al., "Algorithmic Improvements for Fast
//! Concurrent Cuckoo Hashing", EuroSys 2014, which is libcuckoo). The search
//! changes nothing: it asks for one bucket at a time and the caller decides
//! where its contents come from. Only when a path is known are fingerprints
//! moved, from the empty end backwards, so there is nothing to undo.

use super::layout::{BucketIndex, Fingerprint, Layout};

/// Most buckets whose fingerprints are followed in one search, whatever path
/// length was asked for: one add is bounded work.
pub const MAX_EXPANDED: usize = 500;

/// Most buckets looked at in one search, each perhaps on a page of its own;
/// matters for buckets of more than two slots.
pub const MAX_NODES: usize = 1024;

const MARKS: usize = 2 * MAX_NODES;

/// One search after another, reusing its memory.
pub struct KickSearch {
    nodes: Vec<Node>,
    /// Which of `nodes` is looked at next.
    cursor: usize,
    expanded: usize,
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
            expanded: 0,
            max_path: 0,
            found: None,
            marks: vec![(0, BucketIndex(0)); MARKS],
            call: 0,
        }
    }

    /// Starts a search from the candidate buckets of an item, for a path of at
    /// most `max_path` kick-outs.
    pub fn start(&mut self, candidates: impl Iterator<Item = BucketIndex>, max_path: u16) {
        self.nodes.clear();
        self.cursor = 0;
        self.expanded = 0;
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
    pub fn look(&mut self, layout: &Layout, slots: &[u8]) {
        let Some(&node) = self.nodes.get(self.cursor) else {
            return;
        };
        let index = self.cursor;
        self.cursor += 1;
        if let Some(empty) = slots.iter().position(|&slot| slot == 0) {
            self.found = Some(Found {
                node: index,
                slot: empty as u8,
            });
            return;
        }
        if node.depth >= self.max_path || self.expanded >= MAX_EXPANDED {
            return;
        }
        self.expanded += 1;
        for (slot, &fingerprint) in slots.iter().enumerate() {
            if self.nodes.len() >= MAX_NODES {
                return;
            }
            let bucket = layout.alternate(node.bucket, Fingerprint(fingerprint));
            if self.mark(bucket) {
                self.nodes.push(Node {
                    bucket,
                    parent: Some((index as u32, slot as u8)),
                    depth: node.depth + 1,
                });
            }
        }
    }

    /// Passes over the bucket that [`next_bucket`](Self::next_bucket) named
    /// because its contents are not at hand.
    pub fn pass(&mut self) {
        self.cursor += 1;
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

    /// Marks a bucket as seen; says whether it is new. There are twice as many
    /// marks as nodes, so the probe always ends.
    fn mark(&mut self, bucket: BucketIndex) -> bool {
        let mut at = (bucket.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 51) as usize % MARKS;
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
    use crate::cuckoo::classic::Classic;
    use crate::cuckoo::hash::{ItemHash, murmur64a};

    fn fill(buckets: u64, size: u8, max_path: u16) -> (f64, usize) {
        let layout = Layout::Classic(Classic::new(buckets, size, 4096).unwrap());
        let mut slots = vec![0u8; (buckets * u64::from(size)) as usize];
        let at = |slot: Slot| (slot.bucket.0 * u64::from(size)) as usize + usize::from(slot.slot);
        let mut search = KickSearch::new();
        let mut longest = 0;
        for n in 0u64.. {
            let it = layout.candidates(ItemHash(murmur64a(&n.to_le_bytes(), 0)));
            search.start(it.buckets(), max_path);
            while let Some(bucket) = search.next_bucket() {
                let start = at(Slot { bucket, slot: 0 });
                search.look(&layout, &slots[start..start + usize::from(size)]);
            }
            let Some(mut free) = search.empty_slot() else {
                return (n as f64 / slots.len() as f64, longest);
            };
            let moves: Vec<Move> = search.moves().collect();
            longest = longest.max(moves.len());
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
            }
            assert!(it.buckets().any(|bucket| bucket == free.bucket));
            slots[at(free)] = it.fingerprint.0;
        }
        unreachable!("a filter of finite size fills up")
    }

    #[test]
    fn kick_outs_reach_the_load_that_sizing_relies_on() {
        // Buckets of one slot can't hold three items of one class, so with 8-bit
        // fingerprints they fail below the load of 0.5 that they are sized for.
        for (size, target) in [(1, 0.40), (2, 0.85), (3, 0.93), (4, 0.955), (8, 0.955)] {
            let (load, _) = fill(1 << 16, size, 20);
            assert!(
                load >= target,
                "bucket size {size}: first failure at load {load}"
            );
        }
    }

    #[test]
    fn no_path_is_longer_than_asked_for() {
        let (short_load, longest) = fill(1 << 12, 2, 1);
        assert_eq!(longest, 1);
        let (load, longest) = fill(1 << 12, 2, 20);
        assert!(longest <= 20);
        assert!(load > short_load);
    }

    #[test]
    fn a_search_among_full_buckets_of_255_slots_is_bounded() {
        let layout = Layout::Classic(Classic::new(1 << 16, 255, 4096).unwrap());
        let full: Vec<u8> = (1..=255).collect();
        let mut search = KickSearch::new();
        search.start([BucketIndex(0), BucketIndex(9)].into_iter(), u16::MAX);
        let mut looked = 0;
        while search.next_bucket().is_some() {
            search.look(&layout, &full);
            looked += 1;
        }
        assert!(search.empty_slot().is_none());
        assert!(looked <= MAX_NODES);
    }
}
