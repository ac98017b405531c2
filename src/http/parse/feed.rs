//! A stream of lines cut into what one commit of an import takes.
//!
//! A line is an item, or an entry if the items of the filter have values.
//!
//! Pieces of the stream come as the network cuts them. Only the line that is
//! not complete yet is kept between them, and no more of it than a line may
//! have.

use super::entries;
use crate::engine::{BadLine, ImportLines, ItemBatch, MAX_ITEMS_AT_ONCE};
use crate::http::bounds::MAX_ITEM_BYTES;
use serde::Deserialize;
use serde::de::{Deserializer as _, Visitor};
use serde_json::value::RawValue;
use std::fmt::{self, Write as _};

/// Bytes of items after which the next commit is due.
const BATCH_BYTES: usize = 1 << 20;

/// Lines after which the next commit is due, whether they are items or not.
const BATCH_LINES: u32 = 65_536;

/// A character of an item takes up to six bytes in JSON, and there are quotes.
const MAX_JSON_LINE_BYTES: usize = 6 * MAX_ITEM_BYTES + 64;

/// An entry has its value, a TAB, and in JSON the names of its fields besides.
const MAX_VALUE_BYTES: usize = 64;

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
    /// Of the value of each item; 0: there is none.
    value_bits: u32,
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
    /// to number `done` were taken before. Its items have values of so many bits.
    pub(crate) fn new(format: LineFormat, value_bits: u32, first_line: u64, done: u64) -> LineFeed {
        LineFeed {
            format,
            value_bits,
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
        let of_item = match self.format {
            // One more for the carriage return.
            LineFormat::Text => MAX_ITEM_BYTES + 1,
            LineFormat::Json => MAX_JSON_LINE_BYTES,
        };
        let longest = match self.value_bits {
            0 => of_item,
            _ => of_item + MAX_VALUE_BYTES,
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
        let pushed = match self.value_bits {
            0 => self.push_item(line),
            _ => self.push_entry(line),
        };
        if pushed.is_ok() {
            self.item_bytes += line.len();
            self.lines.item_lines.push(self.lines.count);
        }
        self.count(pushed.err());
    }

    fn push_item(&mut self, line: &[u8]) -> Result<(), BadLine> {
        let items = &mut self.lines.items;
        match self.format {
            LineFormat::Text if line.len() > MAX_ITEM_BYTES => Err(BadLine::TooLong),
            LineFormat::Text => {
                items.push(line);
                Ok(())
            }
            LineFormat::Json => push_json(line, items),
        }
    }

    fn push_entry(&mut self, line: &[u8]) -> Result<(), BadLine> {
        let (item, value) = match self.format {
            LineFormat::Text => text_entry(line)?,
            LineFormat::Json => json_entry(line)?,
        };
        let value = entries::value(value).ok_or(BadLine::NotAnEntry)?;
        if value >> self.value_bits != 0 {
            return Err(BadLine::ValueTooLarge);
        }
        self.push_item(item)?;
        self.lines.values.push(value);
        Ok(())
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

/// The item of an entry as a line of it alone would say it, and the value.
fn text_entry(line: &[u8]) -> Result<(&[u8], &str), BadLine> {
    let tab = memchr::memrchr(b'\t', line).ok_or(BadLine::NotAnEntry)?;
    let value = line.get(tab + 1..).and_then(|it| str::from_utf8(it).ok());
    let item = line.get(..tab).unwrap_or_default();
    Ok((item, value.ok_or(BadLine::NotAnEntry)?))
}

fn json_entry(line: &[u8]) -> Result<(&[u8], &str), BadLine> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry<'a> {
        #[serde(borrow)]
        item: &'a RawValue,
        #[serde(borrow)]
        value: &'a RawValue,
    }
    match serde_json::from_slice::<Entry<'_>>(line) {
        Ok(entry) => Ok((entry.item.get().as_bytes(), entry.value.get())),
        Err(error) if error.is_data() => Err(BadLine::NotAnEntry),
        Err(_) => Err(BadLine::NotJson),
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
mod tests;
