//! What a slot holds: `[anchor | suffix | value]`, the value lowest.
//!
//! The value is what the filter was told of the item; most filters have slots
//! without one. Nothing but the code that hands values in and out looks at it:
//! where an entry may lie, and which items match it, follows from the rest.
//!
//! The anchor stays as it is for life. The suffix holds the bits of the item's
//! path that follow those which led to the page, the first of them topmost. It
//! has `F + 1` bits. On pages of level 0 all of them are path; on deeper ones
//! the lowest 1 closes the path, and the zeros behind it count how many
//! splits the entry went through beyond its first:
//!
//! | level | suffix of 4 bits | bits of the path that it holds |
//! |---|---|---|
//! | 0 | `abcd` | 4 |
//! | 1 | `bcd1` | 3 |
//! | 2 | `cd10` | 2 |
//! | 4 | `1000` | none: it is void |
//!
//! The bits that are *known* of an entry are its page's level and those of its
//! suffix. Kick-outs keep all of them, splits too: what a suffix loses, the
//! page's number has gained.

use crate::cuckoo::bucket::{Lanes, SlotWidth};

/// How the bits of a slot are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotCode {
    width: SlotWidth,
    // They add up to the width; nothing is to be worked out for each item.
    anchor_bits: u8,
    suffix_bits: u8,
    value_bits: u8,
}

/// Fewest bits of anchor and suffix together, unless the slots have no values.
const MIN_FINGERPRINT_BITS: u16 = 11;

/// Where a split takes an entry, and what it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deeper {
    /// To the page that its first bit says, without that bit.
    Child {
        /// The bit.
        bit: bool,
        /// The slot there.
        slot: u32,
    },
    /// It knows no bit that would tell: it goes to both pages as it is.
    Void,
}

/// An entry one level less deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shallower {
    /// The slot there.
    pub slot: u32,
    /// Whether there was no room for the bit that it regained, so that its
    /// last one had to go.
    pub loses_a_bit: bool,
}

impl SlotCode {
    /// The code of slots of that width.
    #[inline]
    pub const fn of(width: SlotWidth) -> SlotCode {
        SlotCode::divided(width, anchor_bits(width.bits()), 0)
    }

    /// The code of slots of that width with values of so many bits. `None` if
    /// they leave too few for the fingerprint.
    pub const fn with_values(width: SlotWidth, value_bits: u8) -> Option<SlotCode> {
        let fingerprint_bits = width.bits().saturating_sub(value_bits as u16);
        if value_bits > 0 && fingerprint_bits < MIN_FINGERPRINT_BITS {
            return None;
        }
        let anchor_bits = anchor_bits(fingerprint_bits);
        Some(SlotCode::divided(width, anchor_bits, value_bits))
    }

    const fn divided(width: SlotWidth, anchor_bits: u8, value_bits: u8) -> SlotCode {
        SlotCode {
            width,
            anchor_bits,
            suffix_bits: width.bits() as u8 - anchor_bits - value_bits,
            value_bits,
        }
    }

    /// One with another number of anchor bits.
    #[cfg(test)]
    pub(crate) const fn with_anchor_bits(self, anchor_bits: u8) -> SlotCode {
        SlotCode::divided(self.width, anchor_bits, self.value_bits)
    }

    /// Bits of a slot.
    #[inline]
    pub const fn width(self) -> SlotWidth {
        self.width
    }

    /// Words of a bucket, one or two.
    #[inline]
    pub const fn words_per_bucket(self) -> u16 {
        match self.width {
            SlotWidth::Bits32 => 2,
            _ => 1,
        }
    }

    /// Slots of a bucket.
    #[inline]
    pub const fn bucket_size(self) -> u8 {
        (self.words_per_bucket() * self.width.slots_per_word()) as u8
    }

    /// Bits of the anchor.
    #[inline]
    pub const fn anchor_bits(self) -> u32 {
        self.anchor_bits as u32
    }

    /// Bits of the suffix, `F + 1`.
    #[inline]
    pub const fn suffix_bits(self) -> u32 {
        self.suffix_bits as u32
    }

    /// Bits of anchor and suffix.
    #[inline]
    pub const fn fingerprint_bits(self) -> u32 {
        self.width.bits() as u32 - self.value_bits()
    }

    /// Bits of the value, mostly none.
    #[inline]
    pub const fn value_bits(self) -> u32 {
        self.value_bits as u32
    }

    /// The bits of a slot that are its value.
    #[inline]
    pub const fn value_mask(self) -> u32 {
        (1 << self.value_bits()) - 1
    }

    #[inline]
    const fn anchor_shift(self) -> u32 {
        self.suffix_bits() + self.value_bits()
    }

    #[inline]
    const fn suffix_mask(self) -> u32 {
        (1 << self.anchor_shift()) - (1 << self.value_bits())
    }

    /// The suffix that knows no bit of the path, below level 0.
    #[inline]
    const fn void_suffix(self) -> u32 {
        1 << (self.anchor_shift() - 1)
    }

    /// The anchor of a slot.
    #[inline]
    pub const fn anchor(self, slot: u32) -> u32 {
        slot >> self.anchor_shift()
    }

    /// The path that an item with this anchor has, given its bits: none may
    /// look like the empty slot.
    #[inline]
    pub(super) const fn path_of(self, anchor: u32, bits: u64) -> u64 {
        let first = (1u64 << self.suffix_bits()) - 1;
        let looks_empty = anchor == 0 && bits & first == 0;
        bits | (looks_empty as u64) << (self.suffix_bits() - 1)
    }

    /// What an item is added as to a page of a level, with a value of 0.
    #[inline]
    pub(super) const fn fresh(self, anchor: u32, path: u64, level: u32) -> u32 {
        let in_order = self.in_order(path.wrapping_shr(level));
        let closing = (level != 0) as u32;
        (anchor << self.suffix_bits() | in_order | closing) << self.value_bits()
    }

    /// The first bits of a path, as many as a suffix has, the first of them
    /// topmost.
    #[inline]
    const fn in_order(self, path: u64) -> u32 {
        // Fewer bits take fewer steps.
        match self.suffix_bits() {
            bits @ 0..=8 => (path as u8).reverse_bits() as u32 >> (8 - bits),
            bits => (path as u32).reverse_bits() >> (32 - bits),
        }
    }

    /// Bits of the path that the suffix of a slot on a page of a level holds. None
    /// of a slot that no entry of that level is like: who reads while the page is
    /// split or merged may see it as one of another level, and asks again.
    #[inline]
    const fn held(self, slot: u32, level: u32) -> u32 {
        let most = self.anchor_shift() - 1;
        match level {
            0 => self.suffix_bits(),
            _ => most.saturating_sub((slot & self.suffix_mask()).trailing_zeros()),
        }
    }

    /// Bits of the path that are known of an entry on a page of a level: at
    /// least `F + 1`.
    #[inline]
    pub const fn known(self, slot: u32, level: u32) -> u32 {
        level + self.held(slot, level)
    }

    /// The same of a slot that comes from elsewhere. `None` if no entry of a page
    /// of that level is like it.
    pub fn known_if_sound(self, slot: u32, level: u32) -> Option<u32> {
        // Without a 1 that closes the path nothing says where it ends.
        let is_closed = level == 0 || slot & self.suffix_mask() != 0;
        is_closed
            .then(|| self.known(slot, level))
            .filter(|&known| known >= self.suffix_bits())
    }

    /// An entry of a page of a level, one level deeper.
    #[inline]
    pub const fn deeper(self, slot: u32, level: u32) -> Deeper {
        let suffix = slot & self.suffix_mask();
        if level > 0 && suffix == self.void_suffix() {
            return Deeper::Void;
        }
        let closing = ((level == 0) as u32) << self.value_bits();
        let shifted = suffix << 1 & self.suffix_mask() | closing;
        Deeper::Child {
            bit: suffix & self.void_suffix() != 0,
            slot: slot & !self.suffix_mask() | shifted,
        }
    }

    /// An entry of a page of a level that is not 0, one level less deep, where
    /// it regains the last bit of the page's number.
    #[inline]
    pub const fn shallower(self, slot: u32, level: u32, bit: bool) -> Shallower {
        let suffix = slot & self.suffix_mask();
        let lowest = 1 << self.value_bits();
        let regained = (bit as u32) << (self.anchor_shift() - 1) | suffix >> 1 & self.suffix_mask();
        let had_no_room = level > 1 && suffix & lowest == lowest;
        Shallower {
            // If there is no room, the closing 1 takes the place of a bit.
            slot: slot & !self.suffix_mask() | regained | if had_no_room { lowest } else { 0 },
            loses_a_bit: had_no_room,
        }
    }

    /// The entry that stands for two of a page of a level: it knows what they have
    /// in common, and has a value of 0. `None` if that is too little, or if their
    /// anchors differ.
    pub fn common(self, one: u32, other: u32, level: u32) -> Option<u32> {
        let bits = self.suffix_bits();
        let differing = ((one ^ other) & self.suffix_mask()) >> self.value_bits();
        let agree = differing.leading_zeros() - (32 - bits);
        let held = self.held(one, level).min(self.held(other, level));
        let common = held.min(agree);
        if self.anchor(one) != self.anchor(other) || level + common < bits {
            return None;
        }
        // At level 0 nothing closes the path, and nothing is cut off.
        let cut = bits - common;
        let closing = (1 << cut) >> 1;
        let unknown = cut + self.value_bits();
        Some(one >> unknown << unknown | closing << self.value_bits())
    }

    /// A slot of a page of a level, all bits of whose path are turned by those
    /// of `turn`; what closes the path stays.
    #[inline]
    pub(super) const fn turned(self, slot: u32, level: u32, turn: u64) -> u32 {
        let unknown = self.suffix_bits() - self.held(slot, level);
        slot ^ (self.in_order(turn >> level) >> unknown << (unknown + self.value_bits()))
    }

    /// The slots of a word, on a page of a level, all of whose known bits agree
    /// with those of `fresh`, which an item would be added as. Values are no
    /// part of it.
    #[inline(always)]
    pub fn matching(self, word: u64, fresh: u32, level: u32) -> Lanes {
        let (low, high) = (self.width.low_bits(), self.width.high_bits());
        let of_all_levels = ((level != 0) as u64).wrapping_neg();
        let low_of_suffix = low << self.value_bits();
        let word = word & !(low_of_suffix - low);
        // Ones up to the 1 that closes the path; the high bit keeps each
        // subtraction within its slot.
        let stopped = word | high;
        let behind_path = (stopped ^ stopped.wrapping_sub(low_of_suffix)) & of_all_levels;
        let difference = (word ^ low.wrapping_mul(fresh.into())) & !behind_path;
        Lanes {
            width: self.width,
            bits: self.width.not_zero(word) & !self.width.not_zero(difference),
        }
    }
}

/// Bits of the anchor in fingerprints of so many bits. Fewer than 6 leave a
/// bucket too few alternates.
const fn anchor_bits(fingerprint_bits: u16) -> u8 {
    match fingerprint_bits {
        0..16 => 6,
        _ => 8,
    }
}
