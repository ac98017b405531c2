//! RedisBloom's layout.
/// Buckets for a capacity.
pub fn buckets_for(_capacity: u64, _bucket_size: u8) -> u64 { 1 }
