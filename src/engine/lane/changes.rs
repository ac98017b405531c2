//! What a commit changes in filters, and the redo record that says so.

use crate::chain::meta::Chain;
use crate::chain::plan::{ChangedPage, ChangesInOrder, Overlay, PageChanges, PlanInput};
use crate::cuckoo::bucket::SlotWidth;
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

    /// One over the same pages, of which nothing is planned.
    pub(super) fn over(other: &PlannedFilter) -> PlannedFilter {
        PlannedFilter {
            filter: Arc::clone(&other.filter),
            view: Arc::clone(&other.view),
            chain: other.chain.clone(),
            overlay: Overlay::new(),
            dropped: Vec::new(),
            fresh_from: other.fresh_from,
        }
    }

    /// What is planned next goes on top of.
    pub(super) fn input(&self) -> PlanInput<'_> {
        PlanInput {
            chain: self.chain.clone(),
            pending: &self.overlay,
            fresh_from: self.fresh_from,
        }
    }

    /// Whether anything is planned.
    pub(super) fn is_changed(&self) -> bool {
        !self.overlay.is_empty() || self.chain != self.view.chain
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

    /// What was planned, with these changes of pages.
    fn of(state: PlannedFilter, pages: PageChanges) -> Changes {
        Changes {
            pages,
            view: Arc::new(state.view.advanced(state.filter.id, state.chain)),
            filter: state.filter,
            fresh_from: state.fresh_from,
            dropped: state.dropped,
        }
    }
}

/// What a commit changes in filters, as it is published and as it is logged.
#[derive(Default)]
pub(super) struct Encoded {
    pub(super) changes: Vec<Changes>,
    /// Every written slot and counter, absolute.
    pub(super) redo: Vec<u8>,
}

impl Encoded {
    /// What was planned, but for filters that stay as they are.
    pub(super) fn changed(planned: impl IntoIterator<Item = PlannedFilter>) -> Encoded {
        let mut record = RedoBuilder::new();
        let changed = planned.into_iter().filter(PlannedFilter::is_changed);
        let encoded = changed.map(|planned| {
            let pages = planned.overlay.changes();
            record.filter(planned.filter.id, slot_width(&planned.chain).bytes());
            put_slots(&mut record, &planned.chain, &pages, 0);
            put_counters(&mut record, &planned, &pages);
            Changes::of(planned, pages)
        });
        Encoded {
            changes: encoded.collect(),
            redo: record.finish(),
        }
    }

    /// Words that change.
    pub(super) fn words(&self) -> usize {
        self.changes.iter().map(|it| it.pages.words.len()).sum()
    }

    /// Pages of sub-filters that are new.
    pub(super) fn fresh_pages(&self) -> usize {
        let is_fresh = |it: &Changes, page: &ChangedPage| page.address.sub >= it.fresh_from;
        let of = |it: &Changes| {
            it.pages
                .pages
                .iter()
                .filter(|page| is_fresh(it, page))
                .count()
        };
        self.changes.iter().map(of).sum()
    }
}

/// The changes of one filter that are encoded some words at a time.
pub(super) struct Encoding {
    planned: PlannedFilter,
    changes: ChangesInOrder,
    record: RedoBuilder,
}

impl Encoding {
    /// Nothing of what was planned is encoded yet.
    pub(super) fn of(planned: PlannedFilter) -> Encoding {
        let mut record = RedoBuilder::new();
        record.filter(planned.filter.id, slot_width(&planned.chain).bytes());
        Encoding {
            changes: ChangesInOrder::of(&planned.overlay),
            planned,
            record,
        }
    }

    /// Encodes about so many words more. `true`: these were the last.
    pub(super) fn go_on(&mut self, words: usize) -> bool {
        let encoded = self.changes.so_far.pages.len();
        let is_done = self.changes.go_on(&self.planned.overlay, words);
        let (chain, pages) = (&self.planned.chain, &self.changes.so_far);
        put_slots(&mut self.record, chain, pages, encoded);
        is_done
    }

    /// Words that change.
    pub(super) fn words(&self) -> usize {
        self.planned.overlay.changed_words()
    }

    /// Pages of sub-filters that are new.
    pub(super) fn fresh_pages(&self) -> usize {
        self.planned.overlay.pages_from(self.planned.fresh_from)
    }

    /// All of it, once it is encoded; of a filter that stays as it is nothing, if
    /// that is there already.
    pub(super) fn finish(self, is_new: bool) -> Encoded {
        let (mut record, pages) = (self.record, self.changes.so_far);
        put_counters(&mut record, &self.planned, &pages);
        let is_changed = is_new || self.planned.is_changed();
        let changes = is_changed.then(|| Changes::of(self.planned, pages));
        Encoded {
            changes: changes.into_iter().collect(),
            redo: record.finish(),
        }
    }
}

fn slot_width(chain: &Chain) -> SlotWidth {
    chain.params().slot_width()
}

/// The pages of a chain from the one of that number on, with the ordinals of their
/// sub-filters.
fn with_ordinals<'a>(
    chain: &'a Chain,
    pages: &'a PageChanges,
    from: usize,
) -> impl Iterator<Item = (&'a ChangedPage, Ordinal)> {
    let pages = pages.pages.iter().skip(from);
    pages.filter_map(|page| {
        let sub = chain.sub_filters().get(page.address.sub as usize)?;
        Some((page, sub.ordinal))
    })
}

/// Puts every written slot of the pages from the one of that number on into the
/// record of their filter.
fn put_slots(record: &mut RedoBuilder, chain: &Chain, pages: &PageChanges, from: usize) {
    let width = slot_width(chain);
    let (bits, mask) = (width.bits(), u64::from(width.fingerprints()));
    for (page, ordinal) in with_ordinals(chain, pages, from) {
        record.page(ordinal, PageIndex(page.address.page));
        for word in pages.words_of(page) {
            for lane in (0..width.slots_per_word()).filter(|lane| word.slots & 1 << lane != 0) {
                let slot = u32::from(word.at.word * width.slots_per_word() + lane);
                record.slot(slot, word.value >> (bits * lane) & mask);
            }
        }
    }
}

/// Puts every counter behind the slots of its filter.
fn put_counters(record: &mut RedoBuilder, planned: &PlannedFilter, pages: &PageChanges) {
    if pages.counters.is_empty() {
        return;
    }
    record.counters(planned.filter.id);
    for (page, ordinal) in with_ordinals(&planned.chain, pages, 0) {
        record.page(ordinal, PageIndex(page.address.page));
        for counter in pages.counters_of(page) {
            record.counter(counter.key.0, counter.copies);
        }
    }
}
