//! Layers that are one function each.
//!
//! As the framework's own `from_fn`, but the service within is not put into a
//! box of its own for each request: every route is behind two of these.

use axum::extract::Request;
use axum::response::Response;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// A service that a layer stands around.
pub(super) trait Within:
    Service<Request, Response = Response, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Within for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// What stands around a service.
pub(super) trait Around: Send + Sync + 'static {
    /// Answers a request, mostly by asking the service within. Never fails.
    ///
    /// An `async fn` keeps its arguments beside the variables that they are
    /// moved to, and so has the request twice; a block that captures them has
    /// it once. These futures are put into boxes, and a box of up to 1 KiB costs
    /// a fraction of a larger one.
    fn answer<S: Within>(
        self: Arc<Self>,
        request: Request,
        within: S,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send;
}

/// The layer of something that stands around services.
pub(super) struct AroundLayer<A>(Arc<A>);

impl<A> AroundLayer<A> {
    pub(super) fn new(around: A) -> AroundLayer<A> {
        AroundLayer(Arc::new(around))
    }
}

impl<A> Clone for AroundLayer<A> {
    fn clone(&self) -> Self {
        AroundLayer(Arc::clone(&self.0))
    }
}

impl<A, S> Layer<S> for AroundLayer<A> {
    type Service = Surrounded<A, S>;

    fn layer(&self, within: S) -> Surrounded<A, S> {
        Surrounded {
            around: Arc::clone(&self.0),
            within: Arc::new(within),
        }
    }
}

/// A service and what stands around it.
pub(super) struct Surrounded<A, S> {
    around: Arc<A>,
    /// Shared, because routes are copied more often than they are asked.
    within: Arc<S>,
}

impl<A, S> Clone for Surrounded<A, S> {
    fn clone(&self) -> Self {
        Surrounded {
            around: Arc::clone(&self.around),
            within: Arc::clone(&self.within),
        }
    }
}

impl<A: Around, S: Within> Service<Request> for Surrounded<A, S> {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    /// Routes are always ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (around, within) = (Arc::clone(&self.around), S::clone(&self.within));
        Box::pin(around.answer(request, within))
    }
}
