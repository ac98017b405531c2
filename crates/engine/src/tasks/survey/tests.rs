use super::*;
use crate::chain::params::{Defaults, FilterParams, FilterRequest};
use crate::cuckoo::hash::HashKey;

fn chain(request: &FilterRequest, load: f64) -> Chain {
    let params = FilterParams::resolve(request, &Defaults::default()).unwrap();
    let chain = Chain::new(params, HashKey([0; 16]), 0).unwrap();
    let slots = chain.sub_filter(0).unwrap().layout.slots();
    chain
        .with_occupied(&[(slots as f64 * load) as u64])
        .unwrap()
}

fn of(capacity: u64) -> FilterRequest {
    FilterRequest {
        capacity: Some(capacity),
        ..Default::default()
    }
}

#[test]
fn the_largest_are_named_and_no_more_than_were_asked_for() {
    let mut survey = Survey::default();
    for number in 0..100u64 {
        let size = 1 + (number * 37) % 100;
        survey.add(&format!("f{size:03}"), &chain(&of(size * 4000), 0.1), 3);
        assert!(survey.largest.len() < 6);
    }
    survey.keep_largest(3);
    let names: Vec<&str> = survey.largest.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["f100", "f099", "f098"]);
    assert_eq!(survey.filters, 100);

    let mut unnamed = Survey::default();
    unnamed.add("a", &chain(&of(1000), 0.1), 0);
    assert_eq!((unnamed.filters, unnamed.largest.len()), (1, 0));
}

#[test]
fn filters_that_may_not_grow_and_are_nearly_full_are_counted() {
    let never = FilterRequest {
        expansion: Some(0),
        ..of(10_000)
    };
    let mut survey = Survey::default();
    survey.add("roomy", &chain(&never, 0.5), 0);
    survey.add("grows", &chain(&of(10_000), 0.94), 0);
    assert_eq!(survey.nearly_full, 0);
    survey.add("full", &chain(&never, 0.9), 0);
    assert_eq!(survey.nearly_full, 1);
}

#[test]
fn series_of_filters_that_are_no_longer_among_the_largest_end() {
    let metrics = Metrics::new().unwrap();
    let mut shown = BTreeSet::new();
    let text = || String::from_utf8(metrics.encode().unwrap()).unwrap();
    let found = |names: &[&str]| {
        let mut survey = Survey::default();
        for name in names {
            survey.add(name, &chain(&of(1000), 0.5), 9);
        }
        survey
    };
    found(&["a", "b"]).publish(&metrics, &mut shown);
    assert!(text().contains(r#"cuckood_filter_bytes{filter="a"} 4096"#));
    assert!(text().contains(r#"cuckood_filter_promised_error_ratio{filter="a"} 0.001"#));
    found(&["b", "c"]).publish(&metrics, &mut shown);
    assert!(!text().contains(r#"filter="a""#));
    assert!(text().contains(r#"cuckood_filter_items{filter="c"} 1024"#));
    assert!(text().contains("cuckood_filters 2\n"));
}
