//! Where a request is answered in a cluster, and what it waits for before.

use super::passed::PassedOnBy;
use super::pod::Cluster;
use super::position::LanePosition;
use crate::access::Scope;
use crate::engine::{Engine, EngineError, FilterName};
use crate::http::App;
use crate::http::admission::deadline::Deadline;
use crate::http::headers::{CONSISTENCY, MIN_POSITION, POSITION};
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
pub(crate) const LEADER_PATIENCE: Duration = Duration::from_secs(2);

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
        let caller = parts
            .extensions
            .get::<Principal>()
            .cloned()
            .unwrap_or_default();
        let waiting = engine.for_caller(caller.caller(Deadline::of_parts(&parts)));
        let passed_on_by = PassedOnBy::of(&parts.headers);
        let place = self.place_of(&asked, &waiting, &passed_on_by, until);
        if let Some(Place::At(address)) = place.await? {
            let request = Request::from_parts(parts, body);
            return self.pass_on(app, &caller, &address, request).await;
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

    /// Where a request is answered, if that matters; a strong question here only if
    /// this pod has all that was acknowledged before.
    ///
    /// # Errors
    /// [`EngineError::NotLeading`], or the log does not answer.
    async fn place_of(
        &self,
        asked: &Asked,
        engine: &Engine,
        passed_on_by: &PassedOnBy,
        until: Option<Instant>,
    ) -> Result<Option<Place>, EngineError> {
        let (Some(filter), true) = (&asked.filter, asked.is_for_leader) else {
            return Ok(None);
        };
        let patience = Instant::now() + LEADER_PATIENCE;
        loop {
            let place = self.place(engine, filter, passed_on_by, until).await?;
            let Place::Here { lane } = place else {
                return Ok(Some(place));
            };
            if asked.is_change || !asked.is_strong {
                return Ok(Some(place));
            }
            match engine.barrier(lane).await {
                Ok(()) => return Ok(Some(place)),
                // Another pod will, in a moment.
                Err(EngineError::NotLeading) if Instant::now() < patience => {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Where a change is done. Waits a little while nobody leads.
    ///
    /// # Errors
    /// [`EngineError::NotLeading`].
    pub(super) async fn place(
        &self,
        engine: &Engine,
        filter: &FilterName,
        passed_on_by: &PassedOnBy,
        until: Option<Instant>,
    ) -> Result<Place, EngineError> {
        let lane = engine.lane_of(filter);
        let patience = Instant::now() + LEADER_PATIENCE;
        let until = until.map_or(patience, |it| it.min(patience));
        loop {
            let state = engine.lane_state(lane);
            // One that leads no more says so itself. So does one that has stopped: whoever
            // leads elsewhere may have less than it.
            if state.is_some_and(|it| it.leads() || it.halted.is_some()) {
                return Ok(Place::Here { lane });
            }
            match self.leaders.of(lane) {
                Some(Leader::At(address)) if passed_on_by.may_go_on(&address) => {
                    return Ok(Place::At(address));
                }
                _ if Instant::now() >= until => return Err(EngineError::NotLeading),
                _ => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }
}

/// Where a change is done.
pub(super) enum Place {
    Here { lane: u32 },
    At(Arc<str>),
}

/// What a request asks for, as far as its head says.
///
/// # Errors
/// A header that makes no sense.
async fn asked(requirement: RouteRequirement, parts: &mut Parts) -> Result<Asked, HttpError> {
    let is_strong = is_strong(&parts.headers)?;
    let path = parts.extensions.get::<MatchedPath>();
    let path = path.map_or("", MatchedPath::as_str);
    let about = about(requirement, &parts.method, path);
    let filter = match about {
        About::Pod => None,
        _ => filter_of(parts).await,
    };
    let is_leaders = is_strong || about != About::Question;
    Ok(Asked {
        is_change: filter.is_some() && about == About::Change,
        is_for_leader: filter.is_some() && is_leaders,
        is_strong,
        filter,
    })
}

/// Whether a question is about everything that was acknowledged before it.
///
/// # Errors
/// The header makes no sense.
fn is_strong(headers: &HeaderMap) -> Result<bool, HttpError> {
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
pub(in crate::http) fn check_outside_cluster(headers: &HeaderMap) -> Result<(), HttpError> {
    if headers.contains_key(MIN_POSITION) {
        return Err(HttpError::NoPositions);
    }
    is_strong(headers).map(drop)
}

/// What a route is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum About {
    /// It changes the filter of its path.
    Change,
    /// It asks for the filter of its path.
    Question,
    /// It asks for what only the leader knows of it.
    Leader,
    /// The pod, or all of its filters.
    Pod,
}

pub(in crate::http) fn about(requirement: RouteRequirement, method: &Method, path: &str) -> About {
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
pub(super) fn min_positions(
    headers: &HeaderMap,
    engine: &Engine,
) -> Result<Vec<LanePosition>, HttpError> {
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
