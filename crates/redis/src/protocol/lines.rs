//! Where lines end: those that announce a length, and those that people type.

use super::malformed::Malformed;
use super::number::{MAX_DIGITS, integer};

/// Longest line of a command as a person types it.
pub(super) const MAX_LINE_BYTES: usize = 64 << 10;

/// Longest line that says how many arguments there are, or how long one is.
const MAX_LENGTH_BYTES: usize = 32;
const _: () = assert!(MAX_LENGTH_BYTES > MAX_DIGITS + 3);

/// The number of a line, which stands behind its mark, and where the next line
/// begins; `None` if its end has not come. The number is `None` if it is none.
///
/// # Errors
/// `too_long`, if the line has too many bytes.
#[inline]
pub(super) fn length(
    line: &[u8],
    too_long: Malformed,
) -> Result<Option<(Option<i64>, usize)>, Malformed> {
    // Nearly all are of one digit to three.
    match line {
        [digit @ b'0'..=b'9', b'\r', b'\n', ..] => {
            return Ok(Some((Some(i64::from(digit - b'0')), 3)));
        }
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
            let number = 10 * i64::from(tens - b'0') + i64::from(ones - b'0');
            return Ok(Some((Some(number), 4)));
        }
        _ => {}
    }
    let window = line.get(..MAX_LENGTH_BYTES).unwrap_or(line);
    match memchr::memchr(b'\n', window) {
        Some(end) => {
            let text = window.get(..end).unwrap_or_default();
            Ok(Some((text.strip_suffix(b"\r").and_then(integer), end + 1)))
        }
        None if window.len() == MAX_LENGTH_BYTES => Err(too_long),
        None => Ok(None),
    }
}

/// Where a line ends that a person types, of which so many bytes have no end in
/// them; `None` if it has not come.
///
/// # Errors
/// It is too long.
pub(super) fn end(line: &[u8], scanned: usize) -> Result<Option<usize>, Malformed> {
    let left = line.get(scanned..).unwrap_or_default();
    let end = memchr::memchr(b'\n', left).map(|end| scanned + end + 1);
    match end {
        Some(end) if end <= MAX_LINE_BYTES => Ok(Some(end)),
        None if line.len() < MAX_LINE_BYTES => Ok(None),
        _ => Err(Malformed::LongLine),
    }
}
