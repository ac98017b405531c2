//! Descriptions of filters as the server gives them: every field that it has,
//! in its order, so a newer server shows more.

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, Write};

/// Columns of the list: what they are called, and the fields.
const COLUMNS: [(&str, &str); 8] = [
    ("KEY", "key"),
    ("ITEMS", "items"),
    ("CAPACITY", "capacity"),
    ("SUB-FILTERS", "sub_filters"),
    ("LOAD", "load"),
    ("BYTES", "bytes"),
    ("FALSE POSITIVES", "expected_false_positive_rate"),
    ("EXPIRES", "expires_at"),
];

/// A page of the list.
#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) filters: Vec<Description>,
    pub(super) next_cursor: Option<String>,
}

/// The fields of a JSON object in their order.
#[derive(Deserialize, Serialize)]
pub(super) struct Description(IndexMap<String, Nested>);

/// A value of a field.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Nested {
    Objects(Vec<Description>),
    Object(Description),
    Value(Value),
}

impl Nested {
    /// A value in one cell.
    fn cell(&self) -> String {
        match self {
            Nested::Value(Value::Null) => "-".to_owned(),
            Nested::Value(Value::String(text)) => text.clone(),
            Nested::Value(Value::Number(number)) => shortened(number),
            Nested::Value(Value::Array(values)) => values
                .iter()
                .map(Value::to_string)
                .collect::<Vec<_>>()
                .join(", "),
            Nested::Value(other) => other.to_string(),
            Nested::Objects(none) if none.is_empty() => "-".to_owned(),
            // They are shown below, or field by field.
            Nested::Objects(objects) => objects.len().to_string(),
            Nested::Object(fields) => fields.0.len().to_string(),
        }
    }
}

/// A number as people read it: whole ones as they are, others to four digits.
fn shortened(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(value) if !number.is_i64() && !number.is_u64() && value != 0.0 => {
            let digits = (3.0 - value.abs().log10().floor()).clamp(0.0, 12.0);
            let text = format!("{value:.*}", digits as usize);
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
        _ => number.to_string(),
    }
}

impl Description {
    /// What is said by these names.
    pub(super) fn of<const N: usize>(fields: [(&str, Option<Value>); N]) -> Description {
        let said = fields.into_iter().filter_map(|(key, it)| Some((key, it?)));
        let said = said.map(|(key, it)| (key.to_owned(), Nested::Value(it)));
        Description(said.collect())
    }

    fn cell(&self, field: &str) -> String {
        let found = self.0.get(field);
        found.map_or_else(|| "-".to_owned(), Nested::cell)
    }

    /// As the server said it, in one line.
    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        writeln!(out)
    }

    /// Each field with its value, those of an object with its name before theirs.
    fn lines(&self) -> Vec<(String, String)> {
        let lines = |(name, value): (&String, &Nested)| match value {
            Nested::Object(fields) => fields
                .lines()
                .into_iter()
                .map(|(field, cell)| (format!("{name}.{field}"), cell))
                .collect(),
            _ => vec![(name.clone(), value.cell())],
        };
        self.0.iter().flat_map(lines).collect()
    }

    /// A line for each field, and a table for each list.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let lines = self.lines();
        let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, cell) in &lines {
            writeln!(out, "{name:width$}  {cell}")?;
        }
        for (name, value) in &self.0 {
            if let Nested::Objects(objects) = value
                && !objects.is_empty()
            {
                writeln!(out, "\n{name}:")?;
                let head: IndexSet<&String> = objects.iter().flat_map(|it| it.0.keys()).collect();
                let mut rows: Vec<Vec<String>> = vec![head.iter().copied().cloned().collect()];
                for object in objects {
                    rows.push(head.iter().map(|field| object.cell(field)).collect());
                }
                let widths = widths(&rows);
                rows.iter()
                    .try_for_each(|row| write_row(row, &widths, out))?;
            }
        }
        Ok(())
    }
}

/// The list of filters, page by page: a table on a terminal, otherwise lines
/// with tabs and without a head.
pub(super) struct List {
    is_table: bool,
    widths: Vec<usize>,
}

impl List {
    pub(super) fn new(is_table: bool) -> List {
        List {
            is_table,
            widths: Vec::new(),
        }
    }

    /// Writes a page. The widths are those of the first one.
    pub(super) fn write(&mut self, page: &[Description], out: &mut dyn Write) -> io::Result<()> {
        let row = |it: &Description| COLUMNS.map(|(_, field)| it.cell(field)).to_vec();
        let mut rows: Vec<Vec<String>> = page.iter().map(row).collect();
        if !self.is_table {
            return rows
                .iter()
                .try_for_each(|row| writeln!(out, "{}", row.join("\t")));
        }
        if self.widths.is_empty() {
            rows.insert(0, COLUMNS.map(|(head, _)| head.to_owned()).to_vec());
            self.widths = widths(&rows);
        }
        rows.iter()
            .try_for_each(|row| write_row(row, &self.widths, out))
    }
}

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let mut widths = vec![0; rows.first().map_or(0, Vec::len)];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    widths
}

/// A row: its first cell to the left, the others to the right.
fn write_row(row: &[String], widths: &[usize], out: &mut dyn Write) -> io::Result<()> {
    for (column, (cell, &width)) in row.iter().zip(widths).enumerate() {
        match column {
            0 => write!(out, "{cell:width$}")?,
            _ => write!(out, "  {cell:>width$}")?,
        }
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(json: &str) -> Description {
        serde_json::from_str(json).unwrap()
    }

    fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_description_shows_every_field_in_the_order_of_the_server() {
        let json = r#"{"key":"k","a_new_field":7,"rate":0.00012346,"none":null,"growth":{"levels":[3,1],"empty":[],"pages_split":2},"sub_filters":[{"load":0.5,"items":12},{"load":1.0,"items":3}]}"#;
        let expected = "\
key                 k
a_new_field         7
rate                0.0001235
none                -
growth.levels       3, 1
growth.empty        -
growth.pages_split  2
sub_filters         2

sub_filters:
load  items
0.5      12
1         3
";
        assert_eq!(written(|out| described(json).write(out)), expected);
        assert_eq!(
            written(|out| described(json).write_json(out)),
            format!("{json}\n")
        );
    }

    #[test]
    fn a_table_has_a_column_for_each_field_that_one_of_its_objects_has() {
        let json =
            r#"{"attributes":[{"name":"plan","values":["a","b"]},{"name":"tag","hash_bits":5}]}"#;
        let expected = "\
attributes  2

attributes:
name    values  hash_bits
plan  \"a\", \"b\"          -
tag          -          5
";
        assert_eq!(written(|out| described(json).write(out)), expected);
    }

    #[test]
    fn a_list_is_a_table_on_a_terminal_and_tabs_elsewhere() {
        let page = [
            described(r#"{"key":"k","items":3}"#),
            described(r#"{"key":"long","items":14}"#),
        ];
        let table = written(|out| List::new(true).write(&page, out));
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("KEY   ITEMS  CAPACITY  "), "{table}");
        assert!(lines[1].starts_with("k         3         -  "), "{table}");
        assert!(lines[2].starts_with("long     14         -  "), "{table}");
        let tabs = written(|out| List::new(false).write(&page, out));
        assert_eq!(tabs.lines().next(), Some("k\t3\t-\t-\t-\t-\t-\t-"));
    }
}
