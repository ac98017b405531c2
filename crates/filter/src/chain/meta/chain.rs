//! A filter's parameters, and its pages: a chain of sub-filters, or one table
//! that splits pages.

use super::links::Links;
use super::sub_filter::SubFilter;
use super::table::Table;
use super::version::{FilterVersion, Lineage};
use crate::chain::address::Ordinal;
use crate::chain::full_reason::FullReason;
use crate::chain::params::{Epoch, FilterParams, LayoutKind};
use crate::cuckoo::classic::Classic;
use crate::cuckoo::hash::{HashId, HashKey, ItemHash};
use std::borrow::Cow;

/// A filter: its parameters, and what is known of its pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    pub(super) params: FilterParams,
    pub(super) hash: HashId,
    pub(super) created_at_ms: u64,
    pub(super) deletions: u64,
    pub(super) version: FilterVersion,
    pub(super) pages: Pages,
}

/// What the pages of a filter are, by its layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// `classic`: those of sub-filters.
    Links(Links),
    /// `paged`: those of one table.
    Table(Table),
}

impl Chain {
    /// An empty filter; `key` is for layouts with a keyed hash. `None` if its
    /// pages could not be numbered, which parameters that passed their checks
    /// do not ask for.
    pub fn new(params: FilterParams, key: HashKey, created_at_ms: u64) -> Option<Chain> {
        let (hash, pages) = match params.layout() {
            LayoutKind::Classic => (HashId::Murmur64A, Pages::Links(Links::new(&params)?)),
            LayoutKind::Paged => {
                let mut table = Table::new(params.first_pages()?);
                if let Some(window) = params.window() {
                    table = table.with_window(window, created_at_ms);
                }
                (HashId::SipHash13(key), Pages::Table(table))
            }
        };
        Some(Chain {
            params,
            hash,
            created_at_ms,
            deletions: 0,
            version: FilterVersion::default(),
            pages,
        })
    }

    /// What the filter was asked to be.
    #[inline]
    pub fn params(&self) -> &FilterParams {
        &self.params
    }

    /// Milliseconds since 1970 when it was created.
    pub fn created_at_ms(&self) -> u64 {
        self.created_at_ms
    }

    /// Deletes that found their item.
    pub fn deletions(&self) -> u64 {
        self.deletions
    }

    /// Which of its states this is: no two have the same. A value that becomes another
    /// changes no other number here.
    pub fn version(&self) -> &FilterVersion {
        &self.version
    }

    /// The filter as the first state of a lineage.
    pub fn with_lineage(self, lineage: Lineage, now_ms: u64) -> Chain {
        let version = FilterVersion {
            lineage,
            changes: 0,
            changed_at_ms: now_ms,
        };
        Chain { version, ..self }
    }

    /// The filter with another `expansion`; with 0 it does not grow.
    pub fn with_expansion(mut self, expansion: u32) -> Chain {
        self.params.expansion = expansion;
        self
    }

    /// Takes in what became of a copy, whose pages are none that others have changed and
    /// of which none was split.
    pub fn take_in(&mut self, before: &Chain, after: &Chain) {
        let tables = (self.table_mut(), before.table(), after.table());
        if let (Some(table), Some(before), Some(after)) = tables {
            table.take_in(before, after);
        }
    }

    /// Items in the filter: adds less deletes.
    #[inline]
    pub fn items(&self) -> u64 {
        match &self.pages {
            Pages::Links(links) => links.iter().map(|it| it.items()).sum(),
            Pages::Table(table) => table.items(),
        }
    }

    /// The sub-filters, oldest first; never empty. A filter of the layout
    /// `paged` has one.
    pub fn sub_filters(&self) -> impl DoubleEndedIterator<Item = SubFilter> + '_ {
        let table = self.table().map(SubFilter::of_table);
        self.links().iter().map(SubFilter::of_link).chain(table)
    }

    /// How many there are.
    #[inline]
    pub fn sub_filter_count(&self) -> usize {
        match &self.pages {
            Pages::Links(links) => links.iter().len(),
            Pages::Table(_) => 1,
        }
    }

    /// The sub-filter at a position.
    pub fn sub_filter(&self, position: usize) -> Option<SubFilter> {
        match &self.pages {
            Pages::Links(links) => links.get(position).map(SubFilter::of_link),
            Pages::Table(table) => (position == 0).then(|| SubFilter::of_table(table)),
        }
    }

    /// The geometry of a sub-filter of the layout `classic`: of the one at a
    /// position, or of the one that would come behind the last.
    pub fn classic_at(&self, position: usize) -> Option<Classic> {
        match self.links().get(position) {
            Some(link) => Some(link.layout),
            None if self.params.expansion() == 0 => None,
            None => self.params.layout_at(position),
        }
    }

    /// The sub-filters of a filter of the layout `classic`, oldest first.
    #[inline]
    pub(in crate::chain) fn links(&self) -> &Links {
        match &self.pages {
            Pages::Links(links) => links,
            Pages::Table(_) => Links::NONE,
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(in crate::chain) fn links_mut(&mut self) -> Option<&mut Links> {
        match &mut self.pages {
            Pages::Links(links) => Some(links),
            Pages::Table(_) => None,
        }
    }

    /// The pages of a filter of the layout `paged`.
    #[inline]
    pub fn table(&self) -> Option<&Table> {
        match &self.pages {
            Pages::Table(table) => Some(table),
            Pages::Links(_) => None,
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(in crate::chain) fn table_mut(&mut self) -> Option<&mut Table> {
        match &mut self.pages {
            Pages::Table(table) => Some(table),
            Pages::Links(_) => None,
        }
    }

    /// Goes on to a moment, in milliseconds since 1970, where items expire; never
    /// back.
    pub(in crate::chain) fn advance(&mut self, now_ms: u64) {
        if let Some(epochs) = self.table_mut().and_then(|it| it.epochs.as_mut()) {
            epochs.advance(now_ms);
        }
    }

    /// The filter as of a moment, in milliseconds since 1970, if items of it have
    /// expired since it was changed.
    pub fn as_of(&self, now_ms: u64) -> Cow<'_, Chain> {
        match self.table().is_some_and(|table| table.epochs.is_some()) {
            true => {
                let mut chain = self.clone();
                chain.advance(now_ms);
                Cow::Owned(chain)
            }
            false => Cow::Borrowed(self),
        }
    }

    /// Where items expire: the first epoch of those in which an item that was not
    /// seen for so many seconds, or for those of the window, may have been seen
    /// last.
    pub fn oldest_epoch(&self, now_ms: u64, within_seconds: Option<u64>) -> Option<Epoch> {
        let epochs = self.table()?.epochs.as_ref()?;
        let window = epochs.window;
        let current = epochs.current.max(window.epoch_at(now_ms));
        let back = match within_seconds {
            Some(seconds) => window.epochs_within(seconds),
            None => window.epochs(),
        };
        Some(current.saturating_sub(back))
    }

    /// How often the filter has grown: sub-filters appended, or doublings that
    /// are complete.
    pub fn expansions(&self) -> u32 {
        match &self.pages {
            Pages::Links(links) => links.iter().len().saturating_sub(1) as u32,
            Pages::Table(table) => u32::from(table.layout.level()),
        }
    }

    /// Bytes that all slots take when every page is written.
    pub fn slot_bytes(&self) -> u64 {
        self.sub_filters().map(|sub| sub.layout.bytes()).sum()
    }

    /// Hashes an item with the filter's hash.
    #[inline]
    pub fn hash(&self, item: &[u8]) -> ItemHash {
        self.hash.hash(item)
    }

    /// The filter's hash. Filters of an equal one hash an item alike.
    #[inline]
    pub fn hash_id(&self) -> HashId {
        self.hash
    }

    /// Position of the sub-filter that has this ordinal.
    pub fn position_of(&self, ordinal: Ordinal) -> Option<usize> {
        match &self.pages {
            Pages::Links(links) => links.position_of(ordinal),
            Pages::Table(_) => (ordinal == Table::ORDINAL).then_some(0),
        }
    }

    /// Appends a sub-filter, `expansion` times as large as the newest.
    ///
    /// # Errors
    /// Why it may not grow; the chain is as it was.
    pub fn grow(&mut self) -> Result<(), FullReason> {
        match &mut self.pages {
            Pages::Links(links) => links.next(&self.params).map(|layout| links.push(layout)),
            // It grows page by page.
            Pages::Table(_) => Err(FullReason::GrowthLimit),
        }
    }

    /// Whether the filter has grown no further than its false-positive rate is
    /// promised for.
    #[inline]
    pub(in crate::chain) fn is_within_promise(&self) -> bool {
        let (Some(table), Some(growth)) = (self.table(), self.params.promised_growth()) else {
            return true;
        };
        let promised = u64::from(table.layout.families()) * u64::from(growth);
        self.params.error_rate().is_none() || u64::from(table.layout.pages()) <= promised
    }

    /// Keeps count of a delete that found its item.
    pub(in crate::chain) fn count_deletion(&mut self) {
        self.deletions = self.deletions.saturating_add(1);
    }

    /// Keeps count of the items of another filter, which was taken in, as if they had
    /// been added here, and of its deletes.
    pub(in crate::chain) fn add_items_of(&mut self, other: &Chain) {
        self.deletions = self.deletions.saturating_add(other.deletions);
        if let (Some(table), Some(others)) = (self.table_mut(), other.table()) {
            table.items += others.items;
            // Copies of both that are of one class are one.
            if table.layout.level() == others.layout.level() {
                let void_copies = table.void_copies.max(others.void_copies);
                table.void_copies = void_copies.min(table.occupied);
            }
        }
    }

    /// Keeps count of a commit at that moment, in milliseconds since 1970.
    #[inline]
    pub fn count_change(&mut self, now_ms: u64) {
        self.version.changes = self.version.changes.saturating_add(1);
        self.version.changed_at_ms = now_ms;
    }

    /// Why the filter can't grow any more; `None` while it can.
    pub(super) fn growth_end(&self) -> Option<FullReason> {
        match &self.pages {
            Pages::Links(links) => links.next(&self.params).err(),
            Pages::Table(table) => table.next_layout(&self.params.growth_bounds()).err(),
        }
    }

    /// The filter with other pages.
    #[cfg(test)]
    pub(crate) fn with_table_for_tests(self, table: Table) -> Chain {
        let pages = Pages::Table(table);
        Chain { pages, ..self }
    }
}
