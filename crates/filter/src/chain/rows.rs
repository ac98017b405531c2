//! Rows: from the labels of an item's attributes to a value and back, and whether
//! a row is one that was asked for.

use super::meta::Chain;
use super::params::{Attributes, Codes};
use crate::cuckoo::hash::ItemHasher;

/// Turns the labels of rows into values, and values into rows, of one filter.
#[derive(Clone)]
pub struct RowCodec {
    /// What rows consist of.
    pub attributes: Attributes,
    hasher: ItemHasher,
    /// What is hashed: the name, a zero byte, the label.
    text: Vec<u8>,
}

impl RowCodec {
    /// Of a filter, if its items have rows.
    pub fn of(chain: &Chain) -> Option<RowCodec> {
        Some(RowCodec {
            attributes: chain.params().attributes()?.clone(),
            hasher: chain.hash_id().hasher(),
            text: Vec::new(),
        })
    }

    /// The part of a row's value that a label of an attribute, by its position, is.
    /// `None`: the filter knows no such label.
    pub fn part(&mut self, attribute: usize, label: &[u8]) -> Option<u32> {
        self.code(attribute, label)
            .and_then(|code| Some(self.attributes.get(attribute)?.row_of(code)))
    }

    fn code(&mut self, attribute: usize, label: &[u8]) -> Option<u32> {
        let attribute = self.attributes.get(attribute)?;
        let Codes::Hashed(bits) = &attribute.codes else {
            return attribute.code_of(label);
        };
        self.text.clear();
        self.text.extend_from_slice(attribute.name.as_bytes());
        self.text.push(0);
        self.text.extend_from_slice(label);
        let hash = self.hasher.hash(&self.text);
        Some(hash.low() as u32 & ((1 << bits) - 1))
    }

    /// Adds to a condition that an attribute, by its position, has one of some
    /// labels.
    ///
    /// # Errors
    /// The position of a label that the filter does not know.
    pub fn require(
        &mut self,
        test: &mut RowTest,
        attribute: usize,
        labels: &[String],
    ) -> Result<(), usize> {
        let bits = self.attributes.get(attribute).map_or(0, |it| it.bits());
        let mut codes = vec![0; (1usize << bits).div_ceil(64)];
        for (position, label) in labels.iter().enumerate() {
            let code = self.code(attribute, label.as_bytes()).ok_or(position)?;
            if let Some(word) = codes.get_mut(code as usize / 64) {
                *word |= 1 << (code % 64);
            }
        }
        let mask = self.attributes.get(attribute).map_or(0, |it| it.row_of(!0));
        test.sets.push(CodeSet { mask, codes });
        Ok(())
    }
}

/// A condition that a row meets or not: for some attributes the codes that will do,
/// as bit sets. All of them must be met by one row; if there are none, every row meets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowTest {
    sets: Vec<CodeSet>,
}

/// The codes of one attribute that will do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CodeSet {
    /// Where the code lies in a row.
    mask: u32,
    /// A bit for each.
    codes: Vec<u64>,
}

impl RowTest {
    /// Whether a row meets it.
    #[inline]
    pub fn is_met(&self, row: u32) -> bool {
        self.sets.iter().all(|set| {
            // An attribute of one label has no bits: its code is 0.
            let code = match set.mask {
                0 => 0,
                mask => (row & mask) >> mask.trailing_zeros(),
            };
            let word = set.codes.get(code as usize / 64);
            word.is_some_and(|word| word >> (code % 64) & 1 == 1)
        })
    }
}

#[cfg(test)]
mod tests;
