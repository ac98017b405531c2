//! Dumps: filters as streams of bytes, out of a server and into another.

use super::filter_body::FilterBody;
use crate::access::Scope;
use crate::admission::body;
use crate::admission::deadline::Deadline;
use crate::answer::{json, json_at};
use crate::assets::takes_gzip;
use crate::bounds::path_of;
use crate::codes::Code;
use crate::engine::{
    Adopted, DumpSink, EngineError, FilterVersion, Intake, Replace, RestoreError, Wanted,
};
use crate::extract::Target;
use crate::headers::listed;
use crate::idempotency::refuse_key;
use crate::media::{DUMP, SCANDUMP, media_type};
use crate::middleware::audit::noted;
use crate::problem::{HttpError, Result};
use crate::query::Query;
use crate::server::App;
use crate::server::admission::budget::{Held, Holder};
use crate::server::admission::limits::Admission;
use crate::server::admission::throttle::ThrottledWork;
use crate::server::principal::Principal;
use crate::stream::{self, Pieces};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LAST_MODIFIED,
    RANGE, VARY,
};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use cuckood_filter::file::Header;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, Read, Write as _};
use std::ops::{ControlFlow, Range, RangeInclusive};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// `GET /filters/{key}/dump`.
pub(crate) async fn dump_filter(
    State(app): State<Arc<App>>,
    Target(engine, name): Target,
    Extension(caller): Extension<Principal>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> Result {
    let leaves_key_out = Query::parse(&uri, &["without_key"])?.switch("without_key")?;
    let range = value_of(&headers, &RANGE).filter(|_| method == Method::GET);
    // Of a compressed one no part is sent.
    let is_gzip = range.is_none() && takes_gzip(&headers);
    let known = tags(&headers, &IF_NONE_MATCH, true).or_date(&headers, &IF_MODIFIED_SINCE);
    let matches = tags(&headers, &IF_MATCH, is_gzip);
    let asked = Asked {
        leaves_key_out,
        matches: matches.or_date(&headers, &IF_UNMODIFIED_SINCE),
        range,
        if_range: value_of(&headers, &IF_RANGE),
        is_gzip,
    };
    if known.is_condition() {
        let version = engine.version(&name).await?;
        if !asked.matches.allow(&version) {
            return Err(HttpError::Plain(Code::FilterChanged));
        }
        if known.hold(&version) {
            return Ok((StatusCode::NOT_MODIFIED, validators(&version, is_gzip)).into_response());
        }
    }
    if method == Method::HEAD {
        let head = asked.head(&engine.header(&name).await?)?;
        // Its length would be told where that of the dump is not.
        let nothing = futures_util::stream::empty::<io::Result<Vec<u8>>>();
        return Ok(head.response(Body::from_stream(nothing)));
    }
    let slot = app.admission.downloads.try_take(caller.holder(), 1)?;
    let (begin, begun) = oneshot::channel();
    let holder = caller.holder().cloned();
    let work = ThrottledWork::new(&app.admission.throttle, Handle::current());
    let body = stream::start(slot, move |pieces| {
        let mut sink = Sink {
            begin: Some(begin),
            asked,
            admission: &app.admission,
            holder: holder.as_ref(),
            memory: None,
            gzip: None,
            pieces,
            work,
        };
        match engine.dump(&name, &mut sink) {
            Ok(()) => sink.end(),
            Err(error) => sink.fail(error),
        }
    });
    let begun = caller.outlives(begun).await?;
    let head = begun.map_err(|_| HttpError::Plain(Code::Internal))??;
    Ok(head.response(body))
}

/// What a state of a filter is known by.
fn validators(version: &FilterVersion, is_gzip: bool) -> [(HeaderName, String); 3] {
    let changed = httpdate::fmt_http_date(changed(version));
    let coded = if is_gzip { GZIP_TAG } else { "" };
    [
        (ETAG, format!("\"{version}{coded}\"")),
        (LAST_MODIFIED, changed),
        (VARY, ACCEPT_ENCODING.to_string()),
    ]
}

/// When a filter was changed last, as exactly as dates tell.
fn changed(version: &FilterVersion) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(version.changed_at_ms / 1000)
}

/// Ends the tag of a dump that is compressed.
const GZIP_TAG: &str = "-gzip";

/// What is asked of a dump.
struct Asked {
    leaves_key_out: bool,
    matches: Tags,
    range: Option<String>,
    if_range: Option<String>,
    is_gzip: bool,
}

impl Asked {
    /// How a filter with this header is answered.
    fn head(&self, header: &Header) -> Result<Head> {
        let (version, of) = (header.version, header.parts.bytes);
        if !self.matches.allow(&version) {
            return Err(HttpError::Plain(Code::FilterChanged));
        }
        let is_same = self.if_range.as_ref();
        let is_same = is_same.is_none_or(|tag| *tag == format!("\"{version}\""));
        let range = self.range.as_ref().filter(|_| is_same);
        let range = range.and_then(|range| bytes_of(range, of));
        if range.as_ref().is_some_and(Range::is_empty) {
            return Err(HttpError::RangeBeyondEnd { bytes: of });
        }
        Ok(Head {
            version,
            is_gzip: self.is_gzip,
            is_part: range.is_some(),
            bytes: range.unwrap_or(0..of),
            of,
        })
    }
}

/// What stands before a dump.
#[derive(Clone)]
struct Head {
    version: FilterVersion,
    is_gzip: bool,
    is_part: bool,
    bytes: Range<u64>,
    of: u64,
}

impl Head {
    fn response(&self, body: Body) -> Response {
        let Range { start, end } = self.bytes;
        let coding = match self.is_gzip {
            true => (CONTENT_ENCODING, "gzip".to_owned()),
            false => (CONTENT_LENGTH, (end - start).to_string()),
        };
        let (status, which) = match (self.is_part, self.is_gzip) {
            (true, _) => {
                let part = format!("bytes {start}-{}/{}", end - 1, self.of);
                (StatusCode::PARTIAL_CONTENT, (CONTENT_RANGE, part))
            }
            (false, true) => (StatusCode::OK, (ACCEPT_RANGES, "none".to_owned())),
            (false, false) => (StatusCode::OK, (ACCEPT_RANGES, "bytes".to_owned())),
        };
        let validators = validators(&self.version, self.is_gzip);
        let media_type = [(CONTENT_TYPE, DUMP)];
        (status, validators, [coding, which], media_type, body).into_response()
    }
}

/// The bytes of a range, of so many, which may be none of them; `None` of what is not
/// answered as one: RFC 9110 has all of it sent then.
fn bytes_of(range: &str, of: u64) -> Option<Range<u64>> {
    let (unit, range) = range.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    let number = |text: &str| {
        let is_number = text.bytes().all(|it| it.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| is_number)
    };
    let bytes = match (first, last) {
        ("", last) => of.saturating_sub(number(last)?)..of,
        (first, "") => number(first)?..of,
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then(|| first..last.saturating_add(1).min(of))?
        }
    };
    unit.eq_ignore_ascii_case("bytes").then_some(bytes)
}

fn value_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.trim().to_owned())
}

struct Sink<'a> {
    begin: Option<oneshot::Sender<Result<Head>>>,
    asked: Asked,
    admission: &'a Admission,
    holder: Option<&'a Holder>,
    /// What is kept of each page until the end.
    memory: Option<Held>,
    gzip: Option<GzEncoder<Vec<u8>>>,
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

    /// Sends what the compression has kept back.
    fn end(&mut self) {
        if let Some(Ok(rest)) = self.gzip.take().map(GzEncoder::finish) {
            // The client may be gone.
            let _ = self.pieces.send(rest);
        }
    }

    fn begun(&mut self, header: &Header) -> Result<Head> {
        let head = self.asked.head(header)?;
        let bodies = &self.admission.bodies;
        let parts = &header.parts;
        let memory = match parts.needs_no_sums(head.bytes.end) {
            true => 0,
            false => usize::try_from(parts.memory_to_write()).unwrap_or(usize::MAX),
        };
        // So that the largest filter is not refused for ever.
        let memory = memory.min(bodies.bound() / 4);
        self.memory = Some(bodies.try_take(self.holder, memory)?);
        Ok(head)
    }
}

impl DumpSink for Sink<'_> {
    fn throttle(&mut self) {
        self.work.throttle();
    }

    fn begin(&mut self, header: Header) -> ControlFlow<(), Wanted> {
        self.work.answered();
        let head = self.begun(&header);
        let wanted = head.as_ref().ok().cloned();
        let begin = self.begin.take();
        let is_told = begin.is_some_and(|begin| begin.send(head).is_ok());
        let Some(head) = wanted.filter(|_| is_told) else {
            return ControlFlow::Break(());
        };
        if head.is_gzip {
            self.gzip = Some(GzEncoder::new(Vec::new(), Compression::fast()));
        }
        ControlFlow::Continue(Wanted {
            header: match self.asked.leaves_key_out {
                true => header.without_key(),
                false => header,
            },
            bytes: head.bytes,
        })
    }

    fn piece(&mut self, bytes: Vec<u8>) -> ControlFlow<()> {
        self.work.pause();
        let bytes = match &mut self.gzip {
            None => bytes,
            // Nothing that is kept in memory fails.
            Some(gzip) => match gzip.write_all(&bytes) {
                Ok(()) => std::mem::take(gzip.get_mut()),
                Err(_) => return ControlFlow::Break(()),
            },
        };
        if bytes.is_empty() {
            return ControlFlow::Continue(());
        }
        match self.pieces.send(bytes) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

/// `PUT /filters/{key}/dump`.
pub(crate) async fn restore_filter(
    State(app): State<Arc<App>>,
    Target(engine, name): Target,
    Extension(caller): Extension<Principal>,
    request: Request,
) -> Result {
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
    let replace = wanted(replaces, &tags(headers, &IF_MATCH, true))?;
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
    let slot = app.admission.restores.try_take(caller.holder(), 1)?;
    // What can be refused now need not be read. It is looked at again.
    if let Some(refused) = engine.refuses_intake(&name, replace).await? {
        return Err(refusal(&refused));
    }
    let intake = engine.intake(&name, replace).await?;
    let (staged, _slot) = body::read_streamed(&app.admission, body, move |source| {
        Ok::<_, RestoreError>((take_in(intake, source)?, slot))
    })
    .await?;
    // The dump took as long as it took.
    let engine = engine.until(Deadline::from_now(&app.admission.limits).0);
    match engine.adopt(&name, staged, replace).await? {
        Adopted::New(info) => {
            let path = path_of(&name);
            let response = json_at(StatusCode::CREATED, &path, &FilterBody::from(&info))?;
            Ok(noted(response, "created"))
        }
        Adopted::Replaced(info) => Ok(noted(json(&FilterBody::from(&info))?, "replaced")),
        refused @ (Adopted::Exists | Adopted::Changed) => Err(refusal(&refused)),
    }
}

/// Which filter may be replaced.
fn wanted(replace: bool, matches: &Tags) -> Result<Replace> {
    match (replace, matches) {
        (false, Tags::None) => Ok(Replace::Nothing),
        (false, _) => {
            let (given, allowed) = ("left out beside If-Match", "true, or no If-Match");
            Err(HttpError::parameter("replace", given, allowed))
        }
        (true, Tags::None | Tags::Changed(_)) => Ok(Replace::Anything),
        (true, Tags::Any) => Ok(Replace::Something),
        (true, Tags::These(versions)) => match versions.as_slice() {
            [version] => Ok(Replace::If(*version)),
            // Of what can't be an ETag of ours none is.
            _ => Err(HttpError::Plain(Code::FilterChanged)),
        },
    }
}

/// Of what was not taken in.
fn refusal(adopted: &Adopted) -> HttpError {
    match adopted {
        Adopted::Exists => HttpError::Plain(Code::FilterTaken),
        _ => HttpError::Plain(Code::FilterChanged),
    }
}

/// The entity tags of a condition.
enum Tags {
    /// There is no condition.
    None,
    /// Those that the filter has had since one of these times.
    Changed(RangeInclusive<SystemTime>),
    /// `*`.
    Any,
    /// Those that can be ours.
    These(Vec<FilterVersion>),
}

impl Tags {
    /// Without tags the date of another header (RFC 9110, 13.2.2).
    fn or_date(self, headers: &HeaderMap, name: &HeaderName) -> Tags {
        let date = value_of(headers, name).filter(|_| !self.is_condition());
        let date = date.and_then(|it| httpdate::parse_http_date(&it).ok());
        // Dates can go back, as those of a backup that is restored do: what was changed at
        // another time than one knows is not known.
        let tags = |date| match *name == IF_MODIFIED_SINCE {
            true => Tags::Changed(date..=date),
            false => Tags::Changed(UNIX_EPOCH..=date),
        };
        date.map_or(self, tags)
    }

    fn is_condition(&self) -> bool {
        !matches!(self, Tags::None)
    }

    /// Whether it is no condition, or holds.
    fn allow(&self, version: &FilterVersion) -> bool {
        !self.is_condition() || self.hold(version)
    }

    fn hold(&self, version: &FilterVersion) -> bool {
        match self {
            Tags::None => false,
            Tags::Changed(within) => within.contains(&changed(version)),
            Tags::Any => true,
            Tags::These(versions) => versions.contains(version),
        }
    }
}

/// Those of a header, which may be of what is compressed.
fn tags(headers: &HeaderMap, name: &HeaderName, may_be_gzip: bool) -> Tags {
    if !headers.contains_key(name) {
        return Tags::None;
    }
    let tags: Vec<&str> = listed(headers, name).collect();
    if tags.contains(&"*") {
        return Tags::Any;
    }
    let version = |tag: &str| {
        // What came through a proxy that compresses is no less known by its tag.
        let tag = match *name == IF_NONE_MATCH {
            true => tag.strip_prefix("W/").unwrap_or(tag),
            false => tag,
        };
        let tag = tag.strip_prefix('"')?.strip_suffix('"')?;
        let plain = tag.strip_suffix(GZIP_TAG).filter(|_| may_be_gzip);
        FilterVersion::parse(plain.unwrap_or(tag))
    };
    Tags::These(tags.into_iter().filter_map(version).collect())
}
