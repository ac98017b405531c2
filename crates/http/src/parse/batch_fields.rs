//! The fields of bodies with items: by one table they are read, refused and
//! described.

#[cfg(test)]
pub(super) mod schema;

use super::condition::WHERE;
use crate::chain::params::MAX_VALUE_BITS;

/// What a batch is for; an add and a lookup take more fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BatchKind {
    Add,
    Delete,
    Lookup,
    #[default]
    Question,
    /// Whether items, or entries, are there.
    Exists,
    AddValues,
    DeleteValues,
    ReplaceValues,
    ListValues,
}

/// A field of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchField {
    Items,
    /// Items, each with a value.
    Entries,
    Encoding,
    OnlyIfAbsent,
    Create,
    Filters,
    Prefix,
    First,
    Counts,
    WithinSeconds,
    Where,
}

use BatchField::{
    Counts, Create, Entries, Filters, First, Items, OnlyIfAbsent, Prefix, Where, WithinSeconds,
};

impl BatchKind {
    /// Whether it changes the filter.
    pub(crate) fn is_change(self) -> bool {
        match self {
            BatchKind::Add
            | BatchKind::Delete
            | BatchKind::AddValues
            | BatchKind::DeleteValues
            | BatchKind::ReplaceValues => true,
            BatchKind::Lookup | BatchKind::Question | BatchKind::Exists | BatchKind::ListValues => {
                false
            }
        }
    }

    /// Whether its lines have values.
    pub(crate) fn has_values(self) -> bool {
        self.fields().first() == Some(&Entries)
    }

    fn fields(self) -> &'static [BatchField] {
        match self {
            BatchKind::Add => &[Items, BatchField::Encoding, OnlyIfAbsent, Create],
            BatchKind::Lookup => &[
                Items,
                BatchField::Encoding,
                Filters,
                Prefix,
                First,
                WithinSeconds,
            ],
            BatchKind::Delete | BatchKind::Question => &[Items, BatchField::Encoding],
            BatchKind::Exists => &[Items, Entries, BatchField::Encoding, WithinSeconds, Where],
            BatchKind::AddValues => &[Entries, BatchField::Encoding, OnlyIfAbsent],
            BatchKind::DeleteValues | BatchKind::ReplaceValues => &[Entries, BatchField::Encoding],
            BatchKind::ListValues => &[Items, BatchField::Encoding, Counts],
        }
    }

    /// The field of a name, if a batch of this kind has it.
    pub(super) fn find(self, name: &str) -> Option<BatchField> {
        let mut fields = self.fields().iter().copied();
        fields.find(|field| field.name() == name)
    }

    /// The names of its fields, for an error.
    pub(super) fn names(self) -> String {
        let names: Vec<&str> = self.fields().iter().map(|field| field.name()).collect();
        names.join(", ")
    }
}

impl BatchField {
    pub(super) fn name(self) -> &'static str {
        match self {
            Items => "items",
            Entries => "entries",
            BatchField::Encoding => "encoding",
            OnlyIfAbsent => "only_if_absent",
            Create => "create",
            Filters => "filters",
            Prefix => "prefix",
            First => "first",
            Counts => "counts",
            WithinSeconds => WITHIN_SECONDS,
            Where => WHERE,
        }
    }
}

/// Asks a filter with a window for what was seen lately.
pub(crate) const WITHIN_SECONDS: &str = "within_seconds";

/// Largest value that any filter takes.
pub(super) const MAX_VALUE: u32 = (1 << MAX_VALUE_BITS) - 1;

/// How the items of a batch are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The UTF-8 bytes of a string, or the digits of an integer.
    #[default]
    Plain,
    /// Standard base64.
    Base64,
}

impl Encoding {
    const ALL: [Encoding; 2] = [Encoding::Plain, Encoding::Base64];

    fn name(self) -> &'static str {
        match self {
            Encoding::Plain => "utf-8",
            Encoding::Base64 => "base64",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Encoding> {
        let mut all = Encoding::ALL.into_iter();
        all.find(|encoding| encoding.name() == text)
    }

    /// What `parse` takes, for an error.
    pub(super) fn names() -> String {
        Encoding::ALL.map(Encoding::name).join(" or ")
    }
}
