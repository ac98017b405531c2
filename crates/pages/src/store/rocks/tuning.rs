//! How RocksDB is set up, and why.

use super::options::RocksOptions;
use super::pacing;
use crate::store::kv::Column;
use rocksdb::{
    BlockBasedOptions, BlockBasedTablePinningTier, Cache, DBCompressionType, DBRecoveryMode,
    DataBlockIndexType, InfoLogger, LogLevel, Options,
};

/// Beyond so many bytes of write-ahead log, the columns that hold it back are
/// written to table files: bounds the log on disk and what a start reads.
const MAX_WAL_BYTES: u64 = 256 << 20;

/// RocksDB's own diary: two files of at most so many bytes.
const DIARY_BYTES: usize = 8 << 20;
const DIARY_FILES: usize = 2;

/// Table files open at the same time.
const MAX_OPEN_FILES: i32 = 512;

/// A dense page fills a block, so that reading a page reads little else.
const PAGE_BLOCK_BYTES: usize = 4096;

/// Bytes of the table files of level 1; those of the next have twice as many, so
/// that a large database does not have thousands. Small files, as small write
/// buffers and so small files of the log, hold up forced writes for less time when
/// they are deleted.
const TABLE_BYTES: u64 = 16 << 20;
const TABLE_BYTES_FACTOR: i32 = 2;

/// One wrong disk read per hundred pages that are not there.
const BLOOM_BITS_PER_KEY: f64 = 10.0;

/// Settings of the database as a whole.
pub(super) fn database(options: &RocksOptions) -> Options {
    let mut database = Options::default();
    database.create_if_missing(true);
    database.create_missing_column_families(true);
    database.set_enable_pipelined_write(true);
    // A crash keeps a prefix: recovery stops at the first record that is not
    // whole. That needs log files that are never written over.
    database.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    database.set_recycle_log_file_num(0);
    // What is lost between two files of the log does not look like an end.
    database.set_track_and_verify_wals_in_manifest(true);
    database.set_max_total_wal_size(MAX_WAL_BYTES);
    database.set_db_write_buffer_size(options.write_buffer_bytes);
    database.set_max_open_files(MAX_OPEN_FILES);
    database.set_max_log_file_size(DIARY_BYTES);
    database.set_keep_log_file_num(DIARY_FILES);
    pacing::pace(&mut database);
    database.enable_statistics();
    database
}

/// The same for a database that is opened for reading alone.
pub(super) fn read_only_database(options: &RocksOptions) -> Options {
    let mut database = database(options);
    // Otherwise it would keep its diary in the directory. What goes wrong is
    // returned as an error anyway.
    database.set_info_logger(InfoLogger::new_callback_logger(LogLevel::Fatal, |_, _| {}));
    database
}

/// The same for a database that is known to have lost files of its log.
pub(super) fn forgiving(options: &RocksOptions) -> Options {
    let mut database = database(options);
    database.set_track_and_verify_wals_in_manifest(false);
    database
}

/// Settings of each column.
pub(super) fn columns(options: &RocksOptions) -> Vec<(Column, Options)> {
    let cache = Cache::new_lru_cache(options.block_cache_bytes);
    Column::ALL
        .map(|name| (name, column(name, options, &cache)))
        .into()
}

fn column(name: Column, options: &RocksOptions, cache: &Cache) -> Options {
    let mut tables = BlockBasedOptions::default();
    tables.set_block_cache(cache);
    // Index and filters count as cache, so that memory stays bounded: but for those of
    // pages, which are pinned below.
    tables.set_cache_index_and_filter_blocks(true);
    tables.set_pin_l0_filter_and_index_blocks_in_cache(true);

    let mut column = Options::default();
    match name {
        Column::Pages => {
            // Fingerprints do not compress.
            column.set_compression_type(DBCompressionType::None);
            column.set_write_buffer_size(options.write_buffer_bytes / 8);
            tables.set_block_size(PAGE_BLOCK_BYTES);
            tables.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
            tables.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
            // Pages have frames of their own, so reads of them leave the cache alone; then
            // what finds them has to stay in it.
            tables.set_unpartitioned_pinning_tier(BlockBasedTablePinningTier::All);
        }
        Column::SideRecords => {
            // Looked for by exact keys that are mostly not there.
            column.set_compression_type(DBCompressionType::Lz4);
            column.set_write_buffer_size(options.write_buffer_bytes / 8);
            tables.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
        }
        Column::Log => {
            column.set_compression_type(DBCompressionType::Lz4);
            column.set_write_buffer_size(options.write_buffer_bytes / 8);
            pacing::leave_files(&mut column);
        }
        Column::Info | Column::Names | Column::Filters | Column::Reclaim | Column::Due => {
            column.set_compression_type(DBCompressionType::Lz4);
            column.set_write_buffer_size(options.write_buffer_bytes / 16);
        }
    }
    column.set_target_file_size_base(TABLE_BYTES);
    column.set_target_file_size_multiplier(TABLE_BYTES_FACTOR);
    column.set_block_based_table_factory(&tables);
    column
}
