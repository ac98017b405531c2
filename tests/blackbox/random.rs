//! Choices that a seed repeats.

use std::time::{SystemTime, UNIX_EPOCH};

/// A number from the environment.
pub(crate) fn from_environment(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {value}")),
    )
}

/// The seed of an earlier run, or a new one.
pub(crate) fn seed(name: &str) -> u64 {
    from_environment(name).unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos())
    })
}

/// SplitMix64 (Steele, Lea and Flood, 2014): enough to choose what to do next.
#[derive(Default)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is small.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
