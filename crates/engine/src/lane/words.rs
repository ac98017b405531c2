//! The words that a lane plans over.

use super::allowance::Allowance;
use crate::chain::address::{PageAddress, WordAddress};
use crate::chain::counters::{CounterKey, CounterKeys, Counters};
use crate::chain::pages::{PageWords, PlanPages};
use crate::filters::FilterView;
use crate::pages::{Frame, PageCache, PlanPins};
use std::collections::BTreeSet;

/// What a plan needs and has not.
#[derive(Default)]
pub(super) struct Missing {
    /// Pages that are not resident.
    pub(super) pages: BTreeSet<PageAddress>,
    /// Whether the command touches more pages than it may.
    pub(super) over: bool,
}

/// Words as the lane sees them: it alone changes them, so they need no check.
pub(super) struct LaneWords<'a> {
    cache: &'a PageCache,
    view: &'a FilterView,
    pins: &'a mut PlanPins,
    /// Pages that the group commit may hold after this command.
    allowed: usize,
    /// What the lane may hold, and what it does beside the pins, if not all of it is
    /// its own.
    within: Option<(&'a mut Allowance, usize)>,
    pub(super) missing: Missing,
    /// The page that was asked for last: the next word is likely to lie on it,
    /// too.
    here: Option<(PageAddress, Frame<'a>)>,
}

impl<'a> LaneWords<'a> {
    /// The words of a view's pages, of which so many may be held, and only as far as the
    /// lane may hold pages.
    pub(super) fn new(
        cache: &'a PageCache,
        view: &'a FilterView,
        pins: &'a mut PlanPins,
        allowed: usize,
        within: Option<(&'a mut Allowance, usize)>,
    ) -> LaneWords<'a> {
        LaneWords {
            cache,
            view,
            pins,
            allowed,
            within,
            missing: Missing::default(),
            here: None,
        }
    }

    /// Whether the group commit may hold so many pages.
    fn may_hold(&mut self, pages: usize) -> bool {
        let within = self.within.as_mut();
        pages <= self.allowed && within.is_none_or(|(all, others)| all.covers(*others + pages))
    }

    /// The frame of a page, which stays resident until the group commit ends.
    #[inline]
    fn frame(&mut self, page: PageAddress) -> Option<Frame<'a>> {
        match self.here {
            Some((here, frame)) if here == page => Some(frame),
            _ => {
                let frame = self.find(page)?;
                self.here = Some((page, frame));
                Some(frame)
            }
        }
    }

    #[inline]
    fn find(&mut self, page: PageAddress) -> Option<Frame<'a>> {
        let table = self.view.tables.get(page.sub as usize)?;
        if let Some(index) = self.pins.pinned(table, page.page) {
            return self.cache.frame(index);
        }
        let held = self.pins.held() + self.missing.pages.len();
        if self.missing.over || !self.may_hold(held + 1) {
            self.missing.over = true;
            return None;
        }
        match self.pins.pin(table, page.page) {
            Some(index) => self.cache.frame(index),
            None => {
                self.missing.pages.insert(page);
                None
            }
        }
    }
}

impl PageWords for LaneWords<'_> {
    #[inline]
    fn word(&mut self, at: WordAddress) -> Option<u64> {
        Some(self.frame(at.on())?.load(at.word))
    }

    fn counter(&mut self, page: PageAddress, key: CounterKey) -> Option<u64> {
        Some(self.frame(page)?.counter(key))
    }

    fn counters_within(&mut self, page: PageAddress, keys: CounterKeys) -> Option<Counters> {
        Some(self.frame(page)?.counters_within(keys))
    }

    #[inline]
    fn prefetch(&self, at: WordAddress) {
        if let Some(table) = self.view.tables.get(at.sub as usize) {
            self.cache.prefetch(table, at.page, at.word);
        }
    }
}

impl PlanPages for LaneWords<'_> {
    #[inline]
    fn occupied(&mut self, page: PageAddress) -> Option<u32> {
        Some(self.frame(page)?.occupied())
    }

    fn counters(&mut self, page: PageAddress) -> Option<usize> {
        Some(self.frame(page)?.counters())
    }

    fn expect(&mut self, words: &[WordAddress]) {
        let wanted = self.allowed.min(self.pins.held() + words.len());
        let most = match &mut self.within {
            Some((all, others)) => match all.covers(*others + wanted) {
                true => wanted,
                false => all.pages().saturating_sub(*others),
            },
            None => wanted,
        };
        let tables = &self.view.tables;
        let words = words
            .iter()
            .filter_map(|at| Some((&**tables.get(at.sub as usize)?, at.page, at.word)));
        self.pins.expect(words, most);
    }
}
