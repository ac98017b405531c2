//! What answers say about a filter.

use super::attributes_body::AttributeBody;
use crate::chain::params::Window;
use crate::engine::{EpochInfo, FilterInfo, GrowthInfo, SubFilterInfo};
#[cfg(test)]
use crate::schemas;
use crate::time::rfc3339_ms;
use serde::Serialize;

/// The description of a filter.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct FilterBody {
    /// Its name.
    key: String,
    /// How fingerprints are placed.
    #[cfg_attr(test, schema(schema_with = schemas::layout))]
    layout: &'static str,
    /// Items that fit before the filter grows.
    capacity: u64,
    /// Bits per slot.
    fingerprint_bits: u16,
    /// The promised false-positive rate: the share of never-added items that are found; null without a promise.
    error_rate: Option<f64>,
    /// How far a filter may grow with its promise kept, as a multiple of its capacity; null for `classic`.
    promised_growth: Option<u32>,
    /// How far its slots let it grow, as a multiple of its first size; beyond, adds are `full` by `growth_limit`. Null for `classic`.
    max_growth: Option<u32>,
    /// Whether the promise holds: false once the expected false-positive rate is above it.
    error_rate_holds: bool,
    /// Bits of the values that its items have; null: they have none.
    value_bits: Option<u8>,
    /// Values or rows that an item is expected to have; null without either.
    values_per_item: Option<u16>,
    /// What the rows of its items consist of; null: they have no rows.
    attributes: Option<Vec<AttributeBody>>,
    /// Seconds after which an item expires that was not seen again; null: items do not expire.
    window_seconds: Option<u32>,
    /// In which steps items expire, in seconds; null if they do not.
    window_resolution_seconds: Option<u32>,
    /// Slots per bucket.
    bucket_size: u8,
    /// Longest path of kick-outs; null for `paged`, whose searches stay on a few pages.
    max_iterations: Option<u16>,
    /// `classic`: how much larger each further sub-filter is; 0 = never grows.
    expansion: u32,
    /// `classic`: largest number of sub-filters beyond the first; `paged`: of doublings.
    max_expansions: u16,
    /// How often it has grown: sub-filters appended, or doublings that are complete.
    expansions: u32,
    /// How far the current doubling is; null for `classic`.
    growth: Option<GrowthBody>,
    /// Items in it: adds less deletes; with a window those that have not expired.
    items: u64,
    /// With a window: the items by when they were seen last, the current epoch first; null without.
    epochs: Option<Vec<EpochBody>>,
    /// Deletes that found their item, since creation.
    deletions: u64,
    /// The chain, oldest sub-filter first; one for `paged`, which splits its pages.
    sub_filters: Vec<SubFilterBody>,
    /// Bits of slots per item; null while the filter is empty.
    bits_per_item: Option<f64>,
    /// Bits of slots per item once it holds as many items as its capacity.
    bits_per_item_at_capacity: f64,
    /// Bytes that its slots take when every page is written.
    slot_bytes: u64,
    /// Bytes of its pages in memory, with what is counted beside them.
    memory_bytes: u64,
    /// Bytes of its pages on disk, an estimate.
    disk_bytes: u64,
    /// Expected false-positive rate now: the probability that a never-added item is found.
    expected_false_positive_rate: f64,
    /// The same once the filter has grown to promised_growth; for `classic` with eight sub-filters, or one if it never grows, all of them full.
    expected_false_positive_rate_full: f64,
    /// Estimated number of adds before it takes more pages.
    adds_before_expansion: u64,
    /// When it was created (RFC 3339).
    #[cfg_attr(test, schema(format = DateTime))]
    created_at: String,
    /// Seconds of the requested time to live; null: it does not expire.
    ttl_seconds: Option<u64>,
    /// When it expires (RFC 3339); null: it does not expire.
    #[cfg_attr(test, schema(format = DateTime))]
    expires_at: Option<String>,
}

/// How far the current doubling of a filter that splits its pages is.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct GrowthBody {
    /// Pages of this doubling that are split.
    pages_split: u64,
    /// Pages that are still to be split until it is complete.
    pages_to_split: u64,
    /// Entries by the splits that their page had gone through when they were added: none or one, two, three, and so on. Each is found for half as many absent items as one of the number before.
    entries_by_level: Vec<u64>,
}

/// The items of a filter with a window that were seen last in one epoch.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct EpochBody {
    /// When the epoch began (RFC 3339).
    #[cfg_attr(test, schema(example = "2026-11-21T10:00:00.000Z", format = DateTime))]
    from: String,
    /// Items that were seen in it and not since.
    #[cfg_attr(test, schema(example = 417))]
    items: u64,
}

/// One sub-filter of a filter's chain.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct SubFilterBody {
    /// How fingerprints are placed.
    #[cfg_attr(test, schema(schema_with = schemas::layout))]
    layout: &'static str,
    /// Bits per slot.
    fingerprint_bits: u16,
    /// Buckets.
    buckets: u64,
    /// Pages that hold the buckets.
    pages: u64,
    /// Bytes of slots.
    bytes: u64,
    /// Items in it.
    items: u64,
    /// Number of them that are further copies of hot items, counted beside the pages, without a slot.
    counted: u64,
    /// Share of its slots in use, 0 to 1.
    load: f64,
    /// Expected false-positive rate of this sub-filter.
    expected_false_positive_rate: f64,
}

impl From<&FilterInfo> for FilterBody {
    fn from(info: &FilterInfo) -> FilterBody {
        let growth = |growth: &GrowthInfo| GrowthBody {
            pages_split: growth.pages_split,
            pages_to_split: growth.pages_to_split,
            entries_by_level: growth.entries_by_level.clone(),
        };
        let epoch = |epoch: &EpochInfo| EpochBody {
            from: rfc3339_ms(epoch.from_ms),
            items: epoch.items,
        };
        let sub_filter = |sub: &SubFilterInfo| SubFilterBody {
            layout: info.params.layout().name(),
            fingerprint_bits: info.params.slot_width().bits(),
            buckets: sub.buckets,
            pages: sub.pages,
            bytes: sub.bytes,
            items: sub.items,
            counted: sub.counted,
            load: sub.load,
            expected_false_positive_rate: sub.expected_false_positive_rate,
        };
        let epochs = info.epochs.as_ref();
        FilterBody {
            key: info.name.as_str().to_owned(),
            layout: info.params.layout().name(),
            capacity: info.params.capacity(),
            fingerprint_bits: info.params.slot_width().bits(),
            error_rate: info.params.error_rate(),
            promised_growth: info.params.promised_growth(),
            max_growth: info.params.max_growth(),
            error_rate_holds: info.keeps_promise,
            value_bits: info.params.plain_value_bits(),
            values_per_item: info.params.values_per_item(),
            attributes: info.params.attributes().map(AttributeBody::all),
            window_seconds: info.params.window().map(Window::seconds),
            window_resolution_seconds: info.params.window().map(Window::resolution_seconds),
            bucket_size: info.params.bucket_size(),
            max_iterations: info.params.max_iterations(),
            expansion: info.params.expansion(),
            max_expansions: info.params.max_expansions(),
            expansions: info.expansions,
            growth: info.growth.as_ref().map(growth),
            items: info.items,
            epochs: epochs.map(|all| all.iter().map(epoch).collect()),
            deletions: info.deletions,
            sub_filters: info.sub_filters.iter().map(sub_filter).collect(),
            bits_per_item: info.bits_per_item,
            bits_per_item_at_capacity: info.params.first_bytes() as f64 * 8.0
                / info.params.capacity() as f64,
            slot_bytes: info.slot_bytes,
            memory_bytes: info.memory_bytes,
            disk_bytes: info.disk_bytes,
            expected_false_positive_rate: info.expected_false_positive_rate,
            expected_false_positive_rate_full: info.full_false_positive_rate,
            adds_before_expansion: info.adds_before_expansion,
            created_at: rfc3339_ms(info.created_at_ms),
            ttl_seconds: info.expiry.map(|expiry| expiry.ttl_seconds),
            expires_at: info.expiry.map(|expiry| rfc3339_ms(expiry.at_ms)),
        }
    }
}

/// A filter of the description's examples.
#[cfg(test)]
pub(crate) fn filter_example() -> serde_json::Value {
    let rate = 0.000_057_3;
    serde_json::json!(FilterBody {
        key: "coupons".to_owned(),
        layout: "paged",
        capacity: 100_000,
        fingerprint_bits: 16,
        error_rate: Some(0.001),
        promised_growth: Some(64),
        max_growth: Some(8_192),
        error_rate_holds: true,
        value_bits: None,
        values_per_item: None,
        attributes: None,
        window_seconds: None,
        window_resolution_seconds: None,
        bucket_size: 4,
        max_iterations: None,
        expansion: 2,
        max_expansions: 32,
        expansions: 0,
        growth: Some(GrowthBody {
            pages_split: 0,
            pages_to_split: 52,
            entries_by_level: vec![50_000],
        }),
        items: 50_000,
        epochs: None,
        deletions: 0,
        sub_filters: vec![SubFilterBody {
            layout: "paged",
            fingerprint_bits: 16,
            buckets: 26_624,
            pages: 52,
            bytes: 212_992,
            items: 50_000,
            counted: 0,
            load: 0.469_501_201_923,
            expected_false_positive_rate: rate,
        }],
        bits_per_item: Some(34.07872),
        bits_per_item_at_capacity: 17.03936,
        slot_bytes: 212_992,
        memory_bytes: 212_992,
        disk_bytes: 163_840,
        expected_false_positive_rate: rate,
        expected_false_positive_rate_full: 0.000_822_1,
        adds_before_expansion: 50_638,
        created_at: "2026-11-21T10:00:00.000Z".to_owned(),
        ttl_seconds: None,
        expires_at: None,
    })
}

/// A filter that ends, of the description's examples.
#[cfg(test)]
pub(crate) fn ending_example() -> serde_json::Value {
    let mut example = filter_example();
    if let Some(fields) = example.as_object_mut() {
        fields.insert("ttl_seconds".to_owned(), 86_400.into());
        let expires_at = "2026-11-22T10:00:00.000Z";
        fields.insert("expires_at".to_owned(), expires_at.into());
    }
    example
}
