//! Typed extractors whose rejections are our own errors, and the reading of
//! the two kinds of bodies.

use super::App;
use super::admission::answers::{self, FREE_BYTES};
use super::admission::body::{self, Buffered};
use super::admission::budget::Reservation;
use super::answer::most_bytes;
use super::bounds::MAX_QUERY_ITEM_BYTES;
use super::idempotency::Keyed;
use super::media::{self, media_type};
use super::parse::{self, Batch, BatchKind};
use super::problem::HttpError;
use super::query::{Query, excerpt};
use crate::engine::{FilterName, IdempotencyKey, ItemBatch, NewFilter};
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::Uri;
use axum::http::request::Parts;
use std::sync::Arc;

/// Bodies up to this size are parsed where they were read; larger ones on a
/// thread that may block, so that one batch does not hold up other requests.
const PARSE_IN_PLACE_BYTES: usize = 64 << 10;

/// What an item of a batch takes beside its bytes: where it lies, its hash, and
/// what is found out about it.
const BESIDE_AN_ITEM_BYTES: usize = 40;

/// The key in the path.
pub(crate) struct Key(pub(crate) FilterName);

impl FromRequestParts<Arc<App>> for Key {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, HttpError> {
        let Path(key) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(|_| HttpError::MalformedPath)?;
        Ok(Key(FilterName::of(key)?))
    }
}

/// The one item in the query that is asked for.
pub(crate) struct ItemToFind(pub(crate) ItemBatch);

impl FromRequestParts<Arc<App>> for ItemToFind {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, HttpError> {
        query_item(&parts.uri, "POST /filters/{key}/exists").map(ItemToFind)
    }
}

/// The one item in the query that is to be counted.
pub(crate) struct ItemToCount(pub(crate) ItemBatch);

impl FromRequestParts<Arc<App>> for ItemToCount {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, HttpError> {
        query_item(&parts.uri, "POST /filters/{key}/count").map(ItemToCount)
    }
}

/// The one item of a question in the query: `item` or `item_base64url`. `post`
/// takes longer ones.
///
/// # Errors
/// Neither or both are given, the item is too long for a query, or not base64url.
pub(crate) fn query_item(uri: &Uri, post: &'static str) -> Result<ItemBatch, HttpError> {
    let query = Query::parse(uri, &["item", "item_base64url"])?;
    let decoded;
    let item = match (query.bytes("item"), query.bytes("item_base64url")) {
        (Some(item), None) => {
            // Bytes that are no text are a mistake in a query; they have a
            // parameter of their own.
            query.text("item")?;
            item
        }
        (None, Some(text)) => {
            decoded = parse::base64url_item(text)?;
            decoded.as_slice()
        }
        (None, None) => {
            return Err(HttpError::parameter(
                "item",
                "left out",
                "item or item_base64url",
            ));
        }
        (Some(_), Some(_)) => {
            return Err(HttpError::parameter(
                "item_base64url",
                "given beside item",
                "one of the two",
            ));
        }
    };
    if item.len() > MAX_QUERY_ITEM_BYTES {
        return Err(HttpError::ItemTooLongForQuery {
            given: item.len(),
            limit: MAX_QUERY_ITEM_BYTES,
            post,
        });
    }
    Ok(ItemBatch::of(item))
}

/// Reads the items of a request, JSON or lines. A block and no `async fn`, so
/// that the future has the request once.
///
/// # Errors
/// Everything that can be wrong with a body.
pub(crate) fn batch(
    app: &App,
    kind: BatchKind,
    request: Request,
) -> impl Future<Output = Result<Batch, HttpError>> + Send {
    let (parts, body) = request.into_parts();
    async move { Ok(read_batch(app, kind, &parts, body, None).await?.0) }
}

/// Reads the items of a change, and what makes it the same as one sent before.
/// Takes the memory for its answer.
///
/// # Errors
/// Everything that can be wrong with a body, a key that is none, or there is no
/// memory for the answer.
pub(crate) async fn keyed_batch(
    app: &App,
    kind: BatchKind,
    request: Request,
) -> Result<(Batch, Option<IdempotencyKey>), HttpError> {
    let (parts, body) = request.into_parts();
    let keyed = Keyed::of(&parts)?;
    let (mut batch, key) = read_batch(app, kind, &parts, body, keyed).await?;
    let items = batch.items.len() + batch.blanks.len();
    batch.answer = answers::reserve(&app.admission, most_bytes(items))?;
    Ok((batch, key))
}

async fn read_batch(
    app: &App,
    kind: BatchKind,
    parts: &Parts,
    body: Body,
    keyed: Option<Keyed>,
) -> Result<(Batch, Option<IdempotencyKey>), HttpError> {
    let max_items = app.admission.limits.max_batch_items;
    match media_type(&parts.headers).as_deref() {
        Some(media::JSON) => {
            Query::none(&parts.uri)?;
            let body = body::read(&app.admission, body).await?;
            let work = move |bytes: &Bytes| parse::json_batch(bytes, kind, max_items);
            holding(app, parsed(body, with_key(keyed, work)).await?)
        }
        Some(media::TEXT) if kind != BatchKind::Lookup => {
            let (encoding, options) = parse::line_options(kind, &parts.uri)?;
            let body = body::read(&app.admission, body).await?;
            let work = move |bytes: &Bytes| parse::text_batch(bytes, encoding, options, max_items);
            holding(app, parsed(body, with_key(keyed, work)).await?)
        }
        given => Err(HttpError::UnsupportedMediaType {
            given: excerpt(given.unwrap_or("not stated")),
            allowed: match kind {
                BatchKind::Lookup => "application/json",
                BatchKind::Add | BatchKind::Other => {
                    "application/json, or text/plain with one item a line"
                }
            },
        }),
    }
}

/// Reads the fields of a filter; no body at all is the server's defaults.
///
/// # Errors
/// Everything that can be wrong with a body.
pub(crate) async fn fields(
    app: &App,
    request: Request,
) -> Result<(NewFilter, Option<IdempotencyKey>), HttpError> {
    let (parts, body) = request.into_parts();
    let keyed = Keyed::of(&parts)?;
    Query::none(&parts.uri)?;
    let media_type = media_type(&parts.headers);
    let is_json = media_type.as_deref() == Some(media::JSON);
    let unsupported = || HttpError::UnsupportedMediaType {
        given: excerpt(media_type.as_deref().unwrap_or("not stated")),
        allowed: "application/json, or an empty body for the server's defaults",
    };
    // A body of unknown length may turn out to be empty.
    if !is_json && body.size_hint().lower() > 0 {
        return Err(unsupported());
    }
    let body = body::read(&app.admission, body).await?;
    if !is_json && !body.bytes.is_empty() {
        return Err(unsupported());
    }
    let work = |bytes: &Bytes| parse::new_filter(bytes, "");
    Ok(parsed(body, with_key(keyed, work)).await?.0)
}

/// Reads what a filter is to be changed to.
///
/// # Errors
/// Everything that can be wrong with a body.
pub(crate) async fn changed_ttl(
    app: &App,
    request: Request,
) -> Result<(Option<u64>, Option<IdempotencyKey>), HttpError> {
    let (parts, body) = request.into_parts();
    let keyed = Keyed::of(&parts)?;
    Query::none(&parts.uri)?;
    match media_type(&parts.headers).as_deref() {
        Some(media::JSON) => {}
        given => {
            return Err(HttpError::UnsupportedMediaType {
                given: excerpt(given.unwrap_or("not stated")),
                allowed: "application/json",
            });
        }
    }
    let body = body::read(&app.admission, body).await?;
    Ok(
        parsed(body, with_key(keyed, |bytes| parse::changed_ttl(bytes)))
            .await?
            .0,
    )
}

/// Has a body hashed where it is parsed.
fn with_key<T>(
    keyed: Option<Keyed>,
    parse: impl FnOnce(&Bytes) -> Result<T, HttpError>,
) -> impl FnOnce(&Bytes) -> Result<(T, Option<IdempotencyKey>), HttpError> {
    move |bytes| Ok((parse(bytes)?, keyed.map(|keyed| keyed.with_body(bytes))))
}

/// Has the items hold their memory until they are answered: as much as their
/// body, and what is known of each beside its bytes.
fn holding(
    app: &App,
    ((mut batch, key), memory): ((Batch, Option<IdempotencyKey>), Option<Reservation>),
) -> Result<(Batch, Option<IdempotencyKey>), HttpError> {
    batch.memory = memory;
    let beside = batch.items.len().saturating_mul(BESIDE_AN_ITEM_BYTES);
    if beside > FREE_BYTES {
        app.admission.hold_more(&mut batch.memory, beside)?;
    }
    Ok((batch, key))
}

/// What a body says, and its memory.
async fn parsed<T: Send + 'static>(
    body: Buffered,
    parse: impl FnOnce(&Bytes) -> Result<T, HttpError> + Send + 'static,
) -> Result<(T, Option<Reservation>), HttpError> {
    let Buffered { bytes, memory } = body;
    let parsed = if bytes.len() <= PARSE_IN_PLACE_BYTES {
        parse(&bytes)?
    } else {
        tokio::task::spawn_blocking(move || parse(&bytes))
            .await
            .map_err(|_| HttpError::Panicked)??
    };
    Ok((parsed, memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_takes_one_item_in_one_of_two_ways() {
        let item = |uri: &'static str| {
            query_item(&Uri::from_static(uri), "POST")
                .map(|items| items.iter().next().unwrap().to_vec())
        };
        assert_eq!(item("/?item=a").unwrap(), b"a");
        assert_eq!(item("/?item=").unwrap(), b"");
        assert_eq!(item("/?item_base64url=_w").unwrap(), [0xff]);
        for uri in [
            "/",
            "/?item=a&item_base64url=_w",
            "/?item=%ff",
            "/?item_base64url=%2F",
        ] {
            assert!(item(uri).is_err(), "{uri}");
        }
    }
}
