//! Where a request is answered in a cluster, and what it waits for before.

use super::pod::Cluster;
use super::position::LanePosition;
use crate::access::Scope;
use crate::engine::{Engine, EngineError, FilterName};
use crate::http::App;
use crate::http::admission::deadline::Deadline;
use crate::http::headers::{CONSISTENCY, MIN_POSITION, PASSED_ON_BY, POSITION};
use crate::http::middleware::layer::InnerService;
use crate::http::middleware::principal::Principal;
use crate::http::middleware::requirement::{ResourceScope, RouteRequirement};
use crate::http::problem::{HttpError, excerpt};
use crate::replication::Leader;
use axum::extract::{FromRequestParts as _, MatchedPath, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::{IntoResponse as _, Response};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a change waits for somebody to lead its lane.
const LEADER_PATIENCE: Duration = Duration::from_secs(2);

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// What a request asks for.
struct Asked {
    /// The filter of its path; `None`: it has none, or no filter can be called so.
    filter: Option<FilterName>,
    /// Whether the leader of the filter's lane has to answer it.
    is_for_leader: bool,
    /// Whether it changes the filter.
    is_change: bool,
    /// Whether it is about what was acknowledged before it was asked.
    is_strong: bool,
}

impl Cluster {
    /// Answers a request, here or elsewhere.
    pub(in crate::http) async fn answer<S: InnerService>(
        &self,
        app: &App,
        requirement: RouteRequirement,
        request: Request,
        inner: S,
    ) -> Result<Response, Infallible> {
        let answered = self.try_answer(app, requirement, request, inner).await;
        Ok(answered.into_response())
    }

    async fn try_answer<S: InnerService>(
        &self,
        app: &App,
        requirement: RouteRequirement,
        request: Request,
        mut inner: S,
    ) -> Result<Response, HttpError> {
        let (mut parts, body) = request.into_parts();
        // Before there is an engine the answer says so.
        let engine = app.engine()?;
        let asked = asked(requirement, &mut parts).await?;
        let until = Deadline::of_parts(&parts).map(|Deadline(until)| until);
        let here = match (&asked.filter, asked.is_for_leader) {
            (Some(filter), true) => match self.place(engine, filter, &parts, until).await? {
                Place::Here { lane } => Some(lane),
                Place::At(address) => {
                    let limit = app.admission.limits.request_timeout;
                    let request = Request::from_parts(parts, body);
                    return self.pass_on(&address, request, until, limit).await;
                }
            },
            _ => None,
        };
        let caller = parts
            .extensions
            .get::<Principal>()
            .cloned()
            .unwrap_or_default();
        let waiting = engine.for_caller(caller.caller(Deadline::of_parts(&parts)));
        if let (Some(lane), false, true) = (here, asked.is_change, asked.is_strong) {
            waiting.barrier(lane).await?;
        }
        for position in min_positions(&parts.headers, engine)? {
            waiting.reached(position.lane, position.sequence).await?;
        }
        let answered = inner.call(Request::from_parts(parts, body)).await;
        let mut response = answered.unwrap_or_else(|never| match never {});
        if let Some(filter) = &asked.filter
            && asked.is_for_leader
            && response.status().is_success()
            && let Some(position) = LanePosition::now(engine, filter)
        {
            response.headers_mut().insert(POSITION, position.header());
        }
        Ok(response)
    }

    /// Where a change is done. Waits a little while nobody leads.
    ///
    /// # Errors
    /// [`EngineError::NotLeading`].
    async fn place(
        &self,
        engine: &Engine,
        filter: &FilterName,
        parts: &Parts,
        until: Option<Instant>,
    ) -> Result<Place, HttpError> {
        let lane = engine.lane_of(filter);
        let patience = Instant::now() + LEADER_PATIENCE;
        let until = until.map_or(patience, |it| it.min(patience));
        loop {
            let state = engine.lane_state(lane);
            // One that leads no more, or has stopped, says so itself.
            if state.as_ref().is_some_and(|it| it.leads) {
                return Ok(Place::Here { lane });
            }
            match self.leaders.of(lane) {
                Some(Leader::At(address)) if !parts.headers.contains_key(PASSED_ON_BY) => {
                    return Ok(Place::At(address));
                }
                _ if state.is_some_and(|it| it.halted.is_some()) => {
                    return Ok(Place::Here { lane });
                }
                _ if Instant::now() >= until => return Err(EngineError::NotLeading.into()),
                _ => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }
}

/// Where a change is done.
enum Place {
    Here { lane: u32 },
    At(Arc<str>),
}

/// What a request asks for, as far as its head says.
///
/// # Errors
/// A header that makes no sense.
async fn asked(requirement: RouteRequirement, parts: &mut Parts) -> Result<Asked, HttpError> {
    let is_strong = match parts.headers.get(CONSISTENCY).map(HeaderValue::as_bytes) {
        None | Some(b"local") => false,
        Some(b"strong") => true,
        Some(other) => {
            let given = excerpt(&String::from_utf8_lossy(other));
            return Err(HttpError::InvalidConsistency { given });
        }
    };
    // Only the leader knows how far a compaction is.
    let path = parts
        .extensions
        .get::<MatchedPath>()
        .map(MatchedPath::as_str);
    let is_leaders = path == Some("/filters/{key}/compaction");
    let is_of_filter = requirement.resource == ResourceScope::Filter;
    let is_question = [Method::GET, Method::HEAD].contains(&parts.method)
        || requirement.scope <= Some(Scope::Read);
    let filter = match is_of_filter {
        true => filter_of(parts).await,
        false => None,
    };
    Ok(Asked {
        is_change: filter.is_some() && !is_question,
        is_for_leader: filter.is_some() && (!is_question || is_strong || is_leaders),
        is_strong,
        filter,
    })
}

/// The filter of the path. One that can't be is refused by its handler.
async fn filter_of(parts: &mut Parts) -> Option<FilterName> {
    let params = RawPathParams::from_request_parts(parts, &()).await.ok()?;
    let (_, key) = params.iter().find(|(name, _)| *name == "key")?;
    FilterName::parse(key).ok()
}

/// The positions that an answer must take into account.
///
/// # Errors
/// One is none of this cluster.
fn min_positions(headers: &HeaderMap, engine: &Engine) -> Result<Vec<LanePosition>, HttpError> {
    let mut positions = Vec::new();
    for value in headers.get_all(MIN_POSITION) {
        let text = String::from_utf8_lossy(value.as_bytes());
        for given in text.split(',').map(str::trim) {
            let position = LanePosition::parse(given).filter(|it| it.is_of(engine));
            let given = || excerpt(given);
            positions.push(position.ok_or_else(|| HttpError::InvalidPosition { given: given() })?);
        }
    }
    Ok(positions)
}
