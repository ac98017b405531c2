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
    let page = |bucket: BucketIndex| layout.address(bucket).page as usize;
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
            pages.insert(layout.address(bucket).page);
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
