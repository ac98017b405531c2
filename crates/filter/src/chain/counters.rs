//! Side counters: what a page knows of its classes beyond its slots.
//!
//! In the layout `classic`, a class (fingerprint and pair of buckets) that fills
//! as many slots as it may ([`Classic::class_limit`]) is counted from then on, so
//! that 10^6 copies of one item cost one number and no growth. In the layout
//! `paged` a class has one slot as a rule, and all further entries are counted,
//! each value that an item has beside the first of them. The counters of a page
//! belong to the classes whose canonical bucket lies on it; they are in order, so
//! what is counted of one class is one range. They are stored behind the page's
//! slots; here is their encoding, which `docs/format.md` tabulates.

use super::address::PageAddress;
use crate::cuckoo::candidates::Candidates;
use crate::cuckoo::classic::Classic;
use crate::cuckoo::layout::Layout;
use crate::cuckoo::paged::Paged;
use crate::varint;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Counters that a page without values may have. A class that comes when there
/// are so many takes slots like any other.
pub const MAX_COUNTERS: usize = 4096;

/// The same of a page with values.
pub const MAX_VALUE_COUNTERS: usize = 16_384;

/// Counters that a page of the layout `paged` may have.
pub(super) fn most_counters(layout: &Paged) -> usize {
    match layout.code().value_bits() {
        0 => MAX_COUNTERS,
        _ => MAX_VALUE_COUNTERS,
    }
}

/// Counters of a run, at most; two neighbours that have as few as the other number
/// are put together.
const MAX_RUN: usize = 256;
const FEW: usize = MAX_RUN / 4;

/// Names a counter on its page: 2^32 times the canonical bucket's place, which
/// is below 2^12, and what a slot holds, which is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterKey(pub u64);

/// Keys of counters, from the first to the last.
pub type CounterKeys = RangeInclusive<CounterKey>;

impl CounterKey {
    /// Of a page whose items expire: one more than the epoch in which it was written
    /// to last. Slots with values hold a fingerprint, which is not 0, above the value,
    /// so none of their classes has this key. **Slots without values hold the
    /// fingerprint alone**, and to them it is the key of a class like any other; see
    /// [`is_stamp`](Self::is_stamp).
    pub const STAMP: CounterKey = CounterKey(1);

    /// All keys.
    pub const ALL: CounterKeys = CounterKey(0)..=CounterKey(u64::MAX);

    /// Whether what lies under this key counts no copies on a page of that layout.
    pub fn is_stamp(self, layout: &Layout) -> bool {
        self == CounterKey::STAMP && layout.value_bits() > 0
    }
}

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
    /// None of them is empty.
    runs: Vec<Run>,
    len: usize,
    /// The copies of those that have no room for them, by ascending key.
    many: Vec<(CounterKey, u64)>,
}

/// Some of them, each as its key and, lowest, its copies as far as they have room.
#[derive(Clone, Debug)]
struct Run {
    first: CounterKey,
    packed: Arc<Vec<u64>>,
}

/// Bits of the copies that lie beside their key.
const COPIES_BITS: u32 = 20;

/// What lies there of copies that have no room.
const MANY: u64 = (1 << COPIES_BITS) - 1;

#[inline]
fn pack(key: CounterKey, copies: u64) -> u64 {
    key.0 << COPIES_BITS | copies.min(MANY)
}

#[inline]
fn key_of(packed: u64) -> CounterKey {
    CounterKey(packed >> COPIES_BITS)
}

/// Bytes that are no counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its counters are corrupt: {0}")]
pub struct CountersError(&'static str);

impl Counters {
    /// Most bytes that one takes where it is stored.
    pub const MAX_ENTRY_BYTES: usize = 17;

    /// Bytes of memory that so many beside so many pages take at most, which count so
    /// many copies, unless most of them were taken away again.
    pub fn most_bytes(pages: u64, counters: u64, copies: u64) -> u64 {
        let many = counters.min(copies / MANY);
        (512 * pages)
            .saturating_add(counters.saturating_mul(16))
            .saturating_add(many.saturating_mul(32))
    }

    /// Those given, in any order; the copies of equal keys are added up.
    pub fn collect(mut counted: Vec<(CounterKey, u64)>) -> Counters {
        counted.sort_unstable_by_key(|&(key, _)| key);
        counted.dedup_by(|one, before| {
            let is_same = one.0 == before.0;
            if is_same {
                before.1 += one.1;
            }
            is_same
        });
        let mut counters = Counters::default();
        counters.set_all(counted.into_iter());
        counters
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of the run that has a key, if any has.
    fn run_of(&self, key: CounterKey) -> usize {
        let behind = self.runs.partition_point(|run| run.first <= key);
        behind.saturating_sub(1)
    }

    fn unpacked(&self, packed: u64) -> (CounterKey, u64) {
        let (key, copies) = (key_of(packed), packed & MANY);
        let many = || self.many.binary_search_by_key(&key, |&(key, _)| key);
        let copies = match copies {
            MANY => many().ok().and_then(|at| self.many.get(at)).map(|it| it.1),
            few => Some(few),
        };
        (key, copies.unwrap_or(MANY))
    }

    /// Copies that are counted under a key.
    #[inline]
    pub fn get(&self, key: CounterKey) -> u64 {
        let run = self.runs.get(self.run_of(key));
        let found = run.and_then(|run| run.packed.get(run.find(key).ok()?));
        found.map_or(0, |&packed| self.unpacked(packed).1)
    }

    /// Sets the copies that are counted under a key; 0 forgets it.
    pub fn set(&mut self, key: CounterKey, copies: u64) {
        self.set_many(key, copies);
        let number = self.run_of(key);
        let Some(run) = self.runs.get_mut(number) else {
            let first = (copies > 0).then(|| pack(key, copies));
            return self.put_behind(first.into_iter().collect());
        };
        let found = run.find(key);
        if found.is_err() && copies == 0 {
            return;
        }
        let entries = Arc::make_mut(&mut run.packed);
        match found {
            Ok(at) if copies == 0 => {
                entries.remove(at);
                self.len -= 1;
            }
            Ok(at) => {
                if let Some(entry) = entries.get_mut(at) {
                    *entry = pack(key, copies);
                }
            }
            Err(at) => {
                // By quarters: there are many runs.
                if entries.len() == entries.capacity() {
                    entries.reserve_exact(entries.len() / 4 + 4);
                }
                entries.insert(at, pack(key, copies));
                self.len += 1;
            }
        }
        let upper = (entries.len() > MAX_RUN).then(|| entries.split_off(MAX_RUN / 2));
        if entries.capacity() > entries.len() * 3 / 2 + 16 {
            entries.shrink_to_fit();
        }
        match entries.first() {
            Some(&first) => run.first = key_of(first),
            None => drop(self.runs.remove(number)),
        }
        if let Some(upper) = upper.and_then(Run::of) {
            self.runs.insert(number + 1, upper);
        }
    }

    /// Keeps copies that have no room beside their key.
    fn set_many(&mut self, key: CounterKey, copies: u64) {
        let found = self.many.binary_search_by_key(&key, |&(key, _)| key);
        match (found, copies < MANY) {
            (Ok(at), true) => {
                self.many.remove(at);
            }
            (Ok(at), false) => {
                if let Some(entry) = self.many.get_mut(at) {
                    entry.1 = copies;
                }
            }
            (Err(_), true) => {}
            (Err(at), false) => self.many.insert(at, (key, copies)),
        }
    }

    /// Counts more copies under a key.
    pub fn add(&mut self, key: CounterKey, more: u64) {
        self.set(key, self.get(key) + more);
    }

    /// Sets the copies of classes in the order of their keys; 0 forgets one. Costs
    /// as much as there are in the runs that change, each of which is gone over once.
    pub fn set_all(&mut self, changed: impl Iterator<Item = (CounterKey, u64)>) {
        let mut changed = changed.peekable();
        let mut before = std::mem::take(&mut self.runs).into_iter().peekable();
        self.len = 0;
        let mut run = before.next();
        while run.is_some() || changed.peek().is_some() {
            let until = before.peek().map(|next| next.first);
            let is_here = |it: &(CounterKey, u64)| until.is_none_or(|until| it.0 < until);
            match run {
                Some(run) if !changed.peek().is_some_and(is_here) => self.put_run_behind(run),
                run => {
                    let held = run.map(|run| run.packed).unwrap_or_default();
                    let mut held = held.iter().copied().peekable();
                    let mut entries = Vec::with_capacity(held.len() + 1);
                    while let Some((key, copies)) = changed.next_if(is_here) {
                        while let Some(entry) = held.next_if(|&it| key_of(it) < key) {
                            entries.push(entry);
                        }
                        held.next_if(|&it| key_of(it) == key);
                        self.set_many(key, copies);
                        if copies > 0 {
                            entries.push(pack(key, copies));
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
    fn put_behind(&mut self, entries: Vec<u64>) {
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
        self.len += run.packed.len();
        match self.runs.last_mut() {
            Some(last) if last.packed.len() + run.packed.len() <= FEW => {
                Arc::make_mut(&mut last.packed).extend_from_slice(&run.packed);
            }
            _ => self.runs.push(run),
        }
    }

    /// All of them, by ascending key.
    pub fn iter(&self) -> impl Iterator<Item = (CounterKey, u64)> + '_ {
        let packed = self.runs.iter().flat_map(|run| run.packed.iter());
        packed.map(|&packed| self.unpacked(packed))
    }

    /// Those whose keys are in a range, by ascending key.
    pub fn range(&self, keys: CounterKeys) -> impl Iterator<Item = (CounterKey, u64)> + '_ {
        let (start, end) = keys.into_inner();
        let runs = self.runs.get(self.run_of(start)..).unwrap_or_default();
        let from = runs.first().map_or(0, |run| match run.find(start) {
            Ok(at) | Err(at) => at,
        });
        let packed = runs.iter().flat_map(|run| run.packed.iter()).skip(from);
        packed
            .map(|&packed| self.unpacked(packed))
            .take_while(move |&(key, _)| key <= end)
    }

    /// Those whose keys are in a range.
    pub fn within(&self, keys: CounterKeys) -> Counters {
        if keys == CounterKey::ALL {
            return self.clone();
        }
        let mut within = Counters::default();
        within.set_all(self.range(keys));
        within
    }

    /// Gives back memory that they do not need, but for what copies share.
    pub fn shrink(&mut self) {
        self.runs.shrink_to_fit();
        self.many.shrink_to_fit();
        for run in &mut self.runs {
            if let Some(packed) = Arc::get_mut(&mut run.packed) {
                packed.shrink_to_fit();
            }
        }
    }

    /// Bytes that they take in memory.
    pub fn bytes(&self) -> usize {
        let of_runs = self.runs.iter().map(Run::bytes).sum::<usize>();
        let many = self.many.capacity() * size_of::<(CounterKey, u64)>();
        match self.runs.capacity() {
            0 => 0,
            runs => size_of::<Counters>() + runs * size_of::<Run>() + of_runs + many,
        }
    }

    /// Appends them as they are stored. Of each a number: twice its key less
    /// that of the one before, and 1 more if it has more than one copy; then
    /// these copies follow. So a further value of a class takes a byte or two.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut before = 0;
        for (key, copies) in self.iter() {
            varint::put(out, (key.0 - before) << 1 | u64::from(copies > 1));
            if copies > 1 {
                varint::put(out, copies);
            }
            before = key.0;
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// Bytes that it would not write, or more than a page may have.
    pub fn decode(mut bytes: &[u8]) -> Result<Counters, CountersError> {
        let mut counters = Vec::new();
        let mut before = 0u64;
        let early = CountersError("they end early");
        while !bytes.is_empty() {
            if counters.len() == MAX_VALUE_COUNTERS {
                return Err(CountersError("there are too many"));
            }
            let head = varint::take(&mut bytes).ok_or(early)?;
            let copies = match head & 1 {
                0 => 1,
                _ => varint::take(&mut bytes).ok_or(early)?,
            };
            let step = head >> 1;
            let key = before + step;
            let is_sound = key >> (u64::BITS - COPIES_BITS) == 0
                && key as u32 != 0
                && step > 0
                && (head & 1 == 0 || copies > 1);
            if !is_sound {
                return Err(CountersError("an entry makes no sense"));
            }
            counters.push((CounterKey(key), copies));
            before = key;
        }
        let mut decoded = Counters::default();
        decoded.set_all(counters.into_iter());
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
    fn of(packed: Vec<u64>) -> Option<Run> {
        let first = key_of(*packed.first()?);
        let packed = Arc::new(packed);
        Some(Run { first, packed })
    }

    fn find(&self, key: CounterKey) -> Result<usize, usize> {
        self.packed.binary_search_by_key(&key, |&it| key_of(it))
    }

    /// Bytes beside the run itself, with the two numbers of the `Arc`.
    fn bytes(&self) -> usize {
        let head = size_of::<Vec<u64>>() + 2 * size_of::<usize>();
        head + self.packed.capacity() * size_of::<u64>()
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
        let first = 0x0102 << 32 | 0x0304_0506;
        let mut counters = Counters::default();
        counters.set(CounterKey(first), 1_000_000);
        counters.set(CounterKey(first + 3), 1);
        counters.set(CounterKey(first + 70), 2);
        let expected = [
            0x8d, 0x94, 0xa0, 0xb0, 0xc0, 0x40, // twice the key, and 1
            0xc0, 0x84, 0x3d, // copies
            6,    // three more, once
            0x87, 0x01, 2, // 67 more, twice
        ];
        assert_eq!(encoded(&counters), expected);
    }

    #[test]
    fn what_would_not_be_written_is_not_read() {
        let bad: [&[u8]; 9] = [
            &[0],                                        // no step
            &[1, 2],                                     // the same, with copies
            &[3, 0],                                     // no copies
            &[3, 1],                                     // one copy, told
            &[3],                                        // copies that are missing
            &[0x80],                                     // ends within a number
            &[2, 0],                                     // the same key again
            &[0x80, 0x80, 0x80, 0x80, 0x20],             // a slot that is empty
            &[0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40], // beyond all places
        ];
        for bytes in bad {
            assert!(Counters::decode(bytes).is_err(), "{bytes:?}");
        }
        let most = vec![2; MAX_VALUE_COUNTERS];
        assert_eq!(
            Counters::decode(&most).map(|it| it.len()),
            Ok(MAX_VALUE_COUNTERS)
        );
        assert!(Counters::decode(&vec![2; MAX_VALUE_COUNTERS + 1]).is_err());
    }

    #[test]
    fn no_number_of_copies_wraps() {
        let key = CounterKey(0xfff << 32 | 0xffff_ffff);
        let mut counters = Counters::default();
        for copies in [1, MANY - 1, MANY, MANY + 1, 1 << 23, u64::MAX - 1] {
            counters.set(key, copies);
            assert_eq!(counters.get(key), copies);
            assert_eq!(Counters::decode(&encoded(&counters)), Ok(counters.clone()));
            counters.add(key, 1);
            assert_eq!(counters.get(key), copies + 1);
            assert!(encoded(&counters).len() <= Counters::MAX_ENTRY_BYTES);
        }
        counters.set(key, 1);
        assert_eq!(counters.get(key), 1);
        counters.set(key, 0);
        assert_eq!(counters, Counters::default());
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
            let is_shared = |run: &&Run| Arc::strong_count(&run.packed) > 1;
            let own = changed.runs.iter().filter(|run| !is_shared(run));
            let copied: usize = own.map(|run| run.packed.len()).sum();
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
        let lengths = counters.runs.iter().map(|run| run.packed.len());
        assert!(lengths.max().unwrap() <= MAX_RUN);
        // Of each hundred one is left.
        let gone = (0..4_000).filter(|key| key % 100 > 0);
        counters.set_all(gone.map(|key| (CounterKey(key), 0)));
        assert_eq!((counters.len(), counters.runs.len()), (40, 1));
    }

    proptest! {
        #[test]
        fn counters_agree_with_a_map_and_read_back_as_written(
            steps in proptest::collection::vec((0u64..2_400, 0u64..4, 0u32..24), 0..2_000),
            (from, to) in (0u64..2_400, 0u64..2_400),
        ) {
            let (mut counters, mut model) = (Counters::default(), BTreeMap::new());
            let named = |key: u64| CounterKey((key / 8) << 32 | (key % 8 + 1));
            for (key, copies, shift) in steps {
                let (key, copies) = (named(key), copies << shift);
                counters.set(key, copies);
                match copies {
                    0 => model.remove(&key),
                    _ => model.insert(key, copies),
                };
                prop_assert_eq!(counters.get(key), copies);
            }
            let (from, to) = (named(from.min(to)), named(from.max(to)));
            let expected = model.range(from..=to).map(|(&key, &copies)| (key, copies));
            prop_assert!(counters.range(from..=to).eq(expected.clone()));
            prop_assert!(counters.within(from..=to).iter().eq(expected));
            prop_assert!(counters.iter().eq(model.iter().map(|(&key, &copies)| (key, copies))));
            let twice: Vec<_> = counters.iter().chain(counters.iter()).collect();
            let doubled: Vec<_> = counters.iter().map(|(key, copies)| (key, 2 * copies)).collect();
            prop_assert!(Counters::collect(twice).iter().eq(doubled));
            prop_assert_eq!(Counters::decode(&encoded(&counters)), Ok(counters));
        }

        #[test]
        fn counters_take_no_more_memory_than_is_said_of_so_many(
            set in proptest::collection::vec((1u64..60_000, 1u64..4, 0u32..24), 0..16_000),
        ) {
            let mut counters = Counters::default();
            for (key, copies, shift) in set {
                counters.set(CounterKey(key), copies << shift);
            }
            let copies = counters.iter().map(|it| it.1).sum();
            let most = Counters::most_bytes(1, counters.len() as u64, copies);
            prop_assert!(counters.bytes() as u64 <= most, "{} > {most}", counters.bytes());
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
