use super::*;
use crate::chain::meta::Chain;
use crate::chain::params::{Defaults, FilterParams, FilterRequest, LayoutKind};
use crate::chain::plan::{AddMode, PartialPlan, Planner};
use crate::cuckoo::hash::HashKey;
use crate::cuckoo::kick::KickSearch;
use crate::filters::OpenFilter;
use crate::lane::words::LaneWords;
use crate::name::FilterName;
use crate::page::FilterId;
use crate::pages::PlanPins;
use cuckood_metrics::Metrics;

/// Items that are added more often than they may have slots.
const COUNTED: u64 = 20_000;

/// A new filter with copies that are counted.
fn planned() -> PlannedFilter {
    let request = FilterRequest {
        layout: Some(LayoutKind::Classic),
        bucket_size: Some(1),
        capacity: Some(8 * COUNTED),
        ..FilterRequest::default()
    };
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    let chain = Chain::new(params, HashKey([0x5a; 16]), 0).unwrap();
    let name = FilterName::parse("f").unwrap();
    let filter = Arc::new(OpenFilter::new(FilterId(1), name, chain, None, None));
    let target = PlannedFilter {
        fresh_from: 0,
        ..PlannedFilter::of(&filter)
    };
    let cache = Arc::new(PageCache::new(1 << 20, &Metrics::new().unwrap()));
    let mut pins = PlanPins::begin(&cache);
    let mut words = LaneWords::new(&cache, &target.view, &mut pins, 0, None);
    let mut search = KickSearch::default();
    let begun = PartialPlan::default();
    let mut planner = Planner::resume(begun, target.input(), &mut words, &mut search);
    for copy in 0..3 * COUNTED {
        let hash = target.chain.hash(&(copy % COUNTED).to_le_bytes());
        planner.add(hash, AddMode::Always).unwrap();
    }
    let (chain, partial) = planner.suspend();
    let plan = partial.finish(chain).unwrap();
    PlannedFilter {
        chain: plan.chain,
        overlay: plan.overlay,
        ..target
    }
}

fn bytes_of(encoding: &Encoding) -> usize {
    encoding.record.len() + encoding.counters.len() + encoding.wholes.len()
}

#[test]
fn counters_are_encoded_some_at_a_time_and_to_the_same_record() {
    const AT_ONCE: usize = 2_000;
    // A word with one slot, and a counter, take no more than that.
    const MOST_BYTES: usize = 12;
    let at_once = Encoded::of(planned(), 7);
    assert!(at_once.changes[0].pages.counters.len() as u64 > COUNTED / 2);

    let mut encoding = Encoding::of(planned(), 7);
    let (mut turns, mut is_done) = (0, false);
    while !is_done {
        let before = bytes_of(&encoding);
        is_done = encoding.go_on(AT_ONCE);
        let bytes = bytes_of(&encoding) - before;
        // All that changes in a page is encoded at once.
        assert!(bytes <= MOST_BYTES * 2 * AT_ONCE, "{bytes} bytes in a turn");
        turns += 1;
    }
    assert!(turns > 10, "{turns}");
    let bytes = bytes_of(&encoding);
    let redo = encoding.finish(true).redo;
    assert!(
        redo.len() - bytes < MOST_BYTES * 2 * AT_ONCE,
        "{bytes} of {}",
        redo.len()
    );
    assert!(redo == at_once.redo);
}
