//! Bodies whose pieces go through a function while they are sent.

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A body whose pieces go through `map`, which does not change their length:
/// unlike the HTTP library's own it still tells how long it is.
pub(crate) struct MappedBody<F> {
    body: Body,
    map: F,
}

impl<F> MappedBody<F> {
    pub(crate) fn new(body: Body, map: F) -> MappedBody<F> {
        MappedBody { body, map }
    }
}

impl<F: FnMut(Bytes) -> Bytes + Unpin> HttpBody for MappedBody<F> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(&mut this.map))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
