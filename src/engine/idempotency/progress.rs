//! How far an import came, as it is stored with each of its commits.
//! `docs/format.md` tabulates the bytes.

use super::response::{code_of_reason, reason_of};
use crate::engine::answer::{AddResult, FullReason};

/// Bad lines that are remembered one by one; the others are counted.
pub const BAD_LINES_KEPT: usize = 20;

/// Why a line is no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl BadLine {
    const ALL: [BadLine; 6] = [
        BadLine::TooLong,
        BadLine::NotJson,
        BadLine::NotAnItem,
        BadLine::NotAnEntry,
        BadLine::ValueTooLarge,
        BadLine::UnknownValue,
    ];

    fn code(self) -> u8 {
        match self {
            BadLine::TooLong => 0,
            BadLine::NotJson => 1,
            BadLine::NotAnItem => 2,
            BadLine::NotAnEntry => 3,
            BadLine::ValueTooLarge => 4,
            BadLine::UnknownValue => 5,
        }
    }
}

/// The progress of an import. Everything counts from its first line on, over all
/// the requests that it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    pub(crate) fn note_bad(&mut self, line: u64, why: BadLine) {
        self.bad_lines += 1;
        if self.first_bad_lines.len() < BAD_LINES_KEPT {
            self.first_bad_lines.push((line, why));
        }
    }

    /// Counts what became of items.
    pub(crate) fn note_results(&mut self, results: &[AddResult]) {
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
        let mut bytes = vec![
            u8::from(self.is_complete),
            self.full_reason.map_or(0, code_of_reason),
        ];
        for number in [
            self.committed_lines,
            self.added,
            self.exists,
            self.full,
            self.blank_lines,
            self.bad_lines,
            self.started_at_ms,
            self.updated_at_ms,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for &(line, why) in &self.first_bad_lines {
            bytes.extend_from_slice(&line.to_le_bytes());
            bytes.push(why.code());
        }
        bytes
    }

    /// Reads stored progress; `None` if it makes no sense.
    pub(crate) fn decode(bytes: &[u8]) -> Option<ImportProgress> {
        let (&[complete, reason], rest) = bytes.split_first_chunk()?;
        let is_complete = match complete {
            0 => false,
            1 => true,
            _ => return None,
        };
        let (numbers, mut bad) = rest.split_at_checked(8 * 8)?;
        let mut numbers = numbers
            .as_chunks::<8>()
            .0
            .iter()
            .map(|&number| u64::from_le_bytes(number));
        let mut number = || numbers.next();
        let mut progress = ImportProgress {
            is_complete,
            full_reason: match reason {
                0 => None,
                code => Some(reason_of(code)?),
            },
            committed_lines: number()?,
            added: number()?,
            exists: number()?,
            full: number()?,
            blank_lines: number()?,
            bad_lines: number()?,
            started_at_ms: number()?,
            updated_at_ms: number()?,
            first_bad_lines: Vec::new(),
        };
        while let Some((&line, rest)) = bad.split_first_chunk::<8>() {
            let (&why, rest) = rest.split_first()?;
            let why = BadLine::ALL.into_iter().find(|bad| bad.code() == why)?;
            progress
                .first_bad_lines
                .push((u64::from_le_bytes(line), why));
            bad = rest;
        }
        bad.is_empty().then_some(progress)
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
        progress.note_results(&[AddResult::Added, AddResult::Exists, AddResult::Added, full]);
        for line in 0..100 {
            progress.note_bad(line, BadLine::ALL[line as usize % BadLine::ALL.len()]);
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
        for length in 0..66 {
            assert_eq!(ImportProgress::decode(&bytes[..length]), None);
        }
        assert_eq!(ImportProgress::decode(&bytes[..bytes.len() - 1]), None);
        for (at, value) in [(0, 2), (1, 6), (74, 6)] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            assert_eq!(ImportProgress::decode(&bytes), None, "byte {at}");
        }
    }

    #[test]
    fn the_bytes_are_pinned() {
        let bytes = progress().encode();
        assert_eq!(bytes[..11], [1, 2, 44, 1, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(
            bytes[66..84],
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]
        );
    }
}
