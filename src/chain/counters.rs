//! Side counters: the copies of hot items, beside the page.
//!
//! A class (fingerprint and pair of buckets) that fills as many slots as it may
//! ([`Classic::class_limit`]) is
//! counted from then on, so that 10^6 copies of one item cost one number and
//! no growth. The counters of a page belong to the classes whose canonical
//! bucket lies on it. They are stored behind the page's slots; here is their
//! encoding, which `docs/format.md` tabulates.

use super::address::PageAddress;
use crate::cuckoo::candidates::Candidates;
use crate::cuckoo::classic::Classic;

/// Counters that a page may have. A class that comes when there are so many
/// takes slots like any other.
pub const MAX_COUNTERS: usize = 4096;

/// Names a class on its page: the first slot of its canonical bucket, and its
/// fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterKey(pub u64);

/// Where the copies of a class are counted, in the sub-filter at a position.
#[inline]
pub(super) fn address(
    layout: &Classic,
    position: usize,
    class: &Candidates,
) -> (PageAddress, CounterKey) {
    let canonical = layout.address(class.canonical());
    let key = u64::from(canonical.first_slot) << 32 | u64::from(class.fingerprint.0);
    (PageAddress::new(position, canonical.page), CounterKey(key))
}

/// The counters of one page, by ascending key; none of them is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    entries: Vec<(CounterKey, u64)>,
}

/// Bytes that are no counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its counters are corrupt: {0}")]
pub struct CountersError(&'static str);

impl Counters {
    /// Bytes of one stored counter.
    pub const ENTRY_BYTES: usize = 14;

    /// How many classes are counted.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Copies of a class beyond its slots.
    pub fn get(&self, key: CounterKey) -> u64 {
        self.entries
            .binary_search_by_key(&key, |&(key, _)| key)
            .ok()
            .and_then(|at| self.entries.get(at))
            .map_or(0, |&(_, copies)| copies)
    }

    /// Sets the copies of a class; 0 forgets it.
    pub fn set(&mut self, key: CounterKey, copies: u64) {
        match self.entries.binary_search_by_key(&key, |&(key, _)| key) {
            Ok(at) if copies == 0 => {
                self.entries.remove(at);
            }
            Ok(at) => {
                if let Some(entry) = self.entries.get_mut(at) {
                    entry.1 = copies;
                }
            }
            Err(_) if copies == 0 => {}
            Err(at) => self.entries.insert(at, (key, copies)),
        }
    }

    /// Counts more copies of a class.
    pub fn add(&mut self, key: CounterKey, more: u64) {
        self.set(key, self.get(key) + more);
    }

    /// Sets the copies of classes in the order of their keys; 0 forgets one. Costs
    /// as much as there are of both, not as many moves of all that come behind.
    pub fn set_all(&mut self, changed: impl ExactSizeIterator<Item = (CounterKey, u64)>) {
        let mut entries = Vec::with_capacity(self.entries.len() + changed.len());
        let mut before = self.entries.iter().copied().peekable();
        for (key, copies) in changed {
            while let Some(entry) = before.next_if(|&(at, _)| at < key) {
                entries.push(entry);
            }
            before.next_if(|&(at, _)| at == key);
            if copies > 0 {
                entries.push((key, copies));
            }
        }
        entries.extend(before);
        self.entries = entries;
    }

    /// All of them, by ascending key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (CounterKey, u64)> + '_ {
        self.entries.iter().copied()
    }

    /// Gives back memory that they do not need.
    pub fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    /// Bytes that they take in memory.
    pub fn bytes(&self) -> usize {
        match self.entries.capacity() {
            0 => 0,
            entries => entries * size_of::<(CounterKey, u64)>() + size_of::<Counters>(),
        }
    }

    /// Appends them as they are stored: each as the first slot of the bucket
    /// (2 bytes), the fingerprint (4 bytes) and the copies (8 bytes).
    pub fn encode(&self, out: &mut Vec<u8>) {
        for &(key, copies) in &self.entries {
            out.extend_from_slice(&((key.0 >> 32) as u16).to_le_bytes());
            out.extend_from_slice(&(key.0 as u32).to_le_bytes());
            out.extend_from_slice(&copies.to_le_bytes());
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// Bytes that it would not write, or more than a page may have.
    pub fn decode(bytes: &[u8]) -> Result<Counters, CountersError> {
        let (entries, rest) = bytes.as_chunks::<{ Counters::ENTRY_BYTES }>();
        if !rest.is_empty() {
            return Err(CountersError("they end early"));
        }
        if entries.len() > MAX_COUNTERS {
            return Err(CountersError("there are too many"));
        }
        let mut counters = Counters {
            entries: Vec::with_capacity(entries.len()),
        };
        for &[s0, s1, f0, f1, f2, f3, copies @ ..] in entries {
            let first_slot = u16::from_le_bytes([s0, s1]);
            let fingerprint = u32::from_le_bytes([f0, f1, f2, f3]);
            let copies = u64::from_le_bytes(copies);
            let key = CounterKey(u64::from(first_slot) << 32 | u64::from(fingerprint));
            let ascends = counters.entries.last().is_none_or(|&(last, _)| last < key);
            if fingerprint == 0 || copies == 0 || !ascends {
                return Err(CountersError("an entry makes no sense"));
            }
            counters.entries.push((key, copies));
        }
        Ok(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn encoded(counters: &Counters) -> Vec<u8> {
        let mut bytes = Vec::new();
        counters.encode(&mut bytes);
        bytes
    }

    #[test]
    fn the_encoding_is_pinned() {
        let mut counters = Counters::default();
        counters.set(CounterKey(0x0102 << 32 | 0x0304_0506), 1_000_000);
        assert_eq!(
            encoded(&counters),
            [2, 1, 6, 5, 4, 3, 0x40, 0x42, 0x0f, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn what_would_not_be_written_is_not_read() {
        let entry = |slot: u8, fingerprint: u8, copies: u8| {
            [slot, 0, fingerprint, 0, 0, 0, copies, 0, 0, 0, 0, 0, 0, 0]
        };
        let bad = [
            entry(0, 0, 1).to_vec(),
            entry(0, 1, 0).to_vec(),
            entry(0, 1, 1)[..13].to_vec(),
            [entry(0, 2, 1), entry(0, 1, 1)].concat(),
            [entry(0, 1, 1), entry(0, 1, 1)].concat(),
            vec![1; Counters::ENTRY_BYTES * (MAX_COUNTERS + 1)],
        ];
        for bytes in bad {
            assert!(Counters::decode(&bytes).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn counters_agree_with_a_map_and_read_back_as_written(
            steps in proptest::collection::vec((0u64..40, 0u64..4), 0..200),
        ) {
            let (mut counters, mut model) = (Counters::default(), BTreeMap::new());
            for (key, copies) in steps {
                let key = CounterKey((key / 8) << 32 | (key % 8 + 1));
                counters.set(key, copies);
                match copies {
                    0 => model.remove(&key),
                    _ => model.insert(key, copies),
                };
                prop_assert_eq!(counters.get(key), copies);
            }
            prop_assert!(counters.iter().eq(model.into_iter()));
            prop_assert_eq!(Counters::decode(&encoded(&counters)), Ok(counters));
        }

        #[test]
        fn setting_many_at_once_equals_setting_one_after_the_other(
            before in proptest::collection::btree_map(1u64..40, 1u64..4, 0..40),
            changed in proptest::collection::btree_map(1u64..40, 0u64..4, 0..40),
        ) {
            let mut one_by_one = Counters::default();
            for (key, copies) in before {
                one_by_one.set(CounterKey(key), copies);
            }
            let mut at_once = one_by_one.clone();
            at_once.set_all(changed.iter().map(|(&key, &copies)| (CounterKey(key), copies)));
            for (key, copies) in changed {
                one_by_one.set(CounterKey(key), copies);
            }
            prop_assert_eq!(at_once, one_by_one);
        }
    }
}
