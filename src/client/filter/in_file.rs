//! Questions that a file answers, without a server.

use super::batches;
use super::error::{FilterError, Result};
use super::items::{Line, Verdict, Work};
use super::options::{FilterCommand, Items};
use super::table::Description;
use crate::file::{FileError, FilterFile};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Asks a file, and prints what it answers.
pub(super) fn run(
    path: &Path,
    command: &FilterCommand,
    json: bool,
    out: &mut dyn Write,
) -> Result<Verdict> {
    let line = |work| Line {
        work,
        entries: None,
        json,
    };
    match command {
        FilterCommand::Info { key: None } => describe(&FilterFile::open(path)?, json, out),
        FilterCommand::Exists {
            of,
            quiet,
            within_seconds,
            condition: None,
        } if !of.values && of.attributes.is_none() => {
            let file = FilterFile::open(path)?;
            let exists = |item: &[u8]| match *within_seconds {
                Some(seconds) => file.exists_within(item, seconds),
                None => file.exists(item),
            };
            let line = line(Work::Exists {
                within_seconds: *within_seconds,
                condition: None,
            });
            let answer = |item: &[u8]| exists(item).map(Value::from);
            match *quiet {
                true => ask(&of.of, &line, answer, &mut io::sink()),
                false => ask(&of.of, &line, answer, out).map(|_| Verdict::Yes),
            }
        }
        FilterCommand::Count(of) => {
            let file = FilterFile::open(path)?;
            let count = |item: &[u8]| file.count(item).map(Value::from);
            ask(of, &line(Work::Count), count, out)
        }
        FilterCommand::Values(of) => {
            let file = FilterFile::open(path)?;
            let code = file.header().paged().map(|it| it.code());
            if code.is_none_or(|it| it.value_bits() == 0) || file.header().window.is_some() {
                return Err(FilterError::NoValues);
            }
            let values = |item: &[u8]| {
                let values = file.values(item)?;
                Ok(values.iter().map(|it| Value::from(it.value)).collect())
            };
            ask(of, &line(Work::Values), values, out)
        }
        _ => Err(FilterError::NotOfAFile),
    }
}

fn ask(
    of: &Items,
    line: &Line<'_>,
    answer: impl Fn(&[u8]) -> Result<Value, FileError>,
    out: &mut dyn Write,
) -> Result<Verdict> {
    let mut verdict = Verdict::Yes;
    for batch in batches::given(&of.of_file()).ok_or(FilterError::NoItems)? {
        for item in batch? {
            let result = answer(&item)?;
            if line.work.is_no(&result) {
                verdict = Verdict::No;
            }
            line.print(&item, &result, out)?;
        }
        out.flush()?;
    }
    Ok(verdict)
}

/// What a file says of its filter, by the names that a server uses.
#[derive(Serialize)]
struct FileDescription {
    layout: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint_bits: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_bits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_seconds: Option<u32>,
    items: u64,
    load: f64,
    bytes: u64,
    expected_false_positive_rate: f64,
    created_at: String,
    changed_at: String,
    sha256: String,
}

/// Describes a file, all of which is checked for that.
fn describe(file: &FilterFile, json: bool, out: &mut dyn Write) -> Result<Verdict> {
    let header = file.header();
    let slots: u64 = header.parts.subs.iter().map(|it| it.0.slots()).sum();
    let code = header.paged().map(|it| it.code());
    let window = header.window.map(|it| it.window);
    let time = |ms| humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms));
    let description = FileDescription {
        layout: if code.is_some() { "paged" } else { "classic" },
        fingerprint_bits: code.map(|it| it.width().bits()),
        value_bits: code
            .map(|it| it.value_bits())
            .filter(|&bits| bits > 0 && window.is_none()),
        window_seconds: window.map(|it| it.seconds()),
        items: header.items,
        load: header.occupied as f64 / slots as f64,
        bytes: header.parts.bytes,
        expected_false_positive_rate: header.false_positive_rate,
        created_at: time(header.created_ms).to_string(),
        changed_at: time(header.version.changed_at_ms).to_string(),
        sha256: hex::encode(file.verify()?),
    };
    let text = serde_json::to_string(&description).map_err(io::Error::other)?;
    let description: Description = serde_json::from_str(&text).map_err(io::Error::other)?;
    match json {
        true => description.write_json(out)?,
        false => description.write(out)?,
    }
    Ok(Verdict::Yes)
}
