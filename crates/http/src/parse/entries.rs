//! What an entry is made of, an item with a value or a row: in lines, and in JSON.

use super::Encoding;
use super::batch_fields::MAX_VALUE;
use super::line_options::LineOptions;
use crate::chain::params::check_label;
use crate::engine::{EntryValues, Rows};
use crate::problem::{HttpError, Result, excerpt};
use std::sync::Arc;

/// What stands beside the items of entries: a value or a row of each.
#[derive(Debug)]
pub(crate) enum Column {
    Values(Arc<[u32]>),
    Rows(Rows),
}

impl Column {
    /// As the engine takes it.
    pub(crate) fn values(&self) -> EntryValues<'_> {
        match self {
            Column::Values(values) => EntryValues::Values(values),
            Column::Rows(rows) => EntryValues::Rows(rows),
        }
    }

    /// Labels of all its rows.
    pub(crate) fn labels(&self) -> usize {
        match self {
            Column::Values(_) => 0,
            Column::Rows(rows) => rows.labels(),
        }
    }
}

/// A column while it is read.
#[derive(Debug, Default)]
pub(super) struct ColumnRead {
    pub(super) values: Vec<u32>,
    pub(super) rows: Rows,
}

impl ColumnRead {
    /// What it came to.
    pub(super) fn column(self) -> Column {
        match self.rows.is_empty() {
            true => Column::Values(self.values.into()),
            false => Column::Rows(self.rows),
        }
    }
}

/// The last columns of a line, and the item before them.
pub(super) fn split(line: &[u8], columns: usize) -> Option<(&[u8], impl Iterator<Item = &[u8]>)> {
    let mut tabs = memchr::memrchr_iter(b'\t', line);
    let begin = tabs.nth(columns.checked_sub(1)?)?;
    let (item, behind) = line.split_at_checked(begin)?;
    Some((item, behind.get(1..)?.split(|&byte| byte == b'\t')))
}

/// Reads the entries of lines.
pub(super) struct EntryLines<'a> {
    /// Names of the columns, if they are attributes.
    names: &'a [String],
    read: [ColumnRead; 2],
    /// How many of these there are.
    used: usize,
    encoding: Encoding,
}

impl<'a> EntryLines<'a> {
    /// Entries with so many values or rows each: one, or two to replace one.
    pub(super) fn new(options: &'a LineOptions, used: usize) -> EntryLines<'a> {
        let read = || ColumnRead {
            rows: Rows::named(&options.columns),
            ..ColumnRead::default()
        };
        EntryLines {
            names: &options.columns,
            read: [read(), read()],
            used,
            encoding: options.encoding,
        }
    }

    /// Takes a line apart, and says how long its item is.
    ///
    /// # Errors
    /// A TAB is missing, or what follows is no value.
    pub(super) fn push(&mut self, line: &[u8], name: impl Fn() -> String) -> Result<usize> {
        let each = self.names.len().max(1);
        let Some((item, mut columns)) = split(line, each * self.used) else {
            return Err(HttpError::field(name(), self.without_tab(), self.allowed()));
        };
        let read = self.read.iter_mut().take(self.used);
        for read in read {
            if self.names.is_empty() {
                let text = columns.next().unwrap_or_default();
                let text = std::str::from_utf8(text).unwrap_or("not a number");
                let value = value(text)
                    .ok_or_else(|| HttpError::field(name(), excerpt(text), allowed_values()))?;
                read.values.push(value);
                continue;
            }
            for (number, label) in (0..each as u8).zip(&mut columns) {
                check_label(label.len())
                    .map_err(|(given, allowed)| HttpError::field(name(), given, allowed))?;
                read.rows.push(number, label);
            }
            read.rows.end_row();
        }
        Ok(item.len())
    }

    /// What was read.
    pub(super) fn columns(self) -> [Option<Column>; 2] {
        let [first, second] = self.read;
        let second = (self.used > 1).then(|| second.column());
        [Some(first.column()), second]
    }

    fn without_tab(&self) -> &'static str {
        match (self.names.len(), self.used) {
            (0 | 1, 1) => "without a TAB",
            _ => "with too few TABs",
        }
    }

    fn allowed(&self) -> String {
        let item = match self.encoding {
            Encoding::Plain => "an item",
            Encoding::Base64 => "an item in base64",
        };
        match (self.names, self.used) {
            ([], 1) => format!("{item}, a TAB and a value"),
            ([], _) => format!("{item}, a TAB, the old value, a TAB and the new one"),
            (names, 1) => format!("{item}, and a TAB before each of {}", names.join(", ")),
            (names, _) => {
                let names = names.join(", ");
                format!("{item}, and a TAB before each of the old {names} and the new {names}")
            }
        }
    }
}

/// A value as it is written; whether it is too large for its filter is found out
/// there.
pub(super) fn value(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

pub(super) fn allowed_values() -> String {
    format!("an integer from 0 to {MAX_VALUE}, as far as value_bits of the filter allow")
}

pub(super) const ENTRY: &str = "an object with the field item, and value or attributes";
pub(super) const REPLACEMENT: &str = "an object with the fields item, from and to";
