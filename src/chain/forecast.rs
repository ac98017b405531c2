//! Size, load and false-positive rate of a filter before it is made: at its
//! capacity, and after it has grown.
//!
//! No formula of its own: it makes empty chains, sets how many of their slots
//! are in use, and asks them.

use super::meta::{Chain, FullReason};
use super::params::FilterParams;
use crate::cuckoo::hash::HashKey;

/// What a filter of some parameters will be.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Buckets of the first sub-filter.
    pub buckets: u64,
    /// Pages of the first sub-filter.
    pub pages: u64,
    /// Share of its slots in use once its capacity is in it, 0 to 1.
    pub load_at_capacity: f64,
    /// Expected false-positive rate at capacity.
    pub rate_at_capacity: f64,
    /// The filter with one sub-filter, with two, and so on, up to as many as an
    /// false-positive rate is promised for or as it may have.
    pub stages: Vec<Stage>,
    /// Why there are no more stages, if it may not grow that far.
    pub stopped_by: Option<FullReason>,
}

/// The filter with this number of sub-filters, all of them full.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Sub-filters.
    pub sub_filters: u32,
    /// Expected number of items that fit.
    pub items: u64,
    /// Bytes that its slots take.
    pub bytes: u64,
    /// Expected false-positive rate: the probability that a never-added item is found.
    pub false_positive_rate: f64,
}

/// What a filter of these parameters will be. `None` if its pages could not be
/// numbered.
pub fn forecast(params: &FilterParams) -> Option<Forecast> {
    let mut chain = Chain::new(params.clone(), HashKey([0; 16]), 0)?;
    let first = chain.sub_filters().first()?.layout;
    let at_capacity = params.capacity().min(first.slots());
    let filled = chain.clone().with_occupied(&[at_capacity])?;
    let mut stages = Vec::new();
    let mut stopped_by = None;
    for sub_filters in 1..=params.promised_sub_filters() {
        if sub_filters > 1
            && let Err(reason) = chain.grow()
        {
            stopped_by = Some(reason);
            break;
        }
        let full: Vec<u64> = chain
            .sub_filters()
            .iter()
            .map(|sub| sub.reachable() as u64)
            .collect();
        stages.push(Stage {
            sub_filters,
            items: chain.adds_before_expansion(),
            bytes: chain.slot_bytes(),
            false_positive_rate: chain.clone().with_occupied(&full)?.false_positive_rate(),
        });
    }
    if params.expansion() == 0 {
        stopped_by = Some(FullReason::ExpansionOff);
    }
    Some(Forecast {
        buckets: first.buckets(),
        pages: u64::from(first.pages()),
        load_at_capacity: filled.sub_filters().first()?.load(),
        rate_at_capacity: filled.false_positive_rate(),
        stages,
        stopped_by,
    })
}

#[cfg(test)]
mod tests;
