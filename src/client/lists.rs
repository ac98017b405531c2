//! How lists of items begin.

use std::io;

/// What some programs write before a text in UTF-8.
const UTF_8: &[u8] = b"\xef\xbb\xbf";

/// The same of UTF-16, whose lines are no items.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// Takes the byte order mark off the first line of a list.
///
/// # Errors
/// The list is UTF-16.
pub(super) fn without_mark(first: &mut Vec<u8>) -> io::Result<()> {
    if UTF_16.iter().any(|mark| first.starts_with(mark)) {
        return Err(io::Error::other("the list is UTF-16: convert it to UTF-8"));
    }
    if first.starts_with(UTF_8) {
        first.drain(..UTF_8.len());
    }
    Ok(())
}
