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

use crate::mapped_body::MappedBody;
use crate::problem::Result;
use crate::server::admission::answers::reserve;
use crate::server::admission::budget::{Held, Holder};
use crate::server::admission::limits::Admission;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::Method;
use axum::response::Response;
use std::sync::Arc;

/// Marks a response whose body is in memory as a whole, and too large to count
/// with its connection; and what was reserved for it before it was made.
#[derive(Clone)]
pub(crate) struct InMemory(pub(crate) Option<Arc<Held>>);

/// Has a large answer count against the budget until its last byte is sent.
///
/// # Errors
/// There is no memory left for it, and it answers a question.
pub(crate) async fn charge(
    admission: &Admission,
    by: Option<&Holder>,
    method: &Method,
    mut response: Response,
) -> Result {
    let Some(InMemory(reserved)) = response.extensions_mut().remove() else {
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
