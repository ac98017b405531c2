//! What answers take in memory while their clients read them.
//!
//! An answer is there as a whole before its first byte is sent, and stays until
//! the client has taken it. Large ones have a bound of their own, so that
//! clients that read nothing leave room for others. A change takes what
//! its answer may need before it is made, since what was done must be answered;
//! a question is refused after the fact.
//!
//! Small answers count with their connection, and so do the pieces of answers
//! that are made while they are sent.

use super::budget::{Held, Holder};
use super::limits::Admission;
use crate::http::mapped_body::MappedBody;
use crate::http::problem::HttpError;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::Method;
use axum::response::Response;
use std::sync::Arc;

/// Answers up to this size count with their connection.
pub(crate) const FREE_BYTES: usize = 64 << 10;

/// Marks a response whose body is in memory as a whole, and too large to count
/// with its connection.
#[derive(Clone)]
pub(crate) struct InMemory {
    /// What was reserved for it before it was made.
    pub(crate) reserved: Option<Arc<Held>>,
}

/// Reserves memory for an answer of so many bytes, all of the budget for one
/// that is larger; `None`: it needs none of its own.
///
/// # Errors
/// There is none left, or none for this key.
pub(crate) fn reserve(
    admission: &Admission,
    by: Option<&Holder>,
    bytes: usize,
) -> Result<Option<Held>, HttpError> {
    if bytes <= FREE_BYTES {
        return Ok(None);
    }
    let budget = &admission.answers;
    budget.try_take(by, bytes.min(budget.bound())).map(Some)
}

/// Has what is reserved for an answer be enough for so many bytes, as
/// [`reserve`] reserves it.
///
/// # Errors
/// There is not so much left, or not for this key.
pub(crate) fn grow(
    admission: &Admission,
    by: Option<&Holder>,
    held: &mut Option<Held>,
    bytes: usize,
) -> Result<(), HttpError> {
    if bytes <= FREE_BYTES {
        return Ok(());
    }
    let budget = &admission.answers;
    budget.grow(by, held, bytes.min(budget.bound()))
}

/// Has a large answer count against the budget until its last byte is sent.
///
/// # Errors
/// There is no memory left for it, and it answers a question.
pub(crate) async fn charge(
    admission: &Admission,
    by: Option<&Holder>,
    method: &Method,
    mut response: Response,
) -> Result<Response, HttpError> {
    let Some(InMemory { reserved }) = response.extensions_mut().remove() else {
        return Ok(response);
    };
    let bytes = response.body().size_hint().lower();
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let budget = &admission.answers;
    let memory = match reserved.and_then(Arc::into_inner) {
        Some(mut memory) => {
            memory.shrink_to(bytes as u64);
            Some(memory)
        }
        // What these did can't be said to have been refused.
        None if [Method::PUT, Method::PATCH].contains(method) => {
            budget.wait_for(by, bytes.min(budget.bound())).await
        }
        None => reserve(admission, by, bytes)?,
    };
    let Some(memory) = memory else {
        return Ok(response);
    };
    let memory = Arc::new(memory);
    // Wherever its bytes wait to be sent, they hold their memory.
    let charged = move |bytes| {
        let memory = Arc::clone(&memory);
        Bytes::from_owner(ChargedBytes { bytes, memory })
    };
    Ok(response.map(|body| Body::new(MappedBody::new(body, charged))))
}

/// Bytes that hold their memory.
struct ChargedBytes {
    bytes: Bytes,
    #[expect(dead_code, reason = "held only to be let go with the bytes")]
    memory: Arc<Held>,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests;
