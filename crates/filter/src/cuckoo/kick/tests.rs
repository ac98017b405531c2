use super::*;
use crate::cuckoo::candidates::Fingerprint;
use crate::cuckoo::classic::{Classic, SEARCH};
use crate::cuckoo::hash::{ItemHash, murmur64a};

fn classic(buckets: u64, size: u8) -> Classic {
    Classic::new(buckets, size).unwrap()
}

/// All slots of a filter, bucket by bucket.
struct Slots {
    layout: Classic,
    held: Vec<u32>,
}

impl Slots {
    fn of(layout: Classic) -> Slots {
        let held = vec![0; layout.slots() as usize];
        Slots { layout, held }
    }

    fn at(&mut self, slot: Slot) -> &mut u32 {
        let size = usize::from(self.layout.bucket_size());
        &mut self.held[slot.bucket.0 as usize * size + usize::from(slot.slot)]
    }
}

impl Buckets for Slots {
    fn empty_slot(&mut self, bucket: BucketIndex) -> Option<Option<u8>> {
        let mut slots = Vec::new();
        self.read(bucket, &mut slots);
        let empty = slots.iter().position(|&it| it == 0);
        Some(empty.map(|it| it as u8))
    }

    fn read(&mut self, bucket: BucketIndex, slots: &mut Vec<u32>) {
        let all = 0..self.layout.bucket_size();
        slots.extend(all.map(|slot| *self.at(Slot { bucket, slot })));
    }

    fn elsewhere(&mut self, bucket: BucketIndex, held: u32) -> Option<Elsewhere> {
        self.layout.elsewhere(bucket, held)
    }
}

/// What adding until the first failure found.
#[derive(Default, Debug)]
struct Filled {
    load: f64,
    longest_path: usize,
}

/// Adds until the first failure; checks every kick-out.
fn fill(layout: Classic, seed: u64, max_path: u16) -> Filled {
    let (mut slots, mut search) = (Slots::of(layout), KickSearch::default());
    let mut filled = Filled::default();
    for n in 0u64.. {
        let word = |seed| u128::from(murmur64a(&n.to_le_bytes(), seed));
        let it = layout.candidates(ItemHash(word(seed) << 64 | word(seed + 1)));
        filled.load = n as f64 / slots.held.len() as f64;
        let roots = [it.first, it.second].into_iter();
        let Some(free) = search.find(roots, SEARCH, max_path, &mut slots) else {
            return filled;
        };
        filled.longest_path = filled.longest_path.max(search.moves.len());
        for step in &search.moves {
            let fingerprint = std::mem::take(slots.at(step.from));
            let other = layout.alternate(step.from.bucket, Fingerprint(fingerprint));
            assert_eq!((other, fingerprint), (step.to.bucket, step.value));
            assert_eq!(std::mem::replace(slots.at(step.to), fingerprint), 0);
        }
        assert!(it.buckets().any(|bucket| bucket == free.bucket));
        assert_eq!(
            std::mem::replace(slots.at(free), it.fingerprint.0),
            0,
            "a path leaves a free slot"
        );
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
    let mut slots = Slots::of(layout);
    for (slot, number) in slots.held.iter_mut().zip(0u32..) {
        *slot = 1 + number % 255;
    }
    let mut search = KickSearch::default();
    let candidates = [BucketIndex(0), BucketIndex(9)].into_iter();
    let found = search.find(candidates, SEARCH, u16::MAX, &mut slots);
    assert_eq!(found, None);
    assert!(search.moves.is_empty());
    assert!(search.looked_at() <= MAX_PAGES_PER_SEARCH as u64);
}
