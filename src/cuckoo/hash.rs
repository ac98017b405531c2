//! Hashes of items. They decide where fingerprints lie on disk, so each is
//! pinned by golden values and never changes; a new one gets a new
//! [`HashId`].

#[cfg(target_arch = "x86_64")]
mod eight;

use siphasher::sip128::SipHasher13;

/// Which hash a filter uses; stored in its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashId {
    /// [`murmur64a`] with seed 0, as RedisBloom and Apache Kvrocks use it.
    Murmur64A,
    /// [`siphash13`] with the key of the filter.
    SipHash13(HashKey),
}

/// What a keyed hash depends on beside the item: 128 secret bits of the
/// filter, drawn from the operating system when it is created. Whoever does
/// not know it can't craft items that meet in one bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey(pub [u8; 16]);

impl HashKey {
    /// The key as SipHash takes it.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn words(self) -> (u64, u64) {
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

impl HashId {
    /// Whether filters hash the same item differently.
    pub fn is_keyed(self) -> bool {
        match self {
            HashId::Murmur64A => false,
            HashId::SipHash13(_) => true,
        }
    }

    /// The hash, ready for many items.
    #[inline]
    pub fn hasher(self) -> ItemHasher {
        match self {
            HashId::Murmur64A => ItemHasher::Murmur64A,
            HashId::SipHash13(key) => ItemHasher::SipHash13(Keyed {
                key,
                hasher: SipHasher13::new_with_key(&key.0),
            }),
        }
    }

    /// Hashes an item.
    #[inline]
    pub fn hash(self, item: &[u8]) -> ItemHash {
        self.hasher().hash(item)
    }
}

/// A [`HashId`] whose key is worked in.
#[derive(Clone, Copy)]
pub enum ItemHasher {
    /// [`HashId::Murmur64A`].
    Murmur64A,
    /// [`HashId::SipHash13`].
    SipHash13(Keyed),
}

/// [`siphash13`] with its key.
#[derive(Clone, Copy)]
pub struct Keyed {
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "eight at once are hashed from the key itself")
    )]
    key: HashKey,
    hasher: SipHasher13,
}

impl ItemHasher {
    /// Hashes an item.
    #[inline]
    pub fn hash(&self, item: &[u8]) -> ItemHash {
        match self {
            ItemHasher::Murmur64A => ItemHash::from(murmur64a(item, 0)),
            ItemHasher::SipHash13(keyed) => ItemHash(keyed.hasher.hash(item).as_u128()),
        }
    }

    /// Hashes many items, in their order: several at once where the processor
    /// has registers for it (x86-64 with AVX2), which takes half as long.
    #[inline]
    pub fn hash_all<'a>(
        &self,
        mut items: impl Iterator<Item = &'a [u8]>,
        hashes: &mut Vec<ItemHash>,
    ) {
        #[cfg(target_arch = "x86_64")]
        if let ItemHasher::SipHash13(keyed) = self {
            let mut eight: [&[u8]; eight::EIGHT] = [&[]; eight::EIGHT];
            loop {
                let mut taken = 0;
                for (place, item) in eight.iter_mut().zip(&mut items) {
                    *place = item;
                    taken += 1;
                }
                let at_once = match taken == eight::EIGHT {
                    true => eight::hash_eight(keyed.key, eight),
                    false => None,
                };
                match at_once {
                    Some(at_once) => hashes.extend_from_slice(&at_once),
                    None => hashes.extend(eight.iter().take(taken).map(|item| self.hash(item))),
                }
                if taken < eight::EIGHT {
                    return;
                }
            }
        }
        hashes.extend(items.map(|item| self.hash(item)));
    }
}

/// All that the filter ever knows of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemHash(pub u128);

impl ItemHash {
    /// A hash of two words.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn of(low: u64, high: u64) -> ItemHash {
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

/// SipHash-1-3 with 128 bits of output (Aumasson and Bernstein, "SipHash: a
/// fast short-input PRF", 2012): one round a word, three at the end. The
/// first word of the output is the lower half.
#[inline]
pub fn siphash13(item: &[u8], key: HashKey) -> u128 {
    HashId::SipHash13(key).hash(item).0
}

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
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn murmur64a_gives_its_golden_values() {
        // From RedisBloom 8.8's own hash function; the full set of vectors is
        // checked in tests/redisbloom.rs.
        assert_eq!(murmur64a(b"", 0), 0);
        assert_eq!(murmur64a(b"a", 0), 510_903_276_987_443_985);
        assert_eq!(murmur64a(b"ab", 0), 7_115_271_465_109_541_368);
    }

    const GOLDEN: [(usize, u128); 8] = [
        (0, 0x013030dd6adb62fdbea58827b2bc7ee7),
        (1, 0x63f02f2bcc73055ea8edd36004376ffc),
        (7, 0x77ab4808c82e2fa6c3e0aaf223b98410),
        (8, 0x99c7f935ab164f72b4dae3d5e1fe12aa),
        (12, 0x658cea9f739506dca819489e85923fe5),
        (15, 0x09017e1eeccd21296c52bdb205557ec1),
        (16, 0x93179e3df8b013b5eb8e511557d9a8d0),
        (63, 0xad6052a70a6b9f076f42fe4ee300584c),
    ];

    #[test]
    fn siphash13_gives_its_golden_values() {
        // From an implementation in Python, written after the paper and checked
        // against the published vectors of SipHash-2-4 with 128 bits.
        let key = HashKey(std::array::from_fn(|n| n as u8));
        let bytes: Vec<u8> = (0..64).collect();
        for (length, expected) in GOLDEN {
            assert_eq!(siphash13(&bytes[..length], key), expected, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn many_items_hash_as_each_by_itself(
            key: [u8; 16],
            items in vec(vec(any::<u8>(), 0..200), 0..40),
            longest in 0usize..100_000,
        ) {
            let mut items = items;
            items.push(vec![7; longest]);
            let by = longest % items.len();
            items.rotate_right(by);
            for id in [HashId::Murmur64A, HashId::SipHash13(HashKey(key))] {
                let mut hashes = Vec::new();
                id.hasher().hash_all(items.iter().map(Vec::as_slice), &mut hashes);
                let expected: Vec<ItemHash> = items.iter().map(|item| id.hash(item)).collect();
                prop_assert_eq!(hashes, expected);
            }
        }
    }

    #[test]
    fn eight_items_of_one_length_hash_as_each_by_itself() {
        let key = HashKey([9; 16]);
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..200 {
            let items: Vec<&[u8]> = (0..8).map(|n| &bytes[n..n + length]).collect();
            let mut hashes = Vec::new();
            let hasher = HashId::SipHash13(key).hasher();
            hasher.hash_all(items.iter().copied(), &mut hashes);
            for (item, hash) in items.iter().zip(hashes) {
                assert_eq!(hash.0, siphash13(item, key), "{length} bytes");
            }
        }
    }

    #[test]
    fn every_bit_of_the_key_matters_and_none_is_shown() {
        let key = HashKey([7; 16]);
        let hash = siphash13(b"item", key);
        for bit in 0..128 {
            let mut other = key;
            other.0[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(siphash13(b"item", other), hash, "bit {bit}");
        }
        assert_eq!(format!("{key:?}"), "HashKey(..)");
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
