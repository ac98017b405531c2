//! The arguments of `CF.RESERVE` and of `BF.RESERVE`.

use super::errors;
use super::items::{EXPANSIONS, MAX_CAPACITY, UNKNOWN_ARGUMENT, bloom_rate, decimal, layout};
use super::table::Spec;
use crate::chain::params::{FilterRequest, LayoutKind};
use crate::engine::NewFilter;
use crate::protocol::number::integer;
use crate::protocol::pipeline::Words;

/// RedisBloom's.
const DEFAULT_BUCKET_SIZE: u64 = 2;

/// Words of `BF.RESERVE`.
const MOST_BLOOM_WORDS: usize = 7;

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
        request.layout = Some(layout(word).ok_or("LAYOUT: value must be paged or classic")?);
    }
    if let Some(word) = options.get("ERRORRATE") {
        request.error_rate = Some(decimal(word).ok_or("Couldn't parse ERRORRATE")?);
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

/// What a filter is to be that takes the place of a Bloom filter.
///
/// # Errors
/// In the words of RedisBloom, in the order in which it looks.
pub(crate) fn bloom(spec: &Spec, words: Words<'_>) -> Result<NewFilter, String> {
    if !spec.takes(words.len()) || words.len() > MOST_BLOOM_WORDS {
        return Err(errors::arity(spec));
    }
    let rate = decimal(words.get(2)).ok_or("ERR bad error rate")?;
    let none = "ERR error rate must be in the range (0.000000, 1.000000)";
    let rate = bloom_rate(Some(rate), none)?;
    let capacity = integer(words.get(3)).ok_or("ERR bad capacity")?;
    if !(1..=MAX_CAPACITY).contains(&capacity) {
        return Err(format!(
            "ERR capacity must be in the range [1, {MAX_CAPACITY}]"
        ));
    }
    let (mut expansion, mut scales, mut at) = (None, true, 4);
    while at < words.len() {
        let option = words.get(at);
        if option.eq_ignore_ascii_case(b"nonscaling") && scales {
            scales = false;
        } else if option.eq_ignore_ascii_case(b"expansion") && expansion.is_none() {
            at += 1;
            if at == words.len() {
                return Err("ERR no expansion".to_owned());
            }
            let factor = integer(words.get(at)).ok_or("ERR bad expansion")?;
            if !EXPANSIONS.contains(&factor) {
                return Err("ERR expansion must be in the range [0, 32768]".to_owned());
            }
            expansion = Some(factor.unsigned_abs());
        } else {
            return Err(UNKNOWN_ARGUMENT.to_owned());
        }
        at += 1;
    }
    if !scales && expansion.unwrap_or(0) > 0 {
        return Err("Nonscaling filters cannot expand".to_owned());
    }
    Ok(NewFilter::from(FilterRequest {
        capacity: Some(capacity.unsigned_abs()),
        layout: Some(LayoutKind::Paged),
        error_rate: Some(rate),
        expansion: if scales { expansion } else { Some(0) },
        ..FilterRequest::default()
    }))
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
            options.push((known.ok_or(UNKNOWN_ARGUMENT)?, words.get(at + 1)));
        }
        Ok(Options(options))
    }

    fn get(&self, name: &str) -> Option<&'a [u8]> {
        Some(self.0.iter().find(|(known, _)| *known == name)?.1)
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
