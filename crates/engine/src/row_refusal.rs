//! Why a filter can't have a row, or a condition.

/// A row, or a condition, that a filter can't have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} is {given}, allowed is {allowed}")]
pub struct RowRefusal {
    /// Where it stands.
    pub place: RowPlace,
    /// What was given.
    pub given: String,
    /// What the filter takes.
    pub allowed: String,
}

/// Where in rows or in a condition something stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowPlace {
    /// In the row of an entry.
    #[error("attribute {attribute} of entry {position}")]
    Entry {
        /// The entry's position among those given.
        position: usize,
        /// Which row of it.
        field: ValueField,
        /// The attribute.
        attribute: String,
    },
    /// In a condition.
    #[error("{attribute} in where")]
    Where {
        /// The attribute.
        attribute: String,
        /// The position of a label in its list.
        label: Option<usize>,
    },
}

/// Which value of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueField {
    /// Its only one.
    Value,
    /// The one that is to be replaced.
    From,
    /// The one that it is to become.
    To,
}
