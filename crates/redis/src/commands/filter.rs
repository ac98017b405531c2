//! What `CF.INFO`, `BF.INFO` and `CF.DEBUG` say of a filter.

use crate::chain::params::LayoutKind;
use crate::engine::FilterInfo;
use crate::protocol::encode::{Replies, Version};

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

/// Answers `BF.INFO`: all fields, or one of them.
///
/// # Errors
/// There is no such field.
pub(crate) fn bloom_info(
    info: &FilterInfo,
    field: Option<&[u8]>,
    replies: &mut Replies,
) -> Result<(), &'static str> {
    let told = Told::of(info);
    let capacity = info.params.capacity();
    // As created until that is full, then what fits before it grows on.
    let capacity = match told.items > capacity {
        true => told.items + info.adds_before_expansion,
        false => capacity,
    };
    let expansion = Some(told.expansion).filter(|&factor| factor > 0);
    let fields = [
        ("capacity", "Capacity", Some(capacity)),
        ("size", "Size", Some(told.size)),
        ("filters", "Number of filters", Some(told.filters)),
        ("items", "Number of items inserted", Some(told.items)),
        ("expansion", "Expansion rate", expansion),
    ];
    let number = |value: Option<u64>, replies: &mut Replies| match value {
        Some(value) => replies.count(value),
        None => replies.nil(),
    };
    let one = field.map(|field| {
        let known = |(word, ..): &&(&str, _, _)| field.eq_ignore_ascii_case(word.as_bytes());
        fields.iter().find(known).ok_or("Invalid information value")
    });
    match one.transpose()? {
        // RESP2 has no map for one.
        Some((_, _, value)) if replies.version() == Version::Resp2 => {
            replies.array(1);
            number(*value, replies);
        }
        Some((_, name, value)) => {
            replies.map(1);
            replies.status(name);
            number(*value, replies);
        }
        None => {
            replies.map(fields.len());
            for (_, name, value) in fields {
                replies.status(name);
                number(value, replies);
            }
        }
    }
    Ok(())
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
