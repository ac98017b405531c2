//! What a filter will be, before it is made: how large, how full, how often
//! wrong, now and after it has grown.
//!
//! No formula of its own: it makes empty chains, says how many of their slots
//! are in use, and asks them.

use super::meta::Chain;
use super::params::FilterParams;
use super::plan::FullReason;
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
    /// Probability that an item which was never added is found then.
    pub rate_at_capacity: f64,
    /// The filter with one sub-filter, with two, and so on, up to as many as an
    /// error rate is promised for or as it may have.
    pub stages: Vec<Stage>,
    /// Why there are no more stages, if it may not grow that far.
    pub stopped_by: Option<FullReason>,
}

/// A filter that has grown to so many sub-filters, all of them full.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Sub-filters.
    pub sub_filters: u32,
    /// Items that are expected to fit.
    pub items: u64,
    /// Bytes that its slots take.
    pub bytes: u64,
    /// Probability that an item which was never added is found.
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
            .map(|sub| (sub.layout.slots() as f64 * sub.layout.target_load()) as u64)
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
mod tests {
    use super::*;
    use crate::chain::params::{Defaults, FilterRequest};
    use crate::chain::plan::AddMode;
    use crate::chain::resident::ResidentFilter;
    use crate::cuckoo::hash::ItemHash;

    fn params(request: &FilterRequest) -> FilterParams {
        FilterParams::resolve(request, &Defaults::default()).unwrap()
    }

    fn of(request: &FilterRequest) -> Forecast {
        forecast(&params(request)).unwrap()
    }

    #[test]
    fn a_filter_filled_to_its_capacity_is_as_was_forecast() {
        let layouts = [
            FilterRequest {
                error_rate: Some(0.001),
                ..Default::default()
            },
            FilterRequest {
                bucket_size: Some(4),
                ..Default::default()
            },
        ];
        for request in layouts {
            let request = FilterRequest {
                capacity: Some(10_000),
                ..request
            };
            let foretold = of(&request);
            let chain = Chain::new(params(&request), HashKey([3; 16]), 0).unwrap();
            let mut filter = ResidentFilter::new(chain);
            let items: Vec<ItemHash> = (0..10_000u32)
                .map(|it| filter.chain().hash(&it.to_le_bytes()))
                .collect();
            filter.add(&items, AddMode::Always);
            let chain = filter.chain();
            assert_eq!(chain.sub_filters().len(), 1);
            assert_eq!(chain.sub_filters()[0].load(), foretold.load_at_capacity);
            assert_eq!(chain.false_positive_rate(), foretold.rate_at_capacity);
            assert_eq!(chain.slot_bytes(), foretold.stages[0].bytes);
        }
    }

    #[test]
    fn a_promise_is_kept_at_every_stage() {
        for error_rate in [0.5, 0.01, 0.001, 1e-6, 2e-8] {
            let foretold = of(&FilterRequest {
                capacity: Some(1_000_000),
                error_rate: Some(error_rate),
                ..Default::default()
            });
            assert_eq!(foretold.stages.len(), 8);
            assert_eq!(foretold.stopped_by, None);
            for pair in foretold.stages.windows(2) {
                assert!(pair[0].false_positive_rate < pair[1].false_positive_rate);
                assert!(pair[0].items < pair[1].items && pair[0].bytes < pair[1].bytes);
            }
            let last = foretold.stages.last().unwrap();
            assert!(last.false_positive_rate <= error_rate, "{last:?}");
            // Twice as large each: 255 times the first.
            assert_eq!(last.bytes, 255 * foretold.stages[0].bytes);
        }
    }

    #[test]
    fn what_stops_the_growth_is_said() {
        let never = of(&FilterRequest {
            expansion: Some(0),
            ..Default::default()
        });
        assert_eq!(never.stages.len(), 1);
        assert_eq!(never.stopped_by, Some(FullReason::ExpansionOff));
        let twice = of(&FilterRequest {
            max_expansions: Some(2),
            ..Default::default()
        });
        assert_eq!(twice.stages.len(), 3);
        assert_eq!(twice.stopped_by, Some(FullReason::MaxExpansions));
        let large = of(&FilterRequest {
            capacity: Some(1 << 30),
            ..Default::default()
        });
        assert_eq!(large.stages.len(), 3);
        assert_eq!(large.stopped_by, Some(FullReason::MaxFilterBytes));
    }
}
