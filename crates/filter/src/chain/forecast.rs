//! Size, load and false-positive rate of a filter before it is made: at its
//! capacity, and after it has grown.

use super::meta::Table;
use super::meta::{Chain, FullReason};
use super::params::{FilterParams, GrowthBounds};
use crate::cuckoo::hash::HashKey;
use crate::cuckoo::paged::PAGE_BYTES;
use crate::cuckoo::paged::rate;

/// What a filter of some parameters will be.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast {
    /// Buckets before it grows.
    pub buckets: u64,
    /// Pages before it grows.
    pub pages: u64,
    /// Share of its slots in use once its capacity is in it, 0 to 1.
    pub load_at_capacity: f64,
    /// Expected false-positive rate at capacity.
    pub rate_at_capacity: f64,
    /// The filter before it grows, once grown, and so on, each full: as often
    /// as a false-positive rate is promised or told for, or as it may.
    pub stages: Vec<Stage>,
    /// Why there are no more stages, if it may not grow that far.
    pub stopped_by: Option<FullReason>,
}

/// A filter that has grown so often, and is full.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Sub-filters.
    pub sub_filters: u32,
    /// How many times its first slots it has.
    pub growth: u64,
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
    let chain = Chain::new(params.clone(), HashKey([0; 16]), 0)?;
    let first = chain.sub_filter(0)?.layout;
    let at_capacity = params.capacity().min(first.slots());
    let filled = chain.clone().with_occupied(&[at_capacity])?;
    let (stages, mut stopped_by) = match chain.table() {
        Some(table) => of_table(params, table),
        None => of_links(params, chain.clone())?,
    };
    if params.expansion() == 0 {
        stopped_by = Some(FullReason::ExpansionOff);
    }
    Some(Forecast {
        buckets: first.buckets(),
        pages: u64::from(first.pages()),
        load_at_capacity: filled.load(),
        rate_at_capacity: filled.false_positive_rate(),
        stages,
        stopped_by,
    })
}

/// How a filter grows, and what ends that too early.
type Course = (Vec<Stage>, Option<FullReason>);

fn of_table(params: &FilterParams, table: &Table) -> Course {
    let first = &table.layout;
    let (mut stages, mut stopped_by) = (Vec::new(), None);
    let promised = params.promised_growth().unwrap_or(1).next_power_of_two();
    let GrowthBounds {
        max_doublings,
        max_bytes,
        ..
    } = params.growth_bounds();
    for doublings in 0..=promised.ilog2() {
        let pages = u64::from(first.pages()) << doublings;
        let bytes = pages * u64::from(PAGE_BYTES);
        stopped_by = match () {
            () if doublings > u32::from(max_doublings) => Some(FullReason::MaxExpansions),
            () if bytes > max_bytes => Some(FullReason::MaxFilterBytes),
            () if 1 << doublings > first.max_growth() => Some(FullReason::GrowthLimit),
            () => None,
        };
        if stopped_by.is_some() {
            break;
        }
        stages.push(Stage {
            sub_filters: 1,
            growth: 1 << doublings,
            items: table.reachable() << doublings,
            bytes,
            false_positive_rate: rate::rate_after(table.layout.code(), doublings),
        });
    }
    (stages, stopped_by)
}

/// No formula of its own: it makes empty chains, sets how many of their slots
/// are in use, and asks them.
fn of_links(params: &FilterParams, mut chain: Chain) -> Option<Course> {
    let first_bytes = chain.slot_bytes();
    let (mut stages, mut stopped_by) = (Vec::new(), None);
    for sub_filters in 1..=params.promised_sub_filters() {
        if sub_filters > 1
            && let Err(reason) = chain.grow()
        {
            stopped_by = Some(reason);
            break;
        }
        let links = chain.links().iter();
        let full: Vec<u64> = links.map(|link| link.reachable()).collect();
        stages.push(Stage {
            sub_filters,
            growth: chain.slot_bytes() / first_bytes,
            items: chain.adds_before_expansion(),
            bytes: chain.slot_bytes(),
            false_positive_rate: chain.clone().with_occupied(&full)?.false_positive_rate(),
        });
    }
    Some((stages, stopped_by))
}

#[cfg(test)]
mod tests;
