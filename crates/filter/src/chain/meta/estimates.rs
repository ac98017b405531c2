//! Load, false-positive rate and remaining room of a filter.

use super::chain::{Chain, Pages};
use super::sub_filter::SubFilter;
use crate::cuckoo::layout::Layout;

impl Chain {
    /// Share of all slots in use, 0 to 1.
    pub fn load(&self) -> f64 {
        let slots: u64 = self.sub_filters().map(|sub| sub.layout.slots()).sum();
        let occupied: u64 = self.sub_filters().map(|sub| sub.occupied).sum();
        occupied as f64 / slots as f64
    }

    /// Probability that an item which was never added is found: a chain misses
    /// only if every sub-filter misses.
    pub fn false_positive_rate(&self) -> f64 {
        match self.table() {
            Some(table) => table.false_positive_rate(),
            None => {
                let rates = self.sub_filters().map(|sub| self.rate_in(&sub));
                1.0 - rates.map(|rate| 1.0 - rate).product::<f64>()
            }
        }
    }

    /// The same in one of its sub-filters: from its load, or exact, from the
    /// counters of a filter of the layout `paged`.
    pub fn rate_in(&self, sub: &SubFilter) -> f64 {
        match (self.table(), sub.layout) {
            (None, Layout::Classic(layout)) => layout.false_positive_rate(sub.load()),
            (Some(table), _) => table.false_positive_rate(),
            // A chain has one layout.
            (None, Layout::Paged(_)) => 0.0,
        }
    }

    /// Probability that an item which was never added is found when the filter
    /// has grown as far as its promise goes: `paged` to `promised_growth` times
    /// its capacity, `classic` to eight sub-filters, all of them full.
    pub fn full_false_positive_rate(&self) -> f64 {
        if let Some(rate) = self.params.promised_rate() {
            return rate;
        }
        let first = self.links().get(0).map(|link| link.layout);
        let full = first.map_or(0.0, |it| it.false_positive_rate(it.target_load()));
        1.0 - (1.0 - full).powi(self.params.promised_sub_filters() as i32)
    }

    /// Whether the false-positive rate is no larger than promised; without a
    /// promise there is none to break.
    pub fn keeps_promise(&self) -> bool {
        let promised = self.params.error_rate();
        promised.is_none_or(|rate| self.false_positive_rate() <= rate)
    }

    /// Adds that are expected to fit before the filter takes more pages.
    pub fn adds_before_expansion(&self) -> u64 {
        match self.table() {
            Some(table) => table.adds_before_split(self.params.expansion() > 0),
            None => self
                .links()
                .iter()
                .map(|link| link.reachable().saturating_sub(link.occupied))
                .sum(),
        }
    }

    /// The share of the slots that kick-outs reach which is in use, 0 to 1, for
    /// a filter that may not grow any more; `None` while it may.
    pub fn final_fill(&self) -> Option<f64> {
        self.growth_end()?;
        let (occupied, reachable) = match self.table() {
            Some(table) => (table.occupied, table.reachable()),
            None => {
                let links = self.links().iter();
                links.fold((0, 0), |(occupied, reachable), link| {
                    (occupied + link.occupied, reachable + link.reachable())
                })
            }
        };
        Some((occupied as f64 / reachable as f64).min(1.0))
    }

    /// `paged`: complete doublings that its slots and page numbers still allow.
    pub fn doublings_left(&self) -> Option<u32> {
        let layout = self.table()?.layout;
        let most = u64::from(self.params.max_growth()?) * u64::from(layout.families());
        Some((most / u64::from(layout.pages())).ilog2())
    }

    /// The filter with so many slots in use, by sub-filter; one of the layout
    /// `paged` that has not grown. `None` if there are not so many.
    pub fn with_occupied(mut self, occupied: &[u64]) -> Option<Chain> {
        let fits = |(sub, &occupied): (SubFilter, &u64)| occupied <= sub.layout.slots();
        if !self.sub_filters().zip(occupied).all(fits) {
            return None;
        }
        match &mut self.pages {
            Pages::Links(links) => {
                for (link, &occupied) in links.links.iter_mut().zip(occupied) {
                    link.occupied = occupied;
                }
            }
            Pages::Table(table) => *table = table.clone().with_items(*occupied.first()?),
        }
        Some(self)
    }
}
