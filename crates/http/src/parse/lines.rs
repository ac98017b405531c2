//! Batches as `text/plain`: one item a line.

use super::condition::{in_body, in_query};
use super::entries::{Column, EntryLines};
use super::line_options::LineOptions;
use super::{
    BYTE_ORDER_MARK, Batch, BatchKind, Encoding, OptionsIn, Refusals, decode_base64, pointer,
    too_long,
};
use crate::bounds::MAX_ITEM_BYTES;
use crate::engine::{EngineError, ItemBatch, RowPlace, ValueField, allowed_values};
use crate::problem::{FieldPlace, HttpError, Result, excerpt};
use axum::body::Bytes;
use std::ops::Range;

/// Bytes that most lines have at least.
const SHORT: usize = 8;

/// Takes a `text/plain` body apart, one item or entry a line.
///
/// # Errors
/// Too many lines, too long a line, no value where there has to be one, or not
/// base64 where that was announced.
pub(crate) fn text_batch(
    text: &Bytes,
    kind: BatchKind,
    options: LineOptions,
    max_items: usize,
) -> Result<Batch> {
    let begin = match text.starts_with(BYTE_ORDER_MARK) {
        true => BYTE_ORDER_MARK.len(),
        false => 0,
    };
    let text = &text.slice(begin..);
    let encoding = options.encoding;
    let mut entries = match kind {
        BatchKind::ReplaceValues => Some(EntryLines::new(&options, 2)),
        _ if kind.has_values() => Some(EntryLines::new(&options, 1)),
        _ => None,
    };
    let mut batch = Batch {
        options_in: OptionsIn::Query,
        ..Batch::default()
    };
    let mut places = Vec::with_capacity(max_items.min(text.len() / SHORT));
    let mut lines_seen = 0;
    let mut refused = Refusals::default();
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    for (number, mut place) in lines_of(body).enumerate().take_while(|_| !text.is_empty()) {
        lines_seen += 1;
        if lines_seen > max_items {
            return Err(HttpError::BatchTooLarge { limit: max_items });
        }
        if place.is_empty() {
            batch.blanks.push(number);
            continue;
        }
        if let Some(entries) = &mut entries {
            let line = body.get(place.clone()).unwrap_or_default();
            match entries.push(line, || line_name(number)) {
                Ok(length) => place.end = place.start + length,
                Err(refusal) => {
                    refused.add(refusal);
                    continue;
                }
            }
        }
        if encoding == Encoding::Plain && place.len() > MAX_ITEM_BYTES {
            refused.add(too_long(line_name(number), place.len()));
            continue;
        }
        places.push(place);
    }
    refused.none("")?;
    if let Some(entries) = entries {
        [batch.entries, batch.becomes] = entries.columns();
    }
    batch.options = options.add;
    batch.within_seconds = options.within_seconds;
    batch.condition = options.condition;
    batch.items = ItemBatch::within(held(text), places);
    if encoding == Encoding::Base64 {
        let place = |index| line_name(line_of(&batch.blanks, index));
        batch.items = decode_base64(&batch.items, "", place)?;
    }
    Ok(batch)
}

impl Batch {
    /// What an error of the engine about its entries, or its condition, is: of a value
    /// or a row it is said where it stands.
    pub(crate) fn about_values(&self, error: EngineError) -> HttpError {
        let refusal = match error {
            EngineError::RowRefused(refusal) => refusal,
            EngineError::ValueTooLarge { value_bits, .. } => return self.too_large(value_bits),
            error => return HttpError::from(error),
        };
        let given = excerpt(&refusal.given);
        let (place, given) = match refusal.place {
            RowPlace::Entry {
                position,
                field,
                attribute,
            } => match self.options_in {
                OptionsIn::Body => {
                    let row = format!("/entries/{position}/{}", name_of(field, "attributes"));
                    (FieldPlace::Body(pointer(&row, &attribute)), given)
                }
                OptionsIn::Query => (self.line(position), in_words(&attribute, &given)),
            },
            RowPlace::Where { attribute, label } => match self.options_in {
                OptionsIn::Body => {
                    let of_attribute = pointer("", &attribute);
                    let at = match label {
                        Some(label) => format!("{of_attribute}/{label}"),
                        None => of_attribute,
                    };
                    (in_body(at), given)
                }
                OptionsIn::Query => (in_query(String::new()), in_words(&attribute, &given)),
            },
        };
        HttpError::refused(place, given, refusal.allowed)
    }

    /// Which of its values have more bits than those of the filter.
    fn too_large(&self, value_bits: u8) -> HttpError {
        let values = |column: &Option<Column>| match column {
            Some(Column::Values(values)) => values.clone(),
            _ => Default::default(),
        };
        let (first, second) = (values(&self.entries), values(&self.becomes));
        let names = match second.is_empty() {
            true => [ValueField::Value, ValueField::To],
            false => [ValueField::From, ValueField::To],
        };
        let allowed = allowed_values(value_bits);
        let allowed = format!("{allowed}: the values of the filter have {value_bits} bits");
        let mut refused = Refusals::default();
        for position in 0..first.len() {
            for (values, name) in [&first, &second].into_iter().zip(names) {
                let Some(&value) = values.get(position).filter(|&it| it >> value_bits != 0) else {
                    continue;
                };
                let place = match self.options_in {
                    OptionsIn::Body => {
                        FieldPlace::Body(format!("/entries/{position}/{}", name_of(name, "value")))
                    }
                    OptionsIn::Query => self.line(position),
                };
                refused.add(HttpError::refused(place, value.to_string(), &*allowed));
            }
        }
        let list = match self.options_in {
            OptionsIn::Body => "/entries",
            OptionsIn::Query => "",
        };
        HttpError::InvalidFields(refused.fields(list))
    }

    /// The line of an entry.
    fn line(&self, position: usize) -> FieldPlace {
        FieldPlace::Body(line_name(line_of(&self.blanks, position)))
    }
}

/// The field of an entry.
fn name_of(field: ValueField, only: &'static str) -> &'static str {
    match field {
        ValueField::Value => only,
        ValueField::From => "from",
        ValueField::To => "to",
    }
}

/// What was given of an attribute, where the place does not name it.
fn in_words(attribute: &str, given: &str) -> String {
    format!("{}: {given}", excerpt(attribute))
}

/// The text, to be held until its items are answered. A short one is copied, at
/// once: it lies in the buffer of its connection, which is larger.
fn held(text: &Bytes) -> Bytes {
    const COPIED: usize = 64 << 10;
    match text.len() <= COPIED {
        true => Bytes::copy_from_slice(text),
        false => text.clone(),
    }
}

/// What lies between line feeds, without the carriage return that some end lines with,
/// too.
fn lines_of(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', text).chain([text.len()]);
    ends.map(move |end| {
        let line = text.get(start..end).unwrap_or_default();
        let place = start..start + line.strip_suffix(b"\r").unwrap_or(line).len();
        start = end + 1;
        place
    })
}

/// Line of the nth item, counting the blank lines before it.
fn line_of(blanks: &[usize], item: usize) -> usize {
    let mut line = item;
    for &blank in blanks {
        if blank > line {
            break;
        }
        line += 1;
    }
    line
}

/// A text body has no JSON pointers; lines are numbered from 1, as editors do.
fn line_name(number: usize) -> String {
    format!("line {}", number + 1)
}

#[cfg(test)]
mod tests;
