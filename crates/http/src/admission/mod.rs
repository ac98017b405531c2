//! Bodies in both directions, and until when a request is worked on.
//!
//! | file | owns |
//! |---|---|
//! | `body` | reads bodies of requests, within bounds and in time |
//! | `unread` | what becomes of a body that is not read |
//! | `deadline` | until when a request is worked on |
//! | `answers` | what an answer takes while its client reads it |

pub(super) mod answers;
pub(super) mod body;
pub(super) mod deadline;
pub(super) mod unread;
