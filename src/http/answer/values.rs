//! Lists of values, one an item.

use super::{Format, Listed, of_media_type};
use crate::engine::ValueCopies;
use axum::response::Response;
use std::io::Write as _;

/// The answer about the values of items, in JSON with their copies if these were
/// asked for. `blanks` as in [`results`](super::results).
pub(crate) fn value_lists(
    format: Format,
    lists: &[Vec<ValueCopies>],
    blanks: &[usize],
    listed: Listed,
) -> Response {
    let mut body = Vec::new();
    if format == Format::Lines {
        put_lists(&mut body, [b"", b" ", b"\n"], lists, blanks, b"\n", |it| {
            it.value.into()
        });
        return of_media_type(format, body, None);
    }
    let mut put = |before: &[u8], number: fn(&ValueCopies) -> u64| {
        body.extend_from_slice(before);
        put_lists(
            &mut body,
            [b"[", b",", b"],"],
            lists,
            blanks,
            b"null,",
            number,
        );
        // The comma behind the last list.
        if !lists.is_empty() || !blanks.is_empty() {
            body.pop();
        }
        body.push(b']');
    };
    put(br#"{"results":["#, |it| it.value.into());
    if listed == Listed::WithCopies {
        put(br#","counts":["#, |it| it.copies);
    }
    body.extend_from_slice(b"}\n");
    of_media_type(format, body, None)
}

/// Writes a number of each value, with what stands before, between and behind the
/// numbers of an item, and something else for a blank line.
fn put_lists(
    body: &mut Vec<u8>,
    [before, between, behind]: [&[u8]; 3],
    lists: &[Vec<ValueCopies>],
    blanks: &[usize],
    blank: &[u8],
    number: impl Fn(&ValueCopies) -> u64,
) {
    let (mut lists, mut blanks) = (lists.iter(), blanks.iter().copied().peekable());
    for position in 0..lists.len() + blanks.len() {
        let list = match blanks.next_if_eq(&position) {
            Some(_) => None,
            None => lists.next(),
        };
        let Some(list) = list else {
            body.extend_from_slice(blank);
            continue;
        };
        body.extend_from_slice(before);
        for (nth, value) in list.iter().enumerate() {
            body.extend_from_slice(if nth > 0 { between } else { b"" });
            // Writing to a vector can't fail.
            let _ = write!(body, "{}", number(value));
        }
        body.extend_from_slice(behind);
    }
}
