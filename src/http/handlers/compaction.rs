//! Compactions: begin one, follow it.

use crate::engine::Compaction;
use crate::http::answer::{json, json_at};
use crate::http::bounds::path_of;
use crate::http::extract::{CallerEngine, Key};
use crate::http::idempotency::{Keyed, marked};
use crate::http::openapi::facts::{CHANGE, ENGINE, KEYED, MISSING, RETRIED};
use crate::http::openapi::parameters::FilterKey;
use crate::http::problem::{Code, HttpError};
use crate::http::query::Query;
use crate::http::time::rfc3339_ms;
use crate::http::words::CompactionState;
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

/// A compaction that was started.
#[derive(Serialize, ToSchema)]
pub(crate) struct CompactionBegunBody {
    /// Number of sub-filters to empty, the newest ones; 0 if the others have no room for their entries.
    #[schema(example = 2)]
    closed_sub_filters: u32,
    /// Path of the compaction's status.
    #[schema(example = "/filters/coupons/compaction")]
    status_url: String,
}

/// The state of a compaction.
#[derive(Serialize, ToSchema)]
pub(crate) struct CompactionBody {
    #[schema(inline)]
    state: CompactionState,
    /// Whether a request started it; otherwise the server started it after many deletes (`--compaction-threshold`).
    #[schema(example = true)]
    asked_for: bool,
    /// Number of sub-filters to empty.
    #[schema(example = 2)]
    closed_sub_filters: u64,
    /// Entries moved into older sub-filters.
    #[schema(example = 18_211)]
    moved: u64,
    /// Number of sub-filters that were removed.
    #[schema(example = 0)]
    dropped_sub_filters: u64,
    /// When it started, or resumed after a restart (RFC 3339).
    #[schema(example = "2026-11-21T10:00:00Z", format = DateTime)]
    started_at: String,
    /// When it ended (RFC 3339); null: it is running.
    #[schema(example = json!(null), format = DateTime)]
    ended_at: Option<String>,
}

impl From<&Compaction> for CompactionBody {
    fn from(it: &Compaction) -> CompactionBody {
        CompactionBody {
            state: it.state.into(),
            asked_for: it.asked_for,
            closed_sub_filters: it.closed,
            moved: it.moved,
            dropped_sub_filters: it.dropped,
            started_at: rfc3339_ms(it.started_at_ms),
            ended_at: it.ended_at_ms.map(rfc3339_ms),
        }
    }
}

/// Compact a filter
///
/// After many deletes the newest sub-filters may contain few entries. A
/// compaction moves these entries into the older sub-filters, if they have room
/// for all of them, and removes the emptied ones. Questions then read fewer
/// pages, and the filter takes fewer bytes. The compaction runs in the
/// background, in slices between other requests; answers stay correct. The
/// server starts a compaction by itself once more than a tenth of a filter was
/// deleted (`--compaction-threshold`).
#[utoipa::path(
    post,
    path = "/filters/{key}/compact",
    operation_id = "compact_filter",
    tag = "filters",
    security(("api_key" = ["admin"])),
    extensions(("x-audited" = json!(true)), ("x-fails" = json!([ENGINE, KEYED, MISSING, CHANGE, [Code::CompactionRunning, Code::IdempotencyFilterGone], RETRIED]))),
    params(FilterKey),
    responses((
        status = 202,
        description = "The compaction has started.",
        body = CompactionBegunBody,
        headers(("Location" = String, description = "Path of its status.")),
        example = json!(CompactionBegunBody { closed_sub_filters: 2, status_url: "/filters/coupons/compaction".to_owned() })
    ))
)]
pub(crate) async fn compact_filter(
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let (parts, _) = request.into_parts();
    Query::none(&parts.uri)?;
    let key = Keyed::of(&parts)?.map(|keyed| keyed.with_body(b""));
    let answered = engine.compact(&name, key).await?;
    let begun = CompactionBegunBody {
        closed_sub_filters: answered.answer,
        status_url: format!("{}/compaction", path_of(&name)),
    };
    let response = json_at(StatusCode::ACCEPTED, &begun.status_url, &begun)?;
    Ok(marked(&answered, response))
}

/// Follow a compaction
///
/// The running compaction, or the last one since the server started.
#[utoipa::path(
    get,
    path = "/filters/{key}/compaction",
    operation_id = "get_compaction",
    tag = "filters",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, [Code::CompactionNotFound]]))),
    params(FilterKey),
    responses((
        status = 200,
        description = "Its progress.",
        body = CompactionBody,
        example = json!(CompactionBody {
            state: CompactionState::Running,
            asked_for: true,
            closed_sub_filters: 2,
            moved: 18_211,
            dropped_sub_filters: 0,
            started_at: "2026-11-21T10:00:00.000Z".to_owned(),
            ended_at: None,
        })
    ))
)]
pub(crate) async fn get_compaction(
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    uri: Uri,
) -> Result<Response, HttpError> {
    Query::none(&uri)?;
    let compaction = engine.compaction(&name).await?;
    json(&CompactionBody::from(&compaction))
}
