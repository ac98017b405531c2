//! Lists of values or rows, one an item.

use super::{Format, of_media_type, put_number, woven};
use crate::chain::params::{Attributes, Codes};
use crate::engine::{Listed, ValueCopies};
use axum::response::Response;
use std::io::Write as _;

/// The answer about the values of one item.
pub(crate) fn values_of_one(listed: &Listed) -> Response {
    let mut body = br#"{"values":"#.to_vec();
    let none = Vec::new();
    let values = listed.values.first().unwrap_or(&none);
    put_list(&mut body, [b"[", b",", b"]"], values, |body, it| {
        put_value(body, listed.attributes.as_ref(), it.value);
    });
    body.extend_from_slice(b"}\n");
    of_media_type(Format::Json, body, None)
}

/// The answer about the values of items, in JSON with their copies if these were
/// asked for. `blanks` as in [`results`](super::results).
pub(crate) fn value_lists(
    format: Format,
    listed: &Listed,
    blanks: &[usize],
    with_copies: bool,
) -> Response {
    let mut body = Vec::new();
    let value = |body: &mut Vec<u8>, it: &ValueCopies| {
        put_value(body, listed.attributes.as_ref(), it.value);
    };
    let lists = listed.values.as_slice();
    if format == Format::Lines {
        put_lists(&mut body, [b"", b" ", b"\n"], lists, blanks, b"\n", value);
        return of_media_type(format, body, None);
    }
    body.extend_from_slice(br#"{"results":"#);
    put_json(&mut body, lists, blanks, value);
    if with_copies {
        body.extend_from_slice(br#","counts":"#);
        put_json(&mut body, lists, blanks, |body, it| {
            put_number(body, it.copies);
        });
    }
    body.extend_from_slice(b"}\n");
    of_media_type(format, body, None)
}

fn put_json(
    body: &mut Vec<u8>,
    lists: &[Vec<ValueCopies>],
    blanks: &[usize],
    put: impl Fn(&mut Vec<u8>, &ValueCopies),
) {
    body.push(b'[');
    put_lists(body, [b"[", b",", b"],"], lists, blanks, b"null,", put);
    // The comma behind the last list.
    if !lists.is_empty() || !blanks.is_empty() {
        body.pop();
    }
    body.push(b']');
}

/// Writes something of each value, with what stands before, between and behind that
/// of an item, and something else for a blank line.
fn put_lists(
    body: &mut Vec<u8>,
    around: [&[u8]; 3],
    lists: &[Vec<ValueCopies>],
    blanks: &[usize],
    blank: &[u8],
    put: impl Fn(&mut Vec<u8>, &ValueCopies),
) {
    for list in woven(lists.iter(), blanks) {
        match list {
            Some(list) => put_list(body, around, list, &put),
            None => body.extend_from_slice(blank),
        }
    }
}

fn put_list(
    body: &mut Vec<u8>,
    [before, between, behind]: [&[u8]; 3],
    list: &[ValueCopies],
    put: impl Fn(&mut Vec<u8>, &ValueCopies),
) {
    body.extend_from_slice(before);
    for (nth, value) in list.iter().enumerate() {
        body.extend_from_slice(if nth > 0 { between } else { b"" });
        put(body, value);
    }
    body.extend_from_slice(behind);
}

/// Writes a value, or the row that it is: of an exact attribute the label, of a hashed
/// one its code.
fn put_value(body: &mut Vec<u8>, attributes: Option<&Attributes>, value: u32) {
    let Some(attributes) = attributes else {
        return put_number(body, value.into());
    };
    for (position, attribute) in attributes.iter().enumerate() {
        body.push(if position > 0 { b',' } else { b'{' });
        // Names need no escapes. Writing to a vector can't fail.
        let _ = write!(body, "\"{}\":", attribute.name);
        let code = attribute.code_in(value);
        match &attribute.codes {
            Codes::Hashed(_) => put_number(body, code.into()),
            // Only in damaged data is there a code without a label: null.
            Codes::Exact(_) => {
                let _ = serde_json::to_writer(&mut *body, &attribute.label(code));
            }
        }
    }
    body.push(b'}');
}
