//! The pages of a filter: how many, how they are numbered, and what buckets lie
//! on them.

use super::code::SlotCode;
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::candidates::BucketIndex;

/// Words of a page.
pub const PAGE_WORDS: u16 = 512;

/// Bytes of a page.
pub const PAGE_BYTES: u32 = 8 * PAGE_WORDS as u32;

/// Doublings beyond those that slots record. In these, entries that know no bit
/// of their path are copied at a split: each takes about one slot in
/// `2^(F + 1)` for such copies.
const COPYING_LEVELS: u32 = 5;

/// The pages of a filter as they are: how many families, how often split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paged {
    families: u32,
    level: u8,
    /// The page of this level that is split next; those before it were.
    pointer: u32,
    code: SlotCode,
}

/// A geometry of slots of `BITS` bits, with pages of no higher level than
/// `LEVELS`: in a loop over many items the compiler then knows every shift and
/// mask that depends on the width, and has nothing to do for levels that there
/// are not. To be made of one that is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfWidth<const BITS: u16, const LEVELS: u8>(pub Paged);

/// No page has a higher level.
pub const ANY_LEVEL: u8 = u8::MAX;

impl<const BITS: u16, const LEVELS: u8> OfWidth<BITS, LEVELS> {
    const CODE: SlotCode = SlotCode::of(match BITS {
        12 => SlotWidth::Bits12,
        16 => SlotWidth::Bits16,
        21 => SlotWidth::Bits21,
        32 => SlotWidth::Bits32,
        _ => panic!("there is no such width"),
    });

    /// The geometry itself.
    #[inline(always)]
    pub fn paged(self) -> Paged {
        debug_assert!(self.0.code == Self::CODE);
        debug_assert!(LEVELS > 0 || self.0.is_never_split());
        Paged {
            code: Self::CODE,
            level: self.0.level.min(LEVELS),
            pointer: match LEVELS {
                0 => 0,
                _ => self.0.pointer,
            },
            ..self.0
        }
    }

    /// A level of one of its pages.
    #[inline(always)]
    pub fn level(level: u16) -> u32 {
        level.min(LEVELS.into()).into()
    }
}

/// Two pages that a split makes of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The page that is split.
    pub page: u32,
    /// The page that it shares its entries with, behind all others.
    pub sibling: u32,
    /// Level of the page before.
    pub level: u8,
}

impl Paged {
    /// The geometry of so many pages that were never split. `None` without a
    /// page, or if they could not be numbered with 32 bits.
    pub fn new(families: u64, code: SlotCode) -> Option<Paged> {
        Paged::grown(families, 0, 0, code)
    }

    /// The geometry of pages that were split. `None` if there can't be such.
    pub fn grown(families: u64, level: u8, pointer: u32, code: SlotCode) -> Option<Paged> {
        let families = u32::try_from(families).ok().filter(|&it| it > 0)?;
        let of_level = u64::from(families).checked_shl(u32::from(level))?;
        let most = u64::from(u32::MAX);
        let is_one = u32::from(level) <= max_level(code)
            && of_level >> level == u64::from(families)
            && u64::from(pointer) < of_level
            && of_level + u64::from(pointer) <= most
            && (u32::from(level) < max_level(code) || pointer == 0);
        is_one.then_some(Paged {
            families,
            level,
            pointer,
            code,
        })
    }

    /// Page of a bucket, and its first word there.
    #[inline]
    pub fn address(&self, bucket: BucketIndex) -> (u32, u16) {
        let (page, within) = self.page_and_offset(bucket);
        (page, within as u16 * self.code.words_per_bucket())
    }

    /// The bucket of a page that begins with a word.
    #[inline]
    pub fn bucket_at(&self, page: u32, word: u16) -> BucketIndex {
        self.bucket(page, u32::from(word / self.code.words_per_bucket()))
    }

    /// Buckets of a page.
    #[inline]
    pub fn buckets_per_page(&self) -> u16 {
        PAGE_WORDS / self.code.words_per_bucket()
    }

    /// Slots of a page.
    #[inline]
    pub fn slots_per_page(&self) -> u64 {
        slots_per_page(self.code.width())
    }

    /// How slots are divided.
    #[inline]
    pub fn code(&self) -> SlotCode {
        self.code
    }

    /// Pages before the first split.
    #[inline]
    pub fn families(&self) -> u32 {
        self.families
    }

    /// Doublings that are complete.
    #[inline]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Pages of the level that were split.
    #[inline]
    pub fn pointer(&self) -> u32 {
        self.pointer
    }

    /// Pages when the level began.
    #[inline]
    pub fn pages_of_level(&self) -> u32 {
        self.families << self.level
    }

    /// Pages.
    #[inline]
    pub fn pages(&self) -> u32 {
        self.pages_of_level() + self.pointer
    }

    /// Slots of all pages.
    #[inline]
    pub fn slots(&self) -> u64 {
        u64::from(self.pages()) * self.slots_per_page()
    }

    /// Whether all pages are of level 0.
    #[inline]
    pub fn is_never_split(&self) -> bool {
        self.level == 0 && self.pointer == 0
    }

    /// Level of a page.
    #[inline]
    pub fn level_of(&self, page: u32) -> u32 {
        let was_split = page < self.pointer || page >= self.pages_of_level();
        u32::from(self.level) + u32::from(was_split)
    }

    /// Doublings that there may be.
    pub fn max_level(&self) -> u8 {
        max_level(self.code) as u8
    }

    /// How many times its first pages a filter may have, as far as slots record
    /// it and pages can be numbered.
    pub fn max_growth(&self) -> u32 {
        let numbered = u32::MAX / self.families;
        let recorded = 1u32.checked_shl(max_level(self.code));
        recorded.map_or(numbered, |it| it.min(numbered))
    }

    /// What the next split makes of the page at the pointer.
    #[inline]
    pub fn next_pair(&self) -> Pair {
        Pair {
            page: self.pointer,
            sibling: self.pages(),
            level: self.level,
        }
    }

    /// The geometry after the next split. `None` if the slots record no more,
    /// or if pages could not be numbered.
    pub fn split(self) -> Option<Paged> {
        if self.level >= self.max_level() || self.pages() == u32::MAX {
            return None;
        }
        let pointer = self.pointer + 1;
        Some(match pointer == self.pages_of_level() {
            true => Paged {
                level: self.level + 1,
                pointer: 0,
                ..self
            },
            false => Paged { pointer, ..self },
        })
    }

    /// The geometry before the last split. `None` if there was none.
    pub fn merged(self) -> Option<Paged> {
        if self.pointer > 0 {
            let pointer = self.pointer - 1;
            return Some(Paged { pointer, ..self });
        }
        let level = self.level.checked_sub(1)?;
        Some(Paged {
            level,
            pointer: (self.families << level) - 1,
            ..self
        })
    }

    /// Page of an item, and the page's level. Without a jump: while a level is
    /// half split, nothing foresees which way it would go. Nor with checks of
    /// what can't overflow: `grown` saw to it that pages have numbers.
    #[inline(always)]
    pub(super) fn page_of(&self, family: u32, path: u64) -> (u32, u32) {
        let level = u32::from(self.level);
        let of_level = 1u32.wrapping_shl(level);
        let descendant = path as u32 & of_level.wrapping_sub(1);
        let page = family.wrapping_add(self.families.wrapping_mul(descendant));
        let was_split = u32::from(page < self.pointer);
        let sibling = was_split & path.wrapping_shr(level) as u32 & 1;
        let behind = sibling.wrapping_neg() & self.families.wrapping_mul(of_level);
        (page.wrapping_add(behind), level.wrapping_add(was_split))
    }

    #[inline]
    pub(super) fn page_and_offset(&self, bucket: BucketIndex) -> (u32, u32) {
        let page = bucket.0 >> self.page_shift();
        (page as u32, (bucket.0 & self.bucket_mask()) as u32)
    }

    #[inline]
    pub(super) fn bucket(&self, page: u32, within: u32) -> BucketIndex {
        BucketIndex(u64::from(page) << self.page_shift() | u64::from(within))
    }

    #[inline]
    fn page_shift(&self) -> u32 {
        match self.code.width() {
            SlotWidth::Bits32 => 8,
            _ => 9,
        }
    }

    #[inline]
    pub(super) fn bucket_mask(&self) -> u64 {
        (1 << self.page_shift()) - 1
    }
}

/// Slots of a page.
#[inline]
pub(super) const fn slots_per_page(width: SlotWidth) -> u64 {
    PAGE_WORDS as u64 * width.slots_per_word() as u64
}

/// Doublings that there may be with slots of this code.
fn max_level(code: SlotCode) -> u32 {
    code.suffix_bits() + COPYING_LEVELS
}
