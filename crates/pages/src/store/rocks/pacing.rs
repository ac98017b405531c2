//! How RocksDB keeps out of the way of forced writes, which wait for all that the disk
//! has been given before.
//!
//! **Table files are written in steps.** A write buffer becomes a file of up to 16 MiB,
//! and the system hands all of it to the disk at once: on a disk of 128 MB/s every commit
//! of the next eighth of a second waits. So no step is begun before the one before is on
//! the disk (`strict_bytes_per_sync`).
//!
//! **Files that are needed no more are deleted at a rate.** A forced write waits until
//! the file system has given back the blocks of all files that were deleted since the
//! last one. Where the disk is told of each such block at once (ext4 mounted with
//! `discard`), that takes 35 to 60 ms for a file, and RocksDB deletes several in a row:
//! table files that a compaction has replaced, and the log behind them. Its
//! `SstFileManager` gives them another name first, and deletes them one by one, with time
//! between them for commits. What is left of them when the process ends is deleted after
//! the next start.
//!
//! **A file of the redo log is not written anew for its deletions alone.** It has those of
//! what was logged before, and RocksDB would be rid of them as soon as no snapshot needs
//! them. But soon all of it is deleted.

use librocksdb_sys as rocksdb_c;
use rocksdb::{AsRawPtr, Options};

/// Bytes of a table file that the disk is given at once.
const BYTES_OF_A_STEP: u64 = 1 << 20;

/// Bytes a second. All that is deleted has been written once, and few disks are
/// written to at this rate for long: so what waits to be deleted stays small.
pub(super) const BYTES_PER_SECOND: i64 = 256 << 20;

/// A file is deleted at once if those that wait are beyond so many times the bytes
/// of all table files. A database without table files yet has its log to delete.
const MAX_WAITING: f64 = 64.0;

/// Seconds after which a file of the log may be written anew.
const LEFT_SECONDS: u32 = 3600;

/// Has the files of a database written in steps and deleted at [`BYTES_PER_SECOND`].
#[expect(
    unsafe_code,
    reason = "the crate does not wrap this part of RocksDB's C interface"
)]
pub(super) fn pace(options: &mut Options) {
    options.set_bytes_per_sync(BYTES_OF_A_STEP);
    // SAFETY: the options are live. Environment and manager are made here and gone
    // after the last lines; manager and options share what they stand for, by counts
    // of their own, and so does RocksDB.
    unsafe {
        rocksdb_c::rocksdb_options_set_strict_bytes_per_sync(options.as_raw_ptr(), 1);
        let env = rocksdb_c::rocksdb_create_default_env();
        let manager = rocksdb_c::rocksdb_sst_file_manager_create(env);
        rocksdb_c::rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(
            manager,
            BYTES_PER_SECOND,
        );
        rocksdb_c::rocksdb_sst_file_manager_set_max_trash_db_ratio(manager, MAX_WAITING);
        rocksdb_c::rocksdb_options_set_sst_file_manager(options.as_raw_ptr(), manager);
        rocksdb_c::rocksdb_sst_file_manager_destroy(manager);
        rocksdb_c::rocksdb_env_destroy(env);
    }
}

/// Has the files of a column left as they are for [`LEFT_SECONDS`].
#[expect(
    unsafe_code,
    reason = "the crate does not wrap this part of RocksDB's C interface"
)]
pub(super) fn leave_files(column: &mut Options) {
    // SAFETY: the options are live.
    unsafe {
        rocksdb_c::rocksdb_options_set_bottommost_file_compaction_delay(
            column.as_raw_ptr(),
            LEFT_SECONDS,
        );
    }
}
