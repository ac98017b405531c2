//! Whether RocksDB takes writes, found out without getting in its way.
//!
//! After an error that stops writes, such as a full disk, RocksDB tries every
//! five seconds to resume by itself, and a write that is tried meanwhile makes
//! such an attempt fail. So once a write has failed, none is handed on until
//! RocksDB says that it stands in no error.

use super::errors::{one_line, says_full};
use super::reading::column_of;
use crate::store::format;
use crate::store::kv::{Column, Writes};
use rocksdb::{DB, Error, ErrorKind, WaitForCompactOptions, WriteOptions, properties};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shortest time that RocksDB can be asked to wait; none at all is for ever.
const NO_TIME_MICROS: u64 = 1;

#[derive(Default)]
pub(super) struct WriteHealth {
    /// Whether a write failed since one was taken.
    is_suspect: AtomicBool,
    /// Background errors when a write was last tried and taken.
    forgiven_errors: AtomicU64,
}

impl WriteHealth {
    /// Makes a write, unless an earlier one failed and the reason still stands.
    ///
    /// # Errors
    /// Those of the write, or of the earlier one.
    pub(super) fn write(
        &self,
        database: &DB,
        write: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let is_suspect = self.is_suspect.load(Ordering::Acquire);
        if is_suspect {
            standing(database)?;
        }
        let outcome = write();
        match &outcome {
            Ok(()) if is_suspect => self.is_suspect.store(false, Ordering::Release),
            Ok(()) => {}
            Err(_) => self.is_suspect.store(true, Ordering::Release),
        }
        outcome
    }

    /// Whether writes are taken. Where there is reason to doubt it and RocksDB
    /// does not say no, one is tried that changes nothing.
    pub(super) fn state(&self, database: &DB) -> Writes {
        let property = |name| database.property_int_value(name).ok().flatten();
        if property(properties::IS_WRITE_STOPPED) == Some(1) {
            return Writes::Stalled;
        }
        let errors = property(properties::BACKGROUND_ERRORS).unwrap_or(0);
        let is_suspect = self.is_suspect.load(Ordering::Acquire);
        if !is_suspect && errors == self.forgiven_errors.load(Ordering::Acquire) {
            return Writes::Taken;
        }
        if is_suspect && let Err(error) = standing(database) {
            return refused(one_line(&error));
        }
        // Errors of compactions alone don't stop writes.
        match try_write(database) {
            Ok(()) => {
                self.is_suspect.store(false, Ordering::Release);
                self.forgiven_errors.store(errors, Ordering::Release);
                Writes::Taken
            }
            Err(error) if error.kind() == ErrorKind::Incomplete => Writes::Stalled,
            Err(error) => {
                self.is_suspect.store(true, Ordering::Release);
                refused(one_line(&error))
            }
        }
    }
}

/// Writes what is there already.
fn try_write(database: &DB) -> Result<(), Error> {
    let Ok(info) = column_of(database, Column::Info) else {
        return Ok(());
    };
    let version = format::seal_data_version(format::DATA_VERSION);
    let mut options = WriteOptions::default();
    options.set_no_slowdown(true);
    database.put_cf_opt(info, format::DATA_VERSION_KEY, version, &options)
}

/// # Errors
/// The error that RocksDB stands in. It tells when it is asked to wait for
/// what goes on in the background, even if not to wait at all.
fn standing(database: &DB) -> Result<(), Error> {
    let mut options = WaitForCompactOptions::default();
    options.set_timeout(NO_TIME_MICROS);
    match database.wait_for_compact(&options) {
        Err(error) if error.kind() != ErrorKind::TimedOut => Err(error),
        _ => Ok(()),
    }
}

fn refused(reason: String) -> Writes {
    Writes::Refused {
        is_disk_full: says_full(&reason),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::rocks::tests::OnDisk;

    #[test]
    fn after_a_write_that_failed_one_is_tried_and_nothing_is_changed_by_that() {
        let subject = OnDisk::new();
        let (write_health, database) = (WriteHealth::default(), &subject.rocks().database);
        write_health.is_suspect.store(true, Ordering::Release);
        assert_eq!(write_health.state(database), Writes::Taken);
        assert!(!write_health.is_suspect.load(Ordering::Acquire));
    }

    #[test]
    fn a_full_disk_is_known_by_what_rocksdb_says() {
        for (reason, is_full) in [
            (
                "IO error: No space left on device: While appending to file",
                true,
            ),
            (
                "IO error: Disk quota exceeded: While appending to file",
                true,
            ),
            (
                "IO error: Input/output error: While appending to file",
                false,
            ),
        ] {
            let expected = Writes::Refused {
                reason: reason.to_owned(),
                is_disk_full: is_full,
            };
            assert_eq!(refused(reason.to_owned()), expected);
        }
    }
}
