//! A stream of lines cut into what one commit of an import takes.
//!
//! A line is an item, or an entry if the items of the filter have values or rows.
//!
//! Pieces of the stream come as the network cuts them. Only the line that is
//! not complete yet is kept between them, and no more of it than a line may
//! have.

use super::visitors::Text;
use super::{BYTE_ORDER_MARK, entries};
use crate::bounds::MAX_ITEM_BYTES;
use crate::chain::params::{
    MAX_ATTRIBUTE_NAME_BYTES, MAX_ATTRIBUTES, MAX_LABEL_BYTES, check_label,
};
use crate::engine::{BadLine, EntryCodec, ImportLines, ItemBatch, MAX_ITEMS_AT_ONCE, RowCodec};
use serde::Deserialize;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// Bytes of items after which the next commit is due.
const BATCH_BYTES: usize = 1 << 20;

/// Lines after which the next commit is due, whether they are items or not.
const BATCH_LINES: u32 = 65_536;

/// A character of an item takes up to six bytes in JSON, and there are quotes.
const MAX_JSON_LINE_BYTES: usize = 6 * MAX_ITEM_BYTES + 64;

/// An entry has its value, a TAB, and in JSON the names of its fields besides.
const MAX_VALUE_BYTES: usize = 64;

/// A row has more: of each attribute a TAB and a label, and in JSON its name and all
/// characters of both escaped.
const MAX_ROW_BYTES: usize =
    MAX_VALUE_BYTES + MAX_ATTRIBUTES * (6 * (MAX_LABEL_BYTES + MAX_ATTRIBUTE_NAME_BYTES) + 8);

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
    codec: EntryCodec,
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
    pub(crate) fn new(
        format: LineFormat,
        codec: EntryCodec,
        first_line: u64,
        done: u64,
    ) -> LineFeed {
        LineFeed {
            format,
            codec,
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
            // More for a byte order mark and the carriage return.
            LineFormat::Text => MAX_ITEM_BYTES + BYTE_ORDER_MARK.len() + 1,
            LineFormat::Json => MAX_JSON_LINE_BYTES,
        };
        let longest = match self.codec {
            EntryCodec::Items => of_item,
            EntryCodec::Values(_) => of_item + MAX_VALUE_BYTES,
            EntryCodec::Rows(_) => of_item + MAX_ROW_BYTES,
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
        let line = match self.line {
            1 => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line),
            _ => line,
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.line <= self.done || line.is_empty() {
            return self.count(None);
        }
        let pushed = match self.codec {
            EntryCodec::Items => self.push_item(line),
            EntryCodec::Values(bits) => self.push_entry(line, bits),
            EntryCodec::Rows(_) => self.push_row(line),
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

    fn push_entry(&mut self, line: &[u8], value_bits: u8) -> Result<(), BadLine> {
        let (item, value) = match self.format {
            LineFormat::Text => {
                let (item, mut columns) = entries::split(line, 1).ok_or(BadLine::NotAnEntry)?;
                let value = columns.next().and_then(|it| str::from_utf8(it).ok());
                (item, value.ok_or(BadLine::NotAnEntry)?)
            }
            LineFormat::Json => {
                let entry: Entry<'_> = json_entry(line)?;
                (entry.item.get().as_bytes(), entry.value.get())
            }
        };
        let value = entries::value(value).ok_or(BadLine::NotAnEntry)?;
        if value >> value_bits != 0 {
            return Err(BadLine::ValueTooLarge);
        }
        self.push_item(item)?;
        self.lines.values.push(value);
        Ok(())
    }

    /// In text the attributes stand in the order of the filter's.
    fn push_row(&mut self, line: &[u8]) -> Result<(), BadLine> {
        let EntryCodec::Rows(codec) = &mut self.codec else {
            return Err(BadLine::NotAnEntry);
        };
        let attributes = codec.attributes.iter().len();
        let (item, row) = match self.format {
            LineFormat::Text => {
                let split = entries::split(line, attributes).ok_or(BadLine::NotAnEntry)?;
                let (item, mut columns) = split;
                let row = columns.try_fold((0, 0), |(row, position), label| {
                    Ok((row | part(codec, position, label)?, position + 1))
                });
                (item, row?.0)
            }
            LineFormat::Json => {
                let entry: RowEntry<'_> = json_entry(line)?;
                let row = json_row(entry.attributes.get(), attributes, codec)?;
                (entry.item.get().as_bytes(), row)
            }
        };
        self.push_item(item)?;
        self.lines.values.push(row);
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

/// The part of a row that a label is.
fn part(codec: &mut RowCodec, attribute: usize, label: &[u8]) -> Result<u32, BadLine> {
    check_label(label.len()).map_err(|_| BadLine::UnknownValue)?;
    codec.part(attribute, label).ok_or(BadLine::UnknownValue)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<'a> {
    #[serde(borrow)]
    item: &'a RawValue,
    #[serde(borrow)]
    value: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowEntry<'a> {
    #[serde(borrow)]
    item: &'a RawValue,
    #[serde(borrow)]
    attributes: &'a RawValue,
}

fn json_entry<'a, E: Deserialize<'a>>(line: &'a [u8]) -> Result<E, BadLine> {
    serde_json::from_slice(line).map_err(|error| unread(&error, BadLine::NotAnEntry))
}

/// What is wrong with a line that is not JSON, or is something else in it.
fn unread(error: &serde_json::Error, other: BadLine) -> BadLine {
    match error.is_data() {
        true => other,
        false => BadLine::NotJson,
    }
}

/// The row of an entry in JSON, which has so many attributes.
fn json_row(json: &str, attributes: usize, codec: &mut RowCodec) -> Result<u32, BadLine> {
    let read = serde_json::Deserializer::from_str(json).deserialize_map(RowOfLine(codec));
    let (row, seen) = read.map_err(|error| unread(&error, BadLine::NotAnEntry))??;
    match seen.count_ones() as usize == attributes {
        true => Ok(row),
        false => Err(BadLine::NotAnEntry),
    }
}

/// Reads the attributes of an entry, and says which were there, by bits.
struct RowOfLine<'a>(&'a mut RowCodec);

impl<'de> Visitor<'de> for RowOfLine<'_> {
    type Value = Result<(u32, u32), BadLine>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a string for each attribute")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let RowOfLine(codec) = self;
        let (mut read, mut seen) = (Ok(0), 0);
        while let Some(Text(name)) = map.next_key()? {
            let position = codec.attributes.position(&name);
            let position = position.filter(|at| seen >> at & 1 == 0);
            let Some(position) = position else {
                map.next_value::<IgnoredAny>()?;
                read = read.and(Err(BadLine::NotAnEntry));
                continue;
            };
            let Text(label) = map.next_value()?;
            seen |= 1 << position;
            let part = part(codec, position, label.as_bytes());
            read = read.and_then(|row| Ok(row | part?));
        }
        Ok(read.map(|row| (row, seen)))
    }
}

fn push_json(line: &[u8], items: &mut ItemBatch) -> Result<(), BadLine> {
    let before = items.len();
    let mut json = serde_json::Deserializer::from_slice(line);
    let read = json
        .deserialize_any(ItemOfLine(items))
        .and_then(|read| json.end().map(|()| read));
    read.unwrap_or_else(|error| {
        // More may follow what was an item so far.
        items.truncate(before);
        Err(unread(&error, BadLine::NotAnItem))
    })
}

struct ItemOfLine<'a>(&'a mut ItemBatch);

impl Visitor<'_> for ItemOfLine<'_> {
    type Value = Result<(), BadLine>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an integer")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        if text.len() > MAX_ITEM_BYTES {
            return Ok(Err(BadLine::TooLong));
        }
        self.0.push(text.as_bytes());
        Ok(Ok(()))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Self::Value, E> {
        self.visit_str(itoa::Buffer::new().format(number))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Self::Value, E> {
        self.visit_str(itoa::Buffer::new().format(number))
    }
}

#[cfg(test)]
mod tests;
