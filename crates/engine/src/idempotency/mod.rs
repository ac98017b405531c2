//! What commits record beside their changes, so that a request that is sent
//! again, or a stream that is taken up again, counts once.
//!
//! | file | owns |
//! |---|---|
//! | `guard` | writes with a key: those on their way, and the bytes of the answers that are kept; what a commit records for a request |
//! | `ends` | when answers end, for who is refused one |
//! | `response` | an answer as it is stored |
//! | `imports` | the imports that run, and the steps that they commit |
//! | `progress` | how far an import came, as it is stored |

use serde::de::DeserializeOwned;

mod ends;
pub(super) mod guard;
pub(super) mod imports;
pub(super) mod progress;
pub(super) mod response;

/// What these bytes are, and no more of them.
fn exactly<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}
