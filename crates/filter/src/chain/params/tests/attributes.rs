//! Parameters of filters with attributes.

use super::*;
use crate::chain::meta::Chain;
use crate::cuckoo::hash::HashKey;

fn exact(name: &str, labels: &[&str]) -> (String, Codes) {
    let labels = labels.iter().map(|&it| it.to_owned()).collect();
    (name.to_owned(), Codes::Exact(labels))
}

fn hashed(name: &str, bits: u8) -> (String, Codes) {
    (name.to_owned(), Codes::Hashed(bits))
}

fn numbered(name: &str, labels: usize) -> (String, Codes) {
    let labels = (0..labels).map(|it| it.to_string()).collect();
    (name.to_owned(), Codes::Exact(labels))
}

fn with(named: Vec<(String, Codes)>) -> FilterRequest {
    FilterRequest {
        capacity: Some(1_000_000),
        attributes: Some(Attributes::new(named).unwrap()),
        ..FilterRequest::default()
    }
}

#[test]
fn a_row_takes_as_many_bits_as_number_the_labels_or_as_are_kept_of_a_hash() {
    for (named, bits) in [
        (vec![exact("plan", &["free", "pro"])], 1),
        (
            vec![numbered("a", 3), numbered("b", 4), numbered("c", 5)],
            7,
        ),
        (vec![numbered("a", 256), numbered("b", 256)], 16),
        (vec![exact("one", &["only"]), hashed("tag", 16)], 16),
        ((0..8).map(|it| hashed(&it.to_string(), 2)).collect(), 16),
    ] {
        let params = resolve(with(named)).unwrap();
        assert_eq!(params.value_bits(), bits);
        assert_eq!(params.values_per_item(), Some(1));
    }
}

#[test]
fn what_can_be_no_attributes_is_refused_where_it_stands() {
    let long = "x".repeat(257);
    for (named, pointer, given) in [
        (vec![], "", "a list of 0"),
        (
            (0..9).map(|it| hashed(&it.to_string(), 1)).collect(),
            "",
            "a list of 9",
        ),
        (vec![hashed("", 1)], "/0/name", ""),
        (vec![hashed("a b", 1)], "/0/name", "a b"),
        (vec![hashed("a", 1), hashed("a", 1)], "/1/name", "a"),
        (vec![hashed("a", 0)], "/0/hash_bits", "0"),
        (vec![hashed("a", 17)], "/0/hash_bits", "17"),
        (vec![exact("a", &[])], "/0/values", "a list of 0"),
        (vec![numbered("a", 257)], "/0/values", "a list of 257"),
        (vec![exact("a", &["x", "y", "x"])], "/0/values/2", "x"),
        (
            vec![exact("a", &["x", &long])],
            "/0/values/1",
            "257 bytes long",
        ),
        (vec![exact("a", &["x", "y\tz"])], "/0/values/1", "y\\tz"),
        (vec![exact("a", &["\u{7f}"])], "/0/values/0", "\\u{7f}"),
        (vec![exact("a", &["x"])], "", "no choice"),
        (
            vec![hashed("a", 9), hashed("b", 8)],
            "/1",
            "17 bits with those before",
        ),
        (
            vec![numbered("a", 2), {
                let labels: Vec<String> = (0..70).map(|it| format!("{it:0>256}")).collect();
                ("b".to_owned(), Codes::Exact(labels))
            }],
            "",
            "17924 bytes of names and values",
        ),
    ] {
        let error = Attributes::new(named).unwrap_err();
        assert_eq!(
            (error.pointer.as_str(), error.given.as_str()),
            (pointer, given)
        );
    }
}

#[test]
fn a_description_with_attributes_reads_back_as_written() {
    let named = vec![exact("plan", &["free", "pro"]), hashed("tag", 5)];
    let chain = Chain::new(resolve(with(named)).unwrap(), HashKey([1; 16]), 5).unwrap();
    let bytes = chain.encode();
    assert_eq!((bytes[1], &bytes[74..77]), (4, &[6, 1, 0][..]));
    let attributes = b"\x02\x04plan\x00\x02\x04free\x03pro\x03tag\x05";
    assert_eq!(&bytes[77..77 + attributes.len()], attributes);
    assert_eq!(Chain::decode(&bytes), Ok(chain));
    // Other bits than the row has, an attribute too many, no text.
    for (at, byte) in [(74, 7), (77, 3), (86, 0xff), (77 + attributes.len() - 1, 6)] {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        assert!(Chain::decode(&bytes).is_err(), "{at}");
    }
}

#[test]
fn attributes_go_with_no_other_value_and_need_room_in_a_slot() {
    let six_bits = || with(vec![exact("plan", &["free", "pro"]), hashed("tag", 5)]);
    for (request, field) in [
        (
            FilterRequest {
                value_bits: Some(6),
                ..six_bits()
            },
            "value_bits",
        ),
        (
            FilterRequest {
                window_seconds: Some(60),
                ..six_bits()
            },
            "attributes",
        ),
        (
            FilterRequest {
                fingerprint_bits: Some(16),
                ..six_bits()
            },
            "attributes",
        ),
        (
            FilterRequest {
                layout: Some(LayoutKind::Classic),
                ..six_bits()
            },
            "attributes",
        ),
        (
            FilterRequest {
                error_rate: Some(3e-8),
                ..six_bits()
            },
            "error_rate",
        ),
    ] {
        let errors = resolve(request).unwrap_err();
        assert_eq!(
            errors.iter().map(|it| it.field).collect::<Vec<_>>(),
            [field],
            "{errors:?}"
        );
    }
    let params = resolve(six_bits()).unwrap();
    assert_eq!(params.differences(&six_bits()), []);
    let other = with(vec![exact("plan", &["free", "pro"]), hashed("tag", 4)]);
    let differences = params.differences(&other);
    assert_eq!(differences.len(), 1);
    let differs = &differences[0];
    assert_eq!(differs.field, "attributes");
    assert_eq!(differs.requested, "plan: free, pro; tag: 4 hash_bits");
    assert_eq!(differs.existing, "plan: free, pro; tag: 5 hash_bits");
}
