//! Dumps: filters as streams of bytes, out of a server and into another.

use super::filter_body::FilterBody;
use crate::access::Scope;
use crate::engine::{
    Adopted, Digest, DumpSink, Engine, EngineError, FilterName, Intake, Pace, Replace, RestoreError,
};
use crate::http::App;
use crate::http::admission::body;
use crate::http::admission::deadline::Deadline;
use crate::http::admission::throttle::ThrottledWork;
use crate::http::answer::{json, json_at};
use crate::http::bounds::path_of;
use crate::http::extract::{CallerEngine, Key};
use crate::http::idempotency::refuse_key;
use crate::http::media::{DUMP, SCANDUMP, media_type};
use crate::http::middleware::audit::{ClientPresence, Note};
use crate::http::middleware::principal::Principal;
use crate::http::openapi::facts::{CHANGE, ENGINE, KEYED, MISSING, QUOTA, STREAM};
use crate::http::openapi::parameters::FilterKey;
use crate::http::openapi::schemas::Binary;
use crate::http::problem::{Code, HttpError};
use crate::http::query::Query;
use crate::http::stream::{self, Pieces};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use std::io::Read;
use std::ops::ControlFlow;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Dump a filter
///
/// The state of one moment, while other requests write to the filter. Equal
/// filters have equal dumps. The `ETag` is the SHA-256 of the dump, which the
/// dump also contains.
#[utoipa::path(
    get,
    path = "/filters/{key}/dump",
    operation_id = "dump_filter",
    tag = "filters",
    security(("api_key" = ["read"])),
    extensions(("x-streamed" = json!(true)), ("x-fails" = json!([ENGINE, KEYED, MISSING]))),
    params(
        FilterKey,
        ("If-None-Match" = Option<String>, Header, description = "`ETag` of an earlier dump: 304 without a body if the filter has not changed.", nullable = false, example = "\"0f5e2b9c6d1a4f38b7e05c926d1a4f38b7e05c926d1a4f38b7e05c92a81d4e70\""),
    ),
    responses(
        (status = 200, description = "The dump; `docs/format.md` describes it.", body = inline(Binary), content_type = DUMP, headers(("ETag" = String, description = "SHA-256 of the filter.")), example = "(bytes)"),
        (status = 304, description = "The filter still has the `ETag` that was sent."),
    )
)]
pub(crate) async fn get_dump(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    caller: Principal,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, HttpError> {
    Query::none(&uri)?;
    let slot = app.admission.downloads.try_take(caller.holder(), 1)?;
    let known = tags(&headers, &IF_NONE_MATCH);
    let (begin, begun) = oneshot::channel();
    let work = ThrottledWork::new(&app.admission.throttle, Handle::current());
    // The dump tells its digest and length before its first byte.
    let body = stream::start(slot, move |pieces| {
        let mut sink = Sink {
            known,
            begin: Some(begin),
            pieces,
            work,
        };
        if let Err(error) = engine.dump(&name, &mut sink) {
            sink.fail(error);
        }
    });
    let begun = caller.outlives(begun).await?;
    let begun = begun.map_err(|_| HttpError::Panicked)??;
    let tag = format!("\"{}\"", begun.digest);
    if begun.is_known {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response());
    }
    let headers = [
        (CONTENT_TYPE, DUMP.to_owned()),
        (CONTENT_LENGTH, begun.bytes.to_string()),
        (ETAG, tag),
    ];
    Ok((headers, body).into_response())
}

struct Begun {
    digest: Digest,
    bytes: u64,
    /// The client has this one.
    is_known: bool,
}

struct Sink<'a> {
    known: Tags,
    begin: Option<oneshot::Sender<Result<Begun, HttpError>>>,
    pieces: &'a Pieces,
    work: ThrottledWork,
}

impl Sink<'_> {
    fn fail(&mut self, error: EngineError) {
        match self.begin.take() {
            // The client may be gone.
            Some(begin) => drop(begin.send(Err(error.into()))),
            None => self.pieces.break_off(&error),
        }
    }
}

impl DumpSink for Sink<'_> {
    /// Not by a client that is gone, nor by a server that stops.
    fn is_wanted(&self) -> bool {
        let waits = |begin: &oneshot::Sender<_>| !begin.is_closed();
        self.begin.as_ref().is_none_or(waits)
    }

    fn throttle(&mut self) {
        self.work.throttle();
    }

    fn begin(&mut self, digest: Digest, bytes: u64) -> ControlFlow<()> {
        self.work.answered();
        let is_known = self.known.hold(digest);
        let begun = Begun {
            digest,
            bytes,
            is_known,
        };
        let told = self
            .begin
            .take()
            .is_some_and(|begin| begin.send(Ok(begun)).is_ok());
        match told && !is_known {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn piece(&mut self, bytes: Vec<u8>) -> ControlFlow<()> {
        self.work.pause();
        match self.pieces.send(bytes) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// Restore a filter
///
/// Restores a dump. The server reads and checks the whole dump before the
/// filter becomes visible under its key, atomically. With `replace=true` it
/// replaces an existing filter, which serves until then; changes that are made
/// to that filter meanwhile are lost, unless `If-Match` excludes them. A dump
/// that is cut off or altered leaves nothing behind. With keys, `replace=true`
/// needs the scope `admin`, since the other filter is gone afterwards.
#[utoipa::path(
    put,
    path = "/filters/{key}/dump",
    operation_id = "restore_filter",
    tag = "filters",
    security(("api_key" = ["write"])),
    extensions(("x-audited" = json!(true)), ("x-streamed" = json!(true)), ("x-fails" = json!([ENGINE, KEYED, STREAM, CHANGE, [Code::NoRoom, Code::FilterTaken, Code::FilterChanged, Code::CorruptDump, Code::NewerDump, Code::OlderDump, Code::FilterTooLarge], QUOTA]))),
    params(
        FilterKey,
        ("replace" = Option<bool>, Query, description = "Replace an existing filter. Its expiry is kept. Needs the scope `admin`.", example = true),
        ("If-Match" = Option<String>, Header, description = "With `replace=true`: `ETag` of a dump of the filter to replace; 412 if the filter has changed since. `*` matches any.", nullable = false, example = "\"0f5e2b9c6d1a4f38b7e05c926d1a4f38b7e05c926d1a4f38b7e05c92a81d4e70\""),
    ),
    request_body(
        description = "A dump, of any length; or a filter of RedisBloom: for each pair that `CF.SCANDUMP` returned, in order, the iterator as 8 bytes, the length of the chunk as 4 bytes, both little-endian, and the chunk.",
        content(
            (inline(Binary) = DUMP, example = "(bytes)"),
            (inline(Binary) = SCANDUMP, example = "(bytes)"),
        ),
    ),
    responses(
        (status = 200, description = "The filter replaced another one.", body = FilterBody, example = json!(super::filter_body::filter_example())),
        (status = 201, description = "The filter was created.", body = FilterBody, headers(("Location" = String, description = "Path of the filter.")), example = json!(super::filter_body::filter_example())),
    )
)]
pub(crate) async fn put_dump(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    caller: Principal,
    request: Request,
) -> Result<Response, HttpError> {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let replaces = Query::parse(&parts.uri, &["replace"])?.switch("replace")?;
    if replaces {
        caller.needs(Scope::Admin)?;
    }
    refuse_key(
        headers,
        "a dump that is restored twice is the same filter; use If-Match or leave replace out to do it once",
    )?;
    let replace = wanted(replaces, &tags(headers, &IF_MATCH))?;
    let take_in: fn(Intake, &mut dyn Read) -> _ = match media_type(headers).as_deref() {
        Some(DUMP) => |intake, source| intake.dump(source),
        Some(SCANDUMP) => |intake, source| intake.redisbloom(source),
        given => {
            return Err(HttpError::media_type(
                given,
                "application/octet-stream for a dump, application/vnd.redisbloom.scandump for the chunks of RedisBloom's CF.SCANDUMP",
            ));
        }
    };
    // A condition takes reading a whole filter, which is for those with a place.
    let slot = app.admission.restores.try_take(caller.holder(), 1)?;
    let presence = parts.extensions.get::<ClientPresence>().cloned();
    let engine = engine.paced(paces(&app, &caller, presence));
    // What can be refused now need not be read. It is looked at again.
    let refused = refuse_early(&engine, &name, replace).await;
    refused.map_err(|error| unless_ended(&caller, error))?;
    let intake = engine.intake(&name, replace).await?;
    let (staged, _slot) = body::read_streamed(&app.admission, body, move |source| {
        Ok::<_, RestoreError>((take_in(intake, source)?, slot))
    })
    .await?;
    // The dump took as long as it took.
    let engine = engine.until(Deadline::from_now(&app.admission.limits).0);
    let adopted = engine.adopt(&name, staged, replace).await;
    match adopted.map_err(|error| unless_ended(&caller, error.into()))? {
        Adopted::New(info) => {
            let path = path_of(&name);
            let response = json_at(StatusCode::CREATED, &path, &FilterBody::from(&info))?;
            Ok(noted(response, "created"))
        }
        Adopted::Replaced(info) => Ok(noted(json(&FilterBody::from(&info))?, "replaced")),
        refused @ (Adopted::Exists | Adopted::Changed) => Err(refusal(&refused)),
    }
}

/// Filters are read as a whole in turns with other long work, for a client that
/// waits and whose key is one.
pub(crate) fn paces(
    app: &App,
    caller: &Principal,
    presence: Option<ClientPresence>,
) -> impl Fn() -> Pace + Send + Sync + 'static {
    let (throttle, runtime) = (Arc::clone(&app.admission.throttle), Handle::current());
    let caller = caller.clone();
    move || {
        let mut work = ThrottledWork::new(&throttle, runtime.clone());
        let (caller, presence) = (caller.clone(), presence.clone());
        Box::new(move || {
            work.throttle();
            let is_gone = presence.as_ref().is_some_and(ClientPresence::is_gone);
            match is_gone || caller.key_end().is_some() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })
    }
}

/// The end of the caller's key, if that is why something failed.
fn unless_ended(caller: &Principal, error: HttpError) -> HttpError {
    match (error.code(), caller.key_end()) {
        (Code::DeadlineExceeded, Some(end)) => end.into(),
        _ => error,
    }
}

/// An answer of which the audit log says more.
fn noted(mut response: Response, note: &'static str) -> Response {
    response.extensions_mut().insert(Note(note.into()));
    response
}

/// Which filter may be replaced.
fn wanted(replace: bool, matches: &Tags) -> Result<Replace, HttpError> {
    match (replace, matches) {
        (false, Tags::None) => Ok(Replace::Nothing),
        (false, _) => Err(HttpError::parameter(
            "replace",
            "left out beside If-Match",
            "true, or no If-Match",
        )),
        (true, Tags::None) => Ok(Replace::Anything),
        (true, Tags::Any) => Ok(Replace::Something),
        (true, Tags::These(digests)) => match digests.as_slice() {
            [digest] => Ok(Replace::If(*digest)),
            // Of what can't be an ETag of ours none is.
            _ => Err(HttpError::FilterChanged),
        },
    }
}

async fn refuse_early(
    engine: &Engine,
    name: &FilterName,
    replace: Replace,
) -> Result<(), HttpError> {
    match engine.refuses_intake(name, replace).await? {
        None => Ok(()),
        Some(refused) => Err(refusal(&refused)),
    }
}

/// Of what was not taken in.
fn refusal(adopted: &Adopted) -> HttpError {
    match adopted {
        Adopted::Exists => HttpError::FilterTaken,
        _ => HttpError::FilterChanged,
    }
}

/// The entity tags of a condition.
enum Tags {
    /// There is no condition.
    None,
    /// `*`.
    Any,
    /// Those that can be ours.
    These(Vec<Digest>),
}

impl Tags {
    fn hold(&self, digest: Digest) -> bool {
        match self {
            Tags::None => false,
            Tags::Any => true,
            Tags::These(digests) => digests.contains(&digest),
        }
    }
}

fn tags(headers: &HeaderMap, name: &HeaderName) -> Tags {
    if !headers.contains_key(name) {
        return Tags::None;
    }
    let values = headers.get_all(name).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let tags: Vec<&str> = values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    if tags.contains(&"*") {
        return Tags::Any;
    }
    let digest = |tag: &str| Digest::parse(tag.strip_prefix('"')?.strip_suffix('"')?);
    Tags::These(tags.into_iter().filter_map(digest).collect())
}
