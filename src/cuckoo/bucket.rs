//! Buckets as parts of machine words.
//!
//! A page is an array of 64-bit words, a slot is 8, 16 or 32 bits of a word
//! (least significant first). A bucket is a run of slots; it may begin and end
//! within a word. All work is done on whole words: a match is a bit per slot
//! (SWAR, Warren, "Hacker's Delight", 2nd edition, section 6-1), exact for
//! every slot.

/// How many bits a slot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotWidth {
    /// Eight slots a word, 255 fingerprints.
    Bits8,
    /// Four slots a word, 65,535 fingerprints.
    Bits16,
    /// Two slots a word, 4,294,967,295 fingerprints.
    Bits32,
}

impl SlotWidth {
    /// All of them, the narrowest first.
    pub const ALL: [SlotWidth; 3] = [SlotWidth::Bits8, SlotWidth::Bits16, SlotWidth::Bits32];

    /// The width of so many bits, if there is one.
    pub fn from_bits(bits: u64) -> Option<SlotWidth> {
        SlotWidth::ALL
            .into_iter()
            .find(|width| u64::from(width.bits()) == bits)
    }

    /// Bits of a slot.
    #[inline]
    pub const fn bits(self) -> u16 {
        match self {
            SlotWidth::Bits8 => 8,
            SlotWidth::Bits16 => 16,
            SlotWidth::Bits32 => 32,
        }
    }

    /// Bytes of a slot.
    #[inline]
    pub const fn bytes(self) -> u8 {
        (self.bits() / 8) as u8
    }

    /// Slots in a word.
    #[inline]
    pub const fn slots_per_word(self) -> u16 {
        1 << self.slots_per_word_log2()
    }

    // Constants and shifts instead of divisions: these are asked for at every
    // probe, and a division costs as much as the rest of it.
    #[inline]
    const fn slots_per_word_log2(self) -> u16 {
        match self {
            SlotWidth::Bits8 => 3,
            SlotWidth::Bits16 => 2,
            SlotWidth::Bits32 => 1,
        }
    }

    /// The word of a page that a slot lies in, and its place in the word.
    #[inline]
    pub const fn word_and_lane(self, slot: u16) -> (u16, u16) {
        (
            slot >> self.slots_per_word_log2(),
            slot & (self.slots_per_word() - 1),
        )
    }

    /// The largest fingerprint, which is also how many there are: 0 is the
    /// empty slot.
    #[inline]
    pub const fn fingerprints(self) -> u32 {
        u32::MAX >> (32 - self.bits())
    }

    /// The lowest bit of every slot of a word.
    #[inline]
    const fn low_bits(self) -> u64 {
        match self {
            SlotWidth::Bits8 => 0x0101_0101_0101_0101,
            SlotWidth::Bits16 => 0x0001_0001_0001_0001,
            SlotWidth::Bits32 => 0x0000_0001_0000_0001,
        }
    }

    /// The highest bit of every slot of a word.
    #[inline]
    const fn high_bits(self) -> u64 {
        self.low_bits() << (self.bits() - 1)
    }
}

/// The slots of a bucket that lie in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the word within the page.
    pub word: u16,
    /// The high bit of each slot that belongs to the bucket.
    lanes: u64,
}

/// The words that a run of at least one slot covers, in ascending order.
#[inline]
pub fn pieces(width: SlotWidth, first_slot: u16, slots: u8) -> impl Iterator<Item = Piece> {
    let per_word = width.slots_per_word();
    let end = first_slot + u16::from(slots);
    let (first_word, _) = width.word_and_lane(first_slot);
    let (last_word, _) = width.word_and_lane(end - 1);
    (first_word..last_word + 1).map(move |word| {
        let start_of_word = word * per_word;
        let from = first_slot.saturating_sub(start_of_word);
        let to = (end - start_of_word).min(per_word);
        let (below, above) = (width.bits() * from, width.bits() * (per_word - to));
        let lanes = width.high_bits() << below & width.high_bits() >> above;
        Piece { word, lanes }
    })
}

/// [`pieces`] of four slots that begin at a multiple of four, and so cover half
/// a word, one, or two.
#[inline]
pub fn pieces_of_four(width: SlotWidth, first_slot: u16) -> impl Iterator<Item = Piece> {
    let (first, lane) = width.word_and_lane(first_slot);
    let (words, lanes) = match width {
        SlotWidth::Bits8 => (1, (width.high_bits() >> 32) << (8 * (lane & 4))),
        SlotWidth::Bits16 => (1, width.high_bits()),
        SlotWidth::Bits32 => (2, width.high_bits()),
    };
    (0..words).map(move |next| Piece {
        word: first + next,
        lanes,
    })
}

/// A set of slots within a word, the lowest slot first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    width: SlotWidth,
    /// The high bit of each slot.
    bits: u64,
}

impl Lanes {
    /// How many there are.
    #[inline]
    pub fn count(self) -> u32 {
        count(self.width, self.bits)
    }

    /// A bit for each slot, none if there is no slot.
    #[inline]
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// Position of the lowest within the word, 0 to 7.
    #[inline]
    pub fn first(self) -> Option<u16> {
        (self.bits != 0)
            .then(|| self.bits.trailing_zeros() as u16 >> (6 - self.width.slots_per_word_log2()))
    }
}

impl Iterator for Lanes {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        let first = self.first()?;
        self.bits &= self.bits - 1;
        Some(first)
    }
}

/// The slots of a piece that hold `fingerprint`; 0 finds the empty ones.
#[inline]
pub fn find(width: SlotWidth, word: u64, piece: Piece, fingerprint: u32) -> Lanes {
    let high_bits = width.high_bits();
    let difference = word ^ (width.low_bits() * u64::from(fingerprint));
    // The high bit of each slot of `carried` is set unless its lower bits are
    // zero; no carry leaves its slot, so neighbours are not miscounted.
    let carried = (difference & !high_bits) + !high_bits;
    Lanes {
        width,
        bits: !(carried | difference) & piece.lanes,
    }
}

/// All slots of a piece.
#[inline]
pub fn lanes_of(width: SlotWidth, piece: Piece) -> Lanes {
    Lanes {
        width,
        bits: piece.lanes,
    }
}

/// How many slots of a word hold a fingerprint.
#[inline]
pub fn occupied(width: SlotWidth, word: u64) -> u32 {
    let high_bits = width.high_bits();
    let carried = (word & !high_bits) + !high_bits;
    count(width, (carried | word) & high_bits)
}

/// How many slots have their high bit set in `bits`, in which no other bit is.
/// One multiplication sums them up in the topmost slot: counting the bits of a
/// word takes a dozen steps on processors whose instruction for it may not be
/// relied on.
#[inline]
fn count(width: SlotWidth, bits: u64) -> u32 {
    let ones = bits >> (width.bits() - 1);
    (ones.wrapping_mul(width.low_bits()) >> (64 - width.bits())) as u32
}

/// The fingerprint in a slot of a word.
#[inline]
pub fn get(width: SlotWidth, word: u64, lane: u16) -> u32 {
    (word >> (width.bits() * lane)) as u32 & width.fingerprints()
}

/// The word with another fingerprint in a slot.
#[inline]
pub fn set(width: SlotWidth, word: u64, lane: u16, fingerprint: u32) -> u64 {
    let shift = width.bits() * lane;
    word & !(u64::from(width.fingerprints()) << shift) | u64::from(fingerprint) << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn widths() -> impl Strategy<Value = SlotWidth> {
        proptest::sample::select(SlotWidth::ALL.to_vec())
    }

    #[test]
    fn a_bucket_of_two_slots_is_one_piece() {
        let found: Vec<Piece> = pieces(SlotWidth::Bits8, 6, 2).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].word, 0);
        assert_eq!(found[0].lanes, 0x8080_0000_0000_0000);
    }

    #[test]
    fn a_bucket_of_four_slots_of_16_bits_is_one_whole_word() {
        let found: Vec<Piece> = pieces(SlotWidth::Bits16, 8, 4).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].word, 2);
        assert_eq!(found[0].lanes, 0x8000_8000_8000_8000);
    }

    #[test]
    fn aligned_buckets_of_four_slots_have_the_same_pieces() {
        for width in SlotWidth::ALL {
            for first_slot in (0..64).step_by(4) {
                let pieces: Vec<Piece> = pieces(width, first_slot, 4).collect();
                let of_four: Vec<Piece> = pieces_of_four(width, first_slot).collect();
                assert_eq!(of_four, pieces, "{width:?}, slot {first_slot}");
            }
        }
    }

    #[test]
    fn the_neighbour_of_a_match_is_not_a_match() {
        // The common zero-in-word trick reports slot 1 here as well.
        let width = SlotWidth::Bits8;
        let piece = pieces(width, 0, 8).next().unwrap();
        assert_eq!(find(width, 0x0100, piece, 0).count(), 7);
        assert_eq!(find(width, 0xffff_ffff_ffff_0500, piece, 4).count(), 0);
        let width = SlotWidth::Bits16;
        let piece = pieces(width, 0, 4).next().unwrap();
        assert_eq!(find(width, 0x0001_0000, piece, 0).count(), 3);
    }

    proptest! {
        #[test]
        fn finding_in_words_equals_looking_at_each_slot(
            width in widths(),
            words in proptest::collection::vec(0u64..4, 16),
            noise in proptest::collection::vec(any::<u64>(), 16),
            noisy: bool,
            first in 0u16..8,
            slots in 1u8..=24,
            fingerprint in 0u32..4,
        ) {
            let per_word = width.slots_per_word();
            let words: Vec<u64> = match noisy {
                true => noise,
                // Few values, so that there are matches.
                false => words
                    .iter()
                    .map(|&word| word << (8 * (word % 8)) | word.rotate_right(8))
                    .collect(),
            };
            let slot = |slot: u16| get(width, words[usize::from(slot / per_word)], slot % per_word);
            let found: Vec<u16> = pieces(width, first, slots)
                .flat_map(|piece| {
                    find(width, words[usize::from(piece.word)], piece, fingerprint)
                        .map(move |lane| piece.word * per_word + lane)
                })
                .collect();
            let expected: Vec<u16> = (first..first + u16::from(slots))
                .filter(|&at| slot(at) == fingerprint)
                .collect();
            prop_assert_eq!(found, expected);
            let full = (0..per_word).filter(|&lane| slot(lane) != 0).count();
            prop_assert_eq!(occupied(width, words[0]) as usize, full);
        }

        #[test]
        fn what_was_set_is_got_and_nothing_else_changes(
            width in widths(), word: u64, lane in 0u16..8, value: u32,
        ) {
            let (lane, value) = (lane % width.slots_per_word(), value & width.fingerprints());
            let changed = set(width, word, lane, value);
            for other in 0..width.slots_per_word() {
                let expected = if other == lane { value } else { get(width, word, other) };
                prop_assert_eq!(get(width, changed, other), expected);
            }
        }
    }
}
