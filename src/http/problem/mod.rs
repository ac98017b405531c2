//! Every error of the HTTP surface, and how it is answered (RFC 9457, problem
//! details).
//!
//! | file | owns |
//! |---|---|
//! | `codes` | the kinds of problems: status, stable name, title |
//! | `error` | everything a request can fail with, and the kind of each |
//! | `causes` | what the errors of the engine and of backups are to a client |
//! | `fields` | refused fields: where, what was given, what is allowed |
//! | `render` | the body and the headers of the answer |
//! | `used_up` | what requests can use up, and what is said of it |
//! | `samples` | an error of each kind, for the OpenAPI document |

mod causes;
mod codes;
mod error;
mod fields;
mod render;
mod samples;
mod used_up;

pub(crate) use codes::Code;
pub(crate) use error::HttpError;
pub(crate) use fields::{FieldError, Place, excerpt};
pub(crate) use render::{Problem, ProblemField};
pub(crate) use samples::sample;
pub(crate) use used_up::{Exhausted, Scarce};
