//! The clock by which filters end, and whether the system's is believed.

use crate::engine::ClockState;
use crate::http::App;
use crate::http::answer::json;
use crate::http::idempotency::refuse_key;
use crate::http::middleware::audit::Note;
use crate::http::openapi::facts::CLOCK;
use crate::http::problem::{Code, HttpError};
use crate::http::query::Query;
use crate::http::time::rfc3339_ms;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// The time.
#[derive(Serialize, ToSchema)]
pub(crate) struct ClockBody {
    /// The time by which filters end (RFC 3339).
    #[schema(example = "2026-11-21T10:00:00.000Z", format = DateTime)]
    now: String,
    /// The time of the system's clock (RFC 3339).
    #[schema(example = "2027-11-21T10:00:00.000Z", format = DateTime)]
    system: String,
    /// Seconds by which the system's clock has jumped ahead, more than a minute, and is not believed until it is confirmed or put right; null: it is believed.
    #[schema(example = 31_536_000)]
    jump_seconds: Option<u64>,
}

impl From<ClockState> for ClockBody {
    fn from(it: ClockState) -> ClockBody {
        ClockBody {
            now: rfc3339_ms(it.now_ms),
            system: rfc3339_ms(it.wall_ms),
            jump_seconds: it.jump_ms.map(|ms| ms.div_ceil(1000)),
        }
    }
}

fn example(jump_seconds: Option<u64>) -> ClockBody {
    let system_ms = 1_826_791_200_000;
    ClockBody {
        now: rfc3339_ms(system_ms - 1000 * jump_seconds.unwrap_or(0)),
        system: rfc3339_ms(system_ms),
        jump_seconds,
    }
}

/// The clock
///
/// Filters end by the system's clock, as long as it does not jump ahead of the
/// time that has passed since the machine's start.
#[utoipa::path(
    get,
    path = "/admin/clock",
    operation_id = "get_clock",
    tag = "operations",
    security(("api_key" = ["admin"])),
    extensions(("x-fails" = json!([CLOCK]))),
    responses((
        status = 200,
        description = "Both times.",
        body = ClockBody,
        example = json!(example(Some(31_536_000)))
    ))
)]
pub(crate) async fn get_clock(
    State(app): State<Arc<App>>,
    uri: Uri,
) -> Result<Response, HttpError> {
    Query::none(&uri)?;
    json(&ClockBody::from(app.engine()?.clock()))
}

/// Confirm the clock
///
/// Says that the system's clock is right though it has jumped ahead. Filters that
/// have ended by it are gone from now on, and are removed. Changes nothing if
/// the clock is believed.
#[utoipa::path(
    post,
    path = "/admin/clock/confirm",
    operation_id = "confirm_clock",
    tag = "operations",
    security(("api_key" = ["admin"])),
    extensions(("x-audited" = json!(true)), ("x-fails" = json!([CLOCK, [Code::IdempotencyKeyNotTaken]]))),
    responses((
        status = 200,
        description = "The system's clock is believed.",
        body = ClockBody,
        example = json!(example(None))
    ))
)]
pub(crate) async fn confirm_clock(
    State(app): State<Arc<App>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    Query::none(&uri)?;
    refuse_key(&headers, "confirming the clock twice changes nothing")?;
    let engine = app.engine()?;
    let jump_seconds = ClockBody::from(engine.clock()).jump_seconds;
    let mut response = json(&ClockBody::from(engine.confirm_clock()))?;
    let note = match jump_seconds {
        Some(seconds) => {
            tracing::warn!(seconds, "the jump of the system's clock was confirmed");
            format!("jump_seconds={seconds}")
        }
        None => "jump_seconds=none".to_owned(),
    };
    response.extensions_mut().insert(Note(note.into()));
    Ok(response)
}
