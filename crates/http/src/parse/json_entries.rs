//! The entries of a body in JSON: items go straight into the batch, values and rows
//! into the columns beside it.

use super::batch_fields::BatchKind;
use super::entries::{ENTRY, REPLACEMENT, allowed_values};
use super::json_items::{BatchBody, ItemSeed};
use super::pointer;
use super::visitors::{Text, kind_of, refusing, seed_of_any};
use crate::chain::params::{MAX_ATTRIBUTES, check_label};
use crate::engine::ItemBatch;
use crate::problem::HttpError;
use serde::de::{Error, MapAccess, Visitor};

/// Reads one entry: its item into the batch, the rest into the columns.
pub(super) struct EntrySeed<'b> {
    pub(super) body: &'b mut BatchBody,
    pub(super) items: &'b mut ItemBatch,
}

seed_of_any!(EntrySeed);

/// A field of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EntryField {
    Item,
    Value,
    Attributes,
    From,
    To,
}

use EntryField::{Attributes, From, Item, To, Value};

impl EntryField {
    fn of(kind: BatchKind) -> &'static [EntryField] {
        match kind {
            BatchKind::ReplaceValues => &[Item, From, To],
            _ => &[Item, Value, Attributes],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Item => "item",
            Value => "value",
            Attributes => "attributes",
            From => "from",
            To => "to",
        }
    }

    /// The column that it goes to.
    fn column(self) -> usize {
        usize::from(self == To)
    }
}

impl EntrySeed<'_> {
    fn at(&self) -> String {
        format!("/entries/{}", self.items.len())
    }

    fn allowed(&self) -> &'static str {
        match self.body.kind {
            BatchKind::ReplaceValues => REPLACEMENT,
            _ => ENTRY,
        }
    }

    fn wrong<T, E: Error>(self, given: String) -> Result<T, E> {
        let refusal = HttpError::field(self.at(), kind_of(&given), self.allowed());
        self.body.refuse(refusal)
    }
}

impl<'de> Visitor<'de> for EntrySeed<'_> {
    type Value = ();

    refusing!(ENTRY, string, number, word, array);

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (at, allowed) = (self.at(), self.allowed());
        let EntrySeed { body, items } = self;
        let fields = EntryField::of(body.kind);
        let entry = items.len();
        // Of the item and of each column: whether it was read.
        let mut seen = [false; 3];
        while let Some(Text(name)) = map.next_key()? {
            let Some(&field) = fields.iter().find(|it| it.name() == name) else {
                let names: Vec<&str> = fields.iter().map(|it| it.name()).collect();
                let (place, names) = (pointer(&at, &name), names.join(", "));
                return body.refuse(HttpError::field(place, "not a field here", names));
            };
            let seen = match field {
                Item => seen.first_mut(),
                _ => seen.get_mut(1 + field.column()),
            };
            if seen.is_none_or(|seen| std::mem::replace(seen, true)) {
                let (given, allowed) = match field {
                    Value | Attributes => ("given twice", "value or attributes, once"),
                    _ => ("given twice", "once"),
                };
                return body.refuse(HttpError::field(pointer(&at, field.name()), given, allowed));
            }
            match field {
                Item => map.next_value_seed(ItemSeed {
                    body: &mut *body,
                    items: &mut *items,
                })?,
                _ => map.next_value_seed(ValueSeed {
                    body: &mut *body,
                    field,
                    entry,
                })?,
            }
        }
        let needed = match body.kind {
            BatchKind::ReplaceValues => [Some("item"), Some("from"), Some("to")],
            _ => [Some("item"), Some("value"), None],
        };
        let missing = needed.iter().zip(seen).find(|(_, seen)| !seen);
        match missing.and_then(|(name, _)| *name) {
            Some(name) => body.refuse(HttpError::field(pointer(&at, name), "left out", allowed)),
            None => Ok(()),
        }
    }
}

/// Reads a value or a row into its column.
struct ValueSeed<'b> {
    body: &'b mut BatchBody,
    field: EntryField,
    /// Position of its entry.
    entry: usize,
}

seed_of_any!(ValueSeed);

impl ValueSeed<'_> {
    fn at(&self) -> String {
        format!("/entries/{}/{}", self.entry, self.field.name())
    }

    fn wrong<T, E: Error>(self, given: String) -> Result<T, E> {
        let row = "an object with a string for each attribute";
        let allowed = match self.field {
            Value => allowed_values(),
            Attributes => row.to_owned(),
            _ => format!("{}, or {row}", allowed_values()),
        };
        let refusal = HttpError::field(self.at(), given, allowed);
        self.body.refuse(refusal)
    }

    fn mixed<T, E: Error>(self, given: &str) -> Result<T, E> {
        let allowed = "values, or attributes, in all entries of a request";
        let refusal = HttpError::field(self.at(), given, allowed);
        self.body.refuse(refusal)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = ();

    refusing!("a value or a row", string, other_number, word, array);

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        let value = match u32::try_from(number) {
            Ok(value) if self.field != Attributes => value,
            _ => return self.wrong(number.to_string()),
        };
        let columns = self.body.columns.get_or_insert_default();
        if columns.iter().any(|it| !it.rows.is_empty()) {
            return self.mixed("a value beside attributes");
        }
        if let Some(column) = columns.get_mut(self.field.column()) {
            column.values.push(value);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.field == Value {
            return self.wrong("an object".to_owned());
        }
        let columns = self.body.columns.get_or_insert_default();
        if columns.iter().any(|it| !it.values.is_empty()) {
            return self.mixed("attributes beside a value");
        }
        let at = self.at();
        let (body, column) = (self.body, self.field.column());
        while let Some(Text(name)) = map.next_key()? {
            let rows = columns_of(body).get_mut(column).map(|it| &mut it.rows);
            let Some(name) = rows.and_then(|rows| rows.name(&name)) else {
                let allowed = format!(
                    "{MAX_ATTRIBUTES} different attributes in a request, those of the filter"
                );
                return body.refuse(HttpError::field(pointer(&at, &name), "one more", allowed));
            };
            map.next_value_seed(LabelSeed {
                body: &mut *body,
                column,
                name,
                at: &at,
            })?;
        }
        if let Some(column) = columns_of(body).get_mut(column) {
            column.rows.end_row();
        }
        Ok(())
    }
}

fn columns_of(body: &mut BatchBody) -> &mut [super::entries::ColumnRead; 2] {
    body.columns.get_or_insert_default()
}

/// Reads the label of an attribute into the row that has begun.
struct LabelSeed<'b> {
    body: &'b mut BatchBody,
    column: usize,
    name: u8,
    at: &'b str,
}

seed_of_any!(LabelSeed);

impl LabelSeed<'_> {
    fn refuse<T, E: Error>(self, given: &str, allowed: &str) -> Result<T, E> {
        let column = columns_of(self.body).get(self.column);
        let name = column.and_then(|it| it.rows.name_of(self.name));
        let place = pointer(self.at, name.unwrap_or_default());
        self.body.refuse(HttpError::field(place, given, allowed))
    }

    fn wrong<T, E: Error>(self, given: String) -> Result<T, E> {
        self.refuse(&given, "a string")
    }
}

impl<'de> Visitor<'de> for LabelSeed<'_> {
    type Value = ();

    refusing!("a string", number, word, array, object);

    fn visit_str<E: Error>(self, label: &str) -> Result<(), E> {
        if let Err((given, allowed)) = check_label(label.len()) {
            return self.refuse(&given, &allowed);
        }
        let column = columns_of(self.body).get_mut(self.column);
        let is_new = column.is_some_and(|it| it.rows.push(self.name, label.as_bytes()));
        match is_new {
            true => Ok(()),
            false => self.refuse("given twice", "once"),
        }
    }
}
