//! What a commit changes in filters, and the redo record that says so.

use crate::chain::meta::Chain;
use crate::chain::plan::{ChangedPage, Overlay, PageChanges};
use crate::engine::filters::{FilterView, OpenFilter};
use crate::engine::pages::{PageCache, PageTable, Version};
use crate::page::{Ordinal, PageIndex};
use crate::store::redo::RedoBuilder;
use std::sync::Arc;

/// One filter as it was planned to be.
pub(super) struct PlannedFilter {
    pub(super) filter: Arc<OpenFilter>,
    /// The filter before.
    pub(super) view: Arc<FilterView>,
    pub(super) chain: Chain,
    pub(super) overlay: Overlay,
    pub(super) dropped: Vec<Ordinal>,
    /// Sub-filters from this position on have no pages yet.
    pub(super) fresh_from: u32,
}

impl PlannedFilter {
    /// The filter as it is published.
    pub(super) fn of(filter: &Arc<OpenFilter>) -> PlannedFilter {
        let view = filter.view.load_full();
        PlannedFilter {
            filter: Arc::clone(filter),
            chain: view.chain.clone(),
            fresh_from: view.tables.len() as u32,
            view,
            overlay: Overlay::new(),
            dropped: Vec::new(),
        }
    }
}

/// What a commit changes in one filter.
pub(super) struct Changes {
    pub(super) filter: Arc<OpenFilter>,
    /// The filter afterwards.
    pub(super) view: Arc<FilterView>,
    /// Sub-filters from this position on are new.
    pub(super) fresh_from: u32,
    /// What changes in its pages.
    pub(super) pages: PageChanges,
    /// Sub-filters that were removed, by their ordinals.
    pub(super) dropped: Vec<Ordinal>,
}

impl Changes {
    /// The table of a page that it changes.
    pub(super) fn table(&self, page: &ChangedPage) -> Option<&Arc<PageTable>> {
        self.view.tables.get(page.address.sub as usize)
    }

    /// Those of the pages that it changes, and of the filter.
    pub(super) fn versions<'a>(
        &'a self,
        cache: &'a PageCache,
    ) -> impl Iterator<Item = &'a Version> {
        let of_page = |page: &'a ChangedPage| {
            let table = self.table(page)?;
            cache.versions().of(table, page.address.page)
        };
        let of_pages = self.pages.pages.iter().filter_map(of_page);
        of_pages.chain([&self.filter.version])
    }

    fn pages_with_ordinals(&self) -> impl Iterator<Item = (&ChangedPage, Ordinal)> {
        self.pages.pages.iter().filter_map(|page| {
            let sub = self
                .view
                .chain
                .sub_filters()
                .get(page.address.sub as usize)?;
            Some((page, sub.ordinal))
        })
    }

    /// What was planned.
    pub(super) fn of(state: PlannedFilter) -> Changes {
        Changes {
            pages: state.overlay.changes(),
            view: Arc::new(state.view.advanced(state.filter.id, state.chain)),
            filter: state.filter,
            fresh_from: state.fresh_from,
            dropped: state.dropped,
        }
    }
}

/// The redo record of a commit: every written slot and counter, absolute.
pub(super) fn redo_record(changes: &[Changes]) -> Vec<u8> {
    let mut record = RedoBuilder::new();
    for it in changes {
        let width = it.view.chain.params().slot_width();
        let (bits, mask) = (width.bits(), u64::from(width.fingerprints()));
        record.filter(it.filter.id, width.bytes());
        for (page, ordinal) in it.pages_with_ordinals() {
            record.page(ordinal, PageIndex(page.address.page));
            for word in it.pages.words_of(page) {
                for lane in (0..width.slots_per_word()).filter(|lane| word.slots & 1 << lane != 0) {
                    let slot = u32::from(word.at.word * width.slots_per_word() + lane);
                    record.slot(slot, word.value >> (bits * lane) & mask);
                }
            }
        }
        if it.pages.counters.is_empty() {
            continue;
        }
        record.counters(it.filter.id);
        for (page, ordinal) in it.pages_with_ordinals() {
            record.page(ordinal, PageIndex(page.address.page));
            for counter in it.pages.counters_of(page) {
                record.counter(counter.key.0, counter.copies);
            }
        }
    }
    record.finish()
}
