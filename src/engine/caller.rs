//! Whom the engine works for.

use std::sync::Arc;
use std::time::Instant;

/// The server itself, for what it does unasked.
pub(super) static SERVER: Caller = Caller {
    key: None,
    deadline: None,
};

/// Who asked for something, and until when they wait for it. Bounds that hold
/// for each API key count by it. The default is the server itself, and every
/// caller of a server without keys: they have no key and no deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The name of the API key that the request came with; it is no secret.
    pub key: Option<Arc<str>>,
    /// When nobody waits for the answer any more.
    pub deadline: Option<Instant>,
}
