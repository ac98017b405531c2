//! Who takes what a check finds.

use crate::store::{Garbage, StoreError};
use std::fmt;
use std::ops::ControlFlow;

/// Something that is not as it should be.
#[derive(Debug)]
pub struct Fault {
    /// The name of the filter that it concerns, where there is one and it is
    /// known. Not for the log.
    pub filter: Option<String>,
    /// What it is; names filters by their numbers.
    pub error: StoreError,
    /// Pages that nothing can reach: all that is wrong with them is that they are
    /// there.
    pub unreachable: Option<Garbage>,
    /// Each page can be read, and is what was written; but all together they hold other
    /// than the filter says.
    pub is_sum: bool,
}

impl Fault {
    /// Of a filter, or of none.
    pub fn new(filter: Option<String>, error: StoreError) -> Fault {
        Fault {
            filter,
            error,
            unreachable: None,
            is_sum: false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.filter {
            Some(filter) => write!(f, "filter {filter:?}: {}", self.error),
            None => write!(f, "{}", self.error),
        }
    }
}

/// Takes what a check finds, and has it rest or end.
pub trait Inspector {
    /// So many bytes at most are read as of one moment, from now on.
    fn begin(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// So many more bytes were read. Called often, between any two things that
    /// are read.
    fn read(&mut self, bytes: u64) -> ControlFlow<()>;

    /// Something is not as it should be.
    fn fault(&mut self, fault: Fault);
}
