//! Questions that a file answers, without a server.

use super::batches;
use super::dumps::of_file;
use super::error::{FilterError, Result};
use super::items::{Line, Verdict, Work};
use super::options::{FilterCommand, FilterOptions, Items};
use super::table::Description;
use crate::file::{FileError, FilterFile, HashKey};
use serde_json::Value;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Asks a file, and prints what it answers.
pub(super) fn run(path: &Path, asked: &FilterOptions, out: &mut dyn Write) -> Result<Verdict> {
    let json = asked.json;
    let line = |work| Line {
        work,
        entries: None,
        json,
    };
    let opened = || opened(path, asked.key_file.as_deref());
    match &asked.command {
        FilterCommand::Info { key: None } => describe(path, &opened()?, json, out),
        FilterCommand::Exists {
            of,
            quiet,
            within_seconds,
            condition: None,
        } if !of.values && of.attributes.is_none() => {
            let file = opened()?;
            let line = line(Work::Exists {
                within_seconds: *within_seconds,
                condition: None,
            });
            let exists = |item: &[u8]| file.exists_within(item, *within_seconds);
            let answer = |item: &[u8]| exists(item).map(Value::from);
            match *quiet {
                true => ask(path, &of.of, &line, answer, &mut io::sink()),
                false => ask(path, &of.of, &line, answer, out).map(|_| Verdict::Yes),
            }
        }
        FilterCommand::Count(of) => {
            let file = opened()?;
            let count = |item: &[u8]| file.count(item).map(Value::from);
            ask(path, of, &line(Work::Count), count, out)
        }
        FilterCommand::Values(of) => {
            let file = opened()?;
            let code = file.header().paged().map(|it| it.code());
            if code.is_none_or(|it| it.value_bits() == 0) || file.header().window.is_some() {
                return Err(FilterError::NoValues);
            }
            let values = |item: &[u8]| {
                let values = file.values(item)?;
                Ok(values.iter().map(|it| Value::from(it.value)).collect())
            };
            ask(path, of, &line(Work::Values), values, out)
        }
        _ => Err(FilterError::NotOfAFile),
    }
}

/// A file, with the key that was left out of it.
fn opened(path: &Path, key_file: Option<&Path>) -> Result<FilterFile> {
    let file = FilterFile::open(path)?;
    let Some(key_file) = key_file else {
        return Ok(file);
    };
    let mut key = [0; 16];
    let read = fs::read_to_string(key_file).and_then(|text| {
        let read = hex::decode_to_slice(text.trim(), &mut key);
        read.map_err(|_| io::Error::other("a key has 32 hexadecimal digits"))
    });
    read.map_err(|error| of_file(key_file, error))?;
    let file = file.with_key(HashKey(key));
    file.map_err(|error| of_file(path, error))
}

fn ask(
    path: &Path,
    of: &Items,
    line: &Line<'_>,
    answer: impl Fn(&[u8]) -> Result<Value, FileError>,
    out: &mut dyn Write,
) -> Result<Verdict> {
    let mut verdict = Verdict::Yes;
    for batch in batches::given(&of.of_file()).ok_or(FilterError::NoItems)? {
        for item in batch? {
            let result = answer(&item).map_err(|error| of_file(path, error))?;
            if line.work.is_no(&result) {
                verdict = Verdict::No;
            }
            line.print(&item, &result, out)?;
        }
        out.flush()?;
    }
    Ok(verdict)
}

/// Describes a file, all of which is checked for that, by the names that a server uses.
fn describe(path: &Path, file: &FilterFile, json: bool, out: &mut dyn Write) -> Result<Verdict> {
    let digest = file.verify().map_err(|error| of_file(path, error))?;
    let header = file.header();
    let slots: u64 = header.parts.subs.iter().map(|it| it.0.slots()).sum();
    let code = header.paged().map(|it| it.code());
    let window = header.window.map(|it| it.window);
    let layout = if code.is_some() { "paged" } else { "classic" };
    let value_bits = code.map(|it| it.value_bits());
    let value_bits = value_bits.filter(|&bits| bits > 0 && window.is_none());
    let load = header.occupied as f64 / slots as f64;
    let rate = header.false_positive_rate;
    let time = |ms| UNIX_EPOCH + Duration::from_millis(ms);
    let time = |ms| Value::from(humantime::format_rfc3339_millis(time(ms)).to_string());
    let description = Description::of([
        ("layout", Some(layout.into())),
        ("fingerprint_bits", code.map(|it| it.width().bits().into())),
        ("value_bits", value_bits.map(Value::from)),
        ("window_seconds", window.map(|it| it.seconds().into())),
        ("items", Some(header.items.into())),
        ("load", Some(load.into())),
        ("bytes", Some(header.parts.bytes.into())),
        ("error_rate", header.error_rate().map(Value::from)),
        ("expected_false_positive_rate", Some(rate.into())),
        ("created_at", Some(time(header.created_ms))),
        ("changed_at", Some(time(header.version.changed_at_ms))),
        ("digest", Some(hex::encode(digest).into())),
    ]);
    match json {
        true => description.write_json(out)?,
        false => description.write(out)?,
    }
    Ok(Verdict::Yes)
}
