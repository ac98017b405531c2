//! How full a disk is, and how much of it is left alone.

use std::io;
use std::path::Path;

/// What is left alone of a large disk unless told otherwise.
const USUAL_RESERVE_BYTES: u64 = 1 << 30;

/// Of a small disk it is one part in so many.
const USUAL_RESERVE_PARTS: u64 = 20;

/// Changes that were refused are taken again when this part of the reserve is
/// free beyond it: a writer at the very limit is not let in and turned
/// away by turns.
const MARGIN_PARTS: u64 = 32;

/// A disk as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that are free for those without privileges.
    pub free_bytes: u64,
    /// Bytes in all.
    pub size_bytes: u64,
    /// Which disk it is: the same number, the same disk.
    pub device: u64,
}

impl DiskSpace {
    /// The disk that a file or directory lies on.
    ///
    /// # Errors
    /// The system's.
    pub fn of(path: &Path) -> io::Result<DiskSpace> {
        let disk = rustix::fs::statvfs(path)?;
        Ok(DiskSpace {
            free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
            size_bytes: disk.f_blocks.saturating_mul(disk.f_frsize),
            device: rustix::fs::stat(path)?.st_dev,
        })
    }
}

/// Bytes of the data's disk that changes leave alone, so that what goes on in
/// the background, and the next start, have room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskReserve {
    /// 1 GiB, or a twentieth of the disk where that is less.
    #[default]
    Usual,
    /// So many.
    Bytes(u64),
}

impl DiskReserve {
    /// How many bytes that is of a disk.
    pub fn of(self, disk: &DiskSpace) -> u64 {
        match self {
            DiskReserve::Usual => USUAL_RESERVE_BYTES.min(disk.size_bytes / USUAL_RESERVE_PARTS),
            DiskReserve::Bytes(bytes) => bytes,
        }
    }

    /// # Errors
    /// The disk has less than that free.
    pub fn check(self, disk: &DiskSpace) -> Result<(), DiskShort> {
        self.check_after(None, disk)
    }

    /// The same for a disk that may have been too full `before`.
    ///
    /// # Errors
    /// The disk has less than that free, or hardly more if it had less before.
    pub fn check_after(self, before: Option<DiskShort>, disk: &DiskSpace) -> Result<(), DiskShort> {
        let reserve_bytes = self.of(disk);
        let wanted = match before {
            None => reserve_bytes,
            Some(_) => resume_bytes(&reserve_bytes),
        };
        match disk.free_bytes < wanted {
            false => Ok(()),
            true => Err(DiskShort {
                free_bytes: disk.free_bytes,
                reserve_bytes,
            }),
        }
    }
}

/// The data's disk is too full for changes. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{free_bytes} bytes are free on the disk of the data, and changes must leave {reserve_bytes} free (--disk-reserve): free space there, delete filters, or enlarge the disk; nothing was changed, and changes resume by themselves when {resume} bytes are free",
    resume = resume_bytes(.reserve_bytes)
)]
pub struct DiskShort {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes that changes leave alone.
    pub reserve_bytes: u64,
}

/// Free bytes from which on changes are taken again.
fn resume_bytes(reserve_bytes: &u64) -> u64 {
    reserve_bytes.saturating_add(reserve_bytes / MARGIN_PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(free_bytes: u64, size_bytes: u64) -> DiskSpace {
        DiskSpace {
            free_bytes,
            size_bytes,
            device: 1,
        }
    }

    #[test]
    fn a_large_disk_keeps_a_gibibyte_and_a_small_one_a_twentieth() {
        assert_eq!(DiskReserve::Usual.of(&disk(0, 100 << 30)), 1 << 30);
        assert_eq!(DiskReserve::Usual.of(&disk(0, 2_000_000)), 100_000);
        assert_eq!(DiskReserve::Bytes(7).of(&disk(0, 2_000_000)), 7);
    }

    #[test]
    fn a_disk_is_short_below_its_reserve_and_not_at_it() {
        let reserve = DiskReserve::Bytes(1000);
        assert_eq!(reserve.check(&disk(1000, 5000)), Ok(()));
        let short = DiskShort {
            free_bytes: 999,
            reserve_bytes: 1000,
        };
        assert_eq!(reserve.check(&disk(999, 5000)), Err(short));
        assert!(
            short.to_string().contains("when 1031 bytes are free"),
            "{short}"
        );
        assert_eq!(DiskReserve::Bytes(0).check(&disk(0, 5000)), Ok(()));
    }

    #[test]
    fn a_disk_that_was_short_is_so_until_there_is_more_than_its_reserve() {
        let reserve = DiskReserve::Bytes(1000);
        let mut before = None;
        let mut taken = Vec::new();
        for free in [1000, 1030, 999, 1000, 1030, 1031, 1030, 1000, 999] {
            before = reserve.check_after(before, &disk(free, 5000)).err();
            taken.push(before.is_none());
        }
        let expected = [true, true, false, false, false, true, true, true, false];
        assert_eq!(taken, expected);
        let off = DiskReserve::Bytes(0);
        assert_eq!(off.check_after(before, &disk(0, 5000)), Ok(()));
    }

    #[test]
    fn a_directory_tells_its_disk() {
        let directory = tempfile::tempdir().unwrap();
        let disk = DiskSpace::of(directory.path()).unwrap();
        assert!(disk.size_bytes >= disk.free_bytes && disk.size_bytes > 0);
        assert!(DiskSpace::of(&directory.path().join("none")).is_err());
    }
}
