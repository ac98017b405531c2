//! Compactions: begin one, follow it.

use crate::answer::{json, json_at};
use crate::bounds::path_of;
use crate::extract::{NoQuery, Sent, Target};
use crate::idempotency::marked;
use crate::problem::Result;
use crate::time::rfc3339_ms;
use crate::words::CompactionState;
use axum::http::StatusCode;
use serde::Serialize;

/// A compaction that was started.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct CompactionBegunBody {
    /// Number of sub-filters to empty, the newest ones; 0 if the others have no room for their entries.
    closed_sub_filters: u32,
    /// Path of the compaction's status.
    status_url: String,
}

/// The state of a compaction.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct CompactionBody {
    #[cfg_attr(test, schema(inline))]
    state: CompactionState,
    /// Whether a request started it; otherwise the server started it after many deletes (`--compaction-threshold`).
    asked_for: bool,
    /// Number of sub-filters to empty.
    closed_sub_filters: u64,
    /// Entries moved into older sub-filters.
    moved: u64,
    /// Number of sub-filters that were removed.
    dropped_sub_filters: u64,
    /// When it started, or resumed after a restart (RFC 3339).
    #[cfg_attr(test, schema(format = DateTime))]
    started_at: String,
    /// When it ended (RFC 3339); null: it is running.
    #[cfg_attr(test, schema(format = DateTime))]
    ended_at: Option<String>,
}

/// What is answered when one begins, and of one.
#[cfg(test)]
pub(crate) fn examples() -> (serde_json::Value, serde_json::Value) {
    let begun = CompactionBegunBody {
        closed_sub_filters: 2,
        status_url: "/filters/coupons/compaction".to_owned(),
    };
    let compaction = CompactionBody {
        state: CompactionState::Running,
        asked_for: true,
        closed_sub_filters: 2,
        moved: 18_211,
        dropped_sub_filters: 0,
        started_at: "2026-11-21T10:00:00.000Z".to_owned(),
        ended_at: None,
    };
    (serde_json::json!(begun), serde_json::json!(compaction))
}

/// `POST /filters/{key}/compact`.
pub(crate) async fn compact_filter(Target(engine, name): Target, sent: Sent) -> Result {
    let answered = engine.compact(&name, sent.nothing()?).await?;
    let begun = CompactionBegunBody {
        closed_sub_filters: answered.answer,
        status_url: format!("{}/compaction", path_of(&name)),
    };
    let response = json_at(StatusCode::ACCEPTED, &begun.status_url, &begun)?;
    Ok(marked(&answered, response))
}

/// `GET /filters/{key}/compaction`.
pub(crate) async fn get_compaction(Target(engine, name): Target, _: NoQuery) -> Result {
    let compaction = engine.compaction(&name).await?;
    json(&CompactionBody {
        state: compaction.state.into(),
        asked_for: compaction.asked_for,
        closed_sub_filters: compaction.closed,
        moved: compaction.moved,
        dropped_sub_filters: compaction.dropped,
        started_at: rfc3339_ms(compaction.started_at_ms),
        ended_at: compaction.ended_at_ms.map(rfc3339_ms),
    })
}
