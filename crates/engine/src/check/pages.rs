//! Compares what lies in pages with the descriptions of their filters, some
//! sub-filters at a time: each slice as it was at one moment.

use super::inspector::{Fault, Inspector};
use crate::chain::contents::Contents;
use crate::cuckoo::layout::Layout;
use crate::filters::decode;
use crate::page::{FilterId, Ordinal, PageId};
use crate::pages::PageGeometry;
use crate::store::{Garbage, Result, Snapshot, StoreError, StoredFilter};
use crate::stored::contents;
use crate::stored::{PageVisitor, each_page};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};

/// Filter numbers listed at once.
const FILTERS_AT_ONCE: usize = 256;

/// What is compared before any page: the first there may be.
pub(crate) const FIRST_PAGE: PageId = PageId::new(FilterId(0), Ordinal(0), 0);

/// Behind every page: no filter has this number.
const BEHIND_ALL: PageId = PageId::new(FilterId(u64::MAX), Ordinal(u32::MAX), u32::MAX);

/// How much is compared as of one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SliceBounds {
    /// Bytes of slots, if it is more than one sub-filter.
    pub(crate) bytes: u64,
    /// Sub-filters.
    pub(crate) sub_filters: usize,
    /// Entries of the log that are held in memory.
    pub(crate) log_entries: usize,
}

/// What a slice came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Filters whose first sub-filter is among it.
    pub(crate) filters: u64,
    /// Items in those.
    pub(crate) items: u64,
    /// Pages of which an image is stored, or changes are logged.
    pub(crate) pages: u64,
    /// Where to go on; `None`: that was the end, or it was ended.
    pub(crate) next: Option<PageId>,
}

/// Compares the pages from one on, as far as the bounds allow.
///
/// # Errors
/// What can't be said of a filter: the log, or the store itself, can't be
/// read.
pub(crate) fn compare(
    view: &Snapshot<'_>,
    from: PageId,
    bounds: SliceBounds,
    inspector: &mut dyn Inspector,
) -> Result<Compared> {
    let mut slice = Slice::describe(view, from, bounds, inspector)?;
    inspector.begin(slice.bytes);
    let span = from..slice.end;
    let filters = span.start.filter..=span.end.filter;
    slice.garbage = view.garbage(filters)?.into_iter().collect();
    let mut comparison = Comparison { slice, inspector };
    let flow = each_page(view, &[span], bounds.log_entries, &mut comparison)?;
    if flow.is_continue() {
        comparison.compare_sums();
    }
    let Slice { end, compared, .. } = comparison.slice;
    let goes_on = flow.is_continue() && end < BEHIND_ALL;
    Ok(Compared {
        next: goes_on.then_some(end),
        ..compared
    })
}

/// A sub-filter as it is described, and as its pages are.
struct Described {
    layout: Layout,
    told: Contents,
    found: Contents,
    /// Not all of its pages could be read: what is in them can't be known.
    is_broken: bool,
}

/// What is compared as of one moment.
struct Slice {
    /// Up to this page, excluded.
    end: PageId,
    described: BTreeMap<(FilterId, Ordinal), Described>,
    names: BTreeMap<FilterId, String>,
    /// Filters whose descriptions can't be read: nothing can be said of their
    /// pages.
    undescribed: BTreeSet<FilterId>,
    garbage: BTreeSet<Garbage>,
    /// Bytes of slots of the sub-filters.
    bytes: u64,
    compared: Compared,
}

impl Slice {
    fn describe(
        view: &Snapshot<'_>,
        from: PageId,
        bounds: SliceBounds,
        inspector: &mut dyn Inspector,
    ) -> Result<Slice> {
        let mut slice = Slice {
            end: BEHIND_ALL,
            described: BTreeMap::new(),
            names: BTreeMap::new(),
            undescribed: BTreeSet::new(),
            garbage: BTreeSet::new(),
            bytes: 0,
            compared: Compared::default(),
        };
        let mut next = Some(from.filter);
        while let Some(first) = next {
            let ids = view.filter_ids(first, FILTERS_AT_ONCE)?;
            next = match ids.last() {
                Some(last) if ids.len() == FILTERS_AT_ONCE => Some(FilterId(last.0 + 1)),
                _ => None,
            };
            for id in ids {
                // Where an earlier slice ended within a filter.
                let ordinal = (id == from.filter).then_some(from.ordinal);
                let ordinal = ordinal.unwrap_or(Ordinal(0));
                let stored = match view.filter_by_id(id) {
                    Ok(Some(stored)) => stored,
                    Ok(None) => continue,
                    Err(error) => {
                        slice.undescribed.insert(id);
                        inspector.fault(Fault::new(None, error));
                        continue;
                    }
                };
                if let Err(error) = see_that_its_name_leads_to(view, &stored) {
                    inspector.fault(Fault::new(Some(stored.name.clone()), error));
                }
                match slice.add(&stored, ordinal, bounds) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return Ok(slice),
                    Err(error) => {
                        slice.undescribed.insert(id);
                        inspector.fault(Fault::new(Some(stored.name), error));
                    }
                }
            }
        }
        Ok(slice)
    }

    /// Adds the sub-filters of a filter from one on. Breaks at the bounds.
    fn add(
        &mut self,
        stored: &StoredFilter,
        from: Ordinal,
        bounds: SliceBounds,
    ) -> Result<ControlFlow<()>> {
        let (id, chain) = (stored.id, decode(stored.id, &stored.meta)?);
        self.names.insert(id, stored.name.clone());
        let oldest = chain.sub_filters().next().map(|sub| sub.ordinal);
        let subs = chain.sub_filters();
        for sub in subs.filter(|sub| sub.ordinal >= from) {
            let bytes = sub.layout.bytes();
            let is_over = self.bytes.saturating_add(bytes) > bounds.bytes
                || self.described.len() >= bounds.sub_filters;
            if is_over && !self.described.is_empty() {
                self.end = PageId::new(id, sub.ordinal, 0);
                return Ok(ControlFlow::Break(()));
            }
            if Some(sub.ordinal) == oldest {
                self.compared.filters += 1;
                self.compared.items = self.compared.items.saturating_add(chain.items());
            }
            self.bytes = self.bytes.saturating_add(bytes);
            self.described.insert(
                (id, sub.ordinal),
                Described {
                    layout: sub.layout,
                    told: Contents::told_by(&chain, &sub),
                    found: Contents::none_of(&sub.layout),
                    is_broken: false,
                },
            );
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether a page that no description names is one that nothing can reach
    /// and that waits to be removed, or whose filter is a fault already.
    fn is_accounted_for(&self, id: PageId) -> bool {
        self.undescribed.contains(&id.filter)
            || self.garbage.contains(&Garbage::Filter(id.filter))
            || self
                .garbage
                .contains(&Garbage::SubFilter(id.filter, id.ordinal))
    }
}

/// # Errors
/// Names the filter.
fn see_that_its_name_leads_to(view: &Snapshot<'_>, stored: &StoredFilter) -> Result {
    match view.filter_by_name(&stored.name)? {
        Some(found) if found.id == stored.id => Ok(()),
        _ => Err(StoreError::corrupt(
            format!("filter {}", stored.id),
            "its name does not lead to it",
        )),
    }
}

struct Comparison<'a> {
    slice: Slice,
    inspector: &'a mut dyn Inspector,
}

impl Comparison<'_> {
    fn fault(&mut self, filter: FilterId, error: StoreError) {
        let filter = self.slice.names.get(&filter).cloned();
        self.inspector.fault(Fault::new(filter, error));
    }

    fn corrupt(&mut self, id: PageId, reason: String) {
        let what = id.to_string();
        self.fault(id.filter, StoreError::Corrupt { what, reason });
    }

    /// A page of no sub-filter that is described. One for all of it is said.
    fn stray(&mut self, id: PageId) {
        if self.slice.is_accounted_for(id) {
            return;
        }
        let pages = Garbage::SubFilter(id.filter, id.ordinal);
        self.slice.garbage.insert(pages);
        let error = StoreError::corrupt(id.to_string(), "it belongs to nothing that is described");
        let filter = self.slice.names.get(&id.filter).cloned();
        self.inspector.fault(Fault {
            unreachable: Some(pages),
            ..Fault::new(filter, error)
        });
    }

    /// A page, as far as its image says anything.
    fn look(&mut self, id: PageId, image: Result<&[u8]>) {
        let place = (id.filter, id.ordinal);
        let Some(sub) = self.slice.described.get_mut(&place) else {
            return self.stray(id);
        };
        let pages = sub.layout.pages();
        if id.page.0 >= pages {
            return self.corrupt(id, format!("its sub-filter has {pages} pages"));
        }
        let contents = image.map(|image| contents(image, &sub.layout, id.page.0));
        match contents {
            Ok(Some(contents)) => sub.found.add(&contents),
            Ok(None) => {
                sub.is_broken = true;
                self.corrupt(id, "it does not fit its sub-filter".to_owned());
            }
            Err(error) => {
                sub.is_broken = true;
                self.fault(id.filter, error);
            }
        }
    }

    /// Sees whether each sub-filter's pages hold what its description says.
    fn compare_sums(&mut self) {
        let differ = |sub: &Described| !sub.is_broken && sub.found != sub.told;
        let described = self.slice.described.iter();
        let different: Vec<(FilterId, String, String)> = described
            .filter(|(_, sub)| differ(sub))
            .map(|(&(filter, ordinal), Described { told, found, .. })| {
                let what = format!("filter {filter} sub-filter {}", ordinal.0);
                let sums = |it: &Contents| (it.occupied, it.counted);
                let reason = match sums(found) != sums(told) {
                    true => format!(
                        "its pages have {} slots in use and count {} copies, its description says {} and {}",
                        found.occupied, found.counted, told.occupied, told.counted
                    ),
                    false if found.keys != told.keys => format!(
                        "there are {} counters beside its pages, its description says {}",
                        found.keys, told.keys
                    ),
                    false => "its slots do not know as many bits of their items as its description says"
                        .to_owned(),
                };
                (filter, what, reason)
            })
            .collect();
        for (filter, what, reason) in different {
            let name = self.slice.names.get(&filter).cloned();
            self.inspector.fault(Fault {
                is_sum: true,
                ..Fault::new(name, StoreError::Corrupt { what, reason })
            });
        }
    }

    /// Looks for the pages of a range that can't be read, one by one.
    fn search(
        &mut self,
        view: &Snapshot<'_>,
        pages: &Range<PageId>,
        error: StoreError,
    ) -> ControlFlow<()> {
        let mut is_found = false;
        let mut concerned = Vec::new();
        for (&(id, ordinal), sub) in &mut self.slice.described {
            let page = move |number| PageId::new(id, ordinal, number);
            let count = sub.layout.pages();
            if page(0) < pages.end && page(count) > pages.start {
                sub.is_broken = true;
                concerned.push((0..count).map(page));
            }
        }
        for all in concerned {
            for id in all.filter(|id| pages.contains(id)) {
                if self.inspector.read(0).is_break() {
                    return ControlFlow::Break(());
                }
                if let Err(error) = view.page(id, &mut |_| {}) {
                    is_found = true;
                    self.fault(id.filter, error);
                }
            }
        }
        if !is_found {
            self.fault(pages.start.filter, error);
        }
        ControlFlow::Continue(())
    }
}

impl PageVisitor for Comparison<'_> {
    fn between(&mut self) -> ControlFlow<()> {
        self.inspector.read(0)
    }

    fn geometry(&self, id: PageId) -> Option<PageGeometry> {
        let sub = self.slice.described.get(&(id.filter, id.ordinal))?;
        Some(PageGeometry::of(&sub.layout))
    }

    fn page(&mut self, id: PageId, image: Result<&[u8]>) -> Result<ControlFlow<()>> {
        let bytes = image.as_ref().map_or(0, |image| image.len());
        self.slice.compared.pages += 1;
        self.look(id, image);
        Ok(self.inspector.read(bytes as u64))
    }

    fn unreadable(
        &mut self,
        view: &Snapshot<'_>,
        pages: Range<PageId>,
        error: StoreError,
    ) -> Result<ControlFlow<()>> {
        Ok(self.search(view, &pages, error))
    }
}
