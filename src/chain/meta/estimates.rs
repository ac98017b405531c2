//! Load, false-positive rate and remaining room of a chain.

use super::chain::Chain;
use super::sub_filter::SubFilter;

impl Chain {
    /// Share of all slots in use, 0 to 1.
    pub fn load(&self) -> f64 {
        let slots: u64 = self.sub_filters.iter().map(|sub| sub.layout.slots()).sum();
        let occupied: u64 = self.sub_filters.iter().map(|sub| sub.occupied).sum();
        occupied as f64 / slots as f64
    }

    /// Probability that an item which was never added is found, from the
    /// loads as they are: the chain misses only if every sub-filter misses.
    pub fn false_positive_rate(&self) -> f64 {
        let misses: f64 = self
            .sub_filters
            .iter()
            .map(|sub| 1.0 - sub.false_positive_rate())
            .product();
        1.0 - misses
    }

    /// Probability that an item which was never added is found when the chain
    /// has as many sub-filters as its promise is for, all of them full.
    pub fn full_false_positive_rate(&self) -> f64 {
        let Some(sub) = self.sub_filters.first() else {
            return 0.0;
        };
        let load = sub.layout.target_load();
        let missed = 1.0 - sub.layout.false_positive_rate(load);
        1.0 - missed.powi(self.params.promised_sub_filters() as i32)
    }

    /// Whether the chain is as short as its promise reckons with; without a
    /// promise there is none to break.
    pub fn keeps_promise(&self) -> bool {
        self.params.error_rate().is_none()
            || self.sub_filters.len() <= self.params.promised_sub_filters() as usize
    }

    /// Adds that are expected to fit before the chain grows: the slots that
    /// kick-outs reach, less those in use.
    pub fn adds_before_expansion(&self) -> u64 {
        self.sub_filters
            .iter()
            .map(|sub| (sub.reachable() as u64).saturating_sub(sub.occupied))
            .sum()
    }

    /// The share of the slots that kick-outs reach which is in use, 0 to 1, for
    /// a chain that may not grow any more; `None` while it may.
    pub fn final_fill(&self) -> Option<f64> {
        self.next_layout().err()?;
        let occupied: u64 = self.sub_filters.iter().map(|sub| sub.occupied).sum();
        let reachable: f64 = self.sub_filters.iter().map(SubFilter::reachable).sum();
        Some((occupied as f64 / reachable).min(1.0))
    }

    /// The chain with so many slots in use, by sub-filter. `None` if there are
    /// not so many.
    pub fn with_occupied(mut self, occupied: &[u64]) -> Option<Chain> {
        for (sub, &occupied) in self.sub_filters.iter_mut().zip(occupied) {
            if occupied > sub.layout.slots() {
                return None;
            }
            sub.occupied = occupied;
        }
        Some(self)
    }
}
