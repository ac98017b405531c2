//! The items of a body in JSON: each goes straight into the batch.

use super::batch_fields::{BatchField, BatchKind, Encoding};
use super::entries::ColumnRead;
use super::filter::MAX_FIELD_ERRORS;
use super::visitors::{kind_of, refusing, seed_of_any};
use super::{Batch, Refusals, too_long};
use crate::bounds::MAX_ITEM_BYTES;
use crate::engine::ItemBatch;
use crate::problem::{FieldError, HttpError};
use serde::de::{Error, Visitor};
use std::fmt::{self, Write as _};

const ITEM_KINDS: &str =
    "a string, or an integer from -2^63 to 2^64-1 without fraction or exponent";

/// Whether the lists of a body are read.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Lists {
    #[default]
    Read,
    /// Something in one of them is refused already, and all that is wrong is looked for:
    /// each element is read by itself.
    Judged,
}

/// A batch while it is read. A refusal is kept here, since serde's own errors
/// hold nothing but text.
#[derive(Default)]
pub(super) struct BatchBody {
    pub(super) kind: BatchKind,
    pub(super) max_items: usize,
    pub(super) lists: Lists,
    pub(super) seen: Vec<BatchField>,
    /// Of the whole body: all items together have fewer.
    pub(super) bytes: usize,
    pub(super) items: Option<ItemBatch>,
    /// What stands beside each, if they came as entries: once, or twice to replace it.
    pub(super) columns: Option<[ColumnRead; 2]>,
    /// What is said beside these.
    pub(super) batch: Batch,
    pub(super) first_integer: Option<usize>,
    pub(super) encoding: Encoding,
    pub(super) refused: Option<HttpError>,
    /// Fields that are refused while the others are read.
    pub(super) wrong: Vec<FieldError>,
    /// Elements of lists that are, where these are judged.
    pub(super) bad: Refusals,
    pub(super) digits: String,
}

impl BatchBody {
    /// Where the list stands that is read.
    pub(super) fn list(&self) -> &'static str {
        match self.columns {
            Some(_) => "/entries",
            None => "/items",
        }
    }

    /// Where an item of it stands.
    pub(super) fn place_of_item(&self, index: usize) -> String {
        match self.columns {
            Some(_) => format!("/entries/{index}/item"),
            None => format!("/items/{index}"),
        }
    }

    /// Keeps the refusal of a field, and ends the reading if it is about more.
    pub(super) fn keep<E: Error>(&mut self, refusal: HttpError) -> Result<(), E> {
        match refusal {
            HttpError::InvalidFields(fields) => {
                let room = MAX_FIELD_ERRORS.saturating_sub(self.wrong.len());
                self.wrong.extend(fields.into_iter().take(room));
                Ok(())
            }
            other => self.refuse(other),
        }
    }

    /// Keeps the refusal and ends the reading.
    pub(super) fn refuse<T, E: Error>(&mut self, refusal: HttpError) -> Result<T, E> {
        self.refused = Some(refusal);
        Err(E::custom("refused"))
    }
}

/// Reads one item straight into the batch.
pub(super) struct ItemSeed<'b> {
    pub(super) body: &'b mut BatchBody,
    pub(super) items: &'b mut ItemBatch,
}

impl ItemSeed<'_> {
    fn wrong<T, E: Error>(self, given: String) -> Result<T, E> {
        let place = self.body.place_of_item(self.items.len());
        let refusal = HttpError::field(place, kind_of(&given), ITEM_KINDS);
        self.body.refuse(refusal)
    }

    fn integer(self, number: impl fmt::Display) {
        self.body.first_integer.get_or_insert(self.items.len());
        self.body.digits.clear();
        // Writing to a string can't fail.
        let _ = write!(self.body.digits, "{number}");
        self.items.push(self.body.digits.as_bytes());
    }
}

seed_of_any!(ItemSeed);

impl<'de> Visitor<'de> for ItemSeed<'_> {
    type Value = ();

    refusing!(ITEM_KINDS, word, array, object);

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        // Base64 takes four characters for three bytes; what it decodes to is
        // measured when the encoding is known.
        if text.len() > MAX_ITEM_BYTES.div_ceil(3) * 4 {
            let place = self.body.place_of_item(self.items.len());
            return self.body.refuse(too_long(place, text.len()));
        }
        self.items.push(text.as_bytes());
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.integer(number);
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.integer(number);
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.wrong("a number with a fraction, an exponent or too many digits".to_owned())
    }
}
