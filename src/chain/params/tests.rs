use super::error_rate::PROMISED_LOAD;
use super::*;
use crate::cuckoo::paged;

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

fn width(error_rate: f64, expansion: u64) -> u16 {
    let params = resolve(FilterRequest {
        error_rate: Some(error_rate),
        expansion: Some(expansion),
        ..Default::default()
    });
    params.unwrap().slot_width().bits()
}

#[test]
fn the_width_is_the_narrowest_that_keeps_the_promise() {
    for (error_rate, growing, fixed) in [
        (0.5, 8, 8),
        (0.24, 8, 8),
        (0.23, 16, 8),
        (0.03, 16, 8),
        (0.029, 16, 16),
        (0.001, 16, 16),
        (0.00093, 16, 16),
        (0.00092, 32, 16),
        (0.00012, 32, 16),
        (0.00011, 32, 32),
        (2e-8, 32, 32),
    ] {
        assert_eq!(width(error_rate, 2), growing, "{error_rate}");
        assert_eq!(width(error_rate, 0), fixed, "{error_rate} without growth");
    }
}

#[test]
fn full_sub_filters_keep_the_promise_whatever_it_is() {
    for step in 0..2_000 {
        let error_rate =
            MIN_ERROR_RATE * (MAX_ERROR_RATE / MIN_ERROR_RATE).powf(f64::from(step) / 1_999.0);
        for expansion in [0, 2] {
            let params = resolve(FilterRequest {
                error_rate: Some(error_rate.min(MAX_ERROR_RATE)),
                expansion: Some(expansion),
                ..Default::default()
            });
            let params = params.unwrap();
            let limit = params.load_limit();
            assert!(limit >= PROMISED_LOAD, "{error_rate}: {limit}");
            let one = paged::false_positive_rate(params.slot_width(), limit);
            let all = 1.0 - (1.0 - one).powi(params.promised_sub_filters() as i32);
            assert!(all <= error_rate * 1.000_001, "{error_rate}: {all}");
        }
    }
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
                fingerprint_bits: Some(8),
                ..ask()
            },
            "fingerprint_bits",
            "beside error_rate",
        ),
        (
            FilterRequest {
                fingerprint_bits: Some(12),
                ..ask()
            },
            "fingerprint_bits",
            "8, 16 or 32",
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
}
