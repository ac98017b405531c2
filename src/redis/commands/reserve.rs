//! The arguments of `CF.RESERVE`.

use super::errors;
use super::items::{MAX_CAPACITY, layout};
use super::table::Spec;
use crate::chain::params::FilterRequest;
use crate::engine::NewFilter;
use crate::redis::protocol::batch::Words;
use crate::redis::protocol::number::integer;

/// RedisBloom's.
const DEFAULT_BUCKET_SIZE: u64 = 2;

/// What a filter is to be.
///
/// # Errors
/// In the words of RedisBloom, in the order in which it looks.
pub(crate) fn filter(spec: &Spec, words: Words<'_>) -> Result<NewFilter, String> {
    // Options come in pairs.
    if !spec.takes(words.len()) || words.len().is_multiple_of(2) {
        return Err(errors::arity(spec));
    }
    let capacity = integer(words.get(2)).ok_or("Bad capacity")?;
    let options = Options::of(words)?;
    let mut request = FilterRequest {
        capacity_in_slots: true,
        max_iterations: options.number("MAXITERATIONS", 1, 65535)?,
        bucket_size: options.number("BUCKETSIZE", 1, 255)?,
        expansion: options.number("EXPANSION", 0, 32768)?,
        ..FilterRequest::default()
    };
    if let Some(word) = options.get("LAYOUT") {
        let known = layout(word).ok_or("LAYOUT: value must be paged or classic")?;
        request.layout = Some(known);
    }
    if let Some(word) = options.get("ERRORRATE") {
        let rate = std::str::from_utf8(word)
            .ok()
            .and_then(|it| it.parse().ok());
        request.error_rate = Some(rate.ok_or("Couldn't parse ERRORRATE")?);
    }
    let bucket_size = request.bucket_size.unwrap_or(DEFAULT_BUCKET_SIZE);
    let lowest = 2 * i64::try_from(bucket_size).unwrap_or(i64::MAX / 2);
    if !(lowest..=MAX_CAPACITY).contains(&capacity) {
        return Err(format!(
            "Capacity must be in the range [2 * BUCKETSIZE, {MAX_CAPACITY}]"
        ));
    }
    request.capacity = Some(capacity.unsigned_abs());
    Ok(NewFilter::from(request))
}

/// What stands behind the capacity.
struct Options<'a>(Vec<(&'static str, &'a [u8])>);

const NAMES: [&str; 5] = [
    "MAXITERATIONS",
    "BUCKETSIZE",
    "EXPANSION",
    "LAYOUT",
    "ERRORRATE",
];

impl<'a> Options<'a> {
    fn of(words: Words<'a>) -> Result<Options<'a>, String> {
        let mut options: Vec<(&str, &[u8])> = Vec::new();
        for at in (3..words.len()).step_by(2) {
            let given = words.get(at);
            let known = NAMES
                .into_iter()
                .find(|name| given.eq_ignore_ascii_case(name.as_bytes()))
                .filter(|name| options.iter().all(|(other, _)| other != name));
            let known = known.ok_or("Unknown argument received")?;
            options.push((known, words.get(at + 1)));
        }
        Ok(Options(options))
    }

    fn get(&self, name: &str) -> Option<&'a [u8]> {
        let found = self.0.iter().find(|(known, _)| *known == name)?;
        Some(found.1)
    }

    fn number(&self, name: &str, low: i64, high: i64) -> Result<Option<u64>, String> {
        let Some(word) = self.get(name) else {
            return Ok(None);
        };
        let number = integer(word).ok_or_else(|| format!("Couldn't parse {name}"))?;
        match (low..=high).contains(&number) {
            true => Ok(Some(number.unsigned_abs())),
            false => Err(format!(
                "{name}: value must be in the range [{low}, {high}]"
            )),
        }
    }
}
