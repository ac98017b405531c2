//! Asking for values: which an item has, and whether it has one, or one that meets
//! a condition.

use super::read::Probe;
use crate::chain::meta::{Chain, Table};
use crate::chain::pages::PageWords;
use crate::chain::rows::RowTest;
use crate::cuckoo::hash::ItemHash;

/// A value of an item, and how often it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueCopies {
    /// The value.
    pub value: u32,
    /// At least 1.
    pub copies: u64,
}

/// The values of an item, ascending, each once: none is missing, and those of
/// other items may be there; none in a filter without values. `None` if a word was
/// not at hand.
///
/// Looks at up to two pages, and at the counters beside them of what matches.
pub fn values(
    chain: &Chain,
    hash: ItemHash,
    pages: &mut impl PageWords,
) -> Option<Vec<ValueCopies>> {
    let Some(table) = chain.table() else {
        return Some(Vec::new());
    };
    let probe = Probe::read(&table.layout, hash, pages)?;
    values_of(&probe, table, pages)
}

/// The same of an item whose buckets were read.
pub(super) fn values_of(
    probe: &Probe,
    table: &Table,
    pages: &mut impl PageWords,
) -> Option<Vec<ValueCopies>> {
    let layout = &table.layout;
    let mut found: Vec<ValueCopies> = Vec::new();
    for (position, one) in probe.matches(layout).enumerate() {
        let value = one.value(layout);
        found.push(ValueCopies { value, copies: 1 });
        let class = one.class(layout);
        if probe.is_first_of(layout, position, &class) {
            let counted = pages.counters_within(class.page(), class.keys())?;
            found.extend(counted.iter().map(|(key, copies)| ValueCopies {
                value: class.value(key),
                copies,
            }));
        }
    }
    found.sort_unstable_by_key(|it| it.value);
    found.dedup_by(|one, before| {
        let is_same = one.value == before.value;
        if is_same {
            before.copies = before.copies.saturating_add(one.copies);
        }
        is_same
    });
    Some(found)
}

/// Whether an item has a value. A match is an answer whatever is missing; `None`
/// if there was none and a word was not at hand.
pub fn has_value(
    chain: &Chain,
    hash: ItemHash,
    value: u32,
    pages: &mut impl PageWords,
) -> Option<bool> {
    let Some(table) = chain.table() else {
        return Some(false);
    };
    let layout = &table.layout;
    let probe = Probe::read(layout, hash, pages)?;
    if probe.matches(layout).any(|it| it.value(layout) == value) {
        return Some(true);
    }
    let mut known = true;
    for one in probe.matches(layout) {
        let class = one.class(layout);
        match pages.counter(class.page(), class.key(value)) {
            Some(0) => {}
            Some(_) => return Some(true),
            None => known = false,
        }
    }
    known.then_some(false)
}

/// Whether a value of an item is a row that meets a condition. A match is an answer
/// whatever is missing, as for [`has_value`].
pub fn has_row(
    chain: &Chain,
    hash: ItemHash,
    test: &RowTest,
    pages: &mut impl PageWords,
) -> Option<bool> {
    let Some(table) = chain.table() else {
        return Some(false);
    };
    let layout = &table.layout;
    let probe = Probe::read(layout, hash, pages)?;
    if probe
        .matches(layout)
        .any(|it| test.is_met(it.value(layout)))
    {
        return Some(true);
    }
    let mut known = true;
    for (position, one) in probe.matches(layout).enumerate() {
        let class = one.class(layout);
        if !probe.is_first_of(layout, position, &class) {
            continue;
        }
        match pages.counters_within(class.page(), class.keys()) {
            Some(counted) if counted.iter().any(|(key, _)| test.is_met(class.value(key))) => {
                return Some(true);
            }
            Some(_) => {}
            None => known = false,
        }
    }
    known.then_some(false)
}
