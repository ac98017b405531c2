//! How much the redo log holds.

use crate::page::Sequence;
use parking_lot::Mutex;
use prometheus::IntGauge;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a record costs beside its slots: key, envelope, and its place here.
const RECORD_OVERHEAD: u64 = 64;

/// Sizes of the records that the log holds.
pub(super) struct LogSizes {
    records: Mutex<BTreeMap<Sequence, u64>>,
    /// Their sum; changed under the lock of `records` only.
    bytes: AtomicU64,
    gauge: IntGauge,
}

impl LogSizes {
    /// Those of an empty log.
    pub(super) fn new(gauge: IntGauge) -> LogSizes {
        LogSizes {
            records: Mutex::default(),
            bytes: AtomicU64::new(0),
            gauge,
        }
    }

    /// Bytes of all records.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The oldest record.
    pub(super) fn first(&self) -> Option<Sequence> {
        self.records.lock().keys().next().copied()
    }

    /// Counts a record that was written, in place of one of the same number.
    pub(super) fn add(&self, sequence: Sequence, redo_bytes: u64) {
        let added = redo_bytes + RECORD_OVERHEAD;
        let mut records = self.records.lock();
        let replaced = records.insert(sequence, added);
        self.set_bytes(self.bytes() + added - replaced.unwrap_or(0));
    }

    /// Forgets the records before that one.
    pub(super) fn cut(&self, before: Sequence) {
        let mut records = self.records.lock();
        let kept = records.split_off(&before);
        let cut: u64 = std::mem::replace(&mut *records, kept).values().sum();
        self.set_bytes(self.bytes().saturating_sub(cut));
    }

    fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.gauge.set(bytes as i64);
    }
}
