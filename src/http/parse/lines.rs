//! Batches as `text/plain`: one item a line.

use super::condition::{in_body, in_query};
use super::entries::EntryLines;
use super::line_options::LineOptions;
use super::{Batch, BatchKind, Encoding, OptionsIn, decode_base64, pointer, too_long};
use crate::engine::{EngineError, ItemBatch, RowPlace, ValueField};
use crate::http::bounds::MAX_ITEM_BYTES;
use crate::http::problem::{FieldError, HttpError, Place, excerpt};
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
) -> Result<Batch, HttpError> {
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
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    for (number, place) in lines_of(body).enumerate().take_while(|_| !text.is_empty()) {
        lines_seen += 1;
        if lines_seen > max_items {
            return Err(HttpError::BatchTooLarge { limit: max_items });
        }
        let mut place = without_return(body, place);
        if place.is_empty() {
            batch.blanks.push(number);
            continue;
        }
        if let Some(entries) = &mut entries {
            let line = body.get(place.clone()).unwrap_or_default();
            place.end = place.start + entries.push(line, || line_name(number))?;
        }
        if encoding == Encoding::Plain && place.len() > MAX_ITEM_BYTES {
            return Err(too_long(line_name(number), place.len()));
        }
        places.push(place);
    }
    if let Some(entries) = entries {
        [batch.entries, batch.becomes] = entries.columns();
    }
    batch.options = options.add;
    batch.within_seconds = options.within_seconds;
    batch.condition = options.condition;
    batch.items = ItemBatch::within(held(text), places);
    if encoding == Encoding::Base64 {
        let blanks = &batch.blanks;
        batch.items = decode_base64(&batch.items, |index| line_name(line_of(blanks, index)))?;
    }
    Ok(batch)
}

impl Batch {
    /// What an error of the engine about its entries, or its condition, is: of a value
    /// or a row it is said where it stands.
    pub(crate) fn about_values(&self, error: EngineError) -> HttpError {
        let refusal = match error {
            EngineError::RowRefused(refusal) => refusal,
            error => {
                return HttpError::about_values(error, |position, field| match self.options_in {
                    OptionsIn::Body => {
                        Place::Body(format!("/entries/{position}/{}", name_of(field, "value")))
                    }
                    OptionsIn::Query => self.line(position),
                });
            }
        };
        let given = excerpt(&refusal.given);
        let (place, given) = match (refusal.place, self.options_in) {
            (
                RowPlace::Entry {
                    position,
                    field,
                    attribute,
                },
                OptionsIn::Body,
            ) => {
                let row = format!("/entries/{position}/{}", name_of(field, "attributes"));
                (Place::Body(pointer(&row, &attribute)), given)
            }
            (
                RowPlace::Entry {
                    position,
                    attribute,
                    ..
                },
                OptionsIn::Query,
            ) => (self.line(position), in_words(&attribute, &given)),
            (RowPlace::Where { attribute, label }, OptionsIn::Body) => {
                let of_attribute = pointer("", &attribute);
                let at = match label {
                    Some(label) => format!("{of_attribute}/{label}"),
                    None => of_attribute,
                };
                (in_body(at), given)
            }
            (RowPlace::Where { attribute, .. }, OptionsIn::Query) => {
                (in_query(String::new()), in_words(&attribute, &given))
            }
        };
        HttpError::InvalidFields(vec![FieldError {
            place,
            given,
            allowed: refusal.allowed,
        }])
    }

    /// The line of an entry.
    fn line(&self, position: usize) -> Place {
        Place::Body(line_name(line_of(&self.blanks, position)))
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

/// What lies between line feeds.
fn lines_of(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    let ends = memchr::memchr_iter(b'\n', text).chain([text.len()]);
    ends.map(move |end| {
        let line = start..end;
        start = end + 1;
        line
    })
}

/// A line without the carriage return that some end lines with, too.
fn without_return(text: &[u8], line: Range<usize>) -> Range<usize> {
    let ends_in_return = line
        .end
        .checked_sub(1)
        .is_some_and(|last| last >= line.start && text.get(last) == Some(&b'\r'));
    line.start..line.end - usize::from(ends_in_return)
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
