//! Commands as places in the bytes that they came in: nothing is copied.

use bytes::Bytes;
use std::ops::Range;

/// Whole commands, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pipeline {
    pub(super) bytes: Bytes,
    /// Of all commands, one after another.
    pub(super) arguments: Vec<Range<usize>>,
    /// Of each command, how many arguments there are up to its end.
    pub(super) ends: Vec<usize>,
}

impl Pipeline {
    /// How many commands there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A command by its position; one that is not there has no words.
    #[inline]
    pub(crate) fn command(&self, index: usize) -> Words<'_> {
        let before = index.checked_sub(1).and_then(|it| self.ends.get(it));
        let end = self.ends.get(index).copied().unwrap_or_default();
        let words = before.copied().unwrap_or_default()..end;
        Words {
            bytes: &self.bytes,
            places: self.arguments.get(words).unwrap_or_default(),
        }
    }

    /// Some of its commands, by their positions: they lie in the same bytes.
    pub(crate) fn of_these(&self, positions: impl Iterator<Item = usize>) -> Pipeline {
        let mut some = Pipeline {
            bytes: self.bytes.clone(),
            ..Pipeline::default()
        };
        for position in positions {
            let places = self.command(position).places;
            some.arguments.extend_from_slice(places);
            some.ends.push(some.arguments.len());
        }
        some
    }
}

/// The words of one command: its name, then its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    bytes: &'a Bytes,
    places: &'a [Range<usize>],
}

impl<'a> Words<'a> {
    /// How many there are, the name included.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.places.len()
    }

    /// A word by its position; empty if it is not there.
    #[inline]
    pub(crate) fn get(self, index: usize) -> &'a [u8] {
        let place = self.places.get(index).cloned().unwrap_or_default();
        self.bytes.get(place).unwrap_or_default()
    }

    /// The words from a position on.
    pub(crate) fn from(self, index: usize) -> Words<'a> {
        Words {
            places: self.places.get(index..).unwrap_or_default(),
            ..self
        }
    }

    /// All of them.
    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = &'a [u8]> {
        self.places
            .iter()
            .map(move |place| self.bytes.get(place.clone()).unwrap_or_default())
    }

    /// Where they lie.
    #[inline]
    pub(crate) fn places(self) -> &'a [Range<usize>] {
        self.places
    }

    /// What they lie in.
    #[inline]
    pub(crate) fn bytes(self) -> &'a Bytes {
        self.bytes
    }
}

/// Commands that are kept for later, copied one behind the other.
#[derive(Debug, Default)]
pub(crate) struct KeptCommands {
    bytes: Vec<u8>,
    arguments: Vec<Range<usize>>,
    ends: Vec<usize>,
}

impl KeptCommands {
    /// Keeps a command of these words.
    pub(crate) fn push<'a>(&mut self, words: impl IntoIterator<Item = &'a [u8]>) {
        for word in words {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(word);
            self.arguments.push(start..self.bytes.len());
        }
        self.ends.push(self.arguments.len());
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity() + self.arguments.capacity() * size_of::<Range<usize>>()
    }

    /// How many words they have.
    pub(crate) fn words(&self) -> usize {
        self.arguments.len()
    }

    /// All of them.
    pub(crate) fn into_pipeline(self) -> Pipeline {
        Pipeline {
            bytes: Bytes::from(self.bytes),
            arguments: self.arguments,
            ends: self.ends,
        }
    }
}
