//! Imports: streams of any length into a filter.
//!
//! The body is read piece by piece and committed as it goes; nothing more is
//! read while a commit is under way, so a client that is faster than the disk
//! waits. The bounds of other bodies, in bytes and in time, do not apply to
//! the whole of it, but a stream that stalls is ended.

use crate::access::keys::KeyEnd;
use crate::admission::body;
use crate::admission::deadline::Deadline;
use crate::answer::json;
use crate::bearer::holder_of;
use crate::bounds::{MAX_LISTED_IMPORTS, name_in_words};
use crate::codes::Code;
use crate::engine::{
    AddMode, BadLine, FilterName, Import, ImportId, ImportProgress, ImportState,
    MAX_IMPORT_ID_LENGTH,
};
use crate::extract::{CallerEngine, NoQuery, Target};
use crate::idempotency::refuse_key;
use crate::media::{self, media_type};
use crate::parse::{LineFeed, LineFormat};
use crate::problem::{HttpError, Result, excerpt};
use crate::query::Query;
use crate::server::App;
use crate::server::listen::patience::after;
use crate::server::principal::Principal;
use crate::time::rfc3339_ms;
use crate::words;
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::Uri;
use axum::http::request::Parts;
use serde::Serialize;
use std::sync::Arc;
use tokio::time::Instant;

/// The progress of an import.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct ImportBody {
    /// Its name.
    import_id: String,
    #[cfg_attr(test, schema(inline))]
    state: words::ImportState,
    /// Committed lines. Resume the import with `from_line` one greater.
    committed_lines: u64,
    /// Items added.
    added: u64,
    /// Items that were found and skipped; only with `only_if_absent`.
    exists: u64,
    /// Items for which there was no room.
    full: u64,
    /// The limit that was reached; null when there were none.
    #[cfg_attr(test, schema(schema_with = words::FullReason::met))]
    full_reason: Option<words::FullReason>,
    /// Blank lines.
    blank_lines: u64,
    /// Invalid lines; they were skipped.
    bad_lines: u64,
    /// The first 20 of them.
    first_bad_lines: Vec<BadLineBody>,
    /// When its first request arrived (RFC 3339).
    #[cfg_attr(test, schema(format = DateTime))]
    started_at: String,
    /// When its last commit was made (RFC 3339).
    #[cfg_attr(test, schema(format = DateTime))]
    updated_at: String,
}

/// An invalid line.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct BadLineBody {
    /// Its number, from 1.
    line: u64,
    #[cfg_attr(test, schema(inline))]
    reason: words::BadLine,
}

impl ImportBody {
    fn new(id: &ImportId, progress: &ImportProgress, state: ImportState) -> ImportBody {
        let bad_line = |&(line, why): &(u64, BadLine)| BadLineBody {
            line,
            reason: why.into(),
        };
        ImportBody {
            import_id: id.as_str().to_owned(),
            state: state.into(),
            committed_lines: progress.committed_lines,
            added: progress.added,
            exists: progress.exists,
            full: progress.full,
            full_reason: progress.full_reason.map(Into::into),
            blank_lines: progress.blank_lines,
            bad_lines: progress.bad_lines,
            first_bad_lines: progress.first_bad_lines.iter().map(bad_line).collect(),
            started_at: rfc3339_ms(progress.started_at_ms),
            updated_at: rfc3339_ms(progress.updated_at_ms),
        }
    }
}

/// A page of the imports into a filter.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct ImportListBody {
    /// By name.
    imports: Vec<ImportBody>,
    /// Pass it as `cursor` for the next page; null on the last page.
    next_cursor: Option<String>,
}

/// An import, of the description's examples.
#[cfg(test)]
fn example() -> ImportBody {
    let bad = [17, 40_000];
    ImportBody {
        import_id: "2026-11-21-codes".to_owned(),
        state: words::ImportState::Complete,
        committed_lines: 100_000,
        added: 99_997,
        exists: 0,
        full: 0,
        full_reason: None,
        blank_lines: 1,
        bad_lines: 2,
        first_bad_lines: bad
            .map(|line| BadLineBody {
                line,
                reason: words::BadLine::TooLong,
            })
            .into(),
        started_at: "2026-11-21T10:00:00.000Z".to_owned(),
        updated_at: "2026-11-21T10:00:03.000Z".to_owned(),
    }
}

/// One, and a list of it.
#[cfg(test)]
pub(crate) fn examples() -> (serde_json::Value, serde_json::Value) {
    let list = ImportListBody {
        imports: vec![example()],
        next_cursor: None,
    };
    (serde_json::json!(example()), serde_json::json!(list))
}

/// What an import is told in its query.
struct Options {
    id: ImportId,
    first_line: u64,
    mode: AddMode,
}

impl Options {
    fn of(uri: &Uri) -> Result<Options> {
        let query = Query::parse(uri, &["import_id", "from_line", "only_if_absent"])?;
        let id = query.text("import_id")?;
        let id = id.ok_or_else(|| bad_id("left out"))?;
        let first_line = query.read(
            "from_line",
            |text| text.parse::<u64>().ok().filter(|&number| number > 0),
            || "a line's number, from 1 on",
        )?;
        Ok(Options {
            id: ImportId::parse(id).ok_or_else(|| bad_id(&excerpt(id)))?,
            first_line: first_line.unwrap_or(1),
            mode: AddMode::of(query.switch("only_if_absent")?),
        })
    }
}

fn bad_id(given: &str) -> HttpError {
    HttpError::parameter("import_id", given, name_in_words(MAX_IMPORT_ID_LENGTH))
}

/// `POST /filters/{key}/import`.
pub(crate) async fn import_items(
    State(app): State<Arc<App>>,
    Target(engine, name): Target,
    Extension(caller): Extension<Principal>,
    request: Request,
) -> Result {
    let (parts, mut body) = request.into_parts();
    refuse_key(&parts.headers, "the import_id serves the same purpose")?;
    let format = match media_type(&parts.headers).as_deref() {
        Some(media::TEXT) => LineFormat::Text,
        Some(media::NDJSON) => LineFormat::Json,
        given => {
            return Err(HttpError::media_type(
                given,
                "text/plain with one item per line, or application/x-ndjson with one JSON string or integer per line",
            ));
        }
    };
    let options = Options::of(&parts.uri)?;
    let _memory = app.admission.import(holder_of(&parts).as_ref())?;

    let mut import = engine
        .begin_import(&name, &options.id, options.mode)
        .await
        .map_err(|error| HttpError::Import(error).adding(""))?;
    let done = import.progress().committed_lines;
    if options.first_line > done + 1 {
        return Err(HttpError::parameter(
            "from_line",
            options.first_line.to_string(),
            format!("up to {}, since {done} lines are committed", done + 1),
        ));
    }
    let mut feed = LineFeed::new(format, import.codec.clone(), options.first_line, done);
    let importing = take_in(&app, &caller, &mut body, &mut import, &mut feed).await;
    importing.map_err(|error| cut_off(error, import.progress()))?;
    let body = ImportBody::new(&options.id, import.progress(), ImportState::Complete);
    json(&body)
}

/// Takes the lines in to their end, or to that of the caller's key. A commit that has
/// begun is waited for: what is said of the import is what became of it.
async fn take_in(
    app: &App,
    caller: &Principal,
    body: &mut Body,
    import: &mut Import,
    feed: &mut LineFeed,
) -> Result<()> {
    let ends = after(app.admission.limits.import_timeout);
    while let Some(piece) = caller.outlives(next_piece(app, body, ends)).await?? {
        let mut piece = piece.as_ref();
        while feed.push(&mut piece) {
            commit(app, import, feed).await?;
            caller.outlives(std::future::ready(())).await?;
        }
        if Instant::now() >= ends {
            // Its client goes on behind the lines that came.
            commit(app, import, feed).await?;
            let seconds = app.admission.limits.import_timeout.as_secs();
            return Err(HttpError::ImportTimeout { seconds });
        }
        // The next piece may be there already, and so on for megabytes.
        tokio::task::yield_now().await;
    }
    feed.end();
    commit(app, import, feed).await
}

/// What is said of an import whose key ended: how far it came.
fn cut_off(error: HttpError, progress: &ImportProgress) -> HttpError {
    let end = match error {
        HttpError::Plain(Code::ApiKeyExpired) => KeyEnd::Expired,
        HttpError::Plain(Code::ApiKeyRevoked) => KeyEnd::Revoked,
        other => return other,
    };
    HttpError::ImportCutOff {
        end,
        committed_lines: progress.committed_lines,
    }
}

async fn commit(app: &App, import: &mut Import, feed: &mut LineFeed) -> Result<()> {
    // A stream may take hours; its client can resume after the restart.
    if app.is_draining() {
        return Err(HttpError::Plain(Code::Draining));
    }
    // The stream takes as long as it likes, each commit of it no longer than a request.
    import.set_deadline(Deadline::from_now(&app.admission.limits).0);
    import.commit(&feed.take()).await.map_err(HttpError::Import)
}

/// The next piece of the body, or an empty one when its time is up; `None` at
/// its end.
async fn next_piece(app: &App, body: &mut Body, ends: Instant) -> Result<Option<Bytes>> {
    match body::next(&app.admission, body, ends).await {
        Err(HttpError::BodyTimeout { .. }) if Instant::now() >= ends => Ok(Some(Bytes::new())),
        Err(HttpError::BodyTimeout { idle_seconds, .. }) => {
            Err(HttpError::StreamStalled { idle_seconds })
        }
        piece => piece,
    }
}

/// Filter and import in the path.
pub(crate) struct ImportPath(FilterName, ImportId);

impl FromRequestParts<Arc<App>> for ImportPath {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self> {
        let Path((key, id)) = Path::<(String, String)>::from_request_parts(parts, app)
            .await
            .map_err(|_| HttpError::Plain(Code::MalformedPath))?;
        let id = ImportId::parse(&id).ok_or_else(|| bad_id(&excerpt(&id)))?;
        Ok(ImportPath(FilterName::parse(&key)?, id))
    }
}

/// `GET /filters/{key}/imports/{id}`.
pub(crate) async fn get_import(
    CallerEngine(engine): CallerEngine,
    ImportPath(name, id): ImportPath,
    _: NoQuery,
) -> Result {
    let (progress, state) = engine.import_progress(&name, &id).await?;
    json(&ImportBody::new(&id, &progress, state))
}

/// `GET /filters/{key}/imports`.
pub(crate) async fn list_imports(Target(engine, name): Target, uri: Uri) -> Result {
    let query = Query::parse(&uri, &["cursor"])?;
    let after = query.text("cursor")?.unwrap_or_default();
    if !after.is_empty() && ImportId::parse(after).is_none() {
        let allowed = name_in_words(MAX_IMPORT_ID_LENGTH);
        return Err(HttpError::parameter("cursor", excerpt(after), allowed));
    }
    let page = engine.imports(&name, after, MAX_LISTED_IMPORTS).await?;
    let imports = page.imports.iter();
    json(&ImportListBody {
        imports: imports
            .map(|(id, progress, state)| ImportBody::new(id, progress, *state))
            .collect(),
        next_cursor: page.next,
    })
}
