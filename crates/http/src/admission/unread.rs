//! What becomes of a request's body when the request is refused before all of
//! it was read.
//!
//! A client that is still sending does not read its answer, and a connection
//! that is closed on unread bytes may lose it. So what is left of a refused body
//! is read and thrown away, within bounds. If its end came the connection goes
//! on, otherwise the answer says that it ends. A client that waits for `100
//! (Continue)` sends nothing until it is told to: a refusal does not tell it to,
//! and ends the connection, since the body may follow or not.

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::Version;
use axum::http::header::EXPECT;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::timeout;

/// How long, and how far, a refused body is read on.
pub(crate) const LINGER: Duration = Duration::from_secs(2);
pub(crate) const SHORT_LINGER: Duration = Duration::from_millis(250);
const LINGER_BYTES: usize = 64 << 20;

/// What is left of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing: another request may follow.
    Nothing,
    /// Something, or that is not known: nothing can follow.
    Something,
}

/// The body of a request that is being answered; none costs nothing.
pub(crate) struct UnreadBody(Option<SharedBody>);

impl UnreadBody {
    /// Shares the body of a request with the handler that is to read it.
    pub(crate) fn of(request: &mut Request) -> UnreadBody {
        if request.body().is_end_stream() {
            return UnreadBody(None);
        }
        let expects = request.headers().get(EXPECT).is_some_and(|expected| {
            request.version() == Version::HTTP_11
                && expected.as_bytes().eq_ignore_ascii_case(b"100-continue")
        });
        let body = std::mem::take(request.body_mut());
        let shared = SharedBody(Arc::new(Mutex::new(PartlyRead {
            body,
            is_awaited: expects,
        })));
        *request.body_mut() = Body::new(SharedBody::clone(&shared));
        UnreadBody(Some(shared))
    }

    /// Reads on for so long without keeping anything, unless the client waits
    /// to be told to send.
    pub(crate) async fn discard(self, linger: Duration) -> Rest {
        match self.0 {
            None => Rest::Nothing,
            Some(shared) if shared.is_end_stream() => Rest::Nothing,
            Some(shared) if shared.0.lock().is_awaited => Rest::Something,
            // In a box of its own, since few requests come here.
            Some(shared) => Box::pin(discard(shared, linger)).await,
        }
    }
}

async fn discard(mut body: SharedBody, linger: Duration) -> Rest {
    let reading = async {
        let mut left = LINGER_BYTES;
        while let Some(frame) = body.frame().await {
            let length = frame.ok()?.data_ref().map_or(0, Bytes::len);
            left = left.checked_sub(length)?;
        }
        Some(())
    };
    match timeout(linger, reading).await {
        Ok(Some(())) => Rest::Nothing,
        Ok(None) | Err(_) => Rest::Something,
    }
}

#[derive(Clone)]
struct SharedBody(Arc<Mutex<PartlyRead>>);

struct PartlyRead {
    body: Body,
    /// Whether the client sends nothing of it until it is read.
    is_awaited: bool,
}

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut shared = self.0.lock();
        shared.is_awaited = false;
        Pin::new(&mut shared.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().body.size_hint()
    }
}
