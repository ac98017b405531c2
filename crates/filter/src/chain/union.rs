//! Two filters become one that finds what either found.
//!
//! Only filters whose hashes have one key, and that began with as many pages of the same
//! slots, lay an item on the same pages. What is lost is who added what: the same item
//! in both counts twice, whatever an add would have done.

use super::counters::Counters;
use super::meta::Chain;
use super::meta::FullReason;
use super::paged::union::{NotTaken, OtherPage};
use super::pages::{Draft as _, WholePage};
use super::params::{Difference, PAGE_BYTES};
use super::plan::Planner;
use super::resident::Pages;
use crate::chain::address::PageAddress;
use crate::chain::contents::Contents;
use crate::cuckoo::kick::KickSearch;
use crate::cuckoo::layout::Layout;
use crate::cuckoo::paged::Paged;

/// Why two filters don't become one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnionError {
    /// One has the layout `classic`.
    #[error("filters of the layout classic can't be merged")]
    Classic,
    /// Items of one expire.
    #[error("filters whose items expire can't be merged")]
    Window,
    /// The keys of their hashes differ.
    #[error(
        "the keys of their hashes differ: only siblings can be merged, which are created with sibling_of, or built with --sibling-of"
    )]
    Key,
    /// They differ in something else.
    #[error("{} is {} in one and {} in the other", .0.field, .0.existing, .0.requested)]
    Differ(Difference),
    /// There is no room for all entries, and the filter may not grow.
    #[error("the filter takes no more items: {0:?}")]
    Full(FullReason),
    /// A page is none of such a filter.
    #[error("page {0} does not fit its filter")]
    Damaged(u32),
    /// The pages of one do not hold what is said of it.
    #[error("its pages do not hold as many items as it says")]
    Contents,
}

impl Chain {
    /// Why this filter can't become one with another, if that is so.
    ///
    /// # Errors
    /// The first difference.
    pub fn may_unite(&self, other: &Chain) -> Result<(), UnionError> {
        let (Some(one), Some(two)) = (self.table(), other.table()) else {
            return Err(UnionError::Classic);
        };
        if one.epochs.is_some() || two.epochs.is_some() {
            return Err(UnionError::Window);
        }
        if self.hash_id() != other.hash_id() {
            return Err(UnionError::Key);
        }
        let number = |field, of: fn(&Paged) -> u32| {
            let [one, two] = [one, two].map(|it| of(&it.layout).to_string());
            (field, one, two)
        };
        // In words some labels are left out.
        let have_attributes = self.params().attributes() == other.params().attributes();
        let attributes = |it: &Chain| match it.params().attributes() {
            Some(attributes) => attributes.to_string(),
            None => "not set".to_owned(),
        };
        let fields = [
            number("fingerprint_bits", |it| it.code().width().bits().into()),
            number("value_bits", |it| it.code().value_bits()),
            ("attributes", attributes(self), attributes(other)),
            number("the number of pages at first", Paged::families),
        ];
        let differs = |(field, one, two): &(&str, String, String)| {
            one != two || *field == "attributes" && !have_attributes
        };
        match fields.into_iter().find(differs) {
            None => Ok(()),
            Some((field, existing, requested)) => Err(UnionError::Differ(Difference {
                field,
                requested,
                existing,
            })),
        }
    }
}

/// Bytes of memory that the pages of a union take at most, while they take up to
/// `most_bytes` in a store: with counters for all that is in these filters, as often as
/// splits may copy it.
pub fn memory(chains: &[Chain], most_bytes: u64) -> u64 {
    let pages = most_bytes / u64::from(PAGE_BYTES);
    let (mut counters, mut copies) = (0u64, 0u64);
    for (table, sub) in chains
        .iter()
        .filter_map(|it| Some((it.table()?, it.sub_filter(0)?)))
    {
        let layout = &table.layout;
        let level = u32::from(layout.level()).max(layout.code().suffix_bits());
        let of_level = u64::from(layout.families()).saturating_mul(1 << level);
        let times = pages.div_ceil(of_level).next_power_of_two();
        counters = counters.saturating_add((sub.occupied + sub.keys).saturating_mul(times));
        copies = copies.saturating_add((sub.occupied + sub.counted).saturating_mul(times));
    }
    most_bytes.saturating_add(Counters::most_bytes(pages, counters, copies))
}

/// Takes one filter into another whose pages are in memory. `page` hands out the pages of
/// the other one, each twice, in their order; `between` is called between any two steps.
///
/// # Errors
/// Those of `page` and `between`, and [`UnionError`]; the pages are gone then.
pub fn union<E: From<UnionError>>(
    base: (Chain, Pages),
    other: &Chain,
    mut page: impl FnMut(u32) -> Result<WholePage, E>,
    mut between: impl FnMut() -> Result<(), E>,
) -> Result<(Chain, Pages), E> {
    let (chain, pages) = base;
    chain.may_unite(other)?;
    let layout = other.table().ok_or(UnionError::Classic)?.layout;
    let mut search = KickSearch::default();
    let mut planner = Planner::on(pages, chain, &mut search);
    let (mut new, mut told) = (0, Told::of(&layout));
    for number in 0..layout.pages() {
        between()?;
        let whole = page(number)?;
        told.add(number, &whole)?;
        let found = planner.new_entries(&OtherPage::of(&layout, number, &whole));
        new += found.ok_or(UnionError::Damaged(number))?;
    }
    told.matches(other)?;
    while planner
        .split_for(other, new)
        .ok_or(UnionError::Contents)?
        .map_err(UnionError::Full)?
    {
        between()?;
    }
    for number in 0..layout.pages() {
        between()?;
        let whole = page(number)?;
        let taken = planner.take_in(&OtherPage::of(&layout, number, &whole));
        taken
            .ok_or(UnionError::Damaged(number))?
            .map_err(|it| match it {
                NotTaken::Full(reason) => UnionError::Full(reason),
                NotTaken::Damaged => UnionError::Damaged(number),
            })?;
    }
    let (mut chain, pages, _) = planner.into_parts();
    chain.add_items_of(other);
    Ok((chain, pages))
}

/// All pages of a filter in memory, in its order, held against what is said of them.
///
/// # Errors
/// Those of `page`, and [`UnionError`].
pub fn load<E: From<UnionError>>(
    chain: &Chain,
    mut page: impl FnMut(u32) -> Result<WholePage, E>,
) -> Result<Pages, E> {
    let layout = chain.table().ok_or(UnionError::Classic)?.layout;
    let (mut pages, mut told) = (Pages::default(), Told::of(&layout));
    pages.add_sub_filters(chain);
    for number in 0..layout.pages() {
        let whole = page(number)?;
        told.add(number, &whole)?;
        pages.set_page(PageAddress::new(0, number), whole);
    }
    told.matches(chain)?;
    Ok(pages)
}

/// What pages hold, to be held against what is said of them.
struct Told(Layout, Contents);

impl Told {
    fn of(layout: &Paged) -> Told {
        let layout = Layout::Paged(*layout);
        Told(layout, Contents::none_of(&layout))
    }

    fn add(&mut self, number: u32, whole: &WholePage) -> Result<(), UnionError> {
        let words = whole.words.iter().copied();
        let found = Contents::of_page(&self.0, number, words, Some(&whole.counters));
        self.1.add(&found.ok_or(UnionError::Damaged(number))?);
        Ok(())
    }

    fn matches(&self, chain: &Chain) -> Result<(), UnionError> {
        let told = chain.sub_filter(0).map(|it| Contents::told_by(chain, &it));
        match told.as_ref() == Some(&self.1) {
            true => Ok(()),
            false => Err(UnionError::Contents),
        }
    }
}

#[cfg(test)]
mod tests;
