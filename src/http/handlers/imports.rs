//! Imports: streams of any length into a filter.
//!
//! The body is read piece by piece and committed as it goes; nothing more is
//! read while a commit is under way, so a client that is faster than the disk
//! waits. The bounds of other bodies, in bytes and in time, do not apply to
//! the whole of it, but a stream that stalls is ended.

use crate::access::keys::KeyEnd;
use crate::engine::{
    AddMode, BadLine, FilterName, Import, ImportId, ImportProgress, ImportState,
    MAX_IMPORT_ID_LENGTH,
};
use crate::http::App;
use crate::http::admission::body;
use crate::http::admission::deadline::Deadline;
use crate::http::answer::json;
use crate::http::bounds::name_in_words;
use crate::http::extract::{CallerEngine, Key};
use crate::http::idempotency::refuse_key;
use crate::http::media::{self, media_type};
use crate::http::middleware::principal::Principal;
use crate::http::openapi::facts::{CHANGE, ENGINE, KEYED, KIND, MISSING, STREAM};
use crate::http::openapi::parameters::{self, FilterKey, ImportInPath};
use crate::http::parse::{LineFeed, LineFormat};
use crate::http::problem::{Code, HttpError, excerpt};
use crate::http::query::Query;
use crate::http::time::{after, rfc3339_ms};
use crate::http::words;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::Uri;
use axum::http::request::Parts;
use axum::response::Response;
use serde::Serialize;
use std::sync::Arc;
use tokio::time::Instant;
use utoipa::ToSchema;

/// The progress of an import.
#[derive(Serialize, ToSchema)]
pub(crate) struct ImportBody {
    /// Its name.
    #[schema(example = "2026-11-21-codes")]
    import_id: String,
    #[schema(inline)]
    state: words::ImportState,
    /// Committed lines. Resume the import with `from_line` one greater.
    #[schema(example = 100_000)]
    committed_lines: u64,
    /// Items added.
    #[schema(example = 99_997)]
    added: u64,
    /// Items that were found and skipped; only with `only_if_absent`.
    #[schema(example = 0)]
    exists: u64,
    /// Items for which there was no room.
    #[schema(example = 0)]
    full: u64,
    /// The limit that was reached; null when there were none.
    #[schema(schema_with = words::FullReason::met)]
    full_reason: Option<words::FullReason>,
    /// Blank lines.
    #[schema(example = 1)]
    blank_lines: u64,
    /// Invalid lines; they were skipped.
    #[schema(example = 2)]
    bad_lines: u64,
    /// The first 20 of them.
    first_bad_lines: Vec<BadLineBody>,
    /// When its first request arrived (RFC 3339).
    #[schema(example = "2026-11-21T10:00:00Z", format = DateTime)]
    started_at: String,
    /// When its last commit was made (RFC 3339).
    #[schema(example = "2026-11-21T10:00:03Z", format = DateTime)]
    updated_at: String,
}

/// An invalid line.
#[derive(Serialize, ToSchema)]
pub(crate) struct BadLineBody {
    /// Its number, from 1.
    #[schema(example = 17)]
    line: u64,
    #[schema(inline)]
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

/// An import, of the description's examples.
fn example() -> serde_json::Value {
    let bad = [17, 40_000];
    serde_json::json!(ImportBody {
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
    })
}

/// What an import is told in its query.
struct Options {
    id: ImportId,
    first_line: u64,
    mode: AddMode,
}

impl Options {
    fn of(uri: &Uri) -> Result<Options, HttpError> {
        let query = Query::parse(uri, &["import_id", "from_line", "only_if_absent"])?;
        let id = query.text("import_id")?;
        let id = id.ok_or_else(|| bad_id("left out"))?;
        let first_line = match query.text("from_line")? {
            None => 1,
            Some(text) => {
                let number = text.parse().ok().filter(|&number| number > 0);
                number.ok_or_else(|| {
                    HttpError::parameter("from_line", excerpt(text), "a line's number, from 1 on")
                })?
            }
        };
        Ok(Options {
            id: ImportId::parse(id).ok_or_else(|| bad_id(&excerpt(id)))?,
            first_line,
            mode: match query.switch("only_if_absent")? {
                true => AddMode::OnlyIfAbsent,
                false => AddMode::Always,
            },
        })
    }
}

fn bad_id(given: &str) -> HttpError {
    HttpError::parameter("import_id", given, name_in_words(MAX_IMPORT_ID_LENGTH))
}

/// Import a stream of items
///
/// One item per line, any number of lines, committed while they are read. To a filter
/// whose items have values or attributes, an entry per line: an item with a value, or
/// with a row.
/// Invalid lines are skipped and reported. The import has a name: when the
/// connection breaks, `GET /filters/{key}/imports/{id}` reports how many lines
/// are committed, and the same request with `from_line` set to the next line
/// resumes. Lines that are already committed are skipped, so sending the whole
/// stream again under the same name adds nothing twice.
#[utoipa::path(
    post,
    path = "/filters/{key}/import",
    operation_id = "import_items",
    tag = "items",
    security(("api_key" = ["write"])),
    extensions(("x-streamed" = json!(true)), ("x-fails" = json!([ENGINE, KEYED, MISSING, KIND, STREAM, [Code::TooManyPages, Code::ImportRunning, Code::ImportsFull, Code::OverKeyQuota], CHANGE]))),
    params(
        FilterKey,
        parameters::ImportId,
        ("from_line" = Option<u64>, Query, description = "Number of the first line of the body within the import, from 1; at most one more than `committed_lines`.", example = 1, minimum = 1),
        ("only_if_absent" = Option<bool>, Query, description = "Skip an item that the filter already contains (or seems to contain, at its false-positive rate).", example = false),
    ),
    request_body(
        description = "The lines. `text/plain`: each is an item, or to a filter with values an item, a TAB and a value, or to one with attributes an item and a TAB before each value of its row, in the order of the filter's attributes. `application/x-ndjson`: each is a JSON string or an integer, or to a filter with values an object with `item` and `value`, or to one with attributes an object with `item` and `attributes`. Also gzipped.",
        content((String = "text/plain", example = "SPRING-24\nAUTUMN-24\n17\n"), (String = "application/x-ndjson", example = "\"SPRING-24\"\n\"AUTUMN-24\"\n17\n")),
    ),
    responses((status = 200, description = "The stream ended, and all of it is committed. Counts are those of the whole import.", body = ImportBody, example = json!(example())))
)]
pub(crate) async fn import_items(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    caller: Principal,
    request: Request,
) -> Result<Response, HttpError> {
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
    let _memory = app
        .admission
        .import(Principal::holder_of(&parts).as_ref())?;

    let mut import = engine
        .begin_import(&name, &options.id, options.mode)
        .await
        .map_err(HttpError::Import)?;
    let done = import.progress().committed_lines;
    if options.first_line > done + 1 {
        return Err(HttpError::parameter(
            "from_line",
            options.first_line.to_string(),
            format!("up to {}, since {done} lines are committed", done + 1),
        ));
    }
    let codec = import.codec().clone();
    let mut feed = LineFeed::new(format, codec, options.first_line, done);
    let importing = take_in(&app, &mut body, &mut import, &mut feed);
    let importing = caller.outlives(importing).await.and_then(|ended| ended);
    importing.map_err(|error| cut_off(error, import.progress()))?;
    let body = ImportBody::new(&options.id, import.progress(), ImportState::Complete);
    json(&body)
}

/// Takes the lines in to their end.
async fn take_in(
    app: &App,
    body: &mut Body,
    import: &mut Import,
    feed: &mut LineFeed,
) -> Result<(), HttpError> {
    let ends = after(app.admission.limits.import_timeout);
    while let Some(piece) = next_piece(app, body, ends).await? {
        let mut piece = piece.as_ref();
        while feed.push(&mut piece) {
            commit(app, import, feed).await?;
        }
        if Instant::now() >= ends {
            return Err(overdue(app, import, feed).await);
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
        HttpError::ApiKeyExpired => KeyEnd::Expired,
        HttpError::ApiKeyRevoked => KeyEnd::Revoked,
        other => return other,
    };
    HttpError::ImportCutOff {
        end,
        committed_lines: progress.committed_lines,
    }
}

async fn commit(app: &App, import: &mut Import, feed: &mut LineFeed) -> Result<(), HttpError> {
    // A stream may take hours; its client can resume after the restart.
    if app.is_draining() {
        return Err(HttpError::Draining);
    }
    // The stream takes as long as it likes, each commit of it no longer than a request.
    import.set_deadline(Deadline::from_now(&app.admission.limits).0);
    import.commit(&feed.take()).await.map_err(HttpError::Import)
}

/// Commits the lines that came; its client goes on behind them.
async fn overdue(app: &App, import: &mut Import, feed: &mut LineFeed) -> HttpError {
    let seconds = app.admission.limits.import_timeout.as_secs();
    let committed = commit(app, import, feed).await;
    committed.map_or_else(|error| error, |()| HttpError::ImportTimeout { seconds })
}

/// The next piece of the body, or an empty one when its time is up; `None` at
/// its end.
async fn next_piece(app: &App, body: &mut Body, ends: Instant) -> Result<Option<Bytes>, HttpError> {
    let piece = body::next(&app.admission, body, ends).await;
    piece
        .or_else(|error| match error {
            HttpError::BodyTimeout { .. } if Instant::now() >= ends => Ok(Some(Bytes::new())),
            error => Err(error),
        })
        .map_err(|error| match error {
            HttpError::BodyTimeout { idle_seconds, .. } => {
                HttpError::StreamStalled { idle_seconds }
            }
            other => other,
        })
}

/// Filter and import in the path.
pub(crate) struct ImportPath(FilterName, ImportId);

impl FromRequestParts<Arc<App>> for ImportPath {
    type Rejection = HttpError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, HttpError> {
        let Path((key, id)) = Path::<(String, String)>::from_request_parts(parts, app)
            .await
            .map_err(|_| HttpError::MalformedPath)?;
        let id = ImportId::parse(&id).ok_or_else(|| bad_id(&excerpt(&id)))?;
        Ok(ImportPath(FilterName::parse(&key)?, id))
    }
}

/// Query the progress of an import
#[utoipa::path(
    get,
    path = "/filters/{key}/imports/{id}",
    operation_id = "get_import",
    tag = "items",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING, [Code::ImportNotFound]]))),
    params(FilterKey, ImportInPath),
    responses((status = 200, description = "As of its last commit.", body = ImportBody, example = json!(example())))
)]
pub(crate) async fn get_import(
    CallerEngine(engine): CallerEngine,
    ImportPath(name, id): ImportPath,
    uri: Uri,
) -> Result<Response, HttpError> {
    Query::none(&uri)?;
    let (progress, state) = engine.import_progress(&name, &id).await?;
    json(&ImportBody::new(&id, &progress, state))
}
