//! What `CF.INFO`, `BF.INFO` and `CF.DEBUG` say of a filter.

use crate::chain::params::LayoutKind;
use crate::engine::FilterInfo;
use crate::protocol::encode::{Replies, Version};

/// Bytes that RedisBloom takes for a filter, and for each of its sub-filters,
/// beside the slots.
const FILTER_BYTES: u64 = 40;
const SUB_FILTER_BYTES: u64 = 16;

/// What RedisBloom tells of a filter: exactly these, because there are clients that
/// fail on one that is missing, and clients that fail on one more.
fn told(info: &FilterInfo) -> [(&'static str, u64); 8] {
    let filters = info.sub_filters.len() as u64;
    let size = FILTER_BYTES + SUB_FILTER_BYTES * filters + info.slot_bytes;
    let buckets = info.sub_filters.first().map_or(0, |first| first.buckets);
    let iterations = info.params.max_iterations().map_or(0, u64::from);
    [
        ("Size", size),
        ("Number of buckets", buckets),
        ("Number of filters", filters),
        ("Number of items inserted", info.items),
        ("Number of items deleted", info.deletions_since_compaction),
        ("Bucket size", info.params.bucket_size().into()),
        ("Expansion rate", info.params.expansion().into()),
        ("Max iterations", iterations),
    ]
}

/// Answers `CF.INFO`.
pub(crate) fn info(info: &FilterInfo, replies: &mut Replies) {
    let fields = told(info);
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
    let [size, _, filters, items, _, _, expansion, _] = told(info);
    let capacity = info.params.capacity();
    // As created until that is full, then what fits before it grows on.
    let capacity = match info.items > capacity {
        true => info.items + info.adds_before_expansion,
        false => capacity,
    };
    let fields = [
        ("capacity", ("Capacity", capacity)),
        ("size", size),
        ("filters", filters),
        ("items", items),
        ("expansion", expansion),
    ];
    // A filter that does not grow has no rate.
    let number = |(name, value): (&str, u64), replies: &mut Replies| match value {
        0 if name == expansion.0 => replies.nil(),
        value => replies.count(value),
    };
    let one = field.map(|field| {
        let known = |(word, _): &&(&str, _)| field.eq_ignore_ascii_case(word.as_bytes());
        fields.iter().find(known).ok_or("Invalid information value")
    });
    match one.transpose()? {
        // RESP2 has no map for one.
        Some((_, it)) if replies.version == Version::Resp2 => {
            replies.array(1);
            number(*it, replies);
        }
        Some((_, it)) => {
            replies.map(1);
            replies.status(it.0);
            number(*it, replies);
        }
        None => {
            replies.map(fields.len());
            for (_, it) in fields {
                replies.status(it.0);
                number(it, replies);
            }
        }
    }
    Ok(())
}

/// Answers `CF.DEBUG`.
pub(crate) fn debug(info: &FilterInfo, replies: &mut Replies) {
    let [
        _,
        buckets,
        filters,
        items,
        deletes,
        size,
        expansion,
        iterations,
    ] = told(info).map(|(_, value)| value);
    let mut line = format!(
        "bktsize:{size} buckets:{buckets} items:{items} deletes:{deletes} filters:{filters} max_iterations:{iterations} expansion:{expansion}"
    );
    if info.params.layout() == LayoutKind::Paged {
        let bits = info.params.slot_width().bits();
        line += &format!(" layout:paged fingerprint_bits:{bits}");
        if let Some(rate) = info.params.error_rate() {
            line += &format!(" error_rate:{rate}");
        }
    }
    replies.bulk(line.as_bytes());
}
