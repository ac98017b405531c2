//! Adding, asking for, counting, deleting and replacing items.

use super::batches::{self, Item};
use super::entries::Shape;
use super::error::{FilterError, Result};
use crate::client::patience::{PatientRemote, fresh_key};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::io::{self, Write};

/// Refusals of a batch of which smaller ones may pass. Nothing of it is done.
const SMALLER_PASS: [&str; 5] = [
    "batch_too_large",
    "body_too_large",
    "lookup_too_large",
    "too_costly",
    "too_many_pages",
];

/// What a command found, for its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Done, and all items are there.
    Yes,
    /// An item is absent, or was not added.
    No,
}

/// What is done with items.
#[derive(Clone, Copy)]
pub(super) enum Work<'a> {
    Add {
        only_if_absent: bool,
    },
    Exists {
        within_seconds: Option<u64>,
        condition: Option<&'a Value>,
    },
    Count,
    Delete,
    Replace,
    Values,
    Lookup {
        filters: &'a [String],
        prefix: Option<&'a str>,
        first: bool,
    },
}

impl Work<'_> {
    /// The path, of a filter with this key.
    fn path(self, key: &str, has_entries: bool) -> Vec<&str> {
        let below: &[&str] = match (self, has_entries) {
            (Work::Add { .. }, false) => &["items"],
            (Work::Add { .. }, true) => &["values"],
            (Work::Exists { .. }, _) => &["exists"],
            (Work::Count, _) => &["count"],
            (Work::Delete, false) => &["items", "delete"],
            (Work::Delete, true) => &["values", "delete"],
            (Work::Replace, _) => &["values", "replace"],
            (Work::Values, _) => &["values", "query"],
            (Work::Lookup { .. }, _) => return vec!["lookup"],
        };
        [&["filters", key], below].concat()
    }

    /// What a result is called in JSON.
    fn result(self) -> &'static str {
        match self {
            Work::Add { .. } | Work::Replace => "result",
            Work::Exists { .. } => "exists",
            Work::Count => "count",
            Work::Delete => "deleted",
            Work::Values => "values",
            Work::Lookup { .. } => "filters",
        }
    }

    fn is_change(self) -> bool {
        matches!(self, Work::Add { .. } | Work::Delete | Work::Replace)
    }

    /// The fields of a request that say what is asked besides the items.
    fn options(self) -> Vec<(String, Value)> {
        let options = match self {
            Work::Add { only_if_absent } => [Some(("only_if_absent", only_if_absent.into())), None],
            Work::Lookup {
                filters,
                prefix,
                first,
            } => [
                Some(match prefix {
                    Some(prefix) => ("prefix", prefix.into()),
                    None => ("filters", filters.into()),
                }),
                Some(("first", first.into())),
            ],
            Work::Exists {
                within_seconds,
                condition,
            } => [
                within_seconds.map(|it| ("within_seconds", Value::from(it))),
                condition.map(|it| ("where", it.clone())),
            ],
            Work::Count | Work::Delete | Work::Replace | Work::Values => [None, None],
        };
        let given = options.into_iter().flatten();
        given
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// Whether a result makes the exit code 1.
    pub(super) fn is_no(self, result: &Value) -> bool {
        match self {
            Work::Add { .. } | Work::Replace => result == "full",
            Work::Exists { .. } => result == false,
            Work::Count | Work::Delete | Work::Values | Work::Lookup { .. } => false,
        }
    }
}

/// The answer to a batch.
#[derive(Deserialize)]
struct Results {
    results: Vec<Value>,
    full_detail: Option<String>,
    #[serde(default)]
    missing_filters: Vec<String>,
}

/// One command about items.
pub(super) struct ItemCommand<'a> {
    pub(super) server: &'a PatientRemote,
    pub(super) key: &'a str,
    pub(super) line: Line<'a>,
}

impl ItemCommand<'_> {
    /// Sends the items in batches and prints a line for each item.
    pub(super) async fn run(&self, given: &[OsString], out: &mut dyn Write) -> Result<Verdict> {
        let mut verdict = Verdict::Yes;
        let (mut done, mut is_told) = (0, false);
        for batch in batches::given(given).ok_or(FilterError::NoItems)? {
            let mut waiting = vec![batch?];
            while let Some(mut part) = waiting.pop() {
                let answer = self.send(&part).await;
                let Some(results) = answer.map_err(|error| interrupted(error, done))? else {
                    let rest = part.split_off(part.len() / 2);
                    waiting.extend([rest, part]);
                    continue;
                };
                done += part.len();
                if results.results.iter().any(|it| self.line.work.is_no(it)) {
                    verdict = Verdict::No;
                }
                if let Some(detail) = results.full_detail.filter(|_| !is_told) {
                    eprintln!("cuckood: {} is full: {detail}", self.key);
                    is_told = true;
                }
                if !results.missing_filters.is_empty() && !is_told {
                    let missing = results.missing_filters.join(", ");
                    eprintln!("cuckood: there are no filters {missing}");
                    is_told = true;
                }
                for (item, result) in part.iter().zip(&results.results) {
                    self.line.print(item, result, out)?;
                }
                // Who pipes items in sees what became of them so far.
                out.flush()?;
            }
        }
        Ok(verdict)
    }

    /// Sends a batch; `None` if the server wants smaller ones.
    async fn send(&self, items: &[Item]) -> Result<Option<Results>> {
        let mut fields = match self.line.entries {
            None => batches::fields(items),
            Some(shape) => shape.fields(items)?,
        };
        fields.extend(self.line.work.options());
        let body = Value::Object(fields).to_string();
        let path = self.line.work.path(self.key, self.line.entries.is_some());
        let idempotency_key = fresh_key()?;
        let answer = self
            .server
            .send(|remote| {
                let request = remote
                    .request(Method::POST, &path)
                    .header(CONTENT_TYPE, "application/json")
                    .body(body.clone());
                match self.line.work.is_change() {
                    true => self.server.once(request, &idempotency_key),
                    false => request,
                }
            })
            .await?;
        if items.len() > 1 && SMALLER_PASS.contains(&answer.problem().code.as_str()) {
            return Ok(None);
        }
        let body = self.server.remote.granted(answer)?;
        let understood: Results = self.server.remote.understood(&body)?;
        match understood.results.len() == items.len() {
            true => Ok(Some(understood)),
            false => Err(self.server.remote.not_understood().into()),
        }
    }
}

/// How a result and its item, which may be any bytes, are printed.
pub(super) struct Line<'a> {
    pub(super) work: Work<'a>,
    /// How each item stands with a value or a row behind it; `None`: alone.
    pub(super) entries: Option<Shape<'a>>,
    pub(super) json: bool,
}

impl Line<'_> {
    pub(super) fn print(&self, item: &[u8], result: &Value, out: &mut dyn Write) -> io::Result<()> {
        if !self.json {
            let result = match result {
                Value::Array(values) => {
                    let values: Vec<String> = values.iter().map(bare).collect();
                    values.join(" ")
                }
                other => bare(other),
            };
            write!(out, "{result}\t")?;
            out.write_all(item)?;
            return writeln!(out);
        }
        let entry = self.entries.and_then(|shape| shape.read(item));
        let (item, mut line) = entry.unwrap_or((item, Map::new()));
        let (name, text) = match std::str::from_utf8(item) {
            Ok(text) => ("item", text.to_owned()),
            Err(_) => ("item_base64", STANDARD.encode(item)),
        };
        line.insert(name.to_owned(), Value::from(text));
        line.insert(self.work.result().to_owned(), result.clone());
        writeln!(out, "{}", Value::Object(line))
    }
}

/// A value in a line: a text as it is.
fn bare(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn interrupted(error: FilterError, done: usize) -> FilterError {
    match error {
        FilterError::Remote(error) if done > 0 => FilterError::Interrupted { error, done },
        other => other,
    }
}
