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
use std::sync::Arc;

/// Counters that a page may have. A class that comes when there are so many
/// takes slots like any other.
pub const MAX_COUNTERS: usize = 4096;

/// Counters of a run, at most; two neighbours that have as few as the other number
/// are put together.
const MAX_RUN: usize = 256;
const FEW: usize = MAX_RUN / 4;

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
///
/// They lie in runs that copies share, so that a page with thousands of them which
/// gets another costs a few hundred entries, not all.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Neither is empty.
    runs: Vec<Run>,
    len: usize,
}

type Entry = (CounterKey, u64);

#[derive(Clone, Debug)]
struct Run {
    first: CounterKey,
    entries: Arc<Vec<Entry>>,
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
        self.len
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of the run that has a class, if any has.
    fn run_of(&self, key: CounterKey) -> usize {
        let behind = self.runs.partition_point(|run| run.first <= key);
        behind.saturating_sub(1)
    }

    /// Copies of a class beyond its slots.
    pub fn get(&self, key: CounterKey) -> u64 {
        let run = self.runs.get(self.run_of(key));
        let entry = run.and_then(|run| run.entries.get(run.find(key).ok()?));
        entry.map_or(0, |&(_, copies)| copies)
    }

    /// Sets the copies of a class; 0 forgets it.
    pub fn set(&mut self, key: CounterKey, copies: u64) {
        let number = self.run_of(key);
        let Some(run) = self.runs.get_mut(number) else {
            return self.put_behind([(key, copies)].into_iter().filter(|_| copies > 0).collect());
        };
        let found = run.find(key);
        if found.is_err() && copies == 0 {
            return;
        }
        let entries = Arc::make_mut(&mut run.entries);
        match found {
            Ok(at) if copies == 0 => {
                entries.remove(at);
                self.len -= 1;
            }
            Ok(at) => {
                if let Some(entry) = entries.get_mut(at) {
                    entry.1 = copies;
                }
            }
            Err(at) => {
                entries.insert(at, (key, copies));
                self.len += 1;
            }
        }
        let upper = (entries.len() > MAX_RUN).then(|| entries.split_off(MAX_RUN / 2));
        match entries.first() {
            Some(&(first, _)) => run.first = first,
            None => drop(self.runs.remove(number)),
        }
        if let Some(upper) = upper.and_then(Run::of) {
            self.runs.insert(number + 1, upper);
        }
    }

    /// Counts more copies of a class.
    pub fn add(&mut self, key: CounterKey, more: u64) {
        self.set(key, self.get(key) + more);
    }

    /// Sets the copies of classes in the order of their keys; 0 forgets one. Costs
    /// as much as there are in the runs that change, each of which is gone over once.
    pub fn set_all(&mut self, changed: impl Iterator<Item = (CounterKey, u64)>) {
        let mut changed = changed.peekable();
        let mut before = std::mem::take(self).runs.into_iter().peekable();
        let mut run = before.next();
        while run.is_some() || changed.peek().is_some() {
            let until = before.peek().map(|next| next.first);
            let is_here = |entry: &Entry| until.is_none_or(|until| entry.0 < until);
            match run {
                Some(run) if !changed.peek().is_some_and(is_here) => self.put_run_behind(run),
                run => {
                    let held = run.map(|run| run.entries).unwrap_or_default();
                    let mut held = held.iter().copied().peekable();
                    let mut entries = Vec::with_capacity(held.len() + 1);
                    while let Some((key, copies)) = changed.next_if(is_here) {
                        while let Some(entry) = held.next_if(|it| it.0 < key) {
                            entries.push(entry);
                        }
                        held.next_if(|it| it.0 == key);
                        if copies > 0 {
                            entries.push((key, copies));
                        }
                    }
                    entries.extend(held);
                    self.put_behind(entries);
                }
            }
            run = before.next();
        }
    }

    /// Appends entries, in as many runs as they need.
    fn put_behind(&mut self, entries: Vec<Entry>) {
        if entries.len() <= MAX_RUN {
            return Run::of(entries)
                .into_iter()
                .for_each(|run| self.put_run_behind(run));
        }
        let runs = entries.len().div_ceil(MAX_RUN);
        let runs = entries.chunks(entries.len().div_ceil(runs));
        for run in runs.filter_map(|run| Run::of(run.to_vec())) {
            self.put_run_behind(run);
        }
    }

    fn put_run_behind(&mut self, run: Run) {
        self.len += run.entries.len();
        match self.runs.last_mut() {
            Some(last) if last.entries.len() + run.entries.len() <= FEW => {
                Arc::make_mut(&mut last.entries).extend_from_slice(&run.entries);
            }
            _ => self.runs.push(run),
        }
    }

    /// All of them, by ascending key.
    pub fn iter(&self) -> impl Iterator<Item = (CounterKey, u64)> + '_ {
        self.runs.iter().flat_map(|run| run.entries.iter().copied())
    }

    /// Gives back memory that they do not need, but for what copies share.
    pub fn shrink(&mut self) {
        self.runs.shrink_to_fit();
        for run in &mut self.runs {
            if let Some(entries) = Arc::get_mut(&mut run.entries) {
                entries.shrink_to_fit();
            }
        }
    }

    /// Bytes that they take in memory.
    pub fn bytes(&self) -> usize {
        let of_runs = self.runs.iter().map(Run::bytes).sum::<usize>();
        match self.runs.capacity() {
            0 => 0,
            runs => size_of::<Counters>() + runs * size_of::<Run>() + of_runs,
        }
    }

    /// Appends them as they are stored: each as the first slot of the bucket
    /// (2 bytes), the fingerprint (4 bytes) and the copies (8 bytes).
    pub fn encode(&self, out: &mut Vec<u8>) {
        for (key, copies) in self.iter() {
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
        let mut counters: Vec<Entry> = Vec::with_capacity(entries.len());
        for &[s0, s1, f0, f1, f2, f3, copies @ ..] in entries {
            let first_slot = u16::from_le_bytes([s0, s1]);
            let fingerprint = u32::from_le_bytes([f0, f1, f2, f3]);
            let copies = u64::from_le_bytes(copies);
            let key = CounterKey(u64::from(first_slot) << 32 | u64::from(fingerprint));
            let ascends = counters.last().is_none_or(|&(last, _)| last < key);
            if fingerprint == 0 || copies == 0 || !ascends {
                return Err(CountersError("an entry makes no sense"));
            }
            counters.push((key, copies));
        }
        let mut decoded = Counters::default();
        decoded.put_behind(counters);
        Ok(decoded)
    }
}

/// Where runs end makes no difference.
impl PartialEq for Counters {
    fn eq(&self, other: &Counters) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl Eq for Counters {}

impl Run {
    /// A run of entries, if there are any.
    fn of(entries: Vec<Entry>) -> Option<Run> {
        let &(first, _) = entries.first()?;
        let entries = Arc::new(entries);
        Some(Run { first, entries })
    }

    fn find(&self, key: CounterKey) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&key, |&(key, _)| key)
    }

    /// Bytes beside the run itself, with the two numbers of the `Arc`.
    fn bytes(&self) -> usize {
        let head = size_of::<Vec<Entry>>() + 2 * size_of::<usize>();
        head + self.entries.capacity() * size_of::<Entry>()
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

    #[test]
    fn a_counter_more_copies_few_of_thousands() {
        let mut counters = Counters::default();
        for key in 1..=4_000 {
            counters.set(CounterKey(2 * key), 1);
        }
        for change in [(1, 1), (4_001, 1), (4_000, 7), (4_000, 0), (8_001, 1)] {
            let mut changed = counters.clone();
            let change = [(CounterKey(change.0), change.1)];
            changed.set_all(change.into_iter());
            let is_shared = |run: &&Run| Arc::strong_count(&run.entries) > 1;
            let own = changed.runs.iter().filter(|run| !is_shared(run));
            let copied: usize = own.map(|run| run.entries.len()).sum();
            assert!(
                (1..=MAX_RUN).contains(&copied),
                "{change:?}: {copied} copied"
            );
            assert_eq!(changed.get(change[0].0), change[0].1);
        }
    }

    #[test]
    fn runs_are_neither_too_long_nor_too_many() {
        let mut counters = Counters::default();
        for key in 0..4_000 {
            counters.set(CounterKey(key * 1_001 % 4_000), 1);
        }
        let lengths = counters.runs.iter().map(|run| run.entries.len());
        assert!(lengths.max().unwrap() <= MAX_RUN);
        // Of each hundred one is left.
        let gone = (0..4_000).filter(|key| key % 100 > 0);
        counters.set_all(gone.map(|key| (CounterKey(key), 0)));
        assert_eq!((counters.len(), counters.runs.len()), (40, 1));
    }

    proptest! {
        #[test]
        fn counters_agree_with_a_map_and_read_back_as_written(
            steps in proptest::collection::vec((0u64..2_400, 0u64..4), 0..2_000),
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
            before in proptest::collection::btree_map(1u64..4_000, 1u64..4, 0..2_000),
            changed in proptest::collection::btree_map(1u64..4_000, 0u64..4, 0..2_000),
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
