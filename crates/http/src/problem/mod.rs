//! Every error of the HTTP surface, and how it is worded (RFC 9457, problem
//! details). The kinds stand in [`codes`](crate::codes).
//!
//! | file | owns |
//! |---|---|
//! | `error` | everything a request can fail with, and the kind of each |
//! | `fields` | refused fields: where, what was given, what is allowed |
//! | `render` | the body and the headers of the answer |

mod error;
mod fields;
mod render;

pub(crate) use error::{HttpError, Result};
pub(crate) use fields::{FieldError, FieldPlace, excerpt};
#[cfg(test)]
pub(crate) use render::{Problem, ProblemField};
