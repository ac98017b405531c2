//! A stream of lines cut into what one commit of an import takes.
//!
//! Pieces of the stream come as the network cuts them. Only the line that is
//! not complete yet is kept between them, and no more of it than a line may
//! have.

use crate::engine::{BadLine, ImportLines, ItemBatch, MAX_ITEMS_AT_ONCE};
use crate::http::bounds::MAX_ITEM_BYTES;
use serde::de::{Deserializer as _, Visitor};
use std::fmt::{self, Write as _};

/// Bytes of items after which the next commit is due.
const BATCH_BYTES: usize = 1 << 20;

/// Lines after which the next commit is due, whether they are items or not.
const BATCH_LINES: u32 = 65_536;

/// A character of an item takes up to six bytes in JSON, and there are quotes.
const MAX_JSON_LINE_BYTES: usize = 6 * MAX_ITEM_BYTES + 64;

/// How a line says its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineFormat {
    /// Its bytes are the item.
    Text,
    /// It is a JSON string or an integer.
    Json,
}

/// Takes the stream, gives the lines.
pub(crate) struct LineFeed {
    format: LineFormat,
    /// The start of a line whose end has not come.
    partial: Vec<u8>,
    /// Whether more of that line was thrown away, because it is too long.
    is_overlong: bool,
    /// Number of the next line to end.
    line: u64,
    /// Lines up to this one were taken before.
    done: u64,
    lines: ImportLines,
    item_bytes: usize,
}

impl LineFeed {
    /// A stream whose first line is number `first_line`, of which the lines up
    /// to number `done` were taken before.
    pub(crate) fn new(format: LineFormat, first_line: u64, done: u64) -> LineFeed {
        LineFeed {
            format,
            partial: Vec::new(),
            is_overlong: false,
            line: first_line,
            done,
            lines: ImportLines {
                first_line: first_line.max(done.saturating_add(1)),
                ..ImportLines::default()
            },
            item_bytes: 0,
        }
    }

    /// Takes bytes off the front of a piece, up to its end or until a commit
    /// is due; says whether it is.
    pub(crate) fn push(&mut self, piece: &mut &[u8]) -> bool {
        while !self.is_due() {
            let Some(end) = piece.iter().position(|&byte| byte == b'\n') else {
                self.keep(piece);
                *piece = &[];
                return false;
            };
            let (line, rest) = piece.split_at(end);
            *piece = rest.get(1..).unwrap_or_default();
            if self.partial.is_empty() && !self.is_overlong {
                self.end_line(line);
            } else {
                self.keep(line);
                self.end_partial();
            }
        }
        true
    }

    /// The stream has ended; its last line need not end with a line feed.
    pub(crate) fn end(&mut self) {
        if !self.partial.is_empty() || self.is_overlong {
            self.end_partial();
        }
        self.lines.is_last = true;
    }

    /// The lines since the last time.
    pub(crate) fn take(&mut self) -> ImportLines {
        self.item_bytes = 0;
        let next = ImportLines {
            first_line: self.lines.first_line + u64::from(self.lines.count),
            ..ImportLines::default()
        };
        std::mem::replace(&mut self.lines, next)
    }

    fn is_due(&self) -> bool {
        self.lines.count >= BATCH_LINES
            || self.lines.items.len() >= MAX_ITEMS_AT_ONCE
            || self.item_bytes >= BATCH_BYTES
    }

    fn keep(&mut self, bytes: &[u8]) {
        let longest = match self.format {
            // One more for the carriage return.
            LineFormat::Text => MAX_ITEM_BYTES + 1,
            LineFormat::Json => MAX_JSON_LINE_BYTES,
        };
        let room = longest - self.partial.len();
        let kept = bytes.get(..room).unwrap_or(bytes);
        self.is_overlong |= kept.len() < bytes.len();
        self.partial.extend_from_slice(kept);
    }

    fn end_partial(&mut self) {
        let mut line = std::mem::take(&mut self.partial);
        if std::mem::take(&mut self.is_overlong) {
            self.count(Some(BadLine::TooLong));
        } else {
            self.end_line(&line);
        }
        line.clear();
        self.partial = line;
    }

    fn end_line(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.line <= self.done || line.is_empty() {
            return self.count(None);
        }
        let items = &mut self.lines.items;
        let pushed = match self.format {
            LineFormat::Text if line.len() > MAX_ITEM_BYTES => Err(BadLine::TooLong),
            LineFormat::Text => {
                items.push(line);
                Ok(())
            }
            LineFormat::Json => push_json(line, items),
        };
        if pushed.is_ok() {
            self.item_bytes += line.len();
            self.lines.item_lines.push(self.lines.count);
        }
        self.count(pushed.err());
    }

    /// Counts a line that has ended.
    fn count(&mut self, bad: Option<BadLine>) {
        let is_done = self.line <= self.done;
        self.line += 1;
        if is_done {
            return;
        }
        if let Some(why) = bad {
            self.lines.bad.push((self.lines.count, why));
        }
        self.lines.count += 1;
    }
}

fn push_json(line: &[u8], items: &mut ItemBatch) -> Result<(), BadLine> {
    let before = items.len();
    let mut json = serde_json::Deserializer::from_slice(line);
    let read = json
        .deserialize_any(ItemOfLine(items))
        .and_then(|read| json.end().map(|()| read));
    match read {
        Ok(Read::Item) => Ok(()),
        Ok(Read::TooLong) => Err(BadLine::TooLong),
        Err(error) => {
            // More may follow what was an item so far.
            items.truncate(before);
            Err(match error.is_data() {
                true => BadLine::NotAnItem,
                false => BadLine::NotJson,
            })
        }
    }
}

/// What became of a value.
enum Read {
    Item,
    TooLong,
}

struct ItemOfLine<'a>(&'a mut ItemBatch);

impl Visitor<'_> for ItemOfLine<'_> {
    type Value = Read;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an integer")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Read, E> {
        if text.len() > MAX_ITEM_BYTES {
            return Ok(Read::TooLong);
        }
        self.0.push(text.as_bytes());
        Ok(Read::Item)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Read, E> {
        Ok(digits(self.0, number))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Read, E> {
        Ok(digits(self.0, number))
    }
}

fn digits(items: &mut ItemBatch, number: impl fmt::Display) -> Read {
    let mut digits = String::new();
    // Writing to a string can't fail.
    let _ = write!(digits, "{number}");
    items.push(digits.as_bytes());
    Read::Item
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Everything that a stream comes to, cut into pieces of such lengths.
    fn fed(feed: &mut LineFeed, stream: &[u8], lengths: &[usize]) -> Vec<ImportLines> {
        let mut taken = Vec::new();
        let mut rest = stream;
        let mut lengths = lengths.iter().copied().cycle();
        while !rest.is_empty() {
            let length = lengths.next().unwrap_or(rest.len()).clamp(1, rest.len());
            let (mut piece, behind) = rest.split_at(length);
            while feed.push(&mut piece) {
                taken.push(feed.take());
            }
            rest = behind;
        }
        feed.end();
        taken.push(feed.take());
        taken
    }

    type Seen = (Vec<(u64, Vec<u8>)>, Vec<(u64, BadLine)>, u64);

    /// Items and bad lines by number, and the number of the last line.
    fn seen(taken: &[ImportLines]) -> Seen {
        let (mut items, mut bad) = (Vec::new(), Vec::new());
        let mut next = taken[0].first_line;
        for lines in taken {
            assert_eq!(lines.first_line, next);
            next += u64::from(lines.count);
            assert_eq!(lines.items.len(), lines.item_lines.len());
            let numbered = lines.item_lines.iter().zip(lines.items.iter());
            items.extend(
                numbered.map(|(&at, item)| (lines.first_line + u64::from(at), item.to_vec())),
            );
            let bad_lines = lines.bad.iter();
            bad.extend(bad_lines.map(|&(at, why)| (lines.first_line + u64::from(at), why)));
        }
        (items, bad, next - 1)
    }

    fn line() -> impl Strategy<Value = String> {
        prop_oneof!["[a-c]{0,4}", Just("\r".to_owned()), Just(String::new())]
    }

    proptest! {
        #[test]
        fn lines_are_the_same_however_the_stream_is_cut_and_wherever_it_is_taken_up(
            lines in proptest::collection::vec(line(), 0..30),
            lengths in proptest::collection::vec(1..9usize, 1..5),
            first in 1..20u64,
            done in 0..40u64,
            ends_with_line_feed: bool,
        ) {
            let mut stream = lines.join("\n");
            if ends_with_line_feed && !lines.is_empty() {
                stream.push('\n');
            }
            let mut whole: Vec<&str> = stream.split('\n').collect();
            if whole.last() == Some(&"") {
                whole.pop();
            }
            let expected: Vec<(u64, Vec<u8>)> = (first..)
                .zip(&whole)
                .map(|(number, line)| (number, line.strip_suffix('\r').unwrap_or(line)))
                .filter(|(number, line)| *number > done && !line.is_empty())
                .map(|(number, line)| (number, line.as_bytes().to_vec()))
                .collect();
            let mut feed = LineFeed::new(LineFormat::Text, first, done);
            let taken = fed(&mut feed, stream.as_bytes(), &lengths);
            let (items, bad, last) = seen(&taken);
            prop_assert_eq!(items, expected);
            prop_assert!(bad.is_empty());
            prop_assert_eq!(last, (first + whole.len() as u64 - 1).max(done).max(first - 1));
            prop_assert!(taken.iter().rev().skip(1).all(|lines| !lines.is_last));
            prop_assert!(taken.last().unwrap().is_last);
        }

        #[test]
        fn hostile_json_lines_never_panic(stream: Vec<u8>) {
            let mut feed = LineFeed::new(LineFormat::Json, 1, 0);
            seen(&fed(&mut feed, &stream, &[3]));
        }
    }

    #[test]
    fn a_json_line_is_a_string_or_an_integer() {
        let stream = b"\"a\\nb\"\n 17 \n-9\n18446744073709551615\n1.5\nnull\n[\"a\"]\n\"a\" x\nhello\n\n\"\"\n\"\\ud800\"\n{}\ntrue";
        let mut feed = LineFeed::new(LineFormat::Json, 1, 0);
        let (items, bad, last) = seen(&fed(&mut feed, stream, &[5]));
        let items: Vec<_> = items
            .iter()
            .map(|(line, item)| (*line, &item[..]))
            .collect();
        let expected: [(u64, &[u8]); 5] = [
            (1, b"a\nb"),
            (2, b"17"),
            (3, b"-9"),
            (4, b"18446744073709551615"),
            (11, b""),
        ];
        assert_eq!(items, expected);
        let [json, item] = [BadLine::NotJson, BadLine::NotAnItem];
        let expected = [
            (5, item),
            (6, item),
            (7, item),
            (8, json),
            (9, json),
            (12, json),
            (13, item),
            (14, item),
        ];
        assert_eq!((bad, last), (expected.to_vec(), 14));
    }

    #[test]
    fn a_line_that_is_too_long_is_left_out_and_never_held() {
        for format in [LineFormat::Text, LineFormat::Json] {
            let mut feed = LineFeed::new(format, 1, 0);
            let piece = vec![b'x'; 100_000];
            for _ in 0..50 {
                assert!(!feed.push(&mut piece.as_slice()));
                assert!(feed.partial.len() <= MAX_JSON_LINE_BYTES);
            }
            assert!(!feed.push(&mut &b"x\n7\r\n"[..]));
            feed.end();
            let (items, bad, last) = seen(&[feed.take()]);
            assert_eq!(items, [(2, b"7".to_vec())]);
            assert_eq!((bad, last), (vec![(1, BadLine::TooLong)], 2));
        }
        let longest = "x".repeat(MAX_ITEM_BYTES);
        let stream = format!("{longest}\r\n{longest}x\n");
        let mut feed = LineFeed::new(LineFormat::Text, 1, 0);
        let (items, bad, _) = seen(&fed(&mut feed, stream.as_bytes(), &[1000]));
        assert_eq!((items.len(), bad), (1, vec![(2, BadLine::TooLong)]));
        let stream = format!("\"{longest}\"\n\"{longest}x\"\n");
        let mut feed = LineFeed::new(LineFormat::Json, 1, 0);
        let (items, bad, _) = seen(&fed(&mut feed, stream.as_bytes(), &[1000]));
        assert_eq!((items.len(), bad), (1, vec![(2, BadLine::TooLong)]));
    }

    #[test]
    fn a_commit_is_due_after_many_items_bytes_or_lines() {
        let longest = "y".repeat(60_000) + "\n";
        for (stream, most) in [
            ("x\n".repeat(20_000), MAX_ITEMS_AT_ONCE as u32),
            (longest.repeat(40), 18),
            ("\n".repeat(140_000), BATCH_LINES),
        ] {
            let mut feed = LineFeed::new(LineFormat::Text, 1, 0);
            let taken = fed(&mut feed, stream.as_bytes(), &[7_000]);
            let counts: Vec<u32> = taken.iter().map(|lines| lines.count).collect();
            assert_eq!(counts[..2], [most, most]);
            let lines = stream.lines().count();
            assert_eq!(counts.iter().sum::<u32>() as usize, lines);
        }
    }
}
