//! What answers take in memory while their clients read them.
//!
//! An answer is there as a whole before its first byte is sent, and stays until
//! the client has taken it. Large ones have a bound of their own, so that
//! clients who read nothing leave room for those who ask. A change takes what
//! its answer may need before it is made, since what was done must be answered;
//! a question is refused after the fact.
//!
//! Small answers count with their connection, and so do the pieces of answers
//! that are made while they are sent.

use super::body::permits;
use crate::http::App;
use crate::http::problem::HttpError;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::Method;
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Answers up to this size count with their connection.
pub(crate) const FREE_BYTES: usize = 64 << 10;

/// Answers may take one part in so many of what bodies may.
const ANSWERS_PART: usize = 4;

/// Memory that answers together may take.
#[derive(Debug)]
pub(crate) struct AnswersBound {
    free: Arc<Semaphore>,
    permits: usize,
}

impl AnswersBound {
    /// Beside so many bytes of bodies.
    pub(crate) fn beside(bodies: usize) -> AnswersBound {
        let permits = permits(bodies / ANSWERS_PART).max(1);
        AnswersBound {
            free: Arc::new(Semaphore::new(permits)),
            permits,
        }
    }

    /// Permits for an answer. One that is larger than all may be takes all.
    fn needed(&self, bytes: usize) -> u32 {
        u32::try_from(permits(bytes).min(self.permits)).unwrap_or(u32::MAX)
    }

    /// Takes memory for an answer of so many bytes; `None`: it needs none of
    /// its own.
    ///
    /// # Errors
    /// There is none left.
    pub(crate) fn take(&self, bytes: usize) -> Result<Option<AnswerMemory>, HttpError> {
        if bytes <= FREE_BYTES {
            return Ok(None);
        }
        let permit = Arc::clone(&self.free).try_acquire_many_owned(self.needed(bytes));
        match permit {
            Ok(permit) => Ok(Some(AnswerMemory(permit))),
            Err(_) => Err(HttpError::TooManyAnswers),
        }
    }

    /// The same, waiting for it.
    async fn wait_for(&self, bytes: usize) -> Option<AnswerMemory> {
        let permit = Arc::clone(&self.free).acquire_many_owned(self.needed(bytes));
        // Nobody closes it.
        permit.await.ok().map(AnswerMemory)
    }
}

/// Memory that an answer takes.
#[derive(Debug)]
pub(crate) struct AnswerMemory(OwnedSemaphorePermit);

impl AnswerMemory {
    /// Gives back what is more than so many permits.
    fn shrink_to(&mut self, permits: u32) {
        let over = self.0.num_permits().saturating_sub(permits as usize);
        drop(self.0.split(over));
    }
}

/// Marks a response whose body is in memory as a whole, and too large to count
/// with its connection.
#[derive(Clone)]
pub(crate) struct InMemory {
    /// What was taken for it before it was made.
    pub(crate) taken: Option<Arc<AnswerMemory>>,
}

/// Has a large answer count against the bound until its last byte is sent.
///
/// # Errors
/// There is no memory left for it, and it answers a question.
pub(crate) async fn charge(
    app: &App,
    method: &Method,
    mut response: Response,
) -> Result<Response, HttpError> {
    let Some(InMemory { taken }) = response.extensions_mut().remove() else {
        return Ok(response);
    };
    let bytes = response.body().size_hint().lower();
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let memory = match taken.and_then(Arc::into_inner) {
        Some(mut memory) => {
            memory.shrink_to(app.answers.needed(bytes));
            Some(memory)
        }
        // What these did can't be said to have been refused.
        None if [Method::PUT, Method::PATCH].contains(method) => app.answers.wait_for(bytes).await,
        None => app.answers.take(bytes)?,
    };
    let Some(memory) = memory else {
        return Ok(response);
    };
    let memory = Arc::new(memory);
    Ok(response.map(|body| Body::new(Charged { body, memory })))
}

/// A body whose bytes, wherever they wait to be sent, hold their memory.
struct Charged {
    body: Body,
    memory: Arc<AnswerMemory>,
}

/// Bytes that hold their memory.
struct ChargedBytes {
    bytes: Bytes,
    #[expect(dead_code, reason = "held only to be let go with the bytes")]
    memory: Arc<AnswerMemory>,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl HttpBody for Charged {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| {
                frame.map_data(|bytes| {
                    Bytes::from_owner(ChargedBytes {
                        bytes,
                        memory: Arc::clone(&this.memory),
                    })
                })
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::answer::{Format, Word, results};
    use crate::http::{HostPolicy, Limits};
    use crate::metrics::Metrics;
    use http_body_util::BodyExt as _;

    fn app(max_buffered_bytes: usize) -> Arc<App> {
        let limits = Limits {
            max_buffered_bytes,
            ..Limits::default()
        };
        let metrics = Arc::new(Metrics::new().unwrap());
        App::new(metrics, limits, HostPolicy::LocalOnly)
    }

    fn answer(items: usize, taken: Option<AnswerMemory>) -> Response {
        let words = (0..items).map(|_| Word::Flag(true));
        results(Format::Json, words, &[], None, taken)
    }

    fn free(app: &App) -> usize {
        app.answers.free.available_permits()
    }

    #[tokio::test]
    async fn an_answer_counts_until_its_last_byte_is_dropped() {
        let app = app(1 << 20);
        assert_eq!(free(&app), 256);
        let small = charge(&app, &Method::POST, answer(1000, None))
            .await
            .unwrap();
        assert_eq!(free(&app), 256);
        drop(small);
        // 150 KB, rounded up.
        let large = charge(&app, &Method::POST, answer(30_000, None));
        let mut body = large.await.unwrap().into_body();
        assert_eq!(free(&app), 256 - 147);
        let bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(body.frame().await.is_none());
        drop(body);
        assert_eq!(free(&app), 256 - 147);
        let half = bytes.slice(0..10);
        drop(bytes);
        assert_eq!(free(&app), 256 - 147);
        drop(half);
        assert_eq!(free(&app), 256);
    }

    #[tokio::test]
    async fn a_question_is_refused_for_want_of_memory_and_a_change_has_it_beforehand() {
        let app = app(1 << 20);
        let taken = app.answers.take(200 << 10).unwrap();
        assert!(taken.is_some());
        assert_eq!(free(&app), 56);
        let refused = charge(&app, &Method::POST, answer(30_000, None)).await;
        assert!(matches!(refused, Err(HttpError::TooManyAnswers)));
        assert!(matches!(
            app.answers.take(100 << 10),
            Err(HttpError::TooManyAnswers)
        ));
        // What was taken too much is given back.
        let change = charge(&app, &Method::POST, answer(30_000, taken));
        let change = change.await.unwrap();
        assert_eq!(free(&app), 256 - 147);
        drop(change);
        assert_eq!(free(&app), 256);
        // One that is larger than all may be is answered, alone.
        let most = charge(&app, &Method::POST, answer(300_000, None));
        let most = most.await.unwrap();
        assert_eq!(free(&app), 0);
        // Who has changed something waits for its turn.
        let waits = charge(&app, &Method::PATCH, answer(30_000, None));
        let (changed, ()) = tokio::join!(waits, async { drop(most) });
        assert_eq!(free(&app), 256 - 147);
        drop(changed);
    }
}
