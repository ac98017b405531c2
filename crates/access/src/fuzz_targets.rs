//! Fuzz targets for the keys file and for keys.

use super::file::{self, MAX_KEYS};
use super::token::TokenDigest;
use std::path::Path;

/// A keys file, and the text of a key.
fn keys(bytes: &[u8]) {
    let path = Path::new("keys.json");
    match file::parse(bytes, path) {
        Ok(entries) => {
            assert!(entries.len() <= MAX_KEYS);
            // No two entries have the same digest.
            let mut digests: Vec<_> = entries.iter().filter_map(file::KeyEntry::digest).collect();
            assert_eq!(digests.len(), entries.len());
            digests.sort_unstable();
            digests.dedup();
            assert_eq!(digests.len(), entries.len());
            let Ok(again) = file::written(entries) else {
                panic!("what was read can't be written");
            };
            let read = file::parse(&again, path).map(file::written);
            assert_eq!(read.ok().and_then(Result::ok), Some(again));
        }
        Err(error) => assert!(error.to_string().len() < 4096),
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = (TokenDigest::parse(text), TokenDigest::of(text));
    }
}

/// What fuzzing begins with.
#[cfg(test)]
fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let entry = |name: &str, digit: char, more: &str| {
        let digest = String::from(digit).repeat(64);
        format!(r#"{{"name":"{name}","sha256":"{digest}","scope":"read"{more}}}"#)
    };
    let entries = [
        entry("shop", 'a', r#","prefix":"shop:""#),
        entry("ops", '7', r#","created_at":"2026-11-21T10:00:00Z""#),
    ];
    let file = format!(r#"{{"version":1,"keys":[{}]}}"#, entries.join(","));
    vec![("keys", "two".to_owned(), file.into_bytes())]
}

/// Reads any bytes; panics if an assertion about them does not hold.
pub type Target = fn(&[u8]);

/// All of them, by the names of their directories in `fuzz/seeds`.
pub const TARGETS: &[(&str, Target)] = &[("keys", keys)];

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;
