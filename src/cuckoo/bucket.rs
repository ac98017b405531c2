//! Buckets as parts of machine words.
//!
//! A page is an array of 64-bit words, a slot of 8 bits is a byte of a word
//! (slot `n` is byte `n % 8` of word `n / 8`, least significant first). A
//! bucket is a run of slots; it may begin and end within a word. All work is
//! done on whole words: a match is a bit per byte (SWAR, Warren, "Hacker's
//! Delight", 2nd edition, section 6-1), exact for every byte.

/// Slots in a word.
pub const SLOTS_PER_WORD: u16 = 8;

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// The slots of a bucket that lie in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the word within the page.
    pub word: u16,
    /// The high bit of each byte that belongs to the bucket.
    lanes: u64,
}

/// The words that a run of slots covers, in ascending order.
#[inline]
pub fn pieces(first_slot: u16, slots: u8) -> impl Iterator<Item = Piece> {
    let end = first_slot + u16::from(slots);
    (first_slot / SLOTS_PER_WORD..end.div_ceil(SLOTS_PER_WORD)).map(move |word| {
        let start_of_word = word * SLOTS_PER_WORD;
        let from = first_slot.saturating_sub(start_of_word);
        let to = (end - start_of_word).min(SLOTS_PER_WORD);
        let lanes = HIGH_BITS << (8 * from) & HIGH_BITS >> (8 * (SLOTS_PER_WORD - to));
        Piece { word, lanes }
    })
}

/// A set of slots within a word, the lowest slot first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes(u64);

impl Lanes {
    /// How many there are.
    #[inline]
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Position of the lowest within the word, 0 to 7.
    #[inline]
    pub fn first(self) -> Option<u16> {
        (self.0 != 0).then(|| (self.0.trailing_zeros() / 8) as u16)
    }
}

impl Iterator for Lanes {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        let first = self.first()?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

/// The slots of a piece that hold `fingerprint`; 0 finds the empty ones.
#[inline]
pub fn find(word: u64, piece: Piece, fingerprint: u8) -> Lanes {
    let difference = word ^ (LOW_BITS * u64::from(fingerprint));
    // The high bit of each byte of `carried` is set unless the low seven bits
    // are zero; no carry leaves its byte, so neighbours are not miscounted.
    let carried = (difference & !HIGH_BITS) + !HIGH_BITS;
    Lanes(!(carried | difference) & piece.lanes)
}

/// All slots of a piece.
#[inline]
pub fn lanes_of(piece: Piece) -> Lanes {
    Lanes(piece.lanes)
}

/// The fingerprint in a slot of a word.
#[inline]
pub fn get(word: u64, lane: u16) -> u8 {
    (word >> (8 * lane)) as u8
}

/// The word with another fingerprint in a slot.
#[inline]
pub fn set(word: u64, lane: u16, fingerprint: u8) -> u64 {
    let shift = 8 * lane;
    word & !(0xff << shift) | u64::from(fingerprint) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bucket_of_two_slots_is_one_piece() {
        let found: Vec<Piece> = pieces(6, 2).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].word, 0);
        assert_eq!(found[0].lanes, 0x8080_0000_0000_0000);
    }

    #[test]
    fn the_neighbour_of_a_match_is_not_a_match() {
        // The common zero-in-word trick reports byte 1 here as well.
        let piece = pieces(0, 8).next().unwrap();
        assert_eq!(find(0x0100, piece, 0).count(), 7);
        assert_eq!(find(0xffff_ffff_ffff_0500, piece, 4).count(), 0);
    }

    proptest! {
        #[test]
        fn finding_in_words_equals_looking_at_each_byte(
            bytes in proptest::collection::vec(0u8..4, 64),
            first in 0u16..40,
            slots in 1u8..=24,
            fingerprint in 0u8..4,
        ) {
            let words: Vec<u64> = bytes
                .chunks_exact(8)
                .map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap()))
                .collect();
            let found: Vec<u16> = pieces(first, slots)
                .flat_map(|piece| {
                    find(words[usize::from(piece.word)], piece, fingerprint)
                        .map(move |lane| piece.word * 8 + lane)
                })
                .collect();
            let expected: Vec<u16> = (first..first + u16::from(slots))
                .filter(|&slot| bytes[usize::from(slot)] == fingerprint)
                .collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn what_was_set_is_got_and_nothing_else_changes(word: u64, lane in 0u16..8, value: u8) {
            let changed = set(word, lane, value);
            for other in 0..8 {
                let expected = if other == lane { value } else { get(word, other) };
                prop_assert_eq!(get(changed, other), expected);
            }
        }
    }
}
