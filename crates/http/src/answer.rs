//! Puts the answers of batches together: one word per item, as JSON or as
//! lines, written in one pass, in parts between which others have the thread.

mod values;

pub(crate) use values::{value_lists, values_of_one};

use super::admission::answers::InMemory;
use super::headers::listed;
use super::media;
use super::problem::{HttpError, Result};
use super::words;
use crate::engine::FullReason;
use crate::server::admission::answers::FREE_BYTES;
use crate::server::admission::budget::Held;
use crate::server::listen::polls::give_way;
use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;
use std::io::Write as _;
use std::sync::Arc;

/// What is written at once for `true` or `false` and what stands behind it.
const MOST_OF_A_FLAG: usize = 8;

/// Words that are written before others have the thread.
const WORDS_AT_ONCE: usize = 16_384;

/// In which form the results of a batch are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Json,
    Lines,
}

impl Format {
    /// Lines only when the client lists `text/plain` before anything that
    /// JSON satisfies.
    pub(crate) fn wanted(headers: &HeaderMap) -> Format {
        for range in listed(headers, &ACCEPT) {
            match range.split(';').next().unwrap_or_default().trim() {
                media::TEXT | "text/*" => return Format::Lines,
                media::JSON | "application/*" | "*/*" => return Format::Json,
                _ => {}
            }
        }
        Format::Json
    }
}

/// What is said about one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Name(&'static str),
    Flag(bool),
    Number(u64),
}

/// The answer to a batch. `blanks` are the positions of blank lines among the
/// results: `null` in JSON, a blank line in lines. `reserved` is what a
/// change reserved for it.
pub(crate) async fn results(
    format: Format,
    words: impl ExactSizeIterator<Item = Word>,
    blanks: &[usize],
    full_reason: Option<FullReason>,
    reserved: Option<Held>,
) -> Response {
    let count = words.len() + blanks.len();
    let mut words = woven(words, blanks);
    put_together(format, count, full_reason, reserved, |body| {
        let some = words.by_ref().take(WORDS_AT_ONCE);
        some.for_each(|word| write_word(body, format, word));
    })
    .await
}

/// What is said of each line: nothing of a blank one, of the others each in turn.
fn woven<T>(
    mut each: impl ExactSizeIterator<Item = T>,
    blanks: &[usize],
) -> impl Iterator<Item = Option<T>> {
    let mut blanks = blanks.iter().copied().peekable();
    (0..each.len() + blanks.len()).map(move |line| match blanks.next_if_eq(&line) {
        Some(_) => None,
        None => each.next(),
    })
}

/// The answer to a batch of questions of yes or no, as [`results`] says it.
pub(crate) async fn flags(
    format: Format,
    flags: &[bool],
    blanks: &[usize],
    reserved: Option<Held>,
) -> Response {
    if !blanks.is_empty() {
        let words = flags.iter().copied().map(Word::Flag);
        return results(format, words, blanks, None, reserved).await;
    }
    let mut parts = flags.chunks(WORDS_AT_ONCE);
    put_together(format, flags.len(), None, reserved, |body| {
        write_flags(body, format, parts.next().unwrap_or_default());
    })
    .await
}

/// So many words, [`WORDS_AT_ONCE`] at a time, and what stands around them.
async fn put_together(
    format: Format,
    count: usize,
    full_reason: Option<FullReason>,
    reserved: Option<Held>,
    mut write_some: impl FnMut(&mut Vec<u8>),
) -> Response {
    let mut body = Vec::with_capacity(64 + MOST_OF_A_FLAG * count);
    if format == Format::Json {
        body.extend_from_slice(br#"{"results":["#);
    }
    let before_words = body.len();
    for _ in 0..count.div_ceil(WORDS_AT_ONCE) {
        write_some(&mut body);
        give_way().await;
    }
    if format == Format::Lines {
        return of_media_type(format, body, reserved);
    }
    // The comma behind the last word.
    body.truncate(body.len().saturating_sub(1).max(before_words));
    body.push(b']');
    if let Some(reason) = full_reason {
        body.extend_from_slice(br#","full_reason":"#);
        let _ = serde_json::to_writer(&mut body, &words::FullReason::from(reason));
        // It is of plain words of our own: nothing to escape.
        let _ = write!(body, r#","full_detail":"{}""#, advice(reason));
    }
    body.extend_from_slice(b"}\n");
    of_media_type(format, body, reserved)
}

/// Most bytes that the results of a change of so many items take, blank lines
/// among them.
pub(crate) fn most_bytes(items: usize) -> usize {
    /// `"refreshed",`.
    const LONGEST_WORD: usize = 12;
    /// What stands around the words, why a filter is full included.
    const AROUND: usize = 1024;
    AROUND.saturating_add(items.saturating_mul(LONGEST_WORD))
}

fn of_media_type(format: Format, mut body: Vec<u8>, reserved: Option<Held>) -> Response {
    let is_large = body.len() > FREE_BYTES;
    if is_large {
        // It may wait for a while: no more than is said of it.
        body.shrink_to_fit();
    }
    let mut response = answer(format, Body::from(body));
    if is_large {
        let reserved = reserved.map(Arc::new);
        response.extensions_mut().insert(InMemory(reserved));
    }
    response
}

fn answer(format: Format, body: Body) -> Response {
    let media_type = match format {
        Format::Json => media::JSON,
        Format::Lines => "text/plain; charset=utf-8",
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Writes yes or no for each, and what stands behind it. Which of the two it is
/// can't be foreseen, so no jump depends on it: eight bytes are written, and the
/// next word begins where these ended to mean something.
fn write_flags(body: &mut Vec<u8>, format: Format, flags: &[bool]) {
    let (yes, no) = match format {
        Format::Json => (*b"true,   ", *b"false,  "),
        Format::Lines => (*b"true\n   ", *b"false\n  "),
    };
    let mut end = body.len();
    body.resize(end + MOST_OF_A_FLAG * flags.len(), 0);
    for &flag in flags {
        let place = body
            .get_mut(end..)
            .and_then(<[u8]>::first_chunk_mut::<MOST_OF_A_FLAG>);
        if let Some(place) = place {
            *place = if flag { yes } else { no };
        }
        end += 6 - usize::from(flag);
    }
    body.truncate(end);
}

/// Writes a number in a fraction of the time of `write!`: there may be a million.
fn put_number(body: &mut Vec<u8>, number: u64) {
    body.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes a word and what stands behind it: a comma or a line feed.
fn write_word(body: &mut Vec<u8>, format: Format, word: Option<Word>) {
    match (word, format) {
        (Some(Word::Flag(flag)), _) => return write_flags(body, format, &[flag]),
        (Some(Word::Number(number)), _) => put_number(body, number),
        (Some(Word::Name(name)), Format::Json) => {
            body.push(b'"');
            body.extend_from_slice(name.as_bytes());
            body.push(b'"');
        }
        (Some(Word::Name(name)), Format::Lines) => body.extend_from_slice(name.as_bytes()),
        (None, Format::Json) => body.extend_from_slice(b"null"),
        (None, Format::Lines) => {}
    }
    body.push(match format {
        Format::Json => b',',
        Format::Lines => b'\n',
    });
}

/// What to do about a limit that stops a filter from growing.
fn advice(reason: FullReason) -> &'static str {
    match reason {
        FullReason::ExpansionOff => {
            "the filter was created with expansion 0 and does not grow; create a larger one and add the items there"
        }
        FullReason::MaxExpansions => {
            "the filter has grown as often as max_expansions allows; create one with a larger capacity and add the items there"
        }
        FullReason::GrowthLimit => {
            "the filter has grown as far as its slots record (max_growth); create one with a larger capacity or with more fingerprint_bits and add the items there"
        }
        FullReason::MaxValuesPerItem => {
            "the item has 1024 values, which is as many as an item may have; delete one of them first"
        }
        FullReason::MaxFilterBytes => {
            "growing would exceed the bytes that a filter may have on this server (--max-filter-bytes when it was created)"
        }
    }
}

/// A JSON answer. Like all of them it ends with a newline, for those who read
/// it on a terminal.
pub(crate) fn json(value: &impl Serialize) -> Result {
    let mut body = serde_json::to_vec(value).map_err(HttpError::unanswerable)?;
    body.push(b'\n');
    Ok(of_media_type(Format::Json, body, None))
}

/// Whether an item is there. There are two such answers: the question that is
/// asked most spends nothing on writing them.
pub(crate) fn exists(found: bool) -> Response {
    let json: &'static [u8] = match found {
        true => b"{\"exists\":true}\n",
        false => b"{\"exists\":false}\n",
    };
    answer(Format::Json, Body::from(Bytes::from_static(json)))
}

/// A JSON answer that says under which path to go on, of characters that stand
/// for themselves in one.
pub(crate) fn json_at(status: StatusCode, path: &str, value: &impl Serialize) -> Result {
    let mut response = json(value)?;
    *response.status_mut() = status;
    if let Ok(location) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, location);
    }
    Ok(response)
}

#[cfg(test)]
mod tests;
