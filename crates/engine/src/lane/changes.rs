//! What a commit changes in filters, and the redo record that says so.

use crate::chain::address::PageAddress;
use crate::chain::meta::Chain;
use crate::chain::plan::{ChangesInOrder, FutileSearches, Overlay, PageChanges, PlanInput};
use crate::filters::{FilterView, OpenFilter};
use crate::page::{Ordinal, PageId};
use crate::pages::{PageCache, PageTable, Version, image};
use crate::store::FilterChange;
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
    /// How searches for room ended last.
    pub(super) futile: FutileSearches,
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
            overlay: Overlay::default(),
            dropped: Vec::new(),
            futile: filter.futile_searches(),
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

    /// Pages of an overlay that are not published yet.
    pub(super) fn new_pages(&self, overlay: &Overlay) -> usize {
        new_pages(&self.view, self.fresh_from, overlay)
    }
}

fn new_pages(view: &FilterView, fresh_from: u32, overlay: &Overlay) -> usize {
    overlay.new_pages(fresh_from, |sub| {
        let table = view.tables.get(sub as usize);
        table.map_or(0, |table| table.pages())
    })
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
    pub(super) fn table(&self, page: PageAddress) -> Option<&Arc<PageTable>> {
        self.view.tables.get(page.sub as usize)
    }

    /// Whether a page comes to be with this.
    pub(super) fn is_new(&self, page: PageAddress) -> bool {
        let is_published = |table: &Arc<PageTable>| page.page < table.pages();
        page.sub >= self.fresh_from || !self.table(page).is_some_and(is_published)
    }

    /// Pages that it writes to, drops or sets as a whole.
    pub(super) fn pages(&self) -> usize {
        self.pages.pages.len() + self.pages.wholes.len() + self.pages.dropped.len()
    }

    /// The tables whose pages become more or fewer, and how many these are
    /// then. Pages come and go at the end.
    pub(super) fn tables_resized(&self) -> impl Iterator<Item = (&Arc<PageTable>, u32)> {
        (0u32..).zip(&self.view.tables).filter_map(|(sub, table)| {
            let of_table = |page: &PageAddress| page.sub == sub;
            let wholes = self.pages.wholes.iter().map(|it| it.0).filter(of_table);
            let pages = wholes.map(|it| it.page + 1).max().unwrap_or(0);
            let pages = pages.max(table.pages());
            let mut dropped = self.pages.dropped.iter().filter(|it| of_table(it));
            // Some may have come and gone within the plan.
            let first_dropped = dropped.next().map_or(pages, |it| it.page);
            let pages = pages.min(first_dropped);
            (pages != table.pages()).then_some((table, pages))
        })
    }

    /// Those of the pages that it changes, and of the filter.
    pub(super) fn versions<'a>(
        &'a self,
        cache: &'a PageCache,
    ) -> impl Iterator<Item = &'a Version> {
        let of_page = |page: PageAddress| {
            let table = self.table(page)?;
            cache.versions.of(table, page.page)
        };
        let changed = self.pages.pages.iter().map(|it| it.address);
        let wholes = self.pages.wholes.iter().map(|it| it.0);
        let dropped = self.pages.dropped.iter().copied();
        let all = changed.chain(wholes).chain(dropped);
        let of_pages = all.filter_map(of_page);
        let shape = self.reshapes().then_some(&self.filter.shape);
        of_pages.chain([&self.filter.version]).chain(shape)
    }

    /// Whether it splits or merges pages.
    fn reshapes(&self) -> bool {
        !self.pages.wholes.is_empty() || !self.pages.dropped.is_empty()
    }

    /// The number of a page among all pages of its filter.
    pub(super) fn id(&self, page: PageAddress) -> Option<PageId> {
        Some(self.table(page)?.id(page.page))
    }

    /// Pages that come to be with this.
    fn new_pages(&self) -> usize {
        let changed = self.pages.pages.iter().map(|it| it.address);
        let wholes = self.pages.wholes.iter().map(|it| it.0);
        changed.chain(wholes).filter(|&it| self.is_new(it)).count()
    }

    /// What it changes in the record of its filter.
    pub(super) fn update(&self) -> FilterChange {
        FilterChange::Update {
            id: self.filter.id,
            meta: self.view.chain.encode(),
            dropped: self.dropped.clone(),
        }
    }
}

/// What a commit changes in filters, as it is published and as it is logged.
#[derive(Default)]
pub(super) struct Encoded {
    pub(super) changes: Vec<Changes>,
    /// Every written slot and counter, absolute, and every page that is split or
    /// merged, as a whole.
    pub(super) redo: Vec<u8>,
}

impl Encoded {
    /// What was planned for one filter, unless it stays as it is.
    pub(super) fn of(planned: PlannedFilter, now_ms: u64) -> Encoded {
        Encoded::changed([planned], now_ms, drop)
    }

    /// What was planned, but for filters that stay as they are. The overlays, which
    /// are done with then, are given back.
    pub(super) fn changed(
        planned: impl IntoIterator<Item = PlannedFilter>,
        now_ms: u64,
        mut give_back: impl FnMut(Overlay),
    ) -> Encoded {
        let mut all = Encoded::default();
        for planned in planned {
            if !planned.is_changed() {
                give_back(planned.overlay);
                continue;
            }
            let mut encoding = Encoding::of(planned, now_ms);
            encoding.go_on(usize::MAX);
            give_back(std::mem::take(&mut encoding.overlay));
            let mut encoded = encoding.finish(false);
            all.changes.append(&mut encoded.changes);
            all.redo.append(&mut encoded.redo);
        }
        all
    }

    /// Words and counters that change.
    pub(super) fn words(&self) -> usize {
        self.changes.iter().map(|it| it.pages.changed_words()).sum()
    }

    /// Pages that come to be with this.
    pub(super) fn new_pages(&self) -> usize {
        self.changes.iter().map(Changes::new_pages).sum()
    }
}

/// The changes of one filter that are encoded some words at a time.
pub(super) struct Encoding {
    overlay: Overlay,
    /// Without those of pages.
    changes: Changes,
    /// Whether the filter does not stay as it is.
    is_changed: bool,
    in_order: ChangesInOrder,
    /// The slots.
    record: RedoBuilder,
    /// The counters, which come behind all slots.
    counters: RedoBuilder,
    /// The pages that are set as a whole, which come behind slots and counters.
    wholes: RedoBuilder,
}

impl Encoding {
    /// Nothing of what was planned is encoded yet, at that moment.
    pub(super) fn of(mut planned: PlannedFilter, now_ms: u64) -> Encoding {
        let is_changed = planned.is_changed();
        // The filter says that it was changed at that moment.
        planned.chain.count_change(now_ms);
        let mut view = planned.view.advanced(planned.filter.id, planned.chain);
        if planned.overlay.reshapes {
            view = view.reshaped();
        }
        let changes = Changes {
            pages: PageChanges::default(),
            view: Arc::new(view),
            filter: planned.filter,
            fresh_from: planned.fresh_from,
            dropped: planned.dropped,
        };
        let [mut record, mut counters, mut wholes] = <[RedoBuilder; 3]>::default();
        let width = changes.view.chain.params().slot_width();
        record.filter(changes.filter.id, width.bits() as u8);
        counters.counters(changes.filter.id);
        wholes.wholes(changes.filter.id);
        Encoding {
            in_order: ChangesInOrder::of(&planned.overlay),
            overlay: planned.overlay,
            changes,
            is_changed,
            record,
            counters,
            wholes,
        }
    }

    /// Encodes about so many words and counters more. `true`: these were the last.
    pub(super) fn go_on(&mut self, words: usize) -> bool {
        let so_far = &self.in_order.so_far;
        let (pages, wholes) = (so_far.pages.len(), so_far.wholes.len());
        let is_done = self.in_order.go_on(&self.overlay, words);
        let so_far = &self.in_order.so_far;
        put_slots(&mut self.record, &self.changes, so_far, pages);
        put_counters(&mut self.counters, &self.changes, so_far, pages);
        put_wholes(&mut self.wholes, &self.changes, so_far, wholes);
        is_done
    }

    /// Words and counters that change.
    pub(super) fn words(&self) -> usize {
        self.overlay.changed_words()
    }

    /// Pages that come to be with this.
    pub(super) fn new_pages(&self) -> usize {
        new_pages(&self.changes.view, self.changes.fresh_from, &self.overlay)
    }

    /// All of it, once it is encoded; of a filter that stays as it is nothing, if
    /// that is there already.
    pub(super) fn finish(self, is_new: bool) -> Encoded {
        let (mut changes, mut wholes) = (self.changes, self.wholes);
        changes.pages = self.in_order.so_far;
        // Every page that is no more, behind those that are set as a whole.
        wholes.dropped(changes.filter.id);
        let dropped = changes.pages.dropped.iter();
        for id in dropped.filter_map(|&it| changes.id(it)) {
            wholes.dropped_page(id.ordinal, id.page);
        }
        let mut redo = self.record.finish();
        redo.append(&mut self.counters.finish());
        redo.append(&mut wholes.finish());
        let is_changed = is_new || self.is_changed;
        Encoded {
            changes: is_changed.then_some(changes).into_iter().collect(),
            redo,
        }
    }
}

/// Puts every written slot of the pages from the one of that number on into the
/// record of their filter.
fn put_slots(record: &mut RedoBuilder, changes: &Changes, pages: &PageChanges, from: usize) {
    let width = changes.view.chain.params().slot_width();
    let (bits, mask) = (width.bits(), u64::from(width.fingerprints()));
    for page in pages.pages.iter().skip(from) {
        let Some(id) = changes.id(page.address) else {
            continue;
        };
        record.page(id.ordinal, id.page);
        for word in pages.words_of(page) {
            for lane in (0..width.slots_per_word()).filter(|lane| word.slots & 1 << lane != 0) {
                let slot = u32::from(word.at.word * width.slots_per_word() + lane);
                record.slot(slot, word.value >> (bits * lane) & mask);
            }
        }
    }
}

/// Puts every counter of the pages from the one of that number on into the section
/// of these.
fn put_counters(record: &mut RedoBuilder, changes: &Changes, pages: &PageChanges, from: usize) {
    if pages.counters.is_empty() {
        return;
    }
    for page in pages.pages.iter().skip(from) {
        let Some(id) = changes.id(page.address) else {
            continue;
        };
        record.page(id.ordinal, id.page);
        for counter in pages.counters_of(page) {
            record.counter(counter.key.0, counter.copies);
        }
    }
}

/// Puts every page that is set as a whole, from the one of that number on, into
/// the section of these.
fn put_wholes(record: &mut RedoBuilder, changes: &Changes, pages: &PageChanges, from: usize) {
    for (page, whole) in pages.wholes.iter().skip(from) {
        if let Some((table, id)) = changes.table(*page).zip(changes.id(*page)) {
            let page_bytes = table.geometry().page_bytes();
            let counters = Some(&whole.counters).filter(|it| !it.is_empty());
            let image = image::encode(whole.words.iter().copied(), page_bytes, counters);
            record.whole(id.ordinal, id.page, &image);
        }
    }
}

#[cfg(test)]
mod tests;
