//! Pages as they are planned to be, over the pages as they are.

use super::overlay::{Growth, Overlay, PageNumber};
use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::counters::{CounterKey, CounterKeys, Counters};
use crate::chain::meta::Chain;
use crate::chain::pages::{Draft, PageWords, PlanPages, WholePage};
use std::sync::Arc;

/// Pages as they are planned to be: changes over others that wait over the
/// pages themselves.
pub struct OverlaidPages<'a, P> {
    pub(super) overlay: Overlay,
    pending: &'a Overlay,
    fresh_from: u32,
    pages: &'a mut P,
    /// The page that was asked for last: the next word is likely to lie on it,
    /// too.
    last: KnownPage,
}

/// A page, and what is planned for it.
#[derive(Clone, Copy)]
struct KnownPage {
    page: PageAddress,
    planned: Option<PageNumber>,
    pending: Option<PageNumber>,
}

impl KnownPage {
    /// No page has this address.
    const NONE: KnownPage = KnownPage {
        page: PageAddress {
            sub: u32::MAX,
            page: u32::MAX,
        },
        planned: None,
        pending: None,
    };
}

impl<'a, P> OverlaidPages<'a, P> {
    /// Nothing is changed yet, over changes that wait and the pages. Words of
    /// sub-filters from `fresh_from` on are 0 where no change waits.
    pub(in crate::chain) fn new(pending: &'a Overlay, fresh_from: u32, pages: &'a mut P) -> Self {
        OverlaidPages {
            overlay: Overlay::default(),
            pending,
            fresh_from,
            pages,
            last: KnownPage::NONE,
        }
    }

    /// A page, and what is planned for it.
    #[inline(always)]
    fn page(&mut self, page: PageAddress) -> KnownPage {
        if self.last.page != page {
            self.last.page = page;
            self.last.planned = self.overlay.page(page);
            self.last.pending = self.pending.page(page);
        }
        self.last
    }

    /// The page's place in the overlay, to be written to.
    #[inline]
    fn page_to_change(&mut self, page: PageAddress) -> PageNumber {
        let known = self.page(page);
        if let Some(number) = known.planned {
            return number;
        }
        let number = self.overlay.add_page(page);
        self.last.planned = Some(number);
        number
    }

    /// A page that some change holds as a whole, and by how much it has more by
    /// now; else by how much it has more than in the pages.
    fn growth(&mut self, page: PageAddress) -> (Option<&WholePage>, Growth) {
        let known = self.page(page);
        let of = |overlay: &Overlay, number: Option<PageNumber>| {
            number.map(|it| overlay.growth(it)).unwrap_or_default()
        };
        let planned = of(&self.overlay, known.planned);
        if let Some(whole) = known.planned.and_then(|it| self.overlay.whole(it)) {
            return (Some(whole), Growth::default());
        }
        if let Some(whole) = known.pending.and_then(|it| self.pending.whole(it)) {
            return (Some(whole), planned);
        }
        let pending = of(self.pending, known.pending);
        let growth = Growth {
            occupied: planned.occupied + pending.occupied,
            counters: planned.counters + pending.counters,
        };
        (None, growth)
    }
}

impl<P: PageWords> PageWords for OverlaidPages<'_, P> {
    #[inline(always)]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        let known = self.page(at.on());
        let planned = known.planned.and_then(|it| self.overlay.word(it, at.word));
        let planned = planned.or_else(|| self.pending.word(known.pending?, at.word));
        match planned {
            Some(_) => planned,
            None if at.sub >= self.fresh_from => Some(0),
            None => self.pages.word(at),
        }
    }

    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        let planned = self.overlay.counter(page, key);
        if let Some(copies) = planned.or_else(|| self.pending.counter(page, key)) {
            return Some(copies);
        }
        match page.sub >= self.fresh_from {
            true => Some(0),
            false => self.pages.counter(page, key),
        }
    }

    fn counters_within(&mut self, page: PageAddress, keys: CounterKeys) -> Option<Counters> {
        let known = self.page(page);
        let planned = known.planned.and_then(|it| self.overlay.whole(it));
        if let Some(whole) = planned {
            return Some(whole.counters.within(keys));
        }
        let mut counters = match known.pending.and_then(|it| self.pending.whole(it)) {
            Some(whole) => whole.counters.within(keys.clone()),
            None if page.sub >= self.fresh_from => Counters::default(),
            None => self.pages.counters_within(page, keys.clone())?,
        };
        for overlay in [self.pending, &self.overlay] {
            for (key, copies) in overlay.counters_within(page, keys.clone()) {
                counters.set(key, copies);
            }
        }
        Some(counters)
    }

    #[inline]
    fn prefetch(&self, at: WordAddress) {
        self.pages.prefetch(at);
    }
}

impl<P: PlanPages> PlanPages for OverlaidPages<'_, P> {
    #[inline]
    fn expect(&mut self, words: &[WordAddress]) {
        // New pages are at no place that could be asked for.
        if words.first().is_some_and(|at| at.sub < self.fresh_from) {
            self.pages.expect(words);
        }
    }

    fn occupied(&mut self, page: PageAddress) -> Option<u32> {
        let is_fresh = page.sub >= self.fresh_from;
        let (whole, growth) = self.growth(page);
        let before = match whole {
            Some(whole) => Some(whole.occupied),
            None if is_fresh => Some(0),
            None => self.pages.occupied(page),
        };
        Some(before?.saturating_add_signed(growth.occupied))
    }

    fn counters(&mut self, page: PageAddress) -> Option<usize> {
        let is_fresh = page.sub >= self.fresh_from;
        let (whole, growth) = self.growth(page);
        let before = match whole {
            Some(whole) => Some(whole.counters.len()),
            None if is_fresh => Some(0),
            None => self.pages.counters(page),
        };
        Some(before?.saturating_add_signed(growth.counters as isize))
    }
}

impl<P: PlanPages> Draft for OverlaidPages<'_, P> {
    #[inline(always)]
    fn set_slot(&mut self, at: WordAddress, value: u64, lane: u16, more: i32) {
        let page = self.page_to_change(at.on());
        let grown = Growth {
            occupied: more,
            counters: 0,
        };
        self.overlay.set(page, at.word, value, 1 << lane, grown);
    }

    fn set_counter(&mut self, page: PageAddress, key: CounterKey, copies: u64, more: i32) {
        let number = self.page_to_change(page);
        self.overlay.set_counter(page, key, copies);
        let grown = Growth {
            occupied: 0,
            counters: more,
        };
        self.overlay.grow(number, grown);
    }

    /// Sub-filters beyond those that have pages read as 0 anyway.
    fn add_sub_filters(&mut self, _: &Chain) {}

    fn set_page(&mut self, page: PageAddress, whole: WholePage) {
        self.overlay.set_whole(page, Arc::new(whole));
        self.last = KnownPage::NONE;
    }

    fn drop_page(&mut self, page: PageAddress) {
        self.overlay.drop_page(page);
        self.last = KnownPage::NONE;
    }
}
