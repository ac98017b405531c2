//! Commands of the Redis protocol between pods. A pod sends those that concern lanes
//! of another one there, as they came, and gets the replies back as they are to be
//! sent. Here they are only bytes: what works on them is handed in.

use super::forward::{Forwarded, GRACE, said, unanswered};
use super::headers::{CONSISTENCY, FORWARDED_BY, MIN_POSITION, POSITION};
use super::pod::Cluster;
use super::position::RecordPosition;
use crate::engine::EngineError;
use crate::principal::Principal;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use bytes::Bytes;
use futures_util::stream;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::{sleep_until, timeout_at};

/// Where pods send them.
pub const PATH: &str = "/internal/commands";

/// The version of the protocol that the replies are written in.
pub const VERSION: HeaderName = HeaderName::from_static("cuckood-redis-version");

/// The pods that have forwarded something, the first one first.
#[derive(Clone, Debug, Default)]
pub struct ForwardedBy(Vec<HeaderValue>);

impl ForwardedBy {
    /// Those that a request names.
    pub fn of(headers: &HeaderMap) -> ForwardedBy {
        ForwardedBy(headers.get_all(FORWARDED_BY).iter().cloned().collect())
    }

    /// Whether a client sent it here.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it comes from that pod.
    pub(crate) fn has_passed(&self, pod: &str) -> bool {
        self.0.iter().any(|by| by.as_bytes() == pod.as_bytes())
    }

    /// Whether it goes on to another pod: the first time, and once more where the
    /// lane was handed over meanwhile.
    pub(crate) fn may_go_on(&self) -> bool {
        self.0.len() < 2
    }
}

/// What goes with commands that are forwarded.
#[derive(Clone)]
pub struct CommandsHead {
    /// The API key of the client, as it was shown.
    pub token: Option<Arc<str>>,
    /// The version of the replies.
    pub version: u8,
    /// Whether questions are about all that was acknowledged before.
    pub is_strong: bool,
    /// What questions are to take into account.
    pub positions: Vec<RecordPosition>,
    /// Who has forwarded them.
    pub forwarded_by: ForwardedBy,
    /// Until when the caller waits.
    pub until: Instant,
}

/// What came of them.
pub struct CommandReplies {
    /// One behind the other, as many as there were commands.
    pub bytes: Bytes,
    /// Where the lanes stand that were changed.
    pub positions: Vec<RecordPosition>,
}

/// What a worker came to: its replies, and where the lanes stand that it may have
/// changed.
pub type Worked = (Vec<u8>, Vec<RecordPosition>);

/// Works on commands that another pod has forwarded.
pub trait CommandWorker: Send + Sync {
    /// Works on them.
    fn work(
        &self,
        caller: Principal,
        head: CommandsHead,
        commands: Bytes,
    ) -> Pin<Box<dyn Future<Output = Worked> + Send + '_>>;
}

/// Why commands that were forwarded have no replies.
pub enum NotForwarded {
    /// As the engine would say it.
    Engine(EngineError),
    /// The other pod refuses them as a whole; nothing was done.
    Refused {
        /// Whether it may take them a little later.
        may_retry: bool,
        /// What it said.
        detail: String,
    },
}

impl CommandsHead {
    /// As the headers of a request say it.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut say = |name: HeaderName, said: String| {
            if let Ok(said) = HeaderValue::try_from(said) {
                headers.insert(name, said);
            }
        };
        say(VERSION, self.version.to_string());
        if let Some(token) = &self.token {
            say(AUTHORIZATION, format!("Bearer {token}"));
        }
        if self.is_strong {
            say(CONSISTENCY, "strong".to_owned());
        }
        if !self.positions.is_empty() {
            say(MIN_POSITION, RecordPosition::list(&self.positions));
        }
        for pod in &self.forwarded_by.0 {
            headers.append(FORWARDED_BY, pod.clone());
        }
        headers
    }
}

impl Cluster {
    /// Has another pod work on commands, which come in pieces.
    ///
    /// # Errors
    /// It did not, or did not say so in time.
    pub async fn forward_commands(
        &self,
        address: &str,
        head: &CommandsHead,
        commands: impl Iterator<Item = Bytes> + Send + Sync + 'static,
    ) -> Result<CommandReplies, NotForwarded> {
        let forwarded = Forwarded {
            method: Method::POST,
            path: PATH.to_owned(),
            headers: head.headers(),
            body: body_of(commands),
            until: Some(head.until),
        };
        let overdue = (head.until + GRACE).into();
        let answer = self.forward(address, forwarded, sleep_until(overdue));
        let answer = answer.await.map_err(NotForwarded::Engine)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let bytes = match timeout_at(overdue, answer.bytes()).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return Err(NotForwarded::Engine(unanswered(address, &error))),
            Err(_) => return Err(NotForwarded::Engine(EngineError::LogSilent)),
        };
        if !status.is_success() {
            return Err(NotForwarded::Refused {
                may_retry: [429, 503].contains(&status.as_u16()),
                detail: said(&bytes, "detail").unwrap_or_else(|| format!("it answered {status}")),
            });
        }
        let positions = headers.get(POSITION).and_then(|it| it.to_str().ok());
        let positions = positions.unwrap_or_default().split(',');
        Ok(CommandReplies {
            bytes,
            positions: positions.filter_map(RecordPosition::parse).collect(),
        })
    }
}

/// Few are sent as they are, so that they need not be put together again.
fn body_of(mut commands: impl Iterator<Item = Bytes> + Send + Sync + 'static) -> reqwest::Body {
    let (first, second) = (commands.next().unwrap_or_default(), commands.next());
    let Some(second) = second else {
        return first.into();
    };
    let all = [first, second].into_iter().chain(commands);
    reqwest::Body::wrap_stream(stream::iter(all.map(Ok::<_, Infallible>)))
}
