//! Compressed bodies, both ways. Requests that speak of no encoding don't pass these layers at all.

use super::layer::InnerService;
use crate::http::media::{DUMP, TAR};
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderName;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use axum::response::Response;
use futures_util::future::Either;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt as _};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate};
use tower_http::decompression::{DecompressionBody, RequestDecompressionLayer};

type Boxed = BoxCloneSyncService<Request, Response, Infallible>;

/// What is done to bodies for requests with a header.
pub(crate) trait Coding: Clone + Send + Sync + 'static {
    /// The header.
    fn header(&self) -> HeaderName;

    /// The service with its bodies coded.
    fn coded<S: InnerService>(&self, inner: S) -> Boxed;
}

/// Answers are compressed where the client takes them so, but for dumps and
/// backups: they are long, compress badly, and have a length to go by.
#[derive(Clone)]
pub(crate) struct Compressed;

impl Coding for Compressed {
    fn header(&self) -> HeaderName {
        ACCEPT_ENCODING
    }

    fn coded<S: InnerService>(&self, inner: S) -> Boxed {
        let worthwhile = DefaultPredicate::new()
            .and(NotForContentType::const_new(TAR))
            .and(NotForContentType::const_new(DUMP));
        let layer = CompressionLayer::new().compress_when(worthwhile);
        let compressed = layer.layer(inner);
        Boxed::new(compressed.map_response(|response| response.map(Body::new)))
    }
}

/// Bodies that come compressed are unpacked while they are read.
#[derive(Clone)]
pub(crate) struct Unpacked;

impl Coding for Unpacked {
    fn header(&self) -> HeaderName {
        CONTENT_ENCODING
    }

    fn coded<S: InnerService>(&self, inner: S) -> Boxed {
        type Unpacking = axum::http::Request<DecompressionBody<Body>>;
        let inner = inner.map_request(|request: Unpacking| request.map(Body::new));
        let unpacked = RequestDecompressionLayer::new().layer(inner);
        Boxed::new(unpacked.map_response(|response| response.map(Body::new)))
    }
}

/// The layer of a coding.
#[derive(Clone)]
pub(crate) struct CodingLayer<C>(pub(crate) C);

impl<C: Coding, S: InnerService> Layer<S> for CodingLayer<C> {
    type Service = Coded<C, S>;

    fn layer(&self, plain: S) -> Coded<C, S> {
        Coded {
            coded: Arc::new(self.0.coded(plain.clone())),
            plain,
            coding: self.0.clone(),
        }
    }
}

/// A service, as it is and with its bodies coded.
#[derive(Clone)]
pub(crate) struct Coded<C, S> {
    plain: S,
    /// Shared, since it is copied for every request and seldom asked.
    coded: Arc<Boxed>,
    coding: C,
}

impl<C: Coding, S: InnerService> Service<Request> for Coded<C, S> {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, <Boxed as Service<Request>>::Future>;

    /// Routes are always ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match request.headers().contains_key(self.coding.header()) {
            true => Either::Right(Boxed::clone(&self.coded).call(request)),
            false => Either::Left(self.plain.call(request)),
        }
    }
}
