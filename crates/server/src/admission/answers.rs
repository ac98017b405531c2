//! Memory for large answers, which have a bound of their own beside the memory of
//! connections: clients that read nothing leave room for others.

use super::budget::{Held, Holder};
use super::limits::Admission;
use crate::refusal::Refusal;

/// Answers up to this size count with their connection.
pub const FREE_BYTES: usize = 64 << 10;

/// Reserves memory for an answer of so many bytes, all of the budget for one
/// that is larger; `None`: it needs none of its own.
///
/// # Errors
/// There is none left, or none for this key.
pub fn reserve(
    admission: &Admission,
    by: Option<&Holder>,
    bytes: usize,
) -> Result<Option<Held>, Refusal> {
    let mut held = None;
    grow(admission, by, &mut held, bytes).map(|()| held)
}

/// Has what is reserved for an answer be enough for so many bytes, as
/// [`reserve`] reserves it.
///
/// # Errors
/// There is not so much left, or not for this key.
pub fn grow(
    admission: &Admission,
    by: Option<&Holder>,
    held: &mut Option<Held>,
    bytes: usize,
) -> Result<(), Refusal> {
    if bytes <= FREE_BYTES {
        return Ok(());
    }
    let budget = &admission.answers;
    budget.grow(by, held, bytes.min(budget.bound()))
}
