//! Buckets as parts of machine words.
//!
//! A page is an array of 64-bit words, a slot is 8 to 32 bits of a word (least
//! significant first; bits beyond the last slot are 0). A bucket is a run of
//! slots; it may begin and end within a word. All work is done on whole words:
//! a match is a bit per slot (SWAR, Warren, "Hacker's Delight", 2nd edition,
//! section 6-1), exact for every slot.

/// How many bits a slot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotWidth {
    /// Eight slots a word, 255 fingerprints.
    Bits8,
    /// Five slots a word, 4,095 fingerprints.
    Bits12,
    /// Four slots a word, 65,535 fingerprints.
    Bits16,
    /// Three slots a word, 2,097,151 fingerprints.
    Bits21,
    /// Two slots a word, 4,294,967,295 fingerprints.
    Bits32,
}

impl SlotWidth {
    /// Those of the layout `paged`, the narrowest first.
    pub const PAGED: [SlotWidth; 4] = [
        SlotWidth::Bits12,
        SlotWidth::Bits16,
        SlotWidth::Bits21,
        SlotWidth::Bits32,
    ];

    /// That of the layout `paged` with so many bits, if there is one.
    pub fn from_bits(bits: u64) -> Option<SlotWidth> {
        SlotWidth::PAGED
            .into_iter()
            .find(|width| u64::from(width.bits()) == bits)
    }

    /// Bits per slot.
    #[inline]
    pub const fn bits(self) -> u16 {
        match self {
            SlotWidth::Bits8 => 8,
            SlotWidth::Bits12 => 12,
            SlotWidth::Bits16 => 16,
            SlotWidth::Bits21 => 21,
            SlotWidth::Bits32 => 32,
        }
    }

    // Each width has its constants, which the compiler turns into shifts and
    // multiplications: these are asked for at every probe, and a division by a
    // number that is not known costs as much as the rest of it.

    /// Slots in a word.
    #[inline]
    pub const fn slots_per_word(self) -> u16 {
        match self {
            SlotWidth::Bits8 => 8,
            SlotWidth::Bits12 => 5,
            SlotWidth::Bits16 => 4,
            SlotWidth::Bits21 => 3,
            SlotWidth::Bits32 => 2,
        }
    }

    /// The word of a page that a slot lies in, and its place in the word.
    #[inline]
    pub const fn word_and_lane(self, slot: u16) -> (u16, u16) {
        match self {
            SlotWidth::Bits8 => (slot / 8, slot % 8),
            SlotWidth::Bits12 => (slot / 5, slot % 5),
            SlotWidth::Bits16 => (slot / 4, slot % 4),
            SlotWidth::Bits21 => (slot / 3, slot % 3),
            SlotWidth::Bits32 => (slot / 2, slot % 2),
        }
    }

    /// The slot of a word that a bit lies in.
    #[inline]
    const fn lane_of_bit(self, bit: u32) -> u16 {
        let lane = match self {
            SlotWidth::Bits8 => bit / 8,
            SlotWidth::Bits12 => bit / 12,
            SlotWidth::Bits16 => bit / 16,
            SlotWidth::Bits21 => bit / 21,
            SlotWidth::Bits32 => bit / 32,
        };
        lane as u16
    }

    /// The largest fingerprint, which is also how many there are: 0 is the
    /// empty slot.
    #[inline]
    pub const fn fingerprints(self) -> u32 {
        u32::MAX >> (32 - self.bits())
    }

    /// The lowest bit of every slot of a word.
    #[inline]
    pub(super) const fn low_bits(self) -> u64 {
        match self {
            SlotWidth::Bits8 => 0x0101_0101_0101_0101,
            SlotWidth::Bits12 => 0x0001_0010_0100_1001,
            SlotWidth::Bits16 => 0x0001_0001_0001_0001,
            SlotWidth::Bits21 => 0x0000_0400_0020_0001,
            SlotWidth::Bits32 => 0x0000_0001_0000_0001,
        }
    }

    /// The highest bit of every slot of a word.
    #[inline]
    pub(super) const fn high_bits(self) -> u64 {
        self.low_bits() << (self.bits() - 1)
    }

    /// The high bit of each slot in which `word` has a bit.
    #[inline]
    pub(super) const fn not_zero(self, word: u64) -> u64 {
        // The high bit of each slot of the sum is set unless the other bits are
        // zero; no carry leaves its slot, so neighbours are not miscounted.
        let rest = self.high_bits() - self.low_bits();
        ((word & rest).wrapping_add(rest) | word) & self.high_bits()
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
        let all = width.high_bits();
        let lanes = all & all << below & all >> above;
        Piece { word, lanes }
    })
}

/// A set of slots within a word, the lowest slot first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    pub(super) width: SlotWidth,
    /// The high bit of each slot; none if there is no slot.
    pub bits: u64,
}

impl Lanes {
    /// How many there are.
    #[inline]
    pub fn count(self) -> u32 {
        count(self.width, self.bits)
    }

    /// Position of the lowest within the word, 0 to 7.
    #[inline]
    pub fn first(self) -> Option<u16> {
        (self.bits != 0).then(|| self.width.lane_of_bit(self.bits.trailing_zeros()))
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
    let difference = word ^ (width.low_bits() * u64::from(fingerprint));
    Lanes {
        width,
        bits: piece.lanes & !width.not_zero(difference),
    }
}

/// The empty slots of a whole word.
#[inline]
pub fn empty(width: SlotWidth, word: u64) -> Lanes {
    Lanes {
        width,
        bits: width.high_bits() & !width.not_zero(word),
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
    count(width, width.not_zero(word))
}

/// How many slots of some words hold a fingerprint; `None` if bits are set that belong
/// to no slot.
pub fn occupied_of_all(width: SlotWidth, mut words: impl Iterator<Item = u64>) -> Option<u64> {
    let used = width.bits() * width.slots_per_word();
    words.try_fold(0, |sum, word| {
        let is_sound = word.checked_shr(u32::from(used)).unwrap_or(0) == 0;
        is_sound.then(|| sum + u64::from(occupied(width, word)))
    })
}

/// How many slots have their high bit set in `bits`, in which no other bit is.
/// One multiplication sums them up in the topmost slot: counting the bits of a
/// word takes a dozen steps on processors whose instruction for it may not be
/// relied on.
#[inline]
fn count(width: SlotWidth, bits: u64) -> u32 {
    let ones = bits >> (width.bits() - 1);
    let sums = ones.wrapping_mul(width.low_bits());
    let topmost = width.bits() * (width.slots_per_word() - 1);
    (sums >> topmost) as u32 & width.fingerprints()
}

/// The fingerprint in a slot of a word.
#[inline]
pub fn get(width: SlotWidth, word: u64, lane: u16) -> u32 {
    (word >> (width.bits() * lane)) as u32 & width.fingerprints()
}

/// The slots of a word that hold a fingerprint, and what each holds.
#[inline]
pub fn in_use(width: SlotWidth, word: u64) -> impl Iterator<Item = (u16, u32)> {
    let slots = (0..width.slots_per_word()).map(move |lane| (lane, get(width, word, lane)));
    slots.filter(|it| it.1 != 0)
}

/// The word with another fingerprint in a slot.
#[inline]
pub fn set(width: SlotWidth, word: u64, lane: u16, fingerprint: u32) -> u64 {
    let shift = width.bits() * lane;
    word & !(u64::from(width.fingerprints()) << shift) | u64::from(fingerprint) << shift
}

#[cfg(test)]
mod tests;
