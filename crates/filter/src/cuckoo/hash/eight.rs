//! [`siphash13`](super::siphash13) of eight items at once.
//!
//! One item's hash is a chain of additions, rotations and exclusive ors, each
//! of which waits for the one before. A register of 256 bits takes the same
//! step of four items; two such registers hide half of the waiting.

#![expect(
    unsafe_code,
    reason = "the compiler can't know that the processor was asked whether it has these registers"
)]

use super::item_hash::{HashKey, ItemHash};
use std::arch::x86_64::{
    __m256i, _mm256_add_epi64, _mm256_blendv_epi8, _mm256_extract_epi64, _mm256_or_si256,
    _mm256_set_epi64x, _mm256_set1_epi64x, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_xor_si256,
};

/// Items that are hashed at once.
pub(super) const EIGHT: usize = 8;

/// The longest item, in words, that others are made to wait for: seven short
/// items beside a long one are better hashed by themselves.
const MOST_WORDS: usize = 16;

/// Hashes eight items, if they are short enough, on a processor with AVX2.
#[inline]
pub(super) fn hash_eight(key: HashKey, items: [&[u8]; EIGHT]) -> Option<[ItemHash; EIGHT]> {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return None;
    }
    // SAFETY: the processor has AVX2, and that is all that the function asks.
    unsafe { hash(key, items) }
}

/// Eight words, one an item.
type EightWords = [u64; EIGHT];

/// The same in registers.
#[derive(Clone, Copy)]
struct Lanes(__m256i, __m256i);

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn of(words: EightWords) -> Lanes {
        let [a, b, c, d, e, f, g, h] = words.map(|word| word as i64);
        Lanes(_mm256_set_epi64x(d, c, b, a), _mm256_set_epi64x(h, g, f, e))
    }

    /// The same word for each item.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn all(word: u64) -> Lanes {
        let four = _mm256_set1_epi64x(word as i64);
        Lanes(four, four)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn words(self) -> EightWords {
        let Lanes(low, high) = self;
        [
            _mm256_extract_epi64::<0>(low) as u64,
            _mm256_extract_epi64::<1>(low) as u64,
            _mm256_extract_epi64::<2>(low) as u64,
            _mm256_extract_epi64::<3>(low) as u64,
            _mm256_extract_epi64::<0>(high) as u64,
            _mm256_extract_epi64::<1>(high) as u64,
            _mm256_extract_epi64::<2>(high) as u64,
            _mm256_extract_epi64::<3>(high) as u64,
        ]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(self, other: Lanes) -> Lanes {
        Lanes(
            _mm256_add_epi64(self.0, other.0),
            _mm256_add_epi64(self.1, other.1),
        )
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn xor(self, other: Lanes) -> Lanes {
        Lanes(
            _mm256_xor_si256(self.0, other.0),
            _mm256_xor_si256(self.1, other.1),
        )
    }

    /// Rotates each word to the left by `LEFT` bits; `RIGHT` is 64 less these.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotate<const LEFT: i32, const RIGHT: i32>(self) -> Lanes {
        const { assert!(LEFT + RIGHT == 64) };
        Lanes(
            _mm256_or_si256(
                _mm256_slli_epi64::<LEFT>(self.0),
                _mm256_srli_epi64::<RIGHT>(self.0),
            ),
            _mm256_or_si256(
                _mm256_slli_epi64::<LEFT>(self.1),
                _mm256_srli_epi64::<RIGHT>(self.1),
            ),
        )
    }

    /// Its words where `mine` has ones, else those of the other.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn or_else(self, other: Lanes, mine: Lanes) -> Lanes {
        Lanes(
            _mm256_blendv_epi8(other.0, self.0, mine.0),
            _mm256_blendv_epi8(other.1, self.1, mine.1),
        )
    }
}

/// The four words of the hash's state, of each item.
#[derive(Clone, Copy)]
struct State([Lanes; 4]);

impl State {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(key: HashKey) -> State {
        let (k0, k1) = key.words();
        // "somepseudorandomlygeneratedbytes"; 0xee asks for 128 bits.
        State([
            Lanes::all(k0 ^ 0x736f_6d65_7073_6575),
            Lanes::all(k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee),
            Lanes::all(k0 ^ 0x6c79_6765_6e65_7261),
            Lanes::all(k1 ^ 0x7465_6462_7974_6573),
        ])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn round(self) -> State {
        let State([v0, v1, v2, v3]) = self;
        let (v0, v2) = (v0.add(v1), v2.add(v3));
        let (v1, v3) = (v1.rotate::<13, 51>().xor(v0), v3.rotate::<16, 48>().xor(v2));
        let v0 = v0.rotate::<32, 32>();
        let (v2, v0) = (v2.add(v1), v0.add(v3));
        let (v1, v3) = (v1.rotate::<17, 47>().xor(v2), v3.rotate::<21, 43>().xor(v0));
        let v2 = v2.rotate::<32, 32>();
        State([v0, v1, v2, v3])
    }

    /// Takes in one word of each item.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn absorb(self, words: Lanes) -> State {
        let State([v0, v1, v2, v3]) = self;
        let State([v0, v1, v2, v3]) = State([v0, v1, v2, v3.xor(words)]).round();
        State([v0.xor(words), v1, v2, v3])
    }

    /// Its items where `mine` has ones, else those of the other.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn or_else(self, other: State, mine: Lanes) -> State {
        let State([v0, v1, v2, v3]) = self;
        let State([o0, o1, o2, o3]) = other;
        State([
            v0.or_else(o0, mine),
            v1.or_else(o1, mine),
            v2.or_else(o2, mine),
            v3.or_else(o3, mine),
        ])
    }

    /// Three rounds, and what comes of them.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn finish(self) -> (State, EightWords) {
        let state = self.round().round().round();
        let State([v0, v1, v2, v3]) = state;
        (state, v0.xor(v1).xor(v2.xor(v3)).words())
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn hash(key: HashKey, items: [&[u8]; EIGHT]) -> Option<[ItemHash; EIGHT]> {
    // No closure takes these apart: it would be a call that leaves the
    // registers.
    let [a, b, c, d, e, f, g, h] = items;
    let (least, most) = least_and_most(items.map(full_words));
    if most > MOST_WORDS {
        return None;
    }
    let mut state = State::new(key);
    for at in 0..=most {
        let words = Lanes::of([
            word(a, at),
            word(b, at),
            word(c, at),
            word(d, at),
            word(e, at),
            word(f, at),
            word(g, at),
            word(h, at),
        ]);
        let absorbed = state.absorb(words);
        state = match at <= least {
            true => absorbed,
            // Items that have ended stay as they are.
            false => absorbed.or_else(
                state,
                Lanes::of(items.map(|item| match at <= full_words(item) {
                    true => u64::MAX,
                    false => 0,
                })),
            ),
        };
    }
    let State([v0, v1, v2, v3]) = state;
    let (state, low) = State([v0, v1, v2.xor(Lanes::all(0xee)), v3]).finish();
    let State([v0, v1, v2, v3]) = state;
    let (_, high) = State([v0, v1.xor(Lanes::all(0xdd)), v2, v3]).finish();
    let [l0, l1, l2, l3, l4, l5, l6, l7] = low;
    let [h0, h1, h2, h3, h4, h5, h6, h7] = high;
    Some([
        ItemHash::of(l0, h0),
        ItemHash::of(l1, h1),
        ItemHash::of(l2, h2),
        ItemHash::of(l3, h3),
        ItemHash::of(l4, h4),
        ItemHash::of(l5, h5),
        ItemHash::of(l6, h6),
        ItemHash::of(l7, h7),
    ])
}

/// Words of eight bytes before the last word, which has the rest and the
/// length.
#[inline(always)]
fn full_words(item: &[u8]) -> usize {
    item.len() / 8
}

#[inline(always)]
fn least_and_most(words: [usize; EIGHT]) -> (usize, usize) {
    let [a, b, c, d, e, f, g, h] = words;
    (
        (a.min(b).min(c.min(d))).min(e.min(f).min(g.min(h))),
        (a.max(b).max(c.max(d))).max(e.max(f).max(g.max(h))),
    )
}

/// The word at a position; beyond the last one whatever comes.
#[inline(always)]
fn word(item: &[u8], at: usize) -> u64 {
    let rest = item.get(at * 8..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => last_word(item),
    }
}

/// The bytes behind the full words, and the length modulo 256 above them.
#[inline(always)]
fn last_word(item: &[u8]) -> u64 {
    let rest = 8 * (item.len() % 8) as u32;
    let bytes = match item.last_chunk::<8>() {
        // Its upper bytes are the rest; by 64 bits it can't be shifted.
        Some(chunk) => u64::from_le_bytes(*chunk) >> 8 >> (56 - rest),
        None => match (item.first_chunk::<4>(), item.last_chunk::<4>()) {
            // Where the two overlap they say the same.
            (Some(low), Some(high)) => {
                u64::from(u32::from_le_bytes(*low))
                    | u64::from(u32::from_le_bytes(*high)) << (rest - 32)
            }
            _ => item
                .iter()
                .rev()
                .fold(0, |word, &byte| word << 8 | u64::from(byte)),
        },
    };
    (item.len() as u64) << 56 | bytes
}
