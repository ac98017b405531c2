//! Merging filters into another.

use super::filter_body::FilterBody;
use crate::answer::json;
use crate::engine::{EngineError, Overload};
use crate::extract::{Sent, Target, check_covers};
use crate::idempotency::marked;
use crate::middleware::audit::noted;
use crate::problem::{HttpError, Result};
use crate::server::App;
use crate::server::admission::throttle::paces;
use crate::server::principal::Principal;
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
    let (from, key) = sent.merged().await?;
    for (index, other) in from.iter().enumerate() {
        check_covers(&caller, other)?;
        if *other == name {
            let (pointer, allowed) = (format!("/from/{index}"), "other filters");
            return Err(HttpError::field(pointer, "the filter itself", allowed));
        }
    }
    let (admission, by) = (&app.admission, caller.holder());
    let place = Arc::new(admission.restores.try_take(by, 1)?);
    let hold = |bytes: u64| {
        if bytes > admission.bodies.bound() as u64 {
            return Err(EngineError::MergeTooLarge { bytes });
        }
        let memory = admission.bodies.try_take(by, bytes as usize);
        let memory = memory.map_err(|_| Overload::Bodies)?;
        Ok((memory, Arc::clone(&place)))
    };
    let engine = engine.paced(paces(&admission.throttle, || false));
    let answered = Box::pin(engine.merge(&name, &from, hold, key)).await?;
    let response = json(&FilterBody::from(&answered.answer))?;
    Ok(marked(&answered, noted(response, "merged")))
}
