//! What commits note beside their changes, so that a request that is sent
//! again, or a stream that is taken up again, counts once.
//!
//! | file | owns |
//! |---|---|
//! | `guard` | requests with a key: those in flight, and the bytes of the answers that are kept |
//! | `response` | an answer as it is stored |
//! | `progress` | how far an import came, as it is stored |
//! | `note` | what one commit notes for one of its requests |

pub(crate) mod guard;
pub(crate) mod note;
pub(crate) mod progress;
pub(crate) mod response;
