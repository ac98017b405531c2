//! Batches in JSON: every item goes straight from the body into the batch.

use super::batch_fields::{BatchField, WITHIN_SECONDS};
use super::condition::{WHERE, condition, in_body};
use super::filter::MAX_FIELD_ERRORS;
use super::filter_fields::whole_number as whole;
use super::json_entries::EntrySeed;
use super::json_items::{BatchBody, ItemSeed, Lists};
use super::line_options::SECONDS;
use super::visitors::{kind_of, refusing, seed_of_any};
use super::{
    Batch, BatchKind, Encoding, Refusals, decode_base64, given, json_error, lookup, new_filter,
    pointer, string, too_long,
};
use crate::bounds::MAX_ITEM_BYTES;
use crate::engine::{AddMode, ItemBatch, LookupFilters, LookupMode};
use crate::problem::{FieldError, FieldPlace, HttpError, Result};
use serde::de::{
    DeserializeSeed as _, Deserializer as _, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;
use std::fmt;

/// Takes a JSON body apart.
///
/// # Errors
/// Not JSON, or a field refused, with the pointer to it.
pub(crate) fn json_batch(json: &[u8], kind: BatchKind, max_items: usize) -> Result<Batch> {
    let (mut body, outcome) = read(json, kind, max_items, Lists::Read);
    match body.refused {
        // The reading ended there.
        Some(HttpError::InvalidFields(_)) => {
            let (all, _) = read(json, kind, max_items, Lists::Judged);
            let list = all.list();
            let mut fields = all.bad.fields(list);
            fields.extend(all.wrong);
            fields.truncate(MAX_FIELD_ERRORS);
            return Err(HttpError::InvalidFields(fields));
        }
        Some(refused) => return Err(refused),
        None => {
            let allowed = "an object with the field items";
            outcome.map_err(|error| json_error(&error, json, "", allowed))?;
        }
    }
    let says_where = [BatchField::Filters, BatchField::Prefix];
    if kind == BatchKind::Lookup && !says_where.iter().any(|it| body.seen.contains(it)) {
        let place = FieldPlace::Body("/filters".to_owned());
        let allowed = "filters, an array of keys, or prefix";
        body.wrong.push(FieldError::new(place, "left out", allowed));
    }
    let Some(items) = body.items.take() else {
        let (place, allowed) = match kind {
            BatchKind::Exists => ("/items", "an array of items, or entries"),
            kind if kind.has_values() => ("/entries", "an array of entries"),
            _ => ("/items", "an array of items"),
        };
        let place = FieldPlace::Body(place.to_owned());
        body.wrong.push(FieldError::new(place, "left out", allowed));
        return Err(HttpError::InvalidFields(body.wrong));
    };
    if !body.wrong.is_empty() {
        return Err(HttpError::InvalidFields(body.wrong));
    }
    let list = body.list();
    let place = |index| body.place_of_item(index);
    let alone = [
        (body.batch.within_seconds.is_some(), WITHIN_SECONDS),
        (body.batch.condition.is_some(), WHERE),
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
    let items = match body.encoding {
        Encoding::Plain => {
            let mut refused = Refusals::default();
            for (index, item) in items.iter().enumerate() {
                if item.len() > MAX_ITEM_BYTES {
                    refused.add(too_long(place(index), item.len()));
                }
            }
            refused.none(list)?;
            items
        }
        Encoding::Base64 => {
            if let Some(index) = body.first_integer {
                let allowed = "a base64 string, since encoding is base64";
                return Err(HttpError::field(place(index), "an integer", allowed));
            }
            decode_base64(&items, list, place)?
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
        ..body.batch
    })
}

fn read(
    json: &[u8],
    kind: BatchKind,
    max_items: usize,
    lists: Lists,
) -> (BatchBody, serde_json::Result<()>) {
    let mut body = BatchBody {
        kind,
        max_items,
        lists,
        bytes: json.len(),
        ..BatchBody::default()
    };
    let mut json_reader = serde_json::Deserializer::from_slice(json);
    let outcome = json_reader
        .deserialize_map(BodyVisitor(&mut body))
        .and_then(|()| json_reader.end());
    (body, outcome)
}

impl BatchBody {
    fn option(&mut self, field: BatchField, value: &RawValue) -> Result<()> {
        let refuse =
            |allowed: &str| HttpError::field(pointer("", field.name()), given(value), allowed);
        let flag = || value.get().parse().map_err(|_| refuse("true or false"));
        match field {
            BatchField::Encoding => {
                let text = string(value).as_deref().and_then(Encoding::parse);
                self.encoding = text.ok_or_else(|| refuse(&Encoding::names()))?;
            }
            BatchField::Counts => self.batch.with_copies = flag()?,
            BatchField::WithinSeconds => {
                let seconds = whole(value.get()).ok_or_else(|| refuse(SECONDS))?;
                self.batch.within_seconds = Some(seconds);
            }
            BatchField::Where => self.batch.condition = Some(condition(value.get(), in_body)?),
            BatchField::OnlyIfAbsent => self.batch.options.mode = AddMode::of(flag()?),
            BatchField::Filters => self.look_up_in(field, lookup::named(value)?)?,
            BatchField::Prefix => self.look_up_in(field, lookup::prefix(value)?)?,
            BatchField::First => {
                self.batch.lookup_mode = match flag()? {
                    true => LookupMode::First,
                    false => LookupMode::All,
                };
            }
            BatchField::Create => {
                self.batch.options.create = Some(new_filter(value.get().as_bytes(), "/create")?);
            }
            // They are read one by one.
            BatchField::Items | BatchField::Entries => {}
        }
        Ok(())
    }

    /// Reads a list for what is wrong with its elements; returns what is wrong with all of it.
    fn judge_list(&mut self, field: BatchField, list: &RawValue) -> Option<HttpError> {
        let mut reader = serde_json::Deserializer::from_str(list.get());
        // What it refuses it keeps.
        let _ = ListSeed { body: self, field }.deserialize(&mut reader);
        self.refused.take()
    }

    fn judge(&mut self, field: BatchField, element: &RawValue, items: &mut ItemBatch) {
        let behind = items.len() + 1;
        let mut reader = serde_json::Deserializer::from_str(element.get());
        let _ = match field {
            BatchField::Entries => EntrySeed { body: self, items }.deserialize(&mut reader),
            _ => ItemSeed { body: self, items }.deserialize(&mut reader),
        };
        if let Some(refusal) = self.refused.take() {
            self.bad.add(refusal);
        }
        // The next one is the next one, whether this one is taken or not.
        if items.len() < behind {
            items.push(b"");
        }
    }

    fn look_up_in(&mut self, field: BatchField, filters: LookupFilters) -> Result<()> {
        if self.batch.looked_up_in.is_some() {
            let (given, allowed) = ("given beside the other", "one of filters and prefix");
            return Err(HttpError::field(pointer("", field.name()), given, allowed));
        }
        self.batch.looked_up_in = Some(filters);
        Ok(())
    }
}

struct BodyVisitor<'b>(&'b mut BatchBody);

impl<'de> Visitor<'de> for BodyVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the field items")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let BodyVisitor(body) = self;
        while let Some(field) = map.next_key::<String>()? {
            let known = body.kind.find(&field);
            let refused = match known {
                None => Some(("not a field here", body.kind.names())),
                Some(field) if body.seen.contains(&field) => {
                    Some(("given twice", "once".to_owned()))
                }
                Some(BatchField::Items | BatchField::Entries) if body.items.is_some() => {
                    Some(("given beside the other", "items or entries".to_owned()))
                }
                Some(_) => None,
            };
            body.seen.extend(known);
            if let Some((given, allowed)) = refused {
                map.next_value::<IgnoredAny>()?;
                body.keep(HttpError::field(pointer("", &field), given, allowed))?;
                continue;
            }
            match known {
                None => {}
                Some(field @ (BatchField::Items | BatchField::Entries))
                    if body.lists == Lists::Judged =>
                {
                    let list: &RawValue = map.next_value()?;
                    // What is no list at all is a field that is wrong.
                    if let Some(refusal) = body.judge_list(field, list) {
                        body.keep(refusal)?;
                    }
                    body.items.get_or_insert_default();
                }
                Some(field @ (BatchField::Items | BatchField::Entries)) => {
                    map.next_value_seed(ListSeed { body, field })?;
                }
                Some(option) => {
                    let value: &RawValue = map.next_value()?;
                    if let Err(refusal) = body.option(option, value) {
                        body.keep(refusal)?;
                    }
                }
            }
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
                _ if body.lists == Lists::Judged => array
                    .next_element()?
                    .map(|it| body.judge(field, it, &mut items)),
                BatchField::Entries => array.next_element_seed(EntrySeed {
                    body: &mut *body,
                    items: &mut items,
                })?,
                _ => array.next_element_seed(ItemSeed {
                    body: &mut *body,
                    items: &mut items,
                })?,
            };
            if read.is_none() {
                break;
            }
            if items.len() > body.max_items && body.lists == Lists::Judged {
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
