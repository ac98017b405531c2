use super::*;
use crate::problem::FieldPlace;

fn items(json: &str) -> Vec<Vec<u8>> {
    let batch = json_batch(json.as_bytes(), BatchKind::Add, 100).unwrap();
    batch.items.iter().map(<[u8]>::to_vec).collect()
}

fn refused(json: &str, kind: BatchKind) -> (u16, String) {
    let error = json_batch(json.as_bytes(), kind, 3).unwrap_err();
    let place = match &error {
        HttpError::InvalidFields(fields) => match &fields[0].place {
            FieldPlace::Body(pointer) => pointer.clone(),
            FieldPlace::Query(name) => name.clone(),
        },
        _ => String::new(),
    };
    (error.code().status(), place)
}

#[test]
fn strings_and_integers_are_items() {
    assert_eq!(
        items(r#"{"items": ["a", "", "é\n", 0, -9223372036854775808, 18446744073709551615]}"#),
        [
            "a".as_bytes(),
            b"",
            "é\n".as_bytes(),
            b"0",
            b"-9223372036854775808",
            b"18446744073709551615"
        ]
    );
    assert!(items(r#"{"items": []}"#).is_empty());
}

#[test]
fn base64_is_decoded_wherever_the_field_stands() {
    assert_eq!(
        items(r#"{"items": ["AP8="], "encoding": "base64"}"#),
        [[0, 255]]
    );
    assert_eq!(
        items(r#"{"encoding": "base64", "items": ["AP8"]}"#),
        [[0, 255]]
    );
}

#[test]
fn refusals_point_to_the_field() {
    use BatchKind::{Add, Question};
    for (json, kind, status, place) in [
        (r#"{"items": ["a", 1.5]}"#, Add, 422, "/items/1"),
        (r#"{"items": ["a", "b", null]}"#, Add, 422, "/items/2"),
        (r#"{"items": [[]]}"#, Add, 422, "/items/0"),
        (r#"{"items": [{}]}"#, Add, 422, "/items/0"),
        (r#"{"items": [true]}"#, Add, 422, "/items/0"),
        (r#"{"items": [18446744073709551616]}"#, Add, 422, "/items/0"),
        (r#"{"items": "a"}"#, Add, 422, "/items"),
        (r#"{}"#, Add, 422, "/items"),
        (r#"[]"#, Add, 422, ""),
        (r#"{"items": [], "item": 1}"#, Add, 422, "/item"),
        (r#"{"items": [], "a/~": 1}"#, Add, 422, "/a~1~0"),
        (r#"{"items": [], "items": []}"#, Add, 422, "/items"),
        (
            r#"{"items": [], "only_if_absent": 1}"#,
            Add,
            422,
            "/only_if_absent",
        ),
        (
            r#"{"items": [], "only_if_absent": true}"#,
            Question,
            422,
            "/only_if_absent",
        ),
        (r#"{"items": [], "encoding": "hex"}"#, Add, 422, "/encoding"),
        (
            r#"{"items": ["!"], "encoding": "base64"}"#,
            Add,
            422,
            "/items/0",
        ),
        (
            r#"{"items": [1], "encoding": "base64"}"#,
            Add,
            422,
            "/items/0",
        ),
        (
            r#"{"items": [], "create": {"capacity": -5}}"#,
            Add,
            422,
            "/create/capacity",
        ),
        (r#"{"items": [], "create": 7}"#, Add, 422, "/create"),
        (r#"{"items": [1, 2, 3, 4]}"#, Add, 413, ""),
        (r#"{"items": ["a"]"#, Add, 400, ""),
        (r#"{"items": ["a"]} x"#, Add, 400, ""),
        (r#"{"items": ["\ud800"]}"#, Add, 400, ""),
        ("", Add, 400, ""),
        ("nonsense", Add, 400, ""),
    ] {
        assert_eq!(refused(json, kind), (status, place.to_owned()), "{json}");
    }
}

#[test]
fn all_bad_elements_of_a_list_are_named_up_to_a_few_and_the_rest_counted() {
    use BatchKind::{Add, AddValues};
    let named = |json: &str, kind| {
        let error = json_batch(json.as_bytes(), kind, 100).unwrap_err();
        let HttpError::InvalidFields(fields) = error else {
            panic!("{error}");
        };
        fields.into_iter().map(|it| match it.place {
            FieldPlace::Body(at) | FieldPlace::Query(at) => format!("{at} {}", it.given),
        })
    };
    let said = |json, kind| named(json, kind).collect::<Vec<String>>();
    assert_eq!(
        said(
            r#"{"items": ["a", 1.5, [[2]], "b", {"c": {}}, null], "x": 1}"#,
            Add
        ),
        [
            "/items/1 a number with a fraction, an exponent or too many digits",
            "/items/2 an array",
            "/items/4 an object",
            "/items/5 null",
            "/x not a field here"
        ]
    );
    let entries = r#"{"entries": [{"item": "a", "value": -1}, {"value": 2, "item": "b"}, 3,
        {"item": true, "value": 4}, {"item": "c"}, {"item": "d", "attributes": {"e": "f"}}]}"#;
    assert_eq!(
        said(entries, AddValues),
        [
            "/entries/0/value -1",
            "/entries/2 a number",
            "/entries/3/item a boolean",
            "/entries/4/value left out",
            "/entries/5/attributes attributes beside a value"
        ]
    );
    let many = format!(r#"{{"items": [{}"a"]}}"#, "null,".repeat(50));
    let said: Vec<String> = named(&many, Add).collect();
    assert_eq!(said.len(), 9);
    assert_eq!(
        said[7..],
        ["/items/7 null", "/items refused in 42 more places"]
    );
    let texts = r#"{"items": ["!", "YQ", "YWI=", "?"], "encoding": "base64"}"#;
    let said: Vec<String> = named(texts, Add).collect();
    assert_eq!(said, ["/items/0 not base64", "/items/3 not base64"]);
}

#[test]
fn an_item_may_have_64_kib() {
    let longest = "x".repeat(MAX_ITEM_BYTES);
    assert_eq!(items(&format!(r#"{{"items": ["{longest}"]}}"#)).len(), 1);
    let longer = format!(r#"{{"items": ["", "{longest}x"]}}"#);
    assert_eq!(
        refused(&longer, BatchKind::Add),
        (422, "/items/1".to_owned())
    );
}
