//! Entries: items with a value or a row behind them, after TABs.

use super::batches::{self, Item};
use super::error::{FilterError, Result};
use serde_json::{Map, Value};

/// How entries are written.
#[derive(Clone, Copy)]
pub(super) struct Shape<'a> {
    /// The attributes whose values a row has. `None`: a value stands there.
    pub(super) attributes: Option<&'a [String]>,
    /// Two of them: the old one and the new one.
    pub(super) is_replacement: bool,
}

impl Shape<'_> {
    /// What they are called in JSON.
    fn names(self) -> &'static [&'static str] {
        match (self.is_replacement, self.attributes) {
            (true, _) => &["from", "to"],
            (false, None) => &["value"],
            (false, Some(_)) => &["attributes"],
        }
    }

    /// The item of an entry, and the fields that say what is behind it. The item is
    /// what is left before the columns, and may contain TABs.
    pub(super) fn read(self, given: &[u8]) -> Option<(&[u8], Map<String, Value>)> {
        let names = self.names();
        let width = self.attributes.map_or(1, <[String]>::len);
        let wanted = width * names.len();
        let mut columns: Vec<&[u8]> = given.rsplitn(wanted + 1, |&it| it == b'\t').collect();
        let item = columns.pop().filter(|_| columns.len() == wanted)?;
        columns.reverse();
        let fields = names.iter().zip(columns.chunks(width));
        let fields = fields.map(|(name, it)| Some(((*name).to_owned(), self.value(it)?)));
        Some((item, fields.collect::<Option<_>>()?))
    }

    fn value(self, columns: &[&[u8]]) -> Option<Value> {
        let mut texts = columns.iter().map(|it| std::str::from_utf8(it).ok());
        let Some(attributes) = self.attributes else {
            let value: u16 = texts.next()??.parse().ok()?;
            return Some(Value::from(value));
        };
        let row = attributes.iter().zip(texts);
        let row = row.map(|(name, text)| Some((name.clone(), Value::from(text?))));
        row.collect::<Option<Map<_, _>>>().map(Value::Object)
    }

    /// The fields of a request that say these entries.
    ///
    /// # Errors
    /// One is none.
    pub(super) fn fields(self, given: &[Item]) -> Result<Map<String, Value>> {
        let (mut items, mut behind) = (Vec::new(), Vec::new());
        for one in given {
            let (item, fields) = self.read(one).ok_or_else(|| FilterError::NotAnEntry {
                given: String::from_utf8_lossy(one).into_owned(),
                wanted: self.in_words(),
            })?;
            items.push(item.to_vec());
            behind.push(fields);
        }
        let mut fields = batches::fields(&items);
        if let Some(Value::Array(items)) = fields.remove("items") {
            let entries = items.into_iter().zip(behind).map(|(item, mut entry)| {
                entry.insert("item".to_owned(), item);
                Value::Object(entry)
            });
            fields.insert("entries".to_owned(), entries.collect());
        }
        Ok(fields)
    }

    /// How to write one.
    fn in_words(self) -> String {
        let columns = match (self.attributes, self.is_replacement) {
            (None, false) => "TAB VALUE, a value from 0 to 65535".to_owned(),
            (None, true) => "TAB OLD TAB NEW, values from 0 to 65535".to_owned(),
            (Some(names), false) => format!("TAB {}, in UTF-8", names.join(" TAB ")),
            (Some(names), true) => {
                let row = names.join(" TAB ");
                format!("TAB {row} of the old row TAB {row} of the new one, in UTF-8")
            }
        };
        format!("ITEM {columns}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_entry_is_read_from_its_end_and_has_all_its_columns() {
        let names = ["plan".to_owned(), "tag".to_owned()];
        let read = |attributes, is_replacement, given: &[u8]| {
            let shape = Shape {
                attributes,
                is_replacement,
            };
            let read = shape.read(given);
            read.map(|(item, fields)| (item.to_vec(), Value::Object(fields)))
        };
        let rows = Some(&names[..]);
        let is = |item: &[u8], fields: Value| Some((item.to_vec(), fields));
        assert_eq!(
            read(None, false, b"a\t\t7"),
            is(b"a\t", json!({"value": 7}))
        );
        assert_eq!(
            read(None, true, b"a\t1\t2"),
            is(b"a", json!({"from": 1, "to": 2}))
        );
        assert_eq!(
            read(rows, false, b"x\t\xff\tpro\t"),
            is(
                b"x\t\xff",
                json!({"attributes": {"plan": "pro", "tag": ""}})
            )
        );
        let (old, new) = (
            json!({"plan": "a", "tag": "b"}),
            json!({"plan": "c", "tag": "d"}),
        );
        assert_eq!(
            read(rows, true, b"\ta\tb\tc\td"),
            is(b"", json!({"from": old, "to": new}))
        );
        for (attributes, is_replacement, given) in [
            (None, false, &b"a"[..]),
            (None, false, b"a\t65536"),
            (None, false, b"a\t-1"),
            (None, true, b"a\t1"),
            (rows, false, b"a\tpro"),
            (rows, false, b"a\tpro\t\xff"),
            (rows, true, b"a\tb\tc\td"),
        ] {
            assert_eq!(read(attributes, is_replacement, given), None, "{given:?}");
        }
    }
}
