//! Where a request is answered in a cluster, and what it waits for before.

use super::forward::forward;
use crate::access::Scope;
use crate::admission::deadline::Deadline;
use crate::bounds::path_of;
use crate::engine::{Engine, EngineError, FilterName};
use crate::layer::InnerService;
use crate::problem::{HttpError, Result, excerpt};
use crate::requirement::{ResourceScope, RouteRequirement};
use crate::server::App;
use crate::server::cluster::commands::ForwardedBy;
use crate::server::cluster::forward::{Forwarded, GRACE};
use crate::server::cluster::headers::{CONSISTENCY, MIN_POSITION, POSITION};
use crate::server::cluster::pod::Cluster;
use crate::server::cluster::position::RecordPosition;
use crate::server::cluster::route::{LEADER_PATIENCE, LOOK_EVERY};
use crate::server::principal::Principal;
use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use std::time::Instant;
use tokio::time::{sleep, sleep_until};

/// Answers a request, here or on another pod.
///
/// # Errors
/// Another pod has to, and did not; or this one has not what is asked for in time.
pub(crate) async fn answer<S: InnerService>(
    cluster: &Cluster,
    app: &App,
    requirement: RouteRequirement,
    request: Request,
    mut inner: S,
) -> Result {
    let Ok(engine) = app.engine() else {
        // What needs one says so. Probes and metrics do not.
        let answered = inner.call(request).await;
        return Ok(answered.unwrap_or_else(|never| match never {}));
    };
    let (mut parts, mut body) = request.into_parts();
    let (filter, is_strong_question) = for_leader(requirement, &mut parts).await?;
    let deadline = Deadline::of_parts(&parts).map(|Deadline(until)| until);
    let caller = parts.extensions.get::<Principal>().cloned();
    let caller = caller.unwrap_or_default();
    let waiting = engine.for_caller(caller.caller(deadline));
    if let Some(filter) = &filter {
        let forwarded_by = ForwardedBy::of(&parts.headers);
        let patience = Instant::now() + LEADER_PATIENCE;
        let until = deadline.map_or(patience, |it| it.min(patience));
        loop {
            let route = match is_strong_question {
                false => cluster.route(&waiting, filter, &forwarded_by, until).await,
                true => {
                    let route = cluster.strong_route(&waiting, filter, &forwarded_by, until);
                    route.await
                }
            };
            let Some(address) = route? else {
                break;
            };
            match forward(cluster, app, &caller, &address, &parts, body).await? {
                (_, Some(again)) if forwarded_by.is_none() && Instant::now() < until => {
                    body = again;
                    sleep(LOOK_EVERY).await;
                }
                (response, _) => return Ok(response),
            }
        }
    }
    for position in min_positions(&parts.headers, engine)? {
        waiting.reached(position.lane, position.sequence).await?;
    }
    let answered = inner.call(Request::from_parts(parts, body)).await;
    let mut response = answered.unwrap_or_else(|never| match never {});
    if let Some(filter) = &filter
        && response.status().is_success()
        && let Some(position) = RecordPosition::of_lane(engine, engine.lane_of(filter))
        && let Ok(position) = HeaderValue::try_from(position.to_string())
    {
        response.headers_mut().insert(POSITION, position);
    }
    Ok(response)
}

/// The filter of the path of a request, if the leader of its lane has to answer: `None`
/// where there is none, or no filter can be called so. And whether that is a question
/// about all that was acknowledged before it.
///
/// # Errors
/// A header that makes no sense.
async fn for_leader(
    requirement: RouteRequirement,
    parts: &mut Parts,
) -> Result<(Option<FilterName>, bool)> {
    let is_strong = is_strong(&parts.headers)?;
    let path = parts.extensions.get::<MatchedPath>();
    let path = path.map_or("", MatchedPath::as_str);
    let about = about(requirement, &parts.method, path);
    let filter = match about {
        About::Pod => None,
        About::Question if !is_strong => None,
        _ => filter_of(parts).await,
    };
    Ok((filter, is_strong && about != About::Change))
}

/// Whether a question is about everything that was acknowledged before it.
///
/// # Errors
/// The header makes no sense.
fn is_strong(headers: &HeaderMap) -> Result<bool> {
    match headers.get(CONSISTENCY).map(HeaderValue::as_bytes) {
        None | Some(b"local") => Ok(false),
        Some(b"strong") => Ok(true),
        Some(other) => {
            let given = excerpt(&String::from_utf8_lossy(other));
            Err(HttpError::InvalidConsistency { given })
        }
    }
}

/// Sees that a request to a server in no cluster asks for what it can have. Its answers
/// have all that it acknowledged, but it can't tell whether they have a change that a
/// pod was asked for.
///
/// # Errors
/// It asks for a position, or a header makes no sense.
pub(crate) fn check_outside_cluster(headers: &HeaderMap) -> Result<()> {
    if headers.contains_key(MIN_POSITION) {
        return Err(HttpError::NoPositions);
    }
    is_strong(headers).map(drop)
}

/// What a route is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// It changes the filter of its path.
    Change,
    /// It asks for the filter of its path.
    Question,
    /// It asks for what only the leader knows of it.
    Leader,
    /// The pod, or all of its filters.
    Pod,
}

pub(crate) fn about(requirement: RouteRequirement, method: &Method, path: &str) -> About {
    let is_question =
        [Method::GET, Method::HEAD].contains(method) || requirement.scope <= Some(Scope::Read);
    match requirement.resource {
        ResourceScope::Narrowed | ResourceScope::Server => About::Pod,
        ResourceScope::Filter if !is_question => About::Change,
        // Only the leader knows how far a compaction is.
        ResourceScope::Filter if path == "/filters/{key}/compaction" => About::Leader,
        ResourceScope::Filter => About::Question,
    }
}

/// Waits until this pod has all that was acknowledged for a filter before, whoever leads
/// its lane: that pod is asked where it stands.
///
/// # Errors
/// Nobody can say in time, or this pod does not come so far.
pub(crate) async fn catch_up(
    app: &App,
    engine: &Engine,
    headers: &HeaderMap,
    filter: &FilterName,
) -> Result<()> {
    let Some(cluster) = app.cluster() else {
        return Ok(());
    };
    let until = Instant::now() + LEADER_PATIENCE;
    let (engine, nobody) = (engine.until(until), ForwardedBy::default());
    let route = cluster.strong_route(&engine, filter, &nobody, until);
    let Some(address) = route.await? else {
        return Ok(());
    };
    let key = headers.get_all(AUTHORIZATION).iter();
    let mut asks: HeaderMap = key.map(|it| (AUTHORIZATION, it.clone())).collect();
    asks.insert(CONSISTENCY, HeaderValue::from_static("strong"));
    let asked = Forwarded {
        method: Method::GET,
        path: path_of(filter),
        headers: asks,
        body: reqwest::Body::default(),
        until: Some(until),
    };
    let overdue = sleep_until((until + GRACE).into());
    let answered = cluster.forward(&address, asked, overdue).await;
    let answered = answered.map_err(|_| EngineError::NotLeading)?;
    let position = answered.headers().get(POSITION);
    match position.and_then(|it| RecordPosition::parse(it.to_str().ok()?)) {
        Some(position) => Ok(engine.reached(position.lane, position.sequence).await?),
        // There is no such filter.
        None if answered.status() == StatusCode::NOT_FOUND => Ok(()),
        None => Err(EngineError::NotLeading.into()),
    }
}

/// The filter of the path. One that can't be is refused by its handler.
pub(crate) async fn filter_of(parts: &mut Parts) -> Option<FilterName> {
    let params = RawPathParams::from_request_parts(parts, &()).await.ok()?;
    let (_, key) = params.iter().find(|(name, _)| *name == "key")?;
    FilterName::parse(key).ok()
}

/// The positions that an answer must take into account.
///
/// # Errors
/// One is none of this cluster.
pub(super) fn min_positions(headers: &HeaderMap, engine: &Engine) -> Result<Vec<RecordPosition>> {
    let values = headers.get_all(MIN_POSITION).iter();
    let texts: Vec<_> = values
        .map(|it| String::from_utf8_lossy(it.as_bytes()))
        .collect();
    let given = texts.iter().flat_map(|it| it.split(','));
    RecordPosition::newest(given, engine).map_err(|given| HttpError::InvalidPosition {
        given: excerpt(given),
    })
}
