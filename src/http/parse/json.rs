//! Batches in JSON: every item goes straight from the body into the batch.

use super::batch_fields::{BatchField, WITHIN_SECONDS};
use super::condition::{WHERE, condition, in_body};
use super::entries::entry_item;
use super::filter_fields::whole_number as whole;
use super::json_entries::EntrySeed;
use super::json_items::{BatchBody, ItemSeed, item_pointer};
use super::line_options::SECONDS;
use super::visitors::{kind_of, refusing, seed_of_any};
use super::{
    Batch, BatchKind, Encoding, LookupOptions, decode_base64, given, json_error, lookup,
    new_filter, pointer, string, too_long,
};
use crate::engine::{AddMode, AddOptions, ItemBatch, LookupFilters};
use crate::http::answer::Listed;
use crate::http::bounds::MAX_ITEM_BYTES;
use crate::http::problem::HttpError;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

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
        columns: None,
        listed: Listed::Values,
        within_seconds: None,
        condition: None,
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
    let item_pointer = match body.columns {
        Some(_) => entry_item,
        None => item_pointer,
    };
    let alone = [
        (body.within_seconds.is_some(), WITHIN_SECONDS),
        (body.condition.is_some(), WHERE),
    ];
    let mut alone = alone.iter().filter(|(is_given, _)| *is_given);
    if let Some((_, name)) = alone.next() {
        let beside = match (body.columns.is_some(), alone.next()) {
            (true, _) => Some("given beside entries"),
            (false, Some(_)) => Some("given beside where"),
            (false, None) => None,
        };
        if let Some(given) = beside {
            return Err(HttpError::field(pointer("", name), given, "items alone"));
        }
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
    let [entries, becomes] = match (body.columns, kind) {
        (None, _) => [None, None],
        (Some([from, to]), BatchKind::ReplaceValues) => [Some(from.column()), Some(to.column())],
        (Some([values, _]), _) => [Some(values.column()), None],
    };
    Ok(Batch {
        items,
        entries,
        becomes,
        listed: body.listed,
        within_seconds: body.within_seconds,
        condition: body.condition,
        options: body.options,
        lookup: body.lookup,
        ..Batch::default()
    })
}

impl BatchBody {
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
            BatchField::Where => self.condition = Some(condition(value.get(), in_body)?),
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
                BatchField::Items | BatchField::Entries => {
                    map.next_value_seed(ListSeed { body, field })?;
                }
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

/// Reads the array of items or of entries into one batch, and what stands beside them
/// into the columns.
struct ListSeed<'b> {
    body: &'b mut BatchBody,
    field: BatchField,
}

seed_of_any!(ListSeed);

impl ListSeed<'_> {
    fn wrong<T, E: Error>(self, given: String) -> Result<T, E> {
        let name = self.field.name();
        let allowed = format!("an array of {name}");
        let refusal = HttpError::field(pointer("", name), kind_of(&given), allowed);
        self.body.refuse(refusal)
    }
}

impl<'de> Visitor<'de> for ListSeed<'_> {
    type Value = ();

    refusing!("an array", string, number, word, object);

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let ListSeed { body, field } = self;
        let mut items = ItemBatch::with_room_for(body.bytes, body.max_items);
        body.columns = (field == BatchField::Entries).then(Default::default);
        loop {
            let read = match field {
                BatchField::Entries => array.next_element_seed(EntrySeed {
                    body: &mut *body,
                    items: &mut items,
                })?,
                _ => array.next_element_seed(ItemSeed {
                    body: &mut *body,
                    items: &mut items,
                    place: item_pointer,
                })?,
            };
            if read.is_none() {
                break;
            }
            if items.len() > body.max_items {
                let limit = body.max_items;
                return body.refuse(HttpError::BatchTooLarge { limit });
            }
        }
        body.items = Some(items);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
