//! Batches in JSON: every item goes straight from the body into the batch.

use super::batch_fields::{BatchField, WITHIN_SECONDS};
use super::entries::{ENTRY, allowed_values, entry_item, kind_of, value};
use super::filter_fields::whole_number as whole;
use super::lines::SECONDS;
use super::{
    Batch, BatchKind, Encoding, LookupOptions, decode_base64, given, json_error, lookup,
    new_filter, pointer, string, too_long,
};
use crate::engine::{AddMode, AddOptions, ItemBatch, LookupFilters};
use crate::http::answer::Listed;
use crate::http::bounds::MAX_ITEM_BYTES;
use crate::http::problem::HttpError;
use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt::{self, Write as _};
use std::sync::Arc;

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
        values: None,
        listed: Listed::Values,
        within_seconds: None,
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
        let (place, allowed) = match kind {
            BatchKind::Exists => ("/items", "an array of items, or entries"),
            kind if kind.has_values() => ("/entries", "an array of entries"),
            _ => ("/items", "an array of items"),
        };
        return Err(HttpError::field(place.to_owned(), "left out", allowed));
    };
    let item_pointer = match body.values {
        Some(_) => entry_item,
        None => item_pointer,
    };
    if body.values.is_some() && body.within_seconds.is_some() {
        let place = pointer("", WITHIN_SECONDS);
        let (given, allowed) = ("given beside entries", "items");
        return Err(HttpError::field(place, given, allowed));
    }
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
        values: body.values.map(Arc::from),
        listed: body.listed,
        within_seconds: body.within_seconds,
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
    /// A value of each, if they came as entries.
    values: Option<Vec<u32>>,
    listed: Listed,
    within_seconds: Option<u64>,
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

    fn option(&mut self, field: BatchField, value: &RawValue) -> Result<(), HttpError> {
        let refuse =
            |allowed: &str| HttpError::field(pointer("", field.name()), given(value), allowed);
        match field {
            BatchField::Encoding => {
                let text = string(value).as_deref().and_then(Encoding::parse);
                self.encoding = text.ok_or_else(|| refuse(&Encoding::names()))?;
            }
            BatchField::Counts => {
                self.listed = match value.get() {
                    "true" => Listed::WithCopies,
                    "false" => Listed::Values,
                    _ => return Err(refuse("true or false")),
                };
            }
            BatchField::WithinSeconds => {
                let seconds = whole(value.get()).ok_or_else(|| refuse(SECONDS))?;
                self.within_seconds = Some(seconds);
            }
            BatchField::OnlyIfAbsent => {
                self.options.mode = match value.get() {
                    "true" => AddMode::OnlyIfAbsent,
                    "false" => AddMode::Always,
                    _ => return Err(refuse("true or false")),
                };
            }
            BatchField::Filters => self.look_up_in(field, lookup::named(value)?)?,
            BatchField::Prefix => self.look_up_in(field, lookup::prefix(value)?)?,
            BatchField::First => {
                let mode = lookup::mode(value.get());
                self.lookup.mode = mode.ok_or_else(|| refuse("true or false"))?;
            }
            BatchField::Create => {
                self.options.create = Some(new_filter(value.get().as_bytes(), "/create")?);
            }
            // They are read one by one.
            BatchField::Items | BatchField::Entries => {}
        }
        Ok(())
    }

    fn look_up_in(&mut self, field: BatchField, filters: LookupFilters) -> Result<(), HttpError> {
        if self.lookup.filters.is_some() {
            return Err(HttpError::field(
                pointer("", field.name()),
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
        let mut seen: Vec<BatchField> = Vec::new();
        while let Some(field) = map.next_key::<String>()? {
            let Some(field) = body.kind.find(&field) else {
                let (place, allowed) = (pointer("", &field), body.kind.names());
                return body.refuse(HttpError::field(place, "not a field here", allowed));
            };
            if seen.contains(&field) {
                let place = pointer("", field.name());
                return body.refuse(HttpError::field(place, "given twice", "once"));
            }
            match field {
                BatchField::Items | BatchField::Entries if body.items.is_some() => {
                    let place = pointer("", field.name());
                    let given = "given beside the other";
                    return body.refuse(HttpError::field(place, given, "items or entries"));
                }
                BatchField::Items => map.next_value_seed(ItemsSeed(body))?,
                BatchField::Entries => map.next_value_seed(EntriesSeed(body))?,
                option => {
                    let value: &RawValue = map.next_value()?;
                    if let Err(refusal) = body.option(option, value) {
                        return body.refuse(refusal);
                    }
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
                place: item_pointer,
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
    /// Where the item of a number stands.
    place: fn(usize) -> String,
}

impl ItemSeed<'_> {
    fn wrong<T, E: serde::de::Error>(self, given: &str) -> Result<T, E> {
        let place = (self.place)(self.items.len());
        self.body.refuse(HttpError::field(place, given, ITEM_KINDS))
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
            let place = (self.place)(self.items.len());
            return self.body.refuse(too_long(place, text.len()));
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

/// Reads the array of entries into one batch and the values beside it.
struct EntriesSeed<'b>(&'b mut BatchBody);

impl<'de> DeserializeSeed<'de> for EntriesSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?;
        let EntriesSeed(body) = self;
        if !json.get().starts_with('[') {
            let refusal =
                HttpError::field("/entries".to_owned(), kind_of(json), "an array of entries");
            return body.refuse(refusal);
        }
        let mut reader = serde_json::Deserializer::from_str(json.get());
        let read = reader.deserialize_seq(Entries(&mut *body));
        read.map_err(Error::custom)
    }
}

struct Entries<'b>(&'b mut BatchBody);

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let Entries(body) = self;
        let mut items = ItemBatch::with_room_for(body.bytes, body.max_items);
        let mut values = Vec::new();
        while let Some(json) = array.next_element::<&RawValue>()? {
            let at = format!("/entries/{}", values.len());
            if !json.get().starts_with('{') {
                return body.refuse(HttpError::field(at, kind_of(json), ENTRY));
            }
            let mut reader = serde_json::Deserializer::from_str(json.get());
            let read = reader.deserialize_map(Entry {
                body: &mut *body,
                items: &mut items,
                at,
            });
            values.push(read.map_err(Error::custom)?);
            if values.len() > body.max_items {
                let limit = body.max_items;
                return body.refuse(HttpError::BatchTooLarge { limit });
            }
        }
        body.items = Some(items);
        body.values = Some(values);
        Ok(())
    }
}

/// Reads one entry: its item into the batch, and its value.
struct Entry<'b> {
    body: &'b mut BatchBody,
    items: &'b mut ItemBatch,
    at: String,
}

impl<'de> Visitor<'de> for Entry<'_> {
    type Value = u32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ENTRY)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u32, A::Error> {
        let Entry { body, items, at } = self;
        let before = items.len();
        let mut read = None;
        while let Some(field) = map.next_key::<String>()? {
            let is_again = match field.as_str() {
                "item" => items.len() > before,
                "value" => read.is_some(),
                _ => {
                    let place = pointer(&at, &field);
                    return body.refuse(HttpError::field(place, "not a field here", "item, value"));
                }
            };
            if is_again {
                return body.refuse(HttpError::field(
                    pointer(&at, &field),
                    "given twice",
                    "once",
                ));
            }
            if field == "item" {
                map.next_value_seed(ItemSeed {
                    body: &mut *body,
                    items: &mut *items,
                    place: entry_item,
                })?;
                continue;
            }
            let json: &RawValue = map.next_value()?;
            read = value(json.get());
            if read.is_none() {
                let place = pointer(&at, &field);
                return body.refuse(HttpError::field(place, given(json), allowed_values()));
            }
        }
        let missing = match (items.len() > before, read) {
            (true, Some(value)) => return Ok(value),
            (false, _) => "item",
            (true, None) => "value",
        };
        body.refuse(HttpError::field(pointer(&at, missing), "left out", ENTRY))
    }
}

#[cfg(test)]
mod tests;
