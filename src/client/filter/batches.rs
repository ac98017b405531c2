//! Items from the command line, or from lines, as batches.

use crate::client::lists::without_mark;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal as _};
use std::os::unix::ffi::OsStrExt as _;

/// Items of one request.
const MAX_ITEMS: usize = 10_000;
/// Bytes of its items.
const MAX_BYTES: usize = 1 << 20;

/// One item: any bytes.
pub(super) type Item = Vec<u8>;

/// The items that are given; those of the standard input batch by batch, as
/// they are read. `None`: nobody gives any.
pub(super) fn given(items: &[OsString]) -> Option<Box<dyn Iterator<Item = io::Result<Vec<Item>>>>> {
    let stdin = io::stdin();
    match items.is_empty() {
        true if stdin.is_terminal() => None,
        true => Some(Box::new(batches(lines(stdin.lock())))),
        false => {
            let items: Vec<Item> = items.iter().map(|it| it.as_bytes().to_vec()).collect();
            Some(Box::new(batches(items.into_iter().map(Ok))))
        }
    }
}

/// The lines of a text without their ends, and without a byte order mark; blank ones are
/// left out.
fn lines(text: impl BufRead) -> impl Iterator<Item = io::Result<Item>> {
    text.split(b'\n')
        .enumerate()
        .map(|(number, line)| -> io::Result<Item> {
            let mut line = line?;
            if number == 0 {
                without_mark(&mut line)?;
            }
            line.pop_if(|last| *last == b'\r');
            Ok(line)
        })
        .filter(|line| !line.as_ref().is_ok_and(Vec::is_empty))
}

fn batches(
    mut items: impl Iterator<Item = io::Result<Item>>,
) -> impl Iterator<Item = io::Result<Vec<Item>>> {
    let mut next = move || -> io::Result<Option<Vec<Item>>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < MAX_ITEMS
            && bytes < MAX_BYTES
            && let Some(item) = items.next().transpose()?
        {
            bytes += item.len();
            batch.push(item);
        }
        Ok((!batch.is_empty()).then_some(batch))
    };
    std::iter::from_fn(move || next().transpose())
}

/// The fields of a request that say these items: as text, or in base64 if one of
/// them is none.
pub(super) fn fields(items: &[Item]) -> Map<String, Value> {
    let texts: Option<Vec<&str>> = items
        .iter()
        .map(|it| std::str::from_utf8(it).ok())
        .collect();
    let (items, encoding) = match texts {
        Some(texts) => (Value::from(texts), "utf-8"),
        None => {
            let encoded: Vec<String> = items.iter().map(|it| STANDARD.encode(it)).collect();
            (Value::from(encoded), "base64")
        }
    };
    Map::from_iter([
        ("items".to_owned(), items),
        ("encoding".to_owned(), Value::from(encoding)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lose_their_ends_and_blank_ones_are_left_out() {
        let read: io::Result<Vec<Item>> = lines(&b"a\r\n\n b \n\r\nlast"[..]).collect();
        assert_eq!(
            read.unwrap(),
            [b"a".to_vec(), b" b ".to_vec(), b"last".to_vec()]
        );
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line_and_utf_16_is_refused() {
        let read = |text: &[u8]| lines(text).collect::<io::Result<Vec<Item>>>();
        let marked = read("\u{feff}a\n\u{feff}b\n".as_bytes()).unwrap();
        assert_eq!(marked, [b"a".to_vec(), "\u{feff}b".as_bytes().to_vec()]);
        for text in [b"\xff\xfea\0", b"\xfe\xff\0a"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("is UTF-16: convert it to UTF-8"), "{error}");
        }
    }

    #[test]
    fn a_batch_is_bounded_in_items_and_in_bytes_and_loses_none() {
        let sizes = |length: usize, items: usize| -> Vec<usize> {
            let items = (0..items).map(|_| Ok(vec![b'x'; length]));
            batches(items).map(|batch| batch.unwrap().len()).collect()
        };
        assert_eq!(sizes(1, 2 * MAX_ITEMS + 1), [MAX_ITEMS, MAX_ITEMS, 1]);
        assert_eq!(sizes(MAX_BYTES / 2, 5), [2, 2, 1]);
        assert_eq!(sizes(1, 0), [0; 0]);
    }

    #[test]
    fn items_that_are_no_text_go_in_base64_with_all_others() {
        let said = |items: &[Item]| Value::Object(fields(items)).to_string();
        assert_eq!(
            said(&[b"a".to_vec()]),
            r#"{"encoding":"utf-8","items":["a"]}"#
        );
        assert_eq!(
            said(&[b"a".to_vec(), vec![0xff]]),
            r#"{"encoding":"base64","items":["YQ==","/w=="]}"#
        );
    }
}
