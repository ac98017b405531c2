//! Batches in JSON: every item goes straight from the body into the batch.

use super::{
    Batch, BatchKind, Encoding, LookupOptions, decode_base64, given, json_error, lookup,
    new_filter, pointer, string, too_long,
};
use crate::engine::{AddMode, AddOptions, ItemBatch, LookupFilters};
use crate::http::bounds::MAX_ITEM_BYTES;
use crate::http::problem::HttpError;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt::{self, Write as _};

const ITEM_KINDS: &str =
    "a string, or an integer from -2^63 to 2^64-1 without fraction or exponent";

/// Takes a JSON body apart.
///
/// # Errors
/// Not JSON, or a field refused, with the pointer to it.
pub(crate) fn json_batch(
    json: &[u8],
    kind: BatchKind,
    max_items: usize,
) -> Result<Batch, HttpError> {
    let mut body = BatchBody {
        kind,
        max_items,
        bytes: json.len(),
        items: None,
        first_integer: None,
        encoding: Encoding::Plain,
        options: AddOptions::default(),
        lookup: LookupOptions::default(),
        refused: None,
        digits: String::new(),
    };
    let mut json_reader = serde_json::Deserializer::from_slice(json);
    let outcome = BodySeed(&mut body)
        .deserialize(&mut json_reader)
        .and_then(|()| json_reader.end());
    if let Some(refused) = body.refused {
        return Err(refused);
    }
    outcome.map_err(|error| json_error(&error, "", "an object with the field items"))?;
    let Some(items) = body.items else {
        return Err(HttpError::field(
            "/items".to_owned(),
            "left out",
            "an array of items",
        ));
    };
    if kind == BatchKind::Lookup && body.lookup.filters.is_none() {
        return Err(HttpError::field(
            "/filters".to_owned(),
            "left out",
            "filters, an array of keys, or prefix",
        ));
    }
    let items = match body.encoding {
        Encoding::Plain => {
            let too_large = items
                .iter()
                .enumerate()
                .find(|(_, item)| item.len() > MAX_ITEM_BYTES);
            if let Some((index, item)) = too_large {
                return Err(too_long(item_pointer(index), item.len()));
            }
            items
        }
        Encoding::Base64 => {
            if let Some(index) = body.first_integer {
                return Err(HttpError::field(
                    item_pointer(index),
                    "an integer",
                    "a base64 string, since encoding is base64",
                ));
            }
            decode_base64(&items, item_pointer)?
        }
    };
    Ok(Batch {
        items,
        options: body.options,
        lookup: body.lookup,
        ..Batch::default()
    })
}

fn item_pointer(index: usize) -> String {
    format!("/items/{index}")
}

/// A batch while it is read. A refusal is kept here, since serde's own errors
/// hold nothing but text.
struct BatchBody {
    kind: BatchKind,
    max_items: usize,
    /// Of the whole body: all items together have fewer.
    bytes: usize,
    items: Option<ItemBatch>,
    first_integer: Option<usize>,
    encoding: Encoding,
    options: AddOptions,
    lookup: LookupOptions,
    refused: Option<HttpError>,
    digits: String,
}

impl BatchBody {
    /// Keeps the refusal and ends the reading.
    fn refuse<T, E: serde::de::Error>(&mut self, refusal: HttpError) -> Result<T, E> {
        self.refused = Some(refusal);
        Err(E::custom("refused"))
    }

    fn option(&mut self, field: &str, value: &RawValue) -> Result<(), HttpError> {
        let refuse = |allowed: &str| HttpError::field(pointer("", field), given(value), allowed);
        match field {
            "encoding" => {
                let text = string(value).as_deref().and_then(Encoding::parse);
                self.encoding = text.ok_or_else(|| refuse(Encoding::NAMES))?;
            }
            "only_if_absent" => {
                self.options.mode = match value.get() {
                    "true" => AddMode::OnlyIfAbsent,
                    "false" => AddMode::Always,
                    _ => return Err(refuse("true or false")),
                };
            }
            "filters" => self.look_up_in(field, lookup::named(value)?)?,
            "prefix" => self.look_up_in(field, lookup::prefix(value)?)?,
            "first" => {
                let mode = lookup::mode(value.get());
                self.lookup.mode = mode.ok_or_else(|| refuse("true or false"))?;
            }
            _ => self.options.create = Some(new_filter(value.get().as_bytes(), "/create")?),
        }
        Ok(())
    }

    fn look_up_in(&mut self, field: &str, filters: LookupFilters) -> Result<(), HttpError> {
        if self.lookup.filters.is_some() {
            return Err(HttpError::field(
                pointer("", field),
                "given beside the other",
                "one of filters and prefix",
            ));
        }
        self.lookup.filters = Some(filters);
        Ok(())
    }
}

struct BodySeed<'b>(&'b mut BatchBody);

impl<'de> DeserializeSeed<'de> for BodySeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for BodySeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the field items")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let BodySeed(body) = self;
        let mut seen: Vec<String> = Vec::new();
        while let Some(field) = map.next_key::<String>()? {
            if !body.kind.takes(&field) {
                let allowed = body.kind.fields();
                return body.refuse(HttpError::field(
                    pointer("", &field),
                    "not a field here",
                    allowed,
                ));
            }
            if seen.contains(&field) {
                return body.refuse(HttpError::field(pointer("", &field), "given twice", "once"));
            }
            if field == "items" {
                map.next_value_seed(ItemsSeed(body))?;
            } else {
                let value: &RawValue = map.next_value()?;
                if let Err(refusal) = body.option(&field, value) {
                    return body.refuse(refusal);
                }
            }
            seen.push(field);
        }
        Ok(())
    }
}

/// Reads the array of items into one batch.
struct ItemsSeed<'b>(&'b mut BatchBody);

impl ItemsSeed<'_> {
    fn wrong<T, E: serde::de::Error>(self, given: &str) -> Result<T, E> {
        self.0.refuse(HttpError::field(
            "/items".to_owned(),
            given,
            "an array of items",
        ))
    }
}

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let ItemsSeed(body) = self;
        let mut items = ItemBatch::with_room_for(body.bytes, body.max_items);
        while array
            .next_element_seed(ItemSeed {
                body: &mut *body,
                items: &mut items,
            })?
            .is_some()
        {
            if items.len() > body.max_items {
                let limit = body.max_items;
                return body.refuse(HttpError::BatchTooLarge { limit });
            }
        }
        body.items = Some(items);
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        self.wrong("a string")
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        self.wrong("a number")
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        self.wrong("a number")
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.wrong("a number")
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.wrong("a boolean")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.wrong("null")
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.wrong("an object")
    }
}

/// Reads one item straight into the batch.
struct ItemSeed<'b> {
    body: &'b mut BatchBody,
    items: &'b mut ItemBatch,
}

impl ItemSeed<'_> {
    fn wrong<T, E: serde::de::Error>(self, given: &str) -> Result<T, E> {
        let index = self.items.len();
        self.body
            .refuse(HttpError::field(item_pointer(index), given, ITEM_KINDS))
    }

    fn integer(self, number: impl fmt::Display) {
        let index = self.items.len();
        self.body.first_integer.get_or_insert(index);
        self.body.digits.clear();
        // Writing to a string can't fail.
        let _ = write!(self.body.digits, "{number}");
        self.items.push(self.body.digits.as_bytes());
    }
}

impl<'de> DeserializeSeed<'de> for ItemSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ITEM_KINDS)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        // Base64 takes four characters for three bytes; what it decodes to is
        // measured when the encoding is known.
        if text.len() > MAX_ITEM_BYTES.div_ceil(3) * 4 {
            let index = self.items.len();
            return self.body.refuse(too_long(item_pointer(index), text.len()));
        }
        self.items.push(text.as_bytes());
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        self.integer(number);
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.integer(number);
        Ok(())
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.wrong("a number with a fraction, an exponent or too many digits")
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.wrong("a boolean")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.wrong("null")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.wrong("an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.wrong("an object")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::problem::Place;

    fn items(json: &str) -> Vec<Vec<u8>> {
        let batch = json_batch(json.as_bytes(), BatchKind::Add, 100).unwrap();
        batch.items.iter().map(<[u8]>::to_vec).collect()
    }

    fn refused(json: &str, kind: BatchKind) -> (u16, String) {
        let error = json_batch(json.as_bytes(), kind, 3).unwrap_err();
        let place = match &error {
            HttpError::InvalidFields(fields) => match &fields[0].place {
                Place::Body(pointer) => pointer.clone(),
                Place::Query(name) => name.clone(),
            },
            _ => String::new(),
        };
        (error.code().status().as_u16(), place)
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
        use BatchKind::{Add, Other};
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
                Other,
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
    fn an_item_may_have_64_kib() {
        let longest = "x".repeat(MAX_ITEM_BYTES);
        assert_eq!(items(&format!(r#"{{"items": ["{longest}"]}}"#)).len(), 1);
        let longer = format!(r#"{{"items": ["", "{longest}x"]}}"#);
        assert_eq!(
            refused(&longer, BatchKind::Add),
            (422, "/items/1".to_owned())
        );
    }
}
