//! What a filter was like within the last day.

use crate::answer::json;
use crate::engine::Sample;
use crate::extract::{NoQuery, Target};
use crate::problem::Result;
use crate::time::rfc3339_ms;
use serde::Serialize;

/// What a filter was like within the last day.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct HistoryBody {
    /// Oldest first, five minutes or more apart; none before the first survey.
    samples: Vec<SampleBody>,
}

/// A filter at some moment.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct SampleBody {
    /// When (RFC 3339).
    #[cfg_attr(test, schema(format = DateTime))]
    at: String,
    /// Items in it.
    items: u64,
    /// Bytes that its slots took when every page was written.
    slot_bytes: u64,
    /// Expected false-positive rate.
    expected_false_positive_rate: f64,
}

#[cfg(test)]
pub(crate) fn example() -> serde_json::Value {
    let sample = |at: &str, items, expected_false_positive_rate| SampleBody {
        at: at.to_owned(),
        items,
        slot_bytes: 212_992,
        expected_false_positive_rate,
    };
    serde_json::json!(HistoryBody {
        samples: vec![
            sample("2026-11-21T10:00:00.000Z", 49_000, 0.000_056_2),
            sample("2026-11-21T10:05:00.000Z", 50_000, 0.000_057_3),
        ],
    })
}

/// `GET /filters/{key}/history`.
pub(crate) async fn get_filter_history(Target(engine, name): Target, _: NoQuery) -> Result {
    let samples = engine.filter_history(&name).await?;
    let sample = |sample: &Sample| SampleBody {
        at: rfc3339_ms(sample.at_ms),
        items: sample.items,
        slot_bytes: sample.slot_bytes,
        expected_false_positive_rate: sample.expected_false_positive_rate,
    };
    json(&HistoryBody {
        samples: samples.iter().map(sample).collect(),
    })
}
