//! Hashes of items. They decide where fingerprints lie on disk, so each is
//! pinned by golden values and never changes; a new one gets a new
//! [`HashId`].

/// Which hash a filter uses; stored in its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashId {
    /// [`murmur64a`] with seed 0, as RedisBloom and Apache Kvrocks use it.
    Murmur64A,
}

impl HashId {
    /// Hashes an item.
    #[inline]
    pub fn hash(self, item: &[u8]) -> ItemHash {
        match self {
            HashId::Murmur64A => ItemHash(murmur64a(item, 0)),
        }
    }
}

/// All that the filter ever knows of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemHash(pub u64);

/// MurmurHash64A by Austin Appleby (public domain): 64 bits, input taken as
/// little-endian words. Not keyed: whoever knows it can craft collisions.
pub fn murmur64a(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;

    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, tail) = bytes.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        k = k.wrapping_mul(M);
        hash = (hash ^ k).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let last = tail
            .iter()
            .rev()
            .fold(0u64, |word, &byte| word << 8 | u64::from(byte));
        hash = (hash ^ last).wrapping_mul(M);
    }
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> R
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur64a_gives_its_golden_values() {
        // From RedisBloom 8.8's own hash function; the full set of vectors is
        // checked in tests/redisbloom.rs.
        assert_eq!(murmur64a(b"", 0), 0);
        assert_eq!(murmur64a(b"a", 0), 510_903_276_987_443_985);
        assert_eq!(murmur64a(b"ab", 0), 7_115_271_465_109_541_368);
    }

    #[test]
    fn every_length_of_tail_matters() {
        let bytes = [0x5au8; 24];
        let mut hashes: Vec<u64> = (0..=24).map(|n| murmur64a(&bytes[..n], 0)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 25);
    }
}
