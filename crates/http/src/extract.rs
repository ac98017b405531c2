//! Typed extractors whose rejections are our own errors, and the reading of
//! the two kinds of bodies.

use super::admission::body;
use super::admission::deadline::Deadline;
use super::answer::{Format, most_bytes};
use super::bearer::holder_of;
use super::bounds::MAX_QUERY_ITEM_BYTES;
use super::cluster::answer::{catch_up, filter_of};
use super::idempotency::Keyed;
use super::media::{self, media_type};
use super::middleware::auth::check_covers;
use super::parse::{self, Batch, BatchKind, OptionsIn, WHERE, WITHIN_SECONDS};
use super::problem::{HttpError, Result};
use super::query::Query;
use crate::codes::Code;
use crate::engine::{Engine, FilterName, IdempotencyKey, ItemBatch, NewFilter};
use crate::server::App;
use crate::server::admission::answers::{self, FREE_BYTES};
use crate::server::principal::Principal;
use axum::body::{Bytes, HttpBody as _};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::Uri;
use axum::http::request::Parts;
use std::convert::Infallible;
use std::sync::Arc;

/// Bodies up to this size are parsed where they were read; larger ones on a
/// thread that may block, so that one batch does not hold up other requests.
const PARSE_IN_PLACE_BYTES: usize = 64 << 10;

/// What an item of a batch takes beside its bytes: where it lies, its hash, and
/// what is found out about it.
const BESIDE_AN_ITEM_BYTES: usize = 40;

/// What a label of a row takes beside its bytes: where it lies, and of which attribute
/// it is.
const BESIDE_A_LABEL_BYTES: usize = 17;

/// The engine, working for the caller of the request.
pub(crate) struct CallerEngine(pub(crate) Engine);

impl FromRequestParts<Arc<App>> for CallerEngine {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let Some(principal) = parts.extensions.get::<Principal>() else {
            // A route beside the layer would be a mistake: it answers nothing.
            let cause = "a request came past the check of its key";
            return Err(HttpError::unanswerable(cause));
        };
        let until = Deadline::of_parts(parts).map(|Deadline(until)| until);
        let caller = principal.caller(until);
        Ok(CallerEngine(app.engine()?.for_caller(caller)))
    }
}

/// The filter of the path, and the engine that works for the caller.
pub(crate) struct Target(pub(crate) Engine, pub(crate) FilterName);

impl FromRequestParts<Arc<App>> for Target {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let CallerEngine(engine) = CallerEngine::from_request_parts(parts, app).await?;
        let Path(key) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(|_| HttpError::Plain(Code::MalformedPath))?;
        Ok(Target(engine, FilterName::of(key)?))
    }
}

/// A request whose query says nothing.
pub(crate) struct NoQuery;

impl<S: Sync> FromRequestParts<S> for NoQuery {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        Query::none(&parts.uri).map(|()| NoQuery)
    }
}

/// The one item of a question in the query: `item` or `item_base64url`. `post`
/// takes longer ones.
///
/// # Errors
/// Neither or both are given, the item is too long for a query, or not base64url.
pub(crate) fn query_item(uri: &Uri, post: &'static str) -> Result<ItemBatch> {
    item_of(&Query::parse(uri, &["item", "item_base64url"])?, post)
}

/// The same, and what else the question says: how many seconds it goes back, or what
/// a row of the item must meet.
///
/// # Errors
/// A parameter is refused.
pub(crate) fn query_exists(uri: &Uri, post: &'static str) -> Result<Batch> {
    let query = Query::parse(uri, &["item", "item_base64url", WITHIN_SECONDS, WHERE])?;
    let items = item_of(&query, post)?;
    let (within_seconds, condition) = parse::lately_or_where(&query)?;
    Ok(Batch {
        items,
        within_seconds,
        condition,
        options_in: OptionsIn::Query,
        ..Batch::default()
    })
}

fn item_of(query: &Query<'_>, post: &'static str) -> Result<ItemBatch> {
    let decoded;
    // Bytes that are no text are a mistake in `item`; they have a parameter of
    // their own.
    let item = match (query.text("item")?, query.bytes("item_base64url")) {
        (Some(text), None) => text.as_bytes(),
        (None, Some(text)) => {
            decoded = parse::base64url_item(text)?;
            decoded.as_slice()
        }
        (None, None) => {
            let allowed = "item or item_base64url";
            return Err(HttpError::parameter("item", "left out", allowed));
        }
        (Some(_), Some(_)) => {
            let (name, given) = ("item_base64url", "given beside item");
            return Err(HttpError::parameter(name, given, "one of the two"));
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

/// A request whose body is still to be read.
pub(crate) struct Sent {
    app: Arc<App>,
    pub(crate) request: Request,
}

impl FromRequest<Arc<App>> for Sent {
    type Rejection = Infallible;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Infallible> {
        let app = Arc::clone(app);
        Ok(Sent { app, request })
    }
}

impl Sent {
    /// Reads the items of a request, JSON or lines, and of a change what makes it
    /// the same as one sent before; takes the memory for the answer to a change. A
    /// block and no `async fn`, so that the future has the request once.
    ///
    /// # Errors
    /// Everything that can be wrong with a body, a key that is none, or there is no
    /// memory for the answer.
    pub(crate) fn batch(self, kind: BatchKind) -> impl Future<Output = Result<Batch>> + Send {
        let (app, (mut parts, body)) = (self.app, self.request.into_parts());
        let deadline = Deadline::of_parts(&parts);
        async move {
            let keyed = match kind.is_change() {
                true => Keyed::of(&parts)?,
                false => None,
            };
            let options_of_lines = match media_type(&parts.headers).as_deref() {
                Some(media::JSON) => {
                    Query::none(&parts.uri)?;
                    None
                }
                Some(media::TEXT) if kind != BatchKind::Lookup => {
                    Some(parse::line_options(kind, &parts.uri)?)
                }
                given => {
                    let allowed = match kind {
                        BatchKind::Lookup => "application/json",
                        kind if kind.has_values() => {
                            "application/json, or text/plain with an item, a TAB and a value per line"
                        }
                        _ => "application/json, or text/plain with one item per line",
                    };
                    return Err(HttpError::media_type(given, allowed));
                }
            };
            let max_items = app.admission.limits.max_batch_items;
            let holder = holder_of(&parts);
            let holder = holder.as_ref();
            let (bytes, memory) = body::read(&app.admission, holder, deadline, body).await?;
            let Deadline(until) =
                deadline.unwrap_or_else(|| Deadline::from_now(&app.admission.limits));
            let turn = app
                .admission
                .turn(holder, until, bytes.len(), kind.is_change())
                .await?;
            let parse = move |bytes: &Bytes| {
                let mut batch = match options_of_lines {
                    None => parse::json_batch(bytes, kind, max_items)?,
                    Some(options) => parse::text_batch(bytes, kind, options, max_items)?,
                };
                batch.key = keyed.map(|keyed| keyed.with_body(bytes));
                Ok(batch)
            };
            let mut batch = parsed(bytes, parse).await?;
            if let Some(wanted) = &batch.options.create {
                Box::pin(check_sibling(&app, &mut parts, wanted)).await?;
            }
            // The items hold as much memory as their body until they are answered,
            // and what is known of each beside its bytes.
            batch.memory = memory;
            batch.format = Format::wanted(&parts.headers);
            // Those of a question are looked for in its turn, too, for as long as it need
            // not wait. A change goes on in the turns of its lane.
            batch.turn = turn.filter(|_| !kind.is_change());
            let beside = batch.items.len().saturating_mul(BESIDE_AN_ITEM_BYTES);
            let beside = beside.saturating_add(batch.labels().saturating_mul(BESIDE_A_LABEL_BYTES));
            if beside > FREE_BYTES {
                let (bodies, memory) = (&app.admission.bodies, &mut batch.memory);
                let held = memory.as_ref().map_or(0, |it| it.amount() as usize);
                // One that is larger than all may be is alone.
                let size = held.saturating_add(beside).min(bodies.bound());
                bodies.grow(holder, memory, size)?;
            }
            if kind.is_change() {
                let items = batch.items.len() + batch.blanks.len();
                batch.answer = answers::reserve(&app.admission, holder, most_bytes(items))?;
            }
            Ok(batch)
        }
    }

    /// Reads the fields of a filter; no body at all is the server's defaults.
    ///
    /// # Errors
    /// Everything that can be wrong with a body.
    pub(crate) async fn fields(self) -> Result<(NewFilter, Option<IdempotencyKey>)> {
        let app = Arc::clone(&self.app);
        let fields = self.json_body(true, |json| parse::new_filter(json, ""));
        let (wanted, key, mut parts) = fields.await?;
        Box::pin(check_sibling(&app, &mut parts, &wanted)).await?;
        Ok((wanted, key))
    }

    /// Reads with which filters another is to be merged; with the head of the request.
    ///
    /// # Errors
    /// Everything that can be wrong with a body.
    pub(crate) async fn merged(self) -> Result<(Vec<FilterName>, Option<IdempotencyKey>, Parts)> {
        self.json_body(false, parse::merged).await
    }

    /// Reads what a filter is to be changed to.
    ///
    /// # Errors
    /// Everything that can be wrong with a body.
    pub(crate) async fn changed_ttl(self) -> Result<(Option<u64>, Option<IdempotencyKey>)> {
        let (ttl_seconds, key, _) = self.json_body(false, parse::changed_ttl).await?;
        Ok((ttl_seconds, key))
    }

    /// What makes a change that needs no body the same as one sent before.
    ///
    /// # Errors
    /// The query says something, or the key is none.
    pub(crate) fn nothing(self) -> Result<Option<IdempotencyKey>> {
        let (parts, _) = self.request.into_parts();
        Query::none(&parts.uri)?;
        Ok(Keyed::of(&parts)?.map(|keyed| keyed.with_body(b"")))
    }

    /// Reads a body in JSON, which may be left out if it is optional; with the head of the
    /// request.
    async fn json_body<T: Send + 'static>(
        self,
        is_optional: bool,
        parse: fn(&[u8]) -> Result<T>,
    ) -> Result<(T, Option<IdempotencyKey>, Parts)> {
        let (app, (parts, body)) = (self.app, self.request.into_parts());
        let keyed = Keyed::of(&parts)?;
        Query::none(&parts.uri)?;
        let media_type = media_type(&parts.headers);
        let is_json = media_type.as_deref() == Some(media::JSON);
        let unsupported = || {
            let allowed = match is_optional {
                true => "application/json, or an empty body for the server's defaults",
                false => media::JSON,
            };
            HttpError::media_type(media_type.as_deref(), allowed)
        };
        // A body of unknown length may turn out to be empty.
        let may_be_empty = is_optional && body.size_hint().lower() == 0;
        if !is_json && !may_be_empty {
            return Err(unsupported());
        }
        let holder = holder_of(&parts);
        let deadline = Deadline::of_parts(&parts);
        let (bytes, _memory) = body::read(&app.admission, holder.as_ref(), deadline, body).await?;
        if !is_json && !bytes.is_empty() {
            return Err(unsupported());
        }
        let parse =
            move |json: &Bytes| Ok((parse(json)?, keyed.map(|keyed| keyed.with_body(json))));
        let (said, key) = parsed(bytes, parse).await?;
        Ok((said, key, parts))
    }
}

/// Refuses a filter with the secret key of another one's hash that the caller may not
/// have. If this pod knows neither, the other may be there since a moment ago.
async fn check_sibling(app: &App, parts: &mut Parts, wanted: &NewFilter) -> Result<()> {
    let Some(sibling) = &wanted.sibling_of else {
        return Ok(());
    };
    let caller = parts.extensions.get::<Principal>().cloned();
    let caller = caller.unwrap_or_default();
    caller.needs_export()?;
    check_covers(caller.prefix(), sibling.as_str())?;
    let engine = app.engine()?.for_caller(caller.caller(None));
    for name in filter_of(parts).await.iter().chain([sibling]) {
        if engine.has_filter(name).await? {
            return Ok(());
        }
    }
    catch_up(app, &engine, &parts.headers, sibling).await
}

/// What a body says.
async fn parsed<T: Send + 'static>(
    body: Bytes,
    parse: impl FnOnce(&Bytes) -> Result<T> + Send + 'static,
) -> Result<T> {
    if body.len() <= PARSE_IN_PLACE_BYTES {
        return parse(&body);
    }
    tokio::task::spawn_blocking(move || parse(&body)).await?
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
