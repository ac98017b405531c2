//! Merging filters into another.

use super::filter_body::FilterBody;
use crate::answer::json;
use crate::cluster::answer::catch_up;
use crate::engine::{EngineError, FilterName};
use crate::extract::{Sent, Target};
use crate::idempotency::marked;
use crate::middleware::audit::noted;
use crate::middleware::auth::check_covers;
use crate::problem::{HttpError, Result};
use crate::server::App;
use crate::server::admission::throttle::paces;
use crate::server::principal::Principal;
use crate::server::refusal::Refusal;
use axum::Extension;
use axum::extract::State;
use std::sync::Arc;

/// `POST /filters/{key}/merge`.
pub(crate) async fn merge_filter(
    State(app): State<Arc<App>>,
    Target(engine, name): Target,
    Extension(caller): Extension<Principal>,
    sent: Sent,
) -> Result {
    let (from, key, parts) = sent.merged().await?;
    for (index, other) in from.iter().enumerate() {
        check_covers(caller.prefix(), other.as_str())?;
        if *other == name {
            let (pointer, allowed) = (format!("/from/{index}"), "other filters");
            return Err(HttpError::field(pointer, "the filter itself", allowed));
        }
    }
    let (admission, by) = (&app.admission, caller.holder());
    let place = Arc::new(admission.restores.try_take(by, 1)?);
    for other in &from {
        Box::pin(catch_up(&app, &engine, &parts.headers, other)).await?;
    }
    let hold = |bytes| Ok((admission.merge(by, bytes)?, Arc::clone(&place)));
    let ends = caller.clone();
    let engine = engine.paced(paces(&admission.throttle, move || ends.key_end().is_some()));
    let merged = Box::pin(engine.merge(&name, &from, hold, key)).await;
    let answered = match (merged, caller.key_end()) {
        (Err(EngineError::DeadlineExceeded), Some(end)) => Err(Refusal::from(end))?,
        (merged, _) => merged?,
    };
    let response = json(&FilterBody::from(&answered.answer))?;
    let from: Vec<&str> = from.iter().map(FilterName::as_str).collect();
    let note = format!("merged {}", from.join(" "));
    Ok(marked(&answered, noted(response, note)))
}
