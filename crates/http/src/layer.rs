//! Layers that are one function each.
//!
//! As the framework's own `from_fn`, but the inner service is not put into a
//! box of its own for each request: every route is behind two of these.

use axum::extract::Request;
use axum::response::Response;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// A service that a middleware asks.
pub(crate) trait InnerService:
    Service<Request, Response = Response, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> InnerService for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Answers requests, mostly by asking an inner service.
pub(crate) trait Middleware: Send + Sync + 'static {
    /// Answers a request. Never fails.
    ///
    /// An `async fn` keeps its arguments beside the variables that they are
    /// moved to, and so has the request twice; a block that captures them has
    /// it once. These futures are put into boxes, and a box of up to 1 KiB costs
    /// a fraction of a larger one.
    fn answer<S: InnerService>(
        self: Arc<Self>,
        request: Request,
        inner: S,
    ) -> impl Future<Output = Result<Response, Infallible>> + Send;
}

/// The layer of a middleware.
#[derive(Clone)]
pub(crate) struct MiddlewareLayer<M>(Arc<M>);

impl<M> MiddlewareLayer<M> {
    pub(crate) fn new(middleware: M) -> MiddlewareLayer<M> {
        MiddlewareLayer(Arc::new(middleware))
    }
}

impl<M, S> Layer<S> for MiddlewareLayer<M> {
    type Service = MiddlewareService<M, S>;

    fn layer(&self, inner: S) -> MiddlewareService<M, S> {
        MiddlewareService {
            middleware: Arc::clone(&self.0),
            inner: Arc::new(inner),
        }
    }
}

/// A service behind a middleware.
#[derive(Clone)]
pub(crate) struct MiddlewareService<M, S> {
    middleware: Arc<M>,
    /// Shared, because routes are copied more often than they are asked.
    inner: Arc<S>,
}

impl<M: Middleware, S: InnerService> Service<Request> for MiddlewareService<M, S> {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    /// Routes are always ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (middleware, inner) = (Arc::clone(&self.middleware), S::clone(&self.inner));
        Box::pin(middleware.answer(request, inner))
    }
}
