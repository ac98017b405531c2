//! Rows and conditions as they are given: by names and labels, which a filter may
//! know or not.

use super::batch::ItemBatch;
use super::error::{EngineError, Result};
use super::row_refusal::{RowPlace, RowRefusal, ValueField};
use crate::chain::meta::Chain;
use crate::chain::params::{Attributes, MAX_ATTRIBUTES};
use crate::chain::rows::{RowCodec, RowTest};
use std::ops::Range;

/// What makes the value of an entry of what stands beside its item.
#[derive(Clone)]
pub enum EntryCodec {
    /// Nothing stands there: the filter holds items alone.
    Items,
    /// A value of so many bits, which is taken as it is.
    Values(u8),
    /// A row.
    Rows(RowCodec),
}

impl EntryCodec {
    /// That of a filter.
    pub(super) fn of(chain: &Chain) -> EntryCodec {
        match (RowCodec::of(chain), chain.params().plain_value_bits()) {
            (Some(codec), _) => EntryCodec::Rows(codec),
            (None, Some(bits)) => EntryCodec::Values(bits),
            (None, None) => EntryCodec::Items,
        }
    }
}

/// A label for each of some attributes, row after row.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Each name once.
    names: Vec<String>,
    labels: ItemBatch,
    /// The number of the name of each label.
    named: Vec<u8>,
    /// Labels up to the end of each row.
    ends: Vec<usize>,
}

impl Rows {
    /// No rows yet, of attributes whose numbers are their places here. Each name is
    /// there once, and no filter has so many that there could be more.
    pub fn named(names: &[String]) -> Rows {
        Rows {
            names: names.to_vec(),
            ..Rows::default()
        }
    }

    /// The number of a name. `None`: there are more names than any filter has
    /// attributes.
    pub fn name(&mut self, name: &str) -> Option<u8> {
        let known = self.names.iter().position(|it| it == name);
        let number = known.unwrap_or(self.names.len());
        if known.is_none() {
            if number == MAX_ATTRIBUTES {
                return None;
            }
            self.names.push(name.to_owned());
        }
        u8::try_from(number).ok()
    }

    /// The name of a number.
    pub fn name_of(&self, number: u8) -> Option<&str> {
        self.names.get(usize::from(number)).map(String::as_str)
    }

    /// Puts a label into the row that has not ended. `false`: it has one of this
    /// name.
    pub fn push(&mut self, name: u8, label: &[u8]) -> bool {
        let begin = self.ends.last().copied().unwrap_or_default();
        let so_far = self.named.get(begin..).unwrap_or_default();
        if so_far.contains(&name) {
            return false;
        }
        self.named.push(name);
        self.labels.push(label);
        true
    }

    /// Ends the row.
    pub fn end_row(&mut self) {
        self.ends.push(self.labels.len());
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Labels of all rows.
    pub fn labels(&self) -> usize {
        self.labels.len()
    }

    /// The values that some of the rows are in a filter.
    ///
    /// # Errors
    /// [`EngineError::RowRefused`]: one of them is none there.
    pub(super) fn values(
        &self,
        rows: Range<usize>,
        codec: &mut RowCodec,
        field: ValueField,
        values: &mut Vec<u32>,
    ) -> Result {
        let attributes = codec.attributes.clone();
        let known: Vec<Option<usize>> = self
            .names
            .iter()
            .map(|name| attributes.position(name))
            .collect();
        for position in rows {
            let place = |name: &str| RowPlace::Entry {
                position,
                field,
                attribute: name.to_owned(),
            };
            let begin = match position.checked_sub(1) {
                Some(before) => self.ends.get(before).copied().unwrap_or_default(),
                None => 0,
            };
            let end = self.ends.get(position).copied().unwrap_or(begin);
            let (mut row, mut seen) = (0, 0u32);
            for at in begin..end {
                let number = self.named.get(at).copied().unwrap_or_default();
                let name = self.names.get(usize::from(number));
                let name = name.map(String::as_str).unwrap_or_default();
                let attribute = known.get(usize::from(number)).copied().flatten();
                let Some(attribute) = attribute else {
                    return refuse(place(name), "no attribute of it", attributes.names());
                };
                let label = self.labels.get(at).unwrap_or_default();
                let Some(part) = codec.part(attribute, label) else {
                    return refuse(
                        place(name),
                        String::from_utf8_lossy(label),
                        labels_of(&attributes, attribute),
                    );
                };
                row |= part;
                seen |= 1 << attribute;
            }
            let mut all = attributes.iter().enumerate();
            if let Some((at, missing)) = all.find(|(at, _)| seen >> at & 1 == 0) {
                let allowed = labels_of(&attributes, at);
                return refuse(place(&missing.name), "left out", allowed);
            }
            values.push(row);
        }
        Ok(())
    }
}

fn labels_of(attributes: &Attributes, position: usize) -> String {
    attributes
        .get(position)
        .map_or_else(String::new, |it| it.labels())
}

fn refuse<T>(place: RowPlace, given: impl Into<String>, allowed: String) -> Result<T> {
    Err(EngineError::RowRefused(Box::new(RowRefusal {
        place,
        given: given.into(),
        allowed,
    })))
}

/// A condition on a row: for some attributes, each named once, the labels that will
/// do. All of them must be met by one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Where(pub Vec<(String, Vec<String>)>);

impl Where {
    /// The condition in a filter.
    ///
    /// # Errors
    /// [`EngineError::RowRefused`]: the filter does not know an attribute or a label.
    pub(super) fn test(&self, mut codec: RowCodec) -> Result<RowTest> {
        let attributes = codec.attributes.clone();
        let mut test = RowTest::default();
        for (name, labels) in &self.0 {
            let place = |label| RowPlace::Where {
                attribute: name.clone(),
                label,
            };
            let Some(attribute) = attributes.position(name) else {
                return refuse(place(None), "no attribute of it", attributes.names());
            };
            let required = codec.require(&mut test, attribute, labels);
            if let Err(position) = required {
                let given = labels.get(position).cloned().unwrap_or_default();
                let allowed = labels_of(&attributes, attribute);
                return refuse(place(Some(position)), given, allowed);
            }
        }
        Ok(test)
    }
}
