//! A Vector Quotient Filter (Pandey, Conway, Durie, Bender, Farach-Colton, Johnson:
//! "Vector Quotient Filters", SIGMOD 2021), as small as it can be measured with.
//!
//! The filter is blocks of 64 bytes, a cache line each. A block is a quotient filter: some
//! buckets, whose remainders lie one behind the other, and a bit for each remainder (0)
//! and for the end of each bucket (1). Where a bucket's remainders lie is one `select` of
//! these bits. An item has two blocks, and goes to the emptier one; nothing moves
//! between blocks. `select` is `pdep`, an instruction of BMI2.

use cuckood_filter::hints::prefetch;
use std::arch::x86_64::_pdep_u64;

/// Hashes whose memory is asked for at once.
const GROUP: usize = 16;

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Block([u8; 64]);

/// `BUCKETS` and `SLOTS` of a block, whose remainders have `WIDTH` bytes.
pub(super) struct Vqf<const BUCKETS: usize, const SLOTS: usize, const WIDTH: usize> {
    blocks: Vec<Block>,
}

/// Remainders of 8 bits: 80 and 48 bits, 48 bytes.
pub(super) type Vqf8 = Vqf<80, 48, 1>;

/// Remainders of 16 bits: 36 and 28 bits, 56 bytes.
pub(super) type Vqf16 = Vqf<36, 28, 2>;

/// Where an item belongs.
struct Home {
    first: usize,
    second: usize,
    bucket: usize,
    remainder: [u8; 2],
}

impl<const BUCKETS: usize, const SLOTS: usize, const WIDTH: usize> Vqf<BUCKETS, SLOTS, WIDTH> {
    /// Bytes of the bits before the remainders.
    const BITS: usize = 64 - SLOTS * WIDTH;

    pub(super) fn new(slots: u64) -> Self {
        let mut filter = Vqf {
            blocks: vec![Block([0; 64]); (slots as usize).div_ceil(SLOTS)],
        };
        for block in &mut filter.blocks {
            Self::set_bits(block, (1 << BUCKETS) - 1);
        }
        filter
    }

    pub(super) fn slots(&self) -> u64 {
        (self.blocks.len() * SLOTS) as u64
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.blocks.as_slice())
    }

    fn home(&self, hash: u64) -> Home {
        let blocks = self.blocks.len();
        let below = |bits: u64, bound: usize| ((bits * bound as u64) >> 32) as usize;
        let first = below(hash >> 32, blocks);
        let tag = hash & 0xffff_ffff;
        // Its own inverse, whatever the number of blocks.
        let mixed = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let second = (below(mixed, blocks) + blocks - first) % blocks;
        Home {
            first,
            second,
            bucket: ((tag >> 16) as usize * BUCKETS) >> 16,
            remainder: (tag as u16).to_le_bytes(),
        }
    }

    fn bits(block: &Block) -> u128 {
        let mut bytes = [0; 16];
        bytes[..Self::BITS].copy_from_slice(&block.0[..Self::BITS]);
        u128::from_le_bytes(bytes)
    }

    fn set_bits(block: &mut Block, bits: u128) {
        block.0[..Self::BITS].copy_from_slice(&bits.to_le_bytes()[..Self::BITS]);
    }

    /// Remainders of a block: its last bit that is set ends its last bucket.
    fn held(bits: u128) -> usize {
        (128 - bits.leading_zeros()) as usize - BUCKETS
    }

    /// Returns for how many there was room.
    #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn add_all(&mut self, hashes: &[u64]) -> u64 {
        self.count(hashes, |it, home| it.add(home))
    }

    /// Returns how many are found.
    #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn ask_all(&mut self, hashes: &[u64]) -> u64 {
        self.count(hashes, |it, home| {
            Self::find(&it.blocks[home.first], home).is_some()
                || Self::find(&it.blocks[home.second], home).is_some()
        })
    }

    /// Returns how many were there.
    #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn delete_all(&mut self, hashes: &[u64]) -> u64 {
        self.count(hashes, |it, home| {
            Self::delete(&mut it.blocks[home.first], home)
                || Self::delete(&mut it.blocks[home.second], home)
        })
    }

    /// For how many items this says yes, whose blocks are asked for in groups.
    #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
    fn count(&mut self, hashes: &[u64], mut act: impl FnMut(&mut Self, &Home) -> bool) -> u64 {
        let mut counted = 0;
        for group in hashes.chunks(GROUP) {
            for hash in group {
                let home = self.home(*hash);
                prefetch(&self.blocks[home.first]);
                prefetch(&self.blocks[home.second]);
            }
            for hash in group {
                let home = self.home(*hash);
                counted += u64::from(act(self, &home));
            }
        }
        counted
    }

    #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
    fn add(&mut self, home: &Home) -> bool {
        let held = |block: usize| Self::held(Self::bits(&self.blocks[block]));
        // The paper's shortcut: below three quarters the second block is not looked at.
        let first = held(home.first);
        let (block, held) = match first * 4 < SLOTS * 3 {
            true => (home.first, first),
            false => match held(home.second) {
                second if second < first => (home.second, second),
                _ => (home.first, first),
            },
        };
        if held == SLOTS {
            return false;
        }
        let block = &mut self.blocks[block];
        let bits = Self::bits(block);
        let end = select(bits, home.bucket);
        let below = (1 << end) - 1;
        Self::set_bits(block, (bits & below) | ((bits & !below) << 1));
        let remainders = &mut block.0[Self::BITS..];
        let at = (end - home.bucket) * WIDTH;
        remainders.copy_within(at..held * WIDTH, at + WIDTH);
        remainders[at..at + WIDTH].copy_from_slice(&home.remainder[..WIDTH]);
        true
    }

    #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
    fn delete(block: &mut Block, home: &Home) -> bool {
        let Some((bit, at)) = Self::find(block, home) else {
            return false;
        };
        let bits = Self::bits(block);
        let held = Self::held(bits);
        let below = (1 << bit) - 1;
        Self::set_bits(block, (bits & below) | ((bits >> 1) & !below));
        let remainders = &mut block.0[Self::BITS..];
        remainders.copy_within((at + 1) * WIDTH..held * WIDTH, at * WIDTH);
        true
    }

    /// The bit and the slot of an item's remainder in a block.
    #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
    fn find(block: &Block, home: &Home) -> Option<(usize, usize)> {
        let bits = Self::bits(block);
        let end = select(bits, home.bucket);
        let before = bits & ((1 << end) - 1);
        let begin = (128 - before.leading_zeros()) as usize;
        let slots = begin - home.bucket..end - home.bucket;
        let remainders = &block.0[Self::BITS..];
        let of_slot = |slot: usize| &remainders[slot * WIDTH..(slot + 1) * WIDTH];
        let at = slots
            .clone()
            .find(|slot| of_slot(*slot) == &home.remainder[..WIDTH])?;
        Some((begin + at - slots.start, at))
    }
}

/// The place of a bit that is set, by its rank from 0.
#[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
fn select(bits: u128, rank: usize) -> usize {
    let (low, high) = (bits as u64, (bits >> 64) as u64);
    let in_low = low.count_ones() as usize;
    match rank < in_low {
        true => _pdep_u64(1 << rank, low).trailing_zeros() as usize,
        false => 64 + _pdep_u64(1 << (rank - in_low), high).trailing_zeros() as usize,
    }
}
