//! How far an import came, as it is stored with each of its commits.
//! `docs/format.md` tabulates the bytes.

use super::exactly;
use crate::answer::{AddResult, FullReason};
use serde::{Deserialize, Serialize};

/// Bad lines that are remembered one by one; the others are counted.
pub const BAD_LINES_KEPT: usize = 20;

/// Why a line is no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BadLine {
    /// It is longer than an item may be.
    TooLong,
    /// It is not JSON.
    NotJson,
    /// It is JSON, but neither a string nor an integer.
    NotAnItem,
    /// It is not an item with a value, which those of the filter have.
    NotAnEntry,
    /// Its value has more bits than those of the filter.
    ValueTooLarge,
    /// The filter does not know the value of an attribute.
    UnknownValue,
}

/// The progress of an import. Everything counts from its first line on, over all
/// the requests that it took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportProgress {
    /// Lines that are done with; a line beyond them is not.
    pub committed_lines: u64,
    /// Items added.
    pub added: u64,
    /// Items that were found already and left.
    pub exists: u64,
    /// Items for which there was no room.
    pub full: u64,
    /// The limit that the last of those met.
    pub full_reason: Option<FullReason>,
    /// Blank lines.
    pub blank_lines: u64,
    /// Lines that are no items.
    pub bad_lines: u64,
    /// The first of them: number, from 1, and why.
    pub first_bad_lines: Vec<(u64, BadLine)>,
    /// Whether the end of the stream came.
    pub is_complete: bool,
    /// Milliseconds since 1970 when its first request came.
    pub started_at_ms: u64,
    /// Milliseconds since 1970 of its last commit.
    pub updated_at_ms: u64,
}

impl ImportProgress {
    /// Counts a bad line.
    pub(crate) fn count_bad(&mut self, line: u64, why: BadLine) {
        self.bad_lines += 1;
        if self.first_bad_lines.len() < BAD_LINES_KEPT {
            self.first_bad_lines.push((line, why));
        }
    }

    /// Counts what became of items.
    pub(crate) fn count_results(&mut self, results: &[AddResult]) {
        for result in results {
            match result {
                AddResult::Added => self.added += 1,
                // It was there.
                AddResult::Exists | AddResult::Refreshed => self.exists += 1,
                AddResult::Full(reason) => {
                    self.full += 1;
                    self.full_reason = Some(*reason);
                }
            }
        }
    }

    /// The progress as it is stored.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Nothing that it has can't be written; nothing reads no bytes.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Reads stored progress; `None` if it makes no sense.
    pub(crate) fn decode(bytes: &[u8]) -> Option<ImportProgress> {
        exactly(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> ImportProgress {
        let mut progress = ImportProgress {
            committed_lines: 300,
            blank_lines: 2,
            is_complete: true,
            started_at_ms: 7,
            updated_at_ms: 9,
            ..ImportProgress::default()
        };
        let full = AddResult::Full(FullReason::MaxExpansions);
        progress.count_results(&[AddResult::Added, AddResult::Exists, AddResult::Added, full]);
        for line in 0..100 {
            let why = [BadLine::TooLong, BadLine::NotJson, BadLine::UnknownValue];
            progress.count_bad(line, why[line as usize % why.len()]);
        }
        progress
    }

    #[test]
    fn progress_comes_back() {
        let progress = progress();
        assert_eq!((progress.added, progress.exists, progress.full), (2, 1, 1));
        assert_eq!(progress.bad_lines, 100);
        assert_eq!(progress.first_bad_lines.len(), BAD_LINES_KEPT);
        assert_eq!(ImportProgress::decode(&progress.encode()), Some(progress));
        let none = ImportProgress::default();
        assert_eq!(ImportProgress::decode(&none.encode()), Some(none));
    }

    #[test]
    fn bytes_that_make_no_sense_are_none() {
        let bytes = progress().encode();
        for length in 0..bytes.len() {
            assert_eq!(ImportProgress::decode(&bytes[..length]), None, "{length}");
        }
        // The reason, whether there is one, and whether it is complete.
        let last = bytes.len();
        for (at, value) in [(6, 5), (5, 2), (last - 3, 6)] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            assert_eq!(ImportProgress::decode(&bytes), None, "byte {at}");
        }
        let more = [&bytes[..], &[0]].concat();
        assert_eq!(ImportProgress::decode(&more), None);
    }

    #[test]
    fn the_bytes_are_pinned() {
        let bytes = progress().encode();
        assert_eq!(bytes[..10], [0xac, 2, 2, 1, 1, 1, 1, 2, 100, 20]);
        assert_eq!(bytes[10..16], [0, 0, 1, 1, 2, 5]);
        assert_eq!(bytes[bytes.len() - 3..], [1, 7, 9]);
    }
}
