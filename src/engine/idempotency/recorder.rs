//! What a commit records beside its changes, for one of its requests.

use super::guard::IdempotencyGuard;
use super::imports::ImportStep;
use crate::store::SideRecordChange;
use std::sync::Arc;

/// What is to be recorded, and what keeps the request from being sent again
/// until it is. Cheap to clone.
#[derive(Clone)]
pub(crate) enum SideRecorder {
    /// The answer to a request with a key.
    Response(Arc<IdempotencyGuard>),
    /// The progress of an import.
    Progress(Arc<ImportStep>),
}

impl SideRecorder {
    /// Says that the record is committed.
    pub(crate) fn committed(&self, record: &SideRecordChange) {
        match self {
            SideRecorder::Response(guard) => guard.committed(record),
            SideRecorder::Progress(step) => step.committed(),
        }
    }
}
