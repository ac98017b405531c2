use super::*;
use crate::chain::params::LayoutKind;

#[test]
fn fields_of_a_filter_are_refused_all_at_once() {
    let json = br#"{"capacity": 10, "layout": "classic", "ttl_seconds": 60}"#;
    let wanted = new_filter(json, "").unwrap();
    assert_eq!(wanted.params.capacity, Some(10));
    assert_eq!(wanted.params.layout, Some(LayoutKind::Classic));
    assert_eq!(wanted.ttl_seconds, Some(60));
    let wanted = new_filter(br#"{"error_rate": 1e-3, "layout": "paged"}"#, "").unwrap();
    assert_eq!(wanted.params.error_rate, Some(0.001));
    assert_eq!(wanted.params.layout, Some(LayoutKind::Paged));
    assert_eq!(new_filter(b" ", "").unwrap(), NewFilter::default());

    let json =
        br#"{"capacity": -5, "bucket_size": 2.5, "expansion": "x", "max_iterations": 1e30,
        "max_expansions": null, "layout": "pages", "error_rate": "0.1", "fingerprint_bits": 16.1, "colour": [1]}"#;
    let HttpError::InvalidFields(fields) = new_filter(json, "/create").unwrap_err() else {
        panic!("another error");
    };
    let seen: Vec<_> = fields
        .iter()
        .map(|field| match &field.place {
            FieldPlace::Body(pointer) => (pointer.as_str(), field.given.as_str()),
            FieldPlace::Query(_) => panic!("not a query"),
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("/create/capacity", "-5"),
            ("/create/bucket_size", "2.5"),
            ("/create/expansion", "\"x\""),
            ("/create/max_iterations", "1e30"),
            ("/create/max_expansions", "null"),
            ("/create/layout", "\"pages\""),
            ("/create/error_rate", "\"0.1\""),
            ("/create/fingerprint_bits", "16.1"),
            ("/create/colour", "not a field here"),
        ]
    );
}

#[test]
fn a_whole_number_is_an_integer_however_it_is_written() {
    let capacity = |text: &str| {
        let json = format!(r#"{{"capacity": {text}}}"#);
        new_filter(json.as_bytes(), "").map(|wanted| wanted.params.capacity)
    };
    for (text, number) in [
        ("306371.0", 306_371),
        ("1e6", 1_000_000),
        ("2.5E1", 25),
        ("-0.0", 0),
        ("9007199254740992.0", 1 << 53),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(capacity(text).unwrap(), Some(number), "{text}");
    }
    for text in [
        "0.5", "-1.0", "1e-1", "1e17", "1e400", "true", "[1]", "\"1.0\"",
    ] {
        assert!(capacity(text).is_err(), "{text}");
    }
    assert_eq!(changed_ttl(br#"{"ttl_seconds": 6e1}"#).unwrap(), Some(60));
}

#[test]
fn a_changed_end_is_a_number_or_null() {
    assert_eq!(changed_ttl(br#"{"ttl_seconds": 60}"#).unwrap(), Some(60));
    assert_eq!(changed_ttl(br#"{"ttl_seconds": null}"#).unwrap(), None);
    for json in [
        "",
        "{}",
        "[]",
        r#"{"ttl_seconds": "60"}"#,
        r#"{"ttl_seconds": -1}"#,
        r#"{"ttl_seconds": 1, "capacity": 5}"#,
    ] {
        assert!(changed_ttl(json.as_bytes()).is_err(), "{json}");
    }
}
