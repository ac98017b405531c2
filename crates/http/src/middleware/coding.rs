//! Compressed bodies, both ways. Requests that speak of no encoding don't pass these layers at all.

use crate::assets::AsItIs;
use crate::layer::InnerService;
use crate::media::{DUMP, TAR};
use crate::server::listen::polls::poll_under_way;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use axum::http::{Extensions, HeaderMap, HeaderName};
use axum::response::Response;
use futures_util::future::Either;
use hyper::body::{Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt as _};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate};
use tower_http::decompression::{DecompressionBody, RequestDecompressionLayer};

type Boxed = BoxCloneSyncService<Request, Response, Infallible>;

/// Answers are compressed where the client takes them so, but for dumps and
/// backups: they are long, compress badly, and have a length to go by.
pub(crate) fn compressed<S: InnerService>(plain: S) -> Coded<S> {
    let worthwhile = DefaultPredicate::new()
        .and(NotForContentType::const_new(TAR))
        .and(NotForContentType::const_new(DUMP))
        .and(|_, _, _: &HeaderMap, marks: &Extensions| marks.get::<AsItIs>().is_none());
    let layer = CompressionLayer::new().compress_when(worthwhile);
    let pieces = |body| InPieces {
        body,
        rest: Bytes::new(),
        given_in: None,
    };
    let in_pieces = plain
        .clone()
        .map_response(move |response: Response| response.map(|body| Body::new(pieces(body))));
    let compressed = layer.layer(in_pieces);
    let coded = Boxed::new(compressed.map_response(|response| response.map(Body::new)));
    Coded {
        plain,
        coded: Arc::new((ACCEPT_ENCODING, coded)),
    }
}

/// Bytes that are compressed before other work gets its turn on the thread: a
/// fraction of a millisecond.
const PIECE_BYTES: usize = 16 << 10;

/// A body in pieces, one in each poll of the connection's task: what is compressed while
/// it is sent must not keep others waiting, however large it is.
struct InPieces {
    body: Body,
    rest: Bytes,
    /// The poll in which the last whole piece was given. The compressor asks for the next
    /// one again and again in the same poll, whatever it is answered.
    given_in: Option<Instant>,
}

impl HttpBody for InPieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.given_in.is_some() && self.given_in == poll_under_way() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.rest = bytes,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let bytes = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(bytes);
        self.given_in = poll_under_way().filter(|_| bytes == PIECE_BYTES);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, mut hint) = (self.rest.len() as u64, self.body.size_hint());
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

/// Bodies that come compressed are unpacked while they are read.
pub(crate) fn unpacked<S: InnerService>(plain: S) -> Coded<S> {
    type Unpacking = axum::http::Request<DecompressionBody<Body>>;
    let inner = plain
        .clone()
        .map_request(|request: Unpacking| request.map(Body::new));
    let unpacked = RequestDecompressionLayer::new().layer(inner);
    let coded = Boxed::new(unpacked.map_response(|response| response.map(Body::new)));
    Coded {
        plain,
        coded: Arc::new((CONTENT_ENCODING, coded)),
    }
}

/// A service, as it is, and with its bodies coded for requests with a header.
#[derive(Clone)]
pub(crate) struct Coded<S> {
    plain: S,
    /// Shared, since it is copied for every request and seldom asked.
    coded: Arc<(HeaderName, Boxed)>,
}

impl<S: InnerService> Service<Request> for Coded<S> {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<S::Future, <Boxed as Service<Request>>::Future>;

    /// Routes are always ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (header, coded) = &*self.coded;
        match request.headers().contains_key(header) {
            true => Either::Right(coded.clone().call(request)),
            false => Either::Left(self.plain.call(request)),
        }
    }
}
