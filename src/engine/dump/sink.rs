//! Where a dump goes.

use super::format::Digest;
use std::ops::ControlFlow;

/// Takes a dump. What takes a part may block, and ends the dump by breaking.
pub trait DumpSink {
    /// Whether it is still wanted. Asked page by page while the digest is
    /// found out, when there is nothing to take yet.
    fn is_wanted(&self) -> bool {
        true
    }

    /// Called again and again while the filter is read, where nothing is held
    /// that others wait for: the place to take a rest.
    fn throttle(&mut self) {}

    /// What is to come: its digest, and how many bytes.
    fn begin(&mut self, digest: Digest, bytes: u64) -> ControlFlow<()>;

    /// The next bytes.
    fn piece(&mut self, bytes: Vec<u8>) -> ControlFlow<()>;
}
