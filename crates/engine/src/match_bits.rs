//! Which of many filters contain which of many items: one bit a question, so
//! that the largest lookup takes an eighth of a byte for each.

/// Bits of a word.
const WORD_BITS: usize = u64::BITS as usize;

/// A table of items and filters, both by position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchBitSet {
    items: usize,
    filters: usize,
    /// The bit of an item and a filter is `item * filters + filter`.
    bits: Vec<u64>,
}

impl MatchBitSet {
    /// No item is in any filter.
    pub fn none(items: usize, filters: usize) -> MatchBitSet {
        MatchBitSet {
            items,
            filters,
            bits: vec![0; items.saturating_mul(filters).div_ceil(WORD_BITS)],
        }
    }

    /// Says that an item is in a filter.
    pub fn set(&mut self, item: usize, filter: usize) {
        if item >= self.items || filter >= self.filters {
            return;
        }
        let bit = item * self.filters + filter;
        if let Some(word) = self.bits.get_mut(bit / WORD_BITS) {
            *word |= 1 << (bit % WORD_BITS);
        }
    }

    /// Leaves of each item the first filter alone.
    pub(super) fn keep_first(&mut self) {
        for item in 0..self.items {
            let mut after = self.next(item, 0).map(|first| first + 1);
            while let Some(filter) = after.and_then(|from| self.next(item, from)) {
                let bit = item * self.filters + filter;
                if let Some(word) = self.bits.get_mut(bit / WORD_BITS) {
                    *word &= !(1 << (bit % WORD_BITS));
                }
                after = Some(filter + 1);
            }
        }
    }

    /// How many items there are.
    pub fn items(&self) -> usize {
        self.items
    }

    /// The first filter from `from` on that contains the item.
    pub fn next(&self, item: usize, from: usize) -> Option<usize> {
        if item >= self.items || from >= self.filters {
            return None;
        }
        let first = item * self.filters;
        let (mut bit, end) = (first + from, first + self.filters);
        while bit < end {
            let rest = self.bits.get(bit / WORD_BITS)? >> (bit % WORD_BITS);
            if rest != 0 {
                let found = bit + rest.trailing_zeros() as usize;
                return (found < end).then(|| found - first);
            }
            bit = (bit / WORD_BITS + 1) * WORD_BITS;
        }
        None
    }

    /// The filters that contain the item, ascending.
    pub fn of(&self, item: usize) -> impl Iterator<Item = usize> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = self.next(item, from)?;
            from = found + 1;
            Some(found)
        })
    }

    /// Bytes that the table takes.
    pub fn bytes(&self) -> usize {
        self.bits.len() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_table_holds_what_was_noted_and_nothing_else(
            items in 0usize..40, filters in 0usize..150,
            noted in proptest::collection::vec((0usize..45, 0usize..160), 0..300),
        ) {
            let mut table = MatchBitSet::none(items, filters);
            let mut model = vec![BTreeSet::new(); items];
            for (item, filter) in noted {
                table.set(item, filter);
                if item < items && filter < filters {
                    model[item].insert(filter);
                }
            }
            for (item, filters) in model.iter().enumerate() {
                prop_assert_eq!(&table.of(item).collect::<BTreeSet<_>>(), filters);
            }
            prop_assert_eq!(table.of(items).count(), 0);
            table.keep_first();
            for (item, filters) in model.iter().enumerate() {
                let first: Vec<usize> = filters.first().copied().into_iter().collect();
                prop_assert_eq!(table.of(item).collect::<Vec<_>>(), first);
            }
        }
    }

    #[test]
    fn the_largest_lookup_takes_an_eighth_of_a_byte_a_question() {
        assert_eq!(MatchBitSet::none(1000, 1000).bytes(), 125_000);
        assert_eq!(MatchBitSet::none(1_000_000, 1).bytes(), 125_000);
    }
}
