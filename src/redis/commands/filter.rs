//! What `CF.INFO` and `CF.DEBUG` say of a filter.

use crate::chain::params::LayoutKind;
use crate::engine::FilterInfo;
use crate::redis::protocol::encode::Replies;

/// Bytes that RedisBloom takes for a filter, and for each of its sub-filters,
/// beside the slots.
const FILTER_BYTES: u64 = 40;
const SUB_FILTER_BYTES: u64 = 16;

/// What RedisBloom tells of a filter.
struct Told {
    size: u64,
    buckets: u64,
    filters: u64,
    items: u64,
    deletes: u64,
    bucket_size: u64,
    expansion: u64,
    max_iterations: u64,
}

impl Told {
    fn of(info: &FilterInfo) -> Told {
        let filters = info.sub_filters.len() as u64;
        Told {
            size: FILTER_BYTES + SUB_FILTER_BYTES * filters + info.slot_bytes,
            buckets: info.sub_filters.first().map_or(0, |first| first.buckets),
            filters,
            items: info.items,
            deletes: info.deletions_since_compaction,
            bucket_size: u64::from(info.params.bucket_size()),
            expansion: u64::from(info.params.expansion()),
            max_iterations: info.params.max_iterations().map_or(0, u64::from),
        }
    }
}

/// Answers `CF.INFO`: exactly these fields, because there are clients that fail
/// on one that is missing, and clients that fail on one more.
pub(crate) fn info(info: &FilterInfo, replies: &mut Replies) {
    let told = Told::of(info);
    let fields = [
        ("Size", told.size),
        ("Number of buckets", told.buckets),
        ("Number of filters", told.filters),
        ("Number of items inserted", told.items),
        ("Number of items deleted", told.deletes),
        ("Bucket size", told.bucket_size),
        ("Expansion rate", told.expansion),
        ("Max iterations", told.max_iterations),
    ];
    replies.map(fields.len());
    for (name, value) in fields {
        replies.status(name);
        replies.count(value);
    }
}

/// Answers `CF.DEBUG`.
pub(crate) fn debug(info: &FilterInfo, replies: &mut Replies) {
    let told = Told::of(info);
    let mut line = format!(
        "bktsize:{} buckets:{} items:{} deletes:{} filters:{} max_iterations:{} expansion:{}",
        told.bucket_size,
        told.buckets,
        told.items,
        told.deletes,
        told.filters,
        told.max_iterations,
        told.expansion
    );
    if info.params.layout() == LayoutKind::Paged {
        line += &format!(
            " layout:paged fingerprint_bits:{}",
            info.params.slot_width().bits()
        );
        if let Some(rate) = info.params.error_rate() {
            line += &format!(" error_rate:{rate}");
        }
    }
    replies.bulk(line.as_bytes());
}
