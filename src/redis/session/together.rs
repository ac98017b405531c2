//! What is found out once for commands that came together, and how they go on.

use super::failure::Failure;
use std::collections::BTreeMap;
use std::time::Instant;

/// See the module.
#[derive(Default)]
pub(super) struct Together {
    /// Until when it is waited for pods that lead.
    pub(super) patience: Option<Instant>,
    /// The lanes of this pod of which strong questions were asked, and why they can't
    /// be answered.
    pub(super) barriers: BTreeMap<u32, Option<Failure>>,
    /// The commands before this one are worked on here.
    pub(super) here_to: usize,
}

/// How commands go on.
pub(super) enum Next {
    /// They were worked on; this one comes next.
    Done(usize),
    /// Those before this one are worked on here, the first in any case.
    Here(usize),
}
