//! What a filter would be, before it is made.

use super::attributes_body::AttributeBody;
use crate::answer::json;
use crate::chain::forecast::Stage;
use crate::chain::params::Window;
use crate::extract::{CallerEngine, Sent};
use crate::problem::Result;
#[cfg(test)]
use crate::schemas;
use crate::words::FullReason;
use serde::Serialize;

/// The preview of a filter.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct PreviewBody {
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
    /// Bits of the values that its items would have; null: they would have none.
    value_bits: Option<u8>,
    /// Values or rows that an item would be expected to have; null without either.
    values_per_item: Option<u16>,
    /// What the rows of its items would consist of; null: they would have no rows.
    attributes: Option<Vec<AttributeBody>>,
    /// Seconds after which an item would expire that was not seen again; null: items would not expire.
    window_seconds: Option<u32>,
    /// In which steps items would expire, in seconds; null if they would not.
    window_resolution_seconds: Option<u32>,
    /// Slots per bucket.
    bucket_size: u8,
    /// Longest path of kick-outs; null for `paged`, whose searches stay on a few pages.
    max_iterations: Option<u16>,
    /// `classic`: how much larger each further sub-filter is; 0 = never grows.
    expansion: u32,
    /// `classic`: largest number of sub-filters beyond the first; `paged`: of doublings.
    max_expansions: u16,
    /// Seconds until it would expire; null: it would not expire.
    ttl_seconds: Option<u64>,
    /// Buckets before it grows.
    buckets: u64,
    /// Pages that hold the buckets.
    pages: u64,
    /// Bytes that its slots take when every page is written.
    slot_bytes: u64,
    /// Bits of slots per item at capacity.
    bits_per_item_at_capacity: f64,
    /// Share of its slots in use at capacity, 0 to 1.
    load_at_capacity: f64,
    /// Expected false-positive rate at capacity.
    expected_false_positive_rate: f64,
    /// The filter before it grows, and each time that it has grown, always full: up to promised_growth, or for `classic` to eight sub-filters.
    stages: Vec<StageBody>,
    #[cfg_attr(test, schema(schema_with = FullReason::stopping))]
    stopped_by: Option<FullReason>,
}

/// A filter that has grown so far, and is full.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct StageBody {
    /// Sub-filters; one for `paged`, which splits its pages.
    sub_filters: u32,
    /// Its size as a multiple of its first.
    growth: u64,
    /// Expected number of items that fit.
    items: u64,
    /// Bytes that its slots take.
    bytes: u64,
    /// Expected false-positive rate: the probability that a never-added item is found.
    expected_false_positive_rate: f64,
}

#[cfg(test)]
pub(crate) fn example() -> serde_json::Value {
    serde_json::json!(PreviewBody {
        layout: "paged",
        capacity: 100_000,
        fingerprint_bits: 16,
        error_rate: Some(0.001),
        promised_growth: Some(64),
        max_growth: Some(8_192),
        value_bits: None,
        values_per_item: None,
        attributes: None,
        window_seconds: None,
        window_resolution_seconds: None,
        bucket_size: 4,
        max_iterations: None,
        expansion: 2,
        max_expansions: 1,
        ttl_seconds: None,
        buckets: 26_624,
        pages: 52,
        slot_bytes: 212_992,
        bits_per_item_at_capacity: 17.03936,
        load_at_capacity: 0.939_002_403_846,
        expected_false_positive_rate: 0.000_114_6,
        stages: vec![
            StageBody {
                sub_filters: 1,
                growth: 1,
                items: 100_638,
                bytes: 212_992,
                expected_false_positive_rate: 0.000_117_5,
            },
            StageBody {
                sub_filters: 1,
                growth: 2,
                items: 201_276,
                bytes: 425_984,
                expected_false_positive_rate: 0.000_235,
            },
        ],
        stopped_by: Some(FullReason::MaxExpansions),
    })
}

/// `POST /preview`.
pub(crate) async fn preview_filter(CallerEngine(engine): CallerEngine, sent: Sent) -> Result {
    let (wanted, _) = sent.fields().await?;
    let preview = engine.preview_filter(&wanted).await?;
    let (params, forecast) = (&preview.params, &preview.forecast);
    let slot_bytes = params.first_bytes();
    let stage = |stage: &Stage| StageBody {
        sub_filters: stage.sub_filters,
        growth: stage.growth,
        items: stage.items,
        bytes: stage.bytes,
        expected_false_positive_rate: stage.false_positive_rate,
    };
    json(&PreviewBody {
        layout: params.layout().name(),
        capacity: params.capacity(),
        fingerprint_bits: params.slot_width().bits(),
        error_rate: params.error_rate(),
        promised_growth: params.promised_growth(),
        max_growth: params.max_growth(),
        value_bits: params.plain_value_bits(),
        values_per_item: params.values_per_item(),
        attributes: params.attributes().map(AttributeBody::all),
        window_seconds: params.window().map(Window::seconds),
        window_resolution_seconds: params.window().map(Window::resolution_seconds),
        bucket_size: params.bucket_size(),
        max_iterations: params.max_iterations(),
        expansion: params.expansion(),
        max_expansions: params.max_expansions(),
        ttl_seconds: preview.ttl_seconds,
        buckets: forecast.buckets,
        pages: forecast.pages,
        slot_bytes,
        bits_per_item_at_capacity: slot_bytes as f64 * 8.0 / params.capacity() as f64,
        load_at_capacity: forecast.load_at_capacity,
        expected_false_positive_rate: forecast.rate_at_capacity,
        stages: forecast.stages.iter().map(stage).collect(),
        stopped_by: forecast.stopped_by.map(Into::into),
    })
}
