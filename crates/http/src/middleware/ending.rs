//! Bodies that end with the API key of their request.
//!
//! What is there as a whole finishes whatever becomes of its key. A stream may
//! take hours, in either direction: it is cut off when its key expires or is removed, and
//! whoever reads it gets an error, never a shorter whole.

use crate::access::keys::{ApiKey, KeyEnd};
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::AbortHandle;

/// A body of a request: who reads it is told why it ends.
pub(super) fn request(key: Option<&Arc<ApiKey>>, body: Body) -> Body {
    match key.filter(|_| !body.is_end_stream()) {
        None => body,
        Some(key) => Body::new(EndingBody::new(key, body)),
    }
}

/// A body of an answer: its connection is cut off, if the answer is made while
/// it is sent. One that is there as a whole is sent.
pub(super) fn response(key: Option<&Arc<ApiKey>>, body: Body) -> Body {
    let Some(key) = key.filter(|_| body.size_hint().upper().is_none()) else {
        return body;
    };
    let mut ending = EndingBody::new(key, body);
    let (key, body) = (Arc::clone(key), Arc::clone(&ending.body));
    // Lets go of what it holds at the end of the key, even if nobody asks for more of it
    // then, since its client reads nothing.
    let reaper = tokio::spawn(async move {
        let end = key.ended().await;
        if body.lock().take().is_some() {
            let caller = key.name.as_str();
            tracing::info!(caller, %end, "an answer was cut off");
        }
    });
    ending.reaper = Some(reaper.abort_handle());
    Body::new(ending)
}

struct EndingBody {
    key: Arc<ApiKey>,
    /// `None`: it was cut off.
    body: Arc<Mutex<Option<Body>>>,
    /// Asked only while the body makes one wait.
    ended: Option<Pin<Box<dyn Future<Output = KeyEnd> + Send>>>,
    reaper: Option<AbortHandle>,
}

impl EndingBody {
    fn new(key: &Arc<ApiKey>, body: Body) -> EndingBody {
        EndingBody {
            key: Arc::clone(key),
            body: Arc::new(Mutex::new(Some(body))),
            ended: None,
            reaper: None,
        }
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<KeyEnd> {
        let key = &self.key;
        let ended = self.ended.get_or_insert_with(|| {
            let key = Arc::clone(key);
            Box::pin(async move { key.ended().await })
        });
        ended.as_mut().poll(context)
    }
}

impl Drop for EndingBody {
    fn drop(&mut self) {
        if let Some(reaper) = &self.reaper {
            reaper.abort();
        }
    }
}

impl HttpBody for EndingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let end = match this.key.end() {
            Some(end) => end,
            None => {
                match &mut *this.body.lock() {
                    // Cut off before, whatever the key is now.
                    None => return Poll::Ready(Some(Err(axum::Error::new(KeyEnd::Revoked)))),
                    Some(body) => {
                        if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
                            return Poll::Ready(frame);
                        }
                    }
                }
                ready!(this.poll_end(context))
            }
        };
        Poll::Ready(Some(Err(axum::Error::new(end))))
    }

    fn is_end_stream(&self) -> bool {
        let body = self.body.lock();
        body.as_ref().is_some_and(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.lock();
        body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}
