//! The clock by which filters end, and whether the system's is believed.

use crate::answer::json;
use crate::engine::ClockState;
use crate::extract::NoQuery;
use crate::idempotency::refuse_key;
use crate::middleware::audit::noted;
use crate::problem::Result;
use crate::server::App;
use crate::time::rfc3339_ms;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Serialize;
use std::sync::Arc;

/// The time.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct ClockBody {
    /// The time by which filters end (RFC 3339).
    #[cfg_attr(test, schema(format = DateTime))]
    now: String,
    /// The time of the system's clock (RFC 3339).
    #[cfg_attr(test, schema(format = DateTime))]
    system: String,
    /// Seconds by which the system's clock has jumped ahead, more than a minute, and is not believed until it is confirmed or put right; null: it is believed.
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

#[cfg(test)]
pub(crate) fn example(jump_seconds: Option<u64>) -> ClockBody {
    let system_ms = 1_826_791_200_000;
    ClockBody {
        now: rfc3339_ms(system_ms - 1000 * jump_seconds.unwrap_or(0)),
        system: rfc3339_ms(system_ms),
        jump_seconds,
    }
}

/// `GET /admin/clock`.
pub(crate) async fn get_clock(State(app): State<Arc<App>>, _: NoQuery) -> Result {
    json(&ClockBody::from(app.engine()?.clock()))
}

/// `POST /admin/clock/confirm`.
pub(crate) async fn confirm_clock(
    State(app): State<Arc<App>>,
    _: NoQuery,
    headers: HeaderMap,
) -> Result {
    refuse_key(&headers, "confirming the clock twice changes nothing")?;
    let engine = app.engine()?;
    let jump_seconds = ClockBody::from(engine.clock()).jump_seconds;
    let response = json(&ClockBody::from(engine.confirm_clock()))?;
    let note = match jump_seconds {
        Some(seconds) => {
            tracing::warn!(seconds, "the jump of the system's clock was confirmed");
            format!("jump_seconds={seconds}")
        }
        None => "jump_seconds=none".to_owned(),
    };
    Ok(noted(response, note))
}
