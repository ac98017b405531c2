//! An item's hash, and the key that some hashes depend on.

/// All that the filter ever knows of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemHash(pub u128);

impl ItemHash {
    /// A hash of two words.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn of(low: u64, high: u64) -> ItemHash {
        ItemHash(u128::from(high) << 64 | u128::from(low))
    }

    /// The lower 64 bits; all there are of a 64-bit hash.
    #[inline]
    pub fn low(self) -> u64 {
        self.0 as u64
    }

    /// The upper 64 bits.
    #[inline]
    pub fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

impl From<u64> for ItemHash {
    #[inline]
    fn from(hash: u64) -> ItemHash {
        ItemHash(u128::from(hash))
    }
}

/// What a keyed hash depends on beside the item: 128 secret bits of the
/// filter, drawn from the operating system when it is created. Without
/// it, items that meet in one bucket can't be crafted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey(pub [u8; 16]);

impl HashKey {
    /// The key as SipHash takes it.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn words(self) -> (u64, u64) {
        let key = u128::from_le_bytes(self.0);
        (key as u64, (key >> 64) as u64)
    }
}

/// Shows nothing of the key: debug output ends in logs.
impl std::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashKey(..)")
    }
}
