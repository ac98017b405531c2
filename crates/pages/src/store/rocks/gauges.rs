//! What RocksDB tells about itself, and how full its disk is.

use crate::store::disk::DiskSpace;
use crate::store::kv::{Column, Gauge};
use rocksdb::properties::PropName;
use rocksdb::statistics::Ticker;
use rocksdb::{DB, Options, properties};

/// Read from the database as a whole.
const OF_DATABASE: &[(&str, &str, &PropName)] = &[
    (
        "rocksdb_background_errors",
        "Background errors since the start; any makes the store refuse writes or soon will.",
        properties::BACKGROUND_ERRORS,
    ),
    (
        "rocksdb_running_compactions",
        "Compactions running.",
        properties::NUM_RUNNING_COMPACTIONS,
    ),
    (
        "rocksdb_running_flushes",
        "Write buffers being written out.",
        properties::NUM_RUNNING_FLUSHES,
    ),
    (
        "rocksdb_write_stopped",
        "1 while writes are stopped until compactions catch up.",
        properties::IS_WRITE_STOPPED,
    ),
    (
        "rocksdb_delayed_write_bytes_per_second",
        "Rate to which writes are slowed down; 0 when they are not.",
        properties::ACTUAL_DELAYED_WRITE_RATE,
    ),
    // One cache serves all columns, so any of them tells its use.
    (
        "rocksdb_block_cache_bytes",
        "Bytes in the block cache.",
        properties::BLOCK_CACHE_USAGE,
    ),
    (
        "rocksdb_block_cache_pinned_bytes",
        "Bytes in the block cache that are in use.",
        properties::BLOCK_CACHE_PINNED_USAGE,
    ),
    (
        "rocksdb_block_cache_capacity_bytes",
        "Bytes that the block cache may have.",
        properties::BLOCK_CACHE_CAPACITY,
    ),
];

/// Summed up over the columns.
const OF_COLUMNS: &[(&str, &str, &PropName)] = &[
    (
        "rocksdb_memtable_bytes",
        "Bytes in write buffers.",
        properties::CUR_SIZE_ALL_MEM_TABLES,
    ),
    (
        "rocksdb_sst_bytes",
        "Bytes of table files.",
        properties::TOTAL_SST_FILES_SIZE,
    ),
    (
        "rocksdb_live_data_bytes",
        "Bytes of table files less what is deleted or overwritten, an estimate.",
        properties::ESTIMATE_LIVE_DATA_SIZE,
    ),
    (
        "rocksdb_pending_compaction_bytes",
        "Bytes that compactions still have to rewrite, an estimate.",
        properties::ESTIMATE_PENDING_COMPACTION_BYTES,
    ),
    (
        "rocksdb_table_reader_bytes",
        "Bytes of open table files outside the block cache, an estimate.",
        properties::ESTIMATE_TABLE_READERS_MEM,
    ),
];

/// Counted since the start.
const COUNTED: &[(&str, &str, Ticker)] = &[
    (
        "rocksdb_block_cache_hits",
        "Blocks found in the cache, since the start.",
        Ticker::BlockCacheHit,
    ),
    (
        "rocksdb_block_cache_misses",
        "Blocks not found in the cache, since the start.",
        Ticker::BlockCacheMiss,
    ),
    (
        "rocksdb_bloom_filter_useful",
        "Reads that a bloom filter answered, since the start.",
        Ticker::BloomFilterUseful,
    ),
    (
        "rocksdb_wal_syncs",
        "Times the write-ahead log was forced to the disk.",
        Ticker::WalFileSynced,
    ),
    (
        "rocksdb_wal_written_bytes",
        "Bytes written to the write-ahead log.",
        Ticker::WalFileBytes,
    ),
    (
        "rocksdb_flush_written_bytes",
        "Bytes of write buffers written out.",
        Ticker::FlushWriteBytes,
    ),
    (
        "rocksdb_compaction_read_bytes",
        "Bytes read by compactions.",
        Ticker::CompactReadBytes,
    ),
    (
        "rocksdb_compaction_written_bytes",
        "Bytes written by compactions.",
        Ticker::CompactWriteBytes,
    ),
];

/// What there is to say now; a value that RocksDB does not tell is left out.
pub(super) fn read(database: &DB, options: &Options, failed_syncs: u64) -> Vec<Gauge> {
    let mut gauges = Vec::with_capacity(OF_DATABASE.len() + OF_COLUMNS.len() + COUNTED.len() + 5);
    for &(name, help, property) in OF_DATABASE {
        if let Ok(Some(value)) = database.property_int_value(property) {
            gauges.push((name, help, value as f64));
        }
    }
    for &(name, help, property) in OF_COLUMNS {
        gauges.push((name, help, over_columns(database, property) as f64));
    }
    for &(name, help, ticker) in COUNTED {
        gauges.push((name, help, options.get_ticker_count(ticker) as f64));
    }
    gauges.push((
        "rocksdb_level0_files",
        "Table files that are not sorted into levels yet; many of them slow down reads, then writes.",
        over_columns(database, &properties::num_files_at_level(0)) as f64,
    ));
    gauges.push((
        "rocksdb_write_stall_seconds",
        "Seconds that writes had to wait for flushes or compactions, since the start.",
        options.get_ticker_count(Ticker::StallMicros) as f64 / 1e6,
    ));
    gauges.push((
        "rocksdb_wal_sync_failures",
        "Times that forcing the write-ahead log to the disk in the background failed.",
        failed_syncs as f64,
    ));
    if let Ok(disk) = DiskSpace::of(database.path()) {
        gauges.push((
            "disk_free_bytes",
            "Bytes that are free on the disk of the data, without what is kept for privileged users.",
            disk.free_bytes as f64,
        ));
        gauges.push((
            "disk_size_bytes",
            "Bytes that the disk of the data has in all.",
            disk.size_bytes as f64,
        ));
    }
    gauges
}

fn over_columns(database: &DB, property: &PropName) -> u64 {
    Column::ALL
        .iter()
        .filter_map(|column| database.cf_handle(column.name()))
        .filter_map(|column| database.property_int_value_cf(column, property).ok()?)
        .sum()
}
