//! Counts what an engine asks of its store.

use crate::page::PageId;
use prometheus::IntCounter;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was counted so far. Only what the store did not refuse is counted,
/// reads excepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Commits.
    pub commits: u64,
    /// Bytes of redo records committed.
    pub log_bytes: u64,
    /// Batches of pages read.
    pub reads: u64,
    /// Pages asked for in them, whether they were there or not.
    pub pages_read: u64,
    /// Bytes of the pages that were there, without zeros at their ends.
    pub page_bytes_read: u64,
    /// Checkpoint slices.
    pub checkpoints: u64,
    /// Page images in them.
    pub images_written: u64,
    /// Bytes of those images, before they are packed.
    pub image_bytes_written: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    commits: AtomicU64,
    log_bytes: AtomicU64,
    reads: AtomicU64,
    pages_read: AtomicU64,
    page_bytes_read: AtomicU64,
    checkpoints: AtomicU64,
    images_written: AtomicU64,
    image_bytes_written: AtomicU64,
    /// Pages asked for, for `/metrics`.
    pub(super) shown: Option<IntCounter>,
}

impl Counters {
    pub(super) fn committed(&self, log_bytes: usize) {
        add(&self.commits, 1);
        add(&self.log_bytes, log_bytes);
    }

    pub(super) fn reading(&self, pages: usize) {
        add(&self.reads, 1);
        add(&self.pages_read, pages);
        if let Some(shown) = &self.shown {
            shown.inc_by(pages as u64);
        }
    }

    pub(super) fn read_bytes(&self, bytes: usize) {
        add(&self.page_bytes_read, bytes);
    }

    pub(super) fn checkpointed(&self, images: &[(PageId, Vec<u8>)]) {
        let bytes = images.iter().map(|(_, image)| image.len()).sum();
        add(&self.checkpoints, 1);
        add(&self.images_written, images.len());
        add(&self.image_bytes_written, bytes);
    }

    pub(super) fn read(&self) -> StoreCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreCounts {
            commits: read(&self.commits),
            log_bytes: read(&self.log_bytes),
            reads: read(&self.reads),
            pages_read: read(&self.pages_read),
            page_bytes_read: read(&self.page_bytes_read),
            checkpoints: read(&self.checkpoints),
            images_written: read(&self.images_written),
            image_bytes_written: read(&self.image_bytes_written),
        }
    }
}

fn add(counter: &AtomicU64, amount: usize) {
    counter.fetch_add(amount as u64, Ordering::Relaxed);
}
