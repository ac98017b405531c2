use super::*;
use crate::chain::params::{Defaults, FilterRequest};
use crate::chain::plan::AddMode;
use crate::cuckoo::hash::ItemHash;
use crate::resident::ResidentFilter;

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
        assert_eq!(chain.expansions(), 0);
        // An item that is found by chance is counted, and takes no slot.
        let load = foretold.load_at_capacity;
        assert!((chain.load() / load - 1.0).abs() < 0.001, "{load}");
        let rate = foretold.rate_at_capacity;
        assert!(
            (chain.false_positive_rate() / rate - 1.0).abs() < 0.001,
            "{rate}"
        );
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
        assert_eq!(foretold.stages.len(), 7);
        assert_eq!(foretold.stopped_by, None);
        for pair in foretold.stages.windows(2) {
            assert!(pair[0].false_positive_rate < pair[1].false_positive_rate);
            assert_eq!(
                (2 * pair[0].items, 2 * pair[0].bytes),
                (pair[1].items, pair[1].bytes)
            );
        }
        let last = foretold.stages.last().unwrap();
        assert!(last.false_positive_rate <= error_rate, "{last:?}");
        assert_eq!(last.growth, 64);
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
    assert_eq!(large.stages.len(), 3, "{large:?}");
    assert_eq!(large.stopped_by, Some(FullReason::MaxFilterBytes));
}
