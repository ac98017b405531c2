//! Batches as `text/plain`: one item a line.

use super::batch_fields::WITHIN_SECONDS;
use super::entries::entry_of_line;
use super::filter_fields::{FILTER_FIELDS, filter_field_names, whole_number};
use super::{Batch, BatchKind, Encoding, OptionsIn, decode_base64, too_long};
use crate::engine::{AddMode, AddOptions, EngineError, ItemBatch, NewFilter};
use crate::http::bounds::MAX_ITEM_BYTES;
use crate::http::problem::{HttpError, Place, excerpt};
use crate::http::query::Query;
use axum::body::Bytes;
use axum::http::Uri;
use std::ops::Range;
use std::sync::Arc;

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
    encoding: Encoding,
    options: AddOptions,
    max_items: usize,
) -> Result<Batch, HttpError> {
    let mut batch = Batch {
        options,
        options_in: OptionsIn::Query,
        ..Batch::default()
    };
    let mut places = Vec::with_capacity(max_items.min(text.len() / SHORT));
    let mut values = kind.has_values().then(Vec::new);
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
        if let Some(values) = &mut values {
            let line = body.get(place.clone()).unwrap_or_default();
            let (item, value) = entry_of_line(line, || line_name(number))?;
            values.push(value);
            place.end = place.start + item.end;
        }
        if encoding == Encoding::Plain && place.len() > MAX_ITEM_BYTES {
            return Err(too_long(line_name(number), place.len()));
        }
        places.push(place);
    }
    batch.values = values.map(Arc::from);
    batch.items = ItemBatch::within(held(text), places);
    if encoding == Encoding::Base64 {
        let blanks = &batch.blanks;
        batch.items = decode_base64(&batch.items, |index| line_name(line_of(blanks, index)))?;
    }
    Ok(batch)
}

impl Batch {
    /// What an error of the engine about its entries is: of a value it is said where
    /// it stands.
    pub(crate) fn about_values(&self, error: EngineError) -> HttpError {
        HttpError::about_values(error, |position| {
            Place::Body(match self.options_in {
                OptionsIn::Body => format!("/entries/{position}/value"),
                OptionsIn::Query => line_name(line_of(&self.blanks, position)),
            })
        })
    }
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

/// What the parameter `within_seconds` may be.
pub(crate) const SECONDS: &str = "an integer of seconds, at most the window of the filter";

/// How far a question of a query goes back.
///
/// # Errors
/// The parameter is refused.
pub(crate) fn seconds_of(query: &Query<'_>) -> Result<Option<u64>, HttpError> {
    let Some(text) = query.text(WITHIN_SECONDS)? else {
        return Ok(None);
    };
    match whole_number(text) {
        Some(seconds) => Ok(Some(seconds)),
        None => Err(HttpError::parameter(WITHIN_SECONDS, excerpt(text), SECONDS)),
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

/// The options of a `text/plain` request, which stand in the query.
///
/// # Errors
/// A parameter is refused.
pub(crate) fn line_options(
    kind: BatchKind,
    uri: &Uri,
) -> Result<(Encoding, AddOptions), HttpError> {
    // Most requests have none: no list is made of what could be in it.
    if uri.query().is_none() {
        return Ok((Encoding::default(), AddOptions::default()));
    }
    let mut allowed = vec!["encoding"];
    match kind {
        BatchKind::Add => {
            allowed.extend(["only_if_absent", "create"]);
            allowed.extend(filter_field_names());
        }
        BatchKind::AddValues => allowed.push("only_if_absent"),
        BatchKind::Exists => allowed.push(WITHIN_SECONDS),
        _ => {}
    }
    let query = Query::parse(uri, &allowed)?;
    let encoding = match query.text("encoding")? {
        None => Encoding::default(),
        Some(text) => Encoding::parse(text)
            .ok_or_else(|| HttpError::parameter("encoding", excerpt(text), Encoding::names()))?,
    };
    if !matches!(kind, BatchKind::Add | BatchKind::AddValues) {
        return Ok((encoding, AddOptions::default()));
    }
    let mode = match query.switch("only_if_absent")? {
        true => AddMode::OnlyIfAbsent,
        false => AddMode::Always,
    };
    if kind == BatchKind::AddValues {
        return Ok((encoding, AddOptions { mode, create: None }));
    }
    let wanted = query.switch("create")?;
    let mut filter = NewFilter::default();
    for field in &FILTER_FIELDS {
        let Some(text) = query.text(field.name)? else {
            continue;
        };
        if !wanted {
            return Err(HttpError::parameter(
                field.name,
                "given without create=true",
                "together with create=true",
            ));
        }
        let set = field.set_to_text(&mut filter, text);
        set.map_err(|allowed| HttpError::parameter(field.name, excerpt(text), allowed))?;
    }
    let create = wanted.then_some(filter);
    Ok((encoding, AddOptions { mode, create }))
}

#[cfg(test)]
mod tests;
