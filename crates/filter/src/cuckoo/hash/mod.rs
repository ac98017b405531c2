//! Hashes of items. They decide where fingerprints lie on disk, so each is
//! pinned by golden values and never changes; a new one gets a new
//! [`HashId`].

#[cfg(target_arch = "x86_64")]
mod eight;
mod item_hash;
mod murmur;

pub use item_hash::{HashKey, ItemHash};
pub use murmur::murmur64a;

use siphasher::sip128::SipHasher13;

/// Which hash a filter uses; stored in its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashId {
    /// [`murmur64a`] with seed 0, as RedisBloom and Apache Kvrocks use it.
    Murmur64A,
    /// [`siphash13`] with the key of the filter.
    SipHash13(HashKey),
}

impl HashId {
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

/// SipHash-1-3 with 128 bits of output (Aumasson and Bernstein, "SipHash: a
/// fast short-input PRF", 2012): one round a word, three at the end. The
/// first word of the output is the lower half.
#[inline]
pub fn siphash13(item: &[u8], key: HashKey) -> u128 {
    HashId::SipHash13(key).hash(item).0
}

#[cfg(test)]
mod tests;
