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
