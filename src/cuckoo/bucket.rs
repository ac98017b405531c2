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

    /// Bits per slot.
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
mod tests;
