use super::*;
use crate::cuckoo::paged::rate;

mod attributes;
mod values;

fn resolve(request: FilterRequest) -> Result<FilterParams, Vec<ParamsError>> {
    FilterParams::resolve(&request, &Defaults::default())
}

#[test]
fn every_limit_is_named_with_what_was_given_and_what_is_allowed() {
    let errors = resolve(FilterRequest {
        capacity: Some(1),
        bucket_size: Some(0),
        max_iterations: Some(65_536),
        expansion: Some(32_769),
        max_expansions: Some(65_536),
        ..Default::default()
    })
    .unwrap_err();
    let fields: Vec<&str> = errors.iter().map(|error| error.field).collect();
    assert_eq!(
        fields,
        [
            "expansion",
            "max_expansions",
            "bucket_size",
            "max_iterations"
        ]
    );
    assert_eq!(
        errors[2].to_string(),
        "bucket_size is 0, allowed is 1 to 255"
    );

    let errors = resolve(FilterRequest {
        capacity: Some(3),
        layout: Some(LayoutKind::Classic),
        ..Default::default()
    });
    assert_eq!(
        errors.unwrap_err()[0].to_string(),
        "capacity is 3, allowed is 4 to 1099511627776"
    );
}

#[test]
fn bytes_are_checked_before_anything_is_allocated() {
    let error = resolve(FilterRequest {
        capacity: Some(MAX_CAPACITY),
        bucket_size: Some(2),
        ..Default::default()
    });
    let error = error.unwrap_err().remove(0);
    assert_eq!(error.field, "capacity");
    assert!(
        error.given.contains("2199023255552 bytes"),
        "{}",
        error.given
    );
    assert!(error.allowed.contains("--max-filter-bytes"));
}

#[test]
fn a_default_capacity_never_refuses_a_large_bucket() {
    let params = resolve(FilterRequest {
        bucket_size: Some(255),
        ..Default::default()
    });
    assert_eq!(params.unwrap().capacity(), 1024);
    let defaults = Defaults {
        capacity: 100,
        ..Defaults::default()
    };
    let request = FilterRequest {
        bucket_size: Some(255),
        ..Default::default()
    };
    assert_eq!(
        FilterParams::resolve(&request, &defaults)
            .unwrap()
            .capacity(),
        510
    );
}

#[test]
fn expansion_is_rounded_up_to_a_power_of_two_and_compared_so() {
    let params = resolve(FilterRequest {
        expansion: Some(3),
        ..Default::default()
    })
    .unwrap();
    assert_eq!(params.expansion(), 4);
    for same in [3, 4] {
        let request = FilterRequest {
            expansion: Some(same),
            ..Default::default()
        };
        assert_eq!(params.differences(&request), []);
    }
    let request = FilterRequest {
        expansion: Some(2),
        capacity: Some(1024),
        ..Default::default()
    };
    let differences = params.differences(&request);
    assert_eq!(differences.len(), 1);
    assert_eq!(differences[0].field, "expansion");
    assert_eq!(differences[0].existing, "4");
}

fn width(request: FilterRequest) -> u16 {
    resolve(request).unwrap().slot_width().bits()
}

#[test]
fn the_width_is_the_narrowest_that_keeps_the_promise() {
    for (error_rate, growing, fixed) in [
        (0.5, 12, 12),
        (0.018, 12, 12),
        (0.016, 16, 12),
        (0.001, 16, 16),
        (0.00083, 16, 16),
        (0.00082, 21, 16),
        (0.00012, 21, 16),
        (0.00011, 21, 21),
        (1.9e-5, 21, 21),
        (1.8e-5, 32, 21),
        (2e-8, 32, 32),
    ] {
        let with = |expansion, capacity| FilterRequest {
            error_rate: Some(error_rate),
            expansion: Some(expansion),
            capacity,
            ..Default::default()
        };
        assert_eq!(width(with(2, Some(1000))), growing, "{error_rate}");
        assert_eq!(
            width(with(0, Some(1000))),
            fixed,
            "{error_rate} without growth"
        );
        assert_eq!(width(with(0, None)), fixed, "{error_rate} without growth");
        let without_capacity = if error_rate > 3.8e-5 { 21 } else { 32 };
        assert_eq!(width(with(2, None)), without_capacity, "{error_rate}");
    }
}

#[test]
fn slots_keep_the_promise_whatever_it_is() {
    for step in 0..2_000 {
        let error_rate =
            MIN_ERROR_RATE * (MAX_ERROR_RATE / MIN_ERROR_RATE).powf(f64::from(step) / 1_999.0);
        for growth in [1, 5, 64, 1024] {
            let params = resolve(FilterRequest {
                capacity: Some(1000),
                error_rate: Some(error_rate.min(MAX_ERROR_RATE)),
                promised_growth: Some(growth),
                ..Default::default()
            });
            let params = params.unwrap();
            assert_eq!(params.promised_growth().map(u64::from), Some(growth));
            let rate = params.promised_rate().unwrap();
            assert!(rate <= error_rate, "{growth} times, {error_rate}: {rate}");
        }
    }
}

#[test]
fn a_promise_that_no_slots_keep_is_refused_with_the_largest_that_they_do() {
    let ask = |error_rate, fingerprint_bits, promised_growth, expansion| {
        let request = FilterRequest {
            error_rate,
            fingerprint_bits,
            promised_growth: Some(promised_growth),
            expansion,
            ..Default::default()
        };
        resolve(request).map_err(|mut errors| errors.remove(0).to_string())
    };
    assert!(ask(Some(2e-8), None, 1024, None).is_ok());
    assert_eq!(
        ask(Some(2e-8), None, 1025, None).unwrap_err(),
        "promised_growth is 1025, allowed is 1 to 1024 with the error_rate 2e-8, kept by slots of 32 bits; ask for a larger error_rate, or for a larger capacity and less growth"
    );
    assert_eq!(
        ask(None, Some(12), 64, None).unwrap().promised_growth(),
        Some(64)
    );
    assert_eq!(
        ask(None, Some(12), 65, None).unwrap_err(),
        "promised_growth is 65, allowed is 1 to 64 with fingerprint_bits 12; ask for more bits"
    );
    assert_eq!(
        ask(Some(0.1), None, 0, None).unwrap_err(),
        "promised_growth is 0, allowed is 1 to 16777216, as a multiple of the capacity"
    );
    assert_eq!(
        ask(Some(0.1), None, 2, Some(0)).unwrap_err(),
        "promised_growth is 2, allowed is 1 with expansion 0, which keeps the filter from growing"
    );
    // A default never refuses what was asked for.
    let bits = FilterRequest {
        fingerprint_bits: Some(12),
        ..Default::default()
    };
    assert_eq!(resolve(bits).unwrap().promised_growth(), Some(64));
    assert_eq!(
        rate::most_promised(
            resolve(FilterRequest::default())
                .unwrap()
                .slot_code()
                .unwrap()
        ),
        13
    );
}

#[test]
fn the_fields_decide_the_layout_and_contradictions_are_refused() {
    let ask = FilterRequest::default;
    let layout = |request: FilterRequest| resolve(request).map(|params| params.layout());
    let (rate, slots) = (Some(0.01), Some(4));
    assert_eq!(layout(ask()), Ok(LayoutKind::Paged));
    let classic = FilterRequest {
        bucket_size: slots,
        ..ask()
    };
    assert_eq!(layout(classic), Ok(LayoutKind::Classic));
    let classic = FilterRequest {
        max_iterations: slots,
        ..ask()
    };
    assert_eq!(layout(classic), Ok(LayoutKind::Classic));
    let classic = FilterRequest {
        layout: Some(LayoutKind::Classic),
        ..ask()
    };
    assert_eq!(layout(classic), Ok(LayoutKind::Classic));
    let paged = FilterRequest {
        fingerprint_bits: Some(32),
        ..ask()
    };
    assert_eq!(layout(paged), Ok(LayoutKind::Paged));
    for (request, field, word) in [
        (
            FilterRequest {
                error_rate: rate,
                bucket_size: slots,
                ..ask()
            },
            "bucket_size",
            "beside error_rate",
        ),
        (
            FilterRequest {
                error_rate: rate,
                max_iterations: slots,
                ..ask()
            },
            "max_iterations",
            "beside error_rate",
        ),
        (
            FilterRequest {
                layout: Some(LayoutKind::Paged),
                bucket_size: slots,
                ..ask()
            },
            "bucket_size",
            "with the layout paged",
        ),
        (
            FilterRequest {
                layout: Some(LayoutKind::Classic),
                error_rate: rate,
                ..ask()
            },
            "error_rate",
            "with the layout classic",
        ),
        (
            FilterRequest {
                error_rate: rate,
                fingerprint_bits: Some(16),
                ..ask()
            },
            "fingerprint_bits",
            "beside error_rate",
        ),
        (
            FilterRequest {
                fingerprint_bits: Some(8),
                ..ask()
            },
            "fingerprint_bits",
            "12, 16, 21 or 32; slots of 8 bits are those of the layout classic",
        ),
        (
            FilterRequest {
                layout: Some(LayoutKind::Classic),
                promised_growth: Some(2),
                ..ask()
            },
            "promised_growth",
            "with the layout classic",
        ),
        (
            FilterRequest {
                error_rate: Some(0.6),
                ..ask()
            },
            "error_rate",
            "2e-8 to 0.5",
        ),
        (
            FilterRequest {
                error_rate: Some(1e-8),
                ..ask()
            },
            "error_rate",
            "2e-8 to 0.5",
        ),
        (
            FilterRequest {
                error_rate: Some(f64::NAN),
                ..ask()
            },
            "error_rate",
            "2e-8 to 0.5",
        ),
    ] {
        let errors = resolve(request).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(errors[0].field, field);
        assert!(errors[0].allowed.contains(word), "{}", errors[0]);
    }
}

#[test]
fn a_request_differs_in_what_the_filter_does_not_have() {
    let params = resolve(FilterRequest {
        error_rate: Some(0.01),
        ..Default::default()
    })
    .unwrap();
    let same = FilterRequest {
        error_rate: Some(0.01),
        layout: Some(LayoutKind::Paged),
        capacity: Some(1024),
        expansion: Some(2),
        ..Default::default()
    };
    assert_eq!(params.differences(&same), []);
    let other = FilterRequest {
        error_rate: Some(0.02),
        bucket_size: Some(4),
        max_iterations: Some(20),
        layout: Some(LayoutKind::Classic),
        ..Default::default()
    };
    let differences = params.differences(&other);
    let fields: Vec<&str> = differences.iter().map(|it| it.field).collect();
    assert_eq!(
        fields,
        ["layout", "error_rate", "bucket_size", "max_iterations"]
    );
    assert_eq!(differences[2].existing, "not set");
}

#[test]
fn a_filter_may_not_ask_for_a_longer_chain_than_the_server_allows() {
    let with = |max_expansions, max_chain_length| {
        let request = FilterRequest {
            layout: Some(LayoutKind::Classic),
            max_expansions,
            ..Default::default()
        };
        let defaults = Defaults {
            max_chain_length,
            ..Defaults::default()
        };
        FilterParams::resolve(&request, &defaults)
    };
    assert_eq!(with(Some(63), 64).unwrap().max_expansions(), 63);
    let error = with(Some(64), 64).unwrap_err().remove(0);
    assert_eq!(
        error.to_string(),
        "max_expansions is 64, allowed is 0 to 63: a filter has up to 64 sub-filters on this server (--max-chain-length); ask for fewer, or for a larger capacity or expansion"
    );
    assert_eq!(
        with(Some(65_535), 1 << 16).unwrap().max_expansions(),
        65_535
    );
    // A default never refuses what was not asked for.
    assert_eq!(with(None, 8).unwrap().max_expansions(), 7);
    assert_eq!(with(None, 1).unwrap().max_expansions(), 0);
    // Doublings make no question dearer.
    let paged = FilterRequest::default();
    let defaults = Defaults {
        max_chain_length: 8,
        ..Defaults::default()
    };
    let params = FilterParams::resolve(&paged, &defaults).unwrap();
    assert_eq!(params.max_expansions(), 32);
}
