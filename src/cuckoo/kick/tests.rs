use super::*;
use crate::cuckoo::candidates::Fingerprint;
use crate::cuckoo::classic::{Classic, SEARCH};
use crate::cuckoo::hash::{ItemHash, murmur64a};

fn classic(buckets: u64, size: u8) -> Classic {
    Classic::new(buckets, size, 4096).unwrap()
}

/// What adding until the first failure found.
#[derive(Default, Debug)]
struct Filled {
    load: f64,
    longest_path: usize,
}

/// Adds until the first failure; checks every kick-out.
fn fill(layout: Classic, seed: u64, max_path: u16) -> Filled {
    let size = usize::from(layout.bucket_size());
    let mut slots = vec![0u32; layout.slots() as usize];
    let at = |slot: Slot| slot.bucket.0 as usize * size + usize::from(slot.slot);
    let mut search = KickSearch::new();
    let mut filled = Filled::default();
    for n in 0u64.. {
        let word = |seed| u128::from(murmur64a(&n.to_le_bytes(), seed));
        let it = layout.candidates(ItemHash(word(seed) << 64 | word(seed + 1)));
        search.start([it.first, it.second].into_iter(), SEARCH, max_path);
        while let Some(bucket) = search.next_bucket() {
            let start = at(Slot { bucket, slot: 0 });
            search.look(&slots[start..start + size], |_, slot| {
                layout.elsewhere(bucket, slot)
            });
        }
        filled.load = n as f64 / slots.len() as f64;
        let Some(mut free) = search.empty_slot() else {
            return filled;
        };
        let moves: Vec<Move> = search.moves().collect();
        filled.longest_path = filled.longest_path.max(moves.len());
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
    let full: Vec<u32> = (1..=255).collect();
    let mut search = KickSearch::new();
    let candidates = [BucketIndex(0), BucketIndex(9)].into_iter();
    search.start(candidates, SEARCH, u16::MAX);
    let mut looked = 0;
    while let Some(bucket) = search.next_bucket() {
        search.look(&full, |_, slot| layout.elsewhere(bucket, slot));
        looked += 1;
    }
    assert!(search.empty_slot().is_none());
    assert!(looked <= MAX_PAGES_PER_SEARCH);
}
