//! Parameters of filters with values.

use super::*;
use crate::chain::meta::Chain;
use crate::cuckoo::hash::HashKey;

fn with_values(value_bits: u64) -> FilterRequest {
    FilterRequest {
        capacity: Some(1_000_000),
        value_bits: Some(value_bits),
        ..FilterRequest::default()
    }
}

#[test]
fn slots_are_the_narrowest_that_keep_the_rate_beside_the_value() {
    for (value_bits, width) in [(1, 21), (4, 21), (8, 32), (16, 32)] {
        let params = resolve(with_values(value_bits)).unwrap();
        assert_eq!(params.slot_width().bits(), width, "{value_bits}");
        assert_eq!(u64::from(params.value_bits()), value_bits);
        assert_eq!(params.values_per_item(), Some(1));
        assert!(params.promised_rate().unwrap() <= 0.001);
    }
    let plain = resolve(FilterRequest::default()).unwrap();
    assert_eq!((plain.value_bits(), plain.values_per_item()), (0, None));
}

#[test]
fn values_beside_the_pages_are_given_pages() {
    for (values_per_item, pages) in [(None, 1_034), (Some(4), 1_034), (Some(60), 14_405)] {
        let params = resolve(FilterRequest {
            values_per_item,
            ..with_values(12)
        });
        let params = params.unwrap();
        assert_eq!(params.first_pages().unwrap().pages(), pages);
        assert_eq!(params.first_bytes(), u64::from(pages) * 4096);
    }
}

#[test]
fn a_description_with_values_reads_back_as_written() {
    let params = resolve(FilterRequest {
        values_per_item: Some(3),
        ..with_values(7)
    });
    let chain = Chain::new(params.unwrap(), HashKey([1; 16]), 5).unwrap();
    let bytes = chain.encode();
    assert_eq!(bytes[74..77], [7, 3, 0]);
    assert_eq!(Chain::decode(&bytes), Ok(chain));
    // Values of none, none of values, and more than a slot has room for.
    for (value_bits, per_item) in [(7, 0), (0, 3), (21, 3)] {
        let mut bytes = bytes.clone();
        (bytes[74], bytes[75]) = (value_bits, per_item);
        assert!(Chain::decode(&bytes).is_err(), "{value_bits}, {per_item}");
    }
}

#[test]
fn what_can_be_no_value_is_refused_and_says_what_can() {
    let in_width = |bits, value_bits| FilterRequest {
        fingerprint_bits: Some(bits),
        ..with_values(value_bits)
    };
    let per_item = |value_bits, values| FilterRequest {
        value_bits,
        values_per_item: Some(values),
        ..FilterRequest::default()
    };
    for (request, expected) in [
        (with_values(0), "value_bits is 0, allowed is 1 to 16"),
        (with_values(17), "value_bits is 17, allowed is 1 to 16"),
        (
            in_width(16, 5),
            "value_bits is 5, allowed is 1 to 4 with fingerprint_bits 16, of which 12 are left to the fingerprint; ask for more bits",
        ),
        (
            in_width(12, 1),
            "value_bits is 1, allowed is no value with fingerprint_bits 12; ask for more bits",
        ),
        (
            per_item(Some(4), 1_025),
            "values_per_item is 1025, allowed is 1 to 1024",
        ),
        (
            per_item(None, 2),
            "values_per_item is 2, allowed is no value without value_bits or attributes; say what an item has",
        ),
        (
            FilterRequest {
                error_rate: Some(1e-5),
                ..with_values(16)
            },
            "error_rate is 0.00001, allowed is 1.17e-4 to 0.5 with value_bits 16, whose slots have 16 bits left for the fingerprint; ask for a larger error_rate, or for fewer value_bits",
        ),
    ] {
        let errors = resolve(request).unwrap_err();
        let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(words, [expected]);
    }
    let classic = FilterRequest {
        layout: Some(LayoutKind::Classic),
        ..with_values(4)
    };
    assert_eq!(resolve(classic).unwrap_err()[0].field, "value_bits");
}
