//! The entries of pages, in leaves that tables share.
//!
//! Filters have more pages than fit into memory by far, so a table has no
//! entries of its own. It takes a leaf for 64 neighbouring pages when the first
//! of them comes in, and gives it back when the last of them is evicted; then
//! another table may have it. So there are never more leaves in use than frames,
//! however many pages of however many filters were in memory at some time.
//!
//! Leaves are never freed, and readers take no lock. That a leaf was the
//! table's own when its entry was read is what the table's [name](LeafName) of it
//! tells: it is looked at once more, and no name comes twice.

use super::frame::FrameIndex;
use super::seqlock::Entry;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages whose entries are on one leaf.
pub(super) const LEAF_PAGES: usize = 64;

/// Leaves that are allocated together.
const CHUNK_LEAVES: usize = 1024;

type Leaf = [Entry; LEAF_PAGES];

/// The leaf of neighbouring pages of a table: 0 for none; or its number + 1 in
/// the low half, and in the high half one that is new whenever a table takes a
/// leaf.
#[derive(Default)]
pub(super) struct LeafName(AtomicU64);

/// The leaf that a name says, if any.
#[inline]
fn leaf_at(name: u64) -> Option<usize> {
    (name as u32).checked_sub(1).map(|index| index as usize)
}

/// What the entry of a page in that frame says: the generation in the high and
/// the frame + 1 in the low half.
pub(super) fn place_in(frame: FrameIndex, generation: u32) -> u64 {
    u64::from(generation) << 32 | (u64::from(frame.0) + 1)
}

/// The frame that an entry names, if any.
#[inline]
pub(super) fn frame_at(place: u64) -> Option<FrameIndex> {
    (place as u32).checked_sub(1).map(FrameIndex)
}

/// All leaves, as many as there are frames.
pub(super) struct Leaves {
    chunks: Box<[OnceLock<Box<[Leaf]>>]>,
}

/// Which leaves are in use. Part of the eviction, under its lock.
#[derive(Default)]
pub(super) struct LeafUse {
    /// By leaf, as far as leaves were used: how many of its pages are resident.
    resident: Vec<u8>,
    /// Leaves that were used, and have no resident page.
    free: Vec<usize>,
    generation: u32,
}

impl Leaves {
    /// A leaf for each of so many frames.
    pub(super) fn new(frames: usize) -> Leaves {
        let chunks = 0..frames.div_ceil(CHUNK_LEAVES);
        Leaves {
            chunks: chunks.map(|_| OnceLock::new()).collect(),
        }
    }

    /// The entry of a page on the leaf of that name, and the place or 0 that it
    /// says, if the page has an entry. No lock.
    #[inline]
    pub(super) fn place(&self, leaf: &LeafName, page: u32) -> Option<(&Entry, u64)> {
        let name = leaf.0.load(Ordering::Acquire);
        let entry = self.entry(leaf_at(name)?, page)?;
        let place = entry.read();
        // A place of another table's page is stored after the leaf has lost its
        // name here. Then this page was not resident for a moment at least.
        (leaf.0.load(Ordering::Relaxed) == name).then_some((entry, place))
    }

    /// The entry of a page that comes in. Under the lock, as the rest.
    pub(super) fn fill(&self, leaves: &mut LeafUse, leaf: &LeafName, page: u32) -> Option<&Entry> {
        let index = match leaf_at(leaf.0.load(Ordering::Relaxed)) {
            Some(index) => index,
            None => {
                let index = leaves.take();
                let chunk = self.chunks.get(index / CHUNK_LEAVES)?;
                chunk.get_or_init(|| {
                    let leaf = |_| std::array::from_fn(|_| Entry::new());
                    (0..CHUNK_LEAVES).map(leaf).collect()
                });
                let name = u64::from(leaves.generation) << 32 | (index as u64 + 1);
                leaf.0.store(name, Ordering::Release);
                index
            }
        };
        *leaves.resident.get_mut(index)? += 1;
        self.entry(index, page)
    }

    /// Says that a page has no place any more. `None`: it does not lie in that
    /// frame.
    pub(super) fn clear(
        &self,
        leaves: &mut LeafUse,
        leaf: &LeafName,
        page: u32,
        frame: FrameIndex,
    ) -> Option<()> {
        let index = leaf_at(leaf.0.load(Ordering::Relaxed))?;
        let entry = self.entry(index, page)?;
        if frame_at(entry.peek()) != Some(frame) {
            return None;
        }
        entry.clear();
        let resident = leaves.resident.get_mut(index)?;
        *resident -= 1;
        if *resident == 0 {
            leaf.0.store(0, Ordering::Release);
            leaves.free.push(index);
        }
        Some(())
    }

    #[inline]
    fn entry(&self, index: usize, page: u32) -> Option<&Entry> {
        let chunk = self.chunks.get(index / CHUNK_LEAVES)?.get()?;
        let leaf = chunk.get(index % CHUNK_LEAVES)?;
        leaf.get(page as usize % LEAF_PAGES)
    }
}

impl LeafUse {
    fn take(&mut self) -> usize {
        self.generation = self.generation.wrapping_add(1);
        self.free.pop().unwrap_or_else(|| {
            self.resident.push(0);
            self.resident.len() - 1
        })
    }

    /// Leaves that were used so far.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.resident.len()
    }
}
