//! Filters themselves: create, list, describe, delete.

use super::filter_body::{FilterBody, ending_example, filter_example};
use crate::engine::{Created, FilterName, FilterPage, FilterSummary};
use crate::http::App;
use crate::http::admission::deadline::Deadline;
use crate::http::answer::{json, json_at};
use crate::http::bounds::{MAX_LISTED, key_in_words, path_of};
use crate::http::extract::{CallerEngine, Key, changed_ttl, fields};
use crate::http::idempotency::{Keyed, marked};
use crate::http::middleware::audit::Note;
use crate::http::middleware::principal::Principal;
use crate::http::openapi::facts::{BODY, CHANGE, ENGINE, KEYED, MISSING, QUOTA, RETRIED};
use crate::http::openapi::parameters::{FilterKey, ListPage};
use crate::http::openapi::schemas;
use crate::http::parse::{FilterChanges, FilterFields};
use crate::http::problem::{Code, HttpError, excerpt};
use crate::http::query::Query;
use crate::http::time::rfc3339;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::IF_NONE_MATCH;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// A page of the list of filters.
#[derive(Serialize, ToSchema)]
pub(crate) struct FilterListBody {
    /// Filters in byte order of their keys.
    filters: Vec<FilterLineBody>,
    /// Pass it as `cursor` for the next page; null on the last page.
    #[schema(example = json!(null))]
    next_cursor: Option<String>,
}

/// A line of the list of filters.
#[derive(Serialize, ToSchema)]
pub(crate) struct FilterLineBody {
    /// Its name.
    #[schema(example = "coupons")]
    key: String,
    /// How fingerprints are placed.
    #[schema(schema_with = schemas::layout)]
    layout: &'static str,
    /// Items that fit before the first expansion.
    #[schema(example = 100_000)]
    capacity: u64,
    /// Items in it.
    #[schema(example = 50_000)]
    items: u64,
    /// Sub-filters.
    #[schema(example = 1)]
    sub_filters: usize,
    /// Share of its slots in use, 0 to 1.
    #[schema(example = 0.47)]
    load: f64,
    /// Bytes that its slots take when every page is written.
    #[schema(example = 212_992)]
    bytes: u64,
    /// The promised false-positive rate: the share of never-added items that are found; null without a promise.
    #[schema(example = 0.001)]
    error_rate: Option<f64>,
    /// Whether the promise still holds.
    #[schema(example = true)]
    error_rate_holds: bool,
    /// Expected false-positive rate at the current load: the probability that a never-added item is found.
    #[schema(example = 0.000_06)]
    expected_false_positive_rate: f64,
    /// When it was created (RFC 3339).
    #[schema(example = "2026-11-21T10:00:00Z", format = DateTime)]
    created_at: String,
    /// When it expires (RFC 3339); null: it does not expire.
    #[schema(example = json!(null), format = DateTime)]
    expires_at: Option<String>,
}

impl From<&FilterSummary> for FilterLineBody {
    fn from(summary: &FilterSummary) -> FilterLineBody {
        FilterLineBody {
            key: summary.name.as_str().to_owned(),
            layout: summary.layout.name(),
            capacity: summary.capacity,
            items: summary.items,
            sub_filters: summary.sub_filters,
            load: summary.load,
            bytes: summary.slot_bytes,
            error_rate: summary.error_rate,
            error_rate_holds: summary.keeps_promise,
            expected_false_positive_rate: summary.expected_false_positive_rate,
            created_at: rfc3339(summary.created_at),
            expires_at: summary.expiry.map(|expiry| rfc3339(expiry.at)),
        }
    }
}

impl From<&FilterPage> for FilterListBody {
    fn from(page: &FilterPage) -> FilterListBody {
        FilterListBody {
            filters: page.filters.iter().map(FilterLineBody::from).collect(),
            next_cursor: page.next.as_ref().map(|name| name.as_str().to_owned()),
        }
    }
}

/// A page of the list, of the description's examples.
fn list_example() -> serde_json::Value {
    serde_json::json!(FilterListBody {
        filters: vec![FilterLineBody {
            key: "coupons".to_owned(),
            layout: "paged",
            capacity: 100_000,
            items: 50_000,
            sub_filters: 1,
            load: 0.469_501_201_923,
            bytes: 212_992,
            error_rate: Some(0.001),
            error_rate_holds: true,
            expected_false_positive_rate: 0.000_057_3,
            created_at: "2026-11-21T10:00:00.000Z".to_owned(),
            expires_at: None,
        }],
        next_cursor: None,
    })
}

/// Create a filter
///
/// Idempotent: an existing filter that agrees with the fields is not changed.
/// An empty body creates a filter with the server's defaults.
#[utoipa::path(
    put,
    path = "/filters/{key}",
    operation_id = "put_filter",
    tag = "filters",
    security(("api_key" = ["write"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, BODY, CHANGE, [Code::FilterDiffers, Code::FilterExists], QUOTA, RETRIED, [Code::IdempotencyFilterGone]])), ("x-body-is-optional" = json!(true))),
    params(
        FilterKey,
        ("If-None-Match" = Option<String>, Header, description = "`*`: fail with 412 if the filter exists.", nullable = false, example = "*"),
    ),
    request_body(content = FilterFields, description = "Parameters of the filter; empty for the server's defaults.", content_type = "application/json", example = json!({"capacity": 100_000, "error_rate": 0.001})),
    responses(
        (status = 200, description = "The filter exists and agrees with the fields; nothing was changed.", body = FilterBody, example = json!(filter_example())),
        (status = 201, description = "The filter was created.", body = FilterBody, headers(("Location" = String, description = "Path of the filter.")), example = json!(filter_example())),
    )
)]
pub(crate) async fn put_filter(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let only_new = wants_only_new(request.headers());
    let (mut wanted, key) = fields(&app, request).await?;
    wanted.must_be_new = only_new;
    let answered = engine.create_filter(&name, &wanted, key).await?;
    let response = match &answered.answer {
        Created::New(info) => {
            let path = path_of(&name);
            json_at(StatusCode::CREATED, &path, &FilterBody::from(info))?
        }
        Created::Existing(_) | Created::Differs(..) if only_new => {
            return Err(HttpError::FilterExists);
        }
        Created::Existing(info) => json(&FilterBody::from(info))?,
        Created::Differs(_, differences) => {
            return Err(HttpError::FilterDiffers {
                differences: differences.clone(),
            });
        }
    };
    Ok(marked(&answered, response))
}

fn wants_only_new(headers: &HeaderMap) -> bool {
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .any(|value| value.as_bytes().trim_ascii() == b"*")
}

/// List filters
///
/// In byte order of the keys, one page at a time. A page may have fewer filters than
/// `limit`, where their descriptions are long: the last page is the one without
/// `next_cursor`. An API key with a prefix sees only its filters.
#[utoipa::path(
    get,
    path = "/filters",
    operation_id = "list_filters",
    tag = "filters",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([ENGINE])), ("x-narrowed" = json!(true))),
    params(ListPage),
    responses((status = 200, description = "A page of filters.", body = FilterListBody, example = json!(list_example())))
)]
pub(crate) async fn list_filters(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    permit: Principal,
    Extension(Deadline(deadline)): Extension<Deadline>,
    uri: Uri,
) -> Result<Response, HttpError> {
    let query = Query::parse(&uri, &["prefix", "limit", "cursor"])?;
    let prefix = match query.text("prefix")? {
        None => String::new(),
        Some(text) if FilterName::can_start_with(text) => text.to_owned(),
        Some(text) => {
            let allowed = format!("empty, or the start of a key: {}", key_in_words());
            return Err(HttpError::parameter("prefix", excerpt(text), allowed));
        }
    };
    let after = query
        .text("cursor")?
        .map(|text| name_parameter("cursor", text))
        .transpose()?;
    let limit = match query.text("limit")? {
        None => MAX_LISTED,
        Some(text) => listed(text).ok_or_else(|| {
            HttpError::parameter(
                "limit",
                excerpt(text),
                format!("an integer from 1 to {MAX_LISTED}"),
            )
        })?,
    };

    let Some(prefix) = permit.narrow(&prefix) else {
        return json(&FilterListBody::from(&FilterPage::default()));
    };
    // As a request with a large body: nobody knows how large what is read will be.
    let admission = &app.admission;
    let turn = admission.turn(permit.holder(), deadline, usize::MAX, false);
    let engine = engine.in_turn(turn.await?);
    let page = engine.list_filters(&prefix, after.as_ref(), limit).await?;
    json(&FilterListBody::from(&page))
}

fn name_parameter(name: &'static str, text: &str) -> Result<FilterName, HttpError> {
    FilterName::parse(text).map_err(|_| HttpError::parameter(name, excerpt(text), key_in_words()))
}

/// Any number of digits is a number, however large.
fn listed(text: &str) -> Option<usize> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(MAX_LISTED).clamp(1, MAX_LISTED))
}

/// Describe a filter
#[utoipa::path(
    get,
    path = "/filters/{key}",
    operation_id = "get_filter",
    tag = "filters",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING]))),
    params(FilterKey),
    responses((status = 200, description = "Parameters, size and load of the filter now.", body = FilterBody, example = json!(filter_example())))
)]
pub(crate) async fn get_filter(
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    uri: Uri,
) -> Result<Response, HttpError> {
    Query::none(&uri)?;
    let info = engine.filter_info(&name).await?;
    json(&FilterBody::from(&info))
}

/// Ask whether a filter exists
///
/// The headers of the description, without its body.
#[utoipa::path(
    head,
    path = "/filters/{key}",
    operation_id = "head_filter",
    tag = "filters",
    security(("api_key" = ["read"])),
    extensions(("x-fails" = json!([ENGINE, KEYED, MISSING]))),
    params(FilterKey),
    responses((status = 200, description = "The filter exists."))
)]
pub(crate) async fn head_filter(
    engine: CallerEngine,
    key: Key,
    uri: Uri,
) -> Result<Response, HttpError> {
    get_filter(engine, key, uri).await
}

/// Change the expiry of a filter
///
/// The time counts from now, whatever the expiry was before. An expired filter
/// cannot be restored.
#[utoipa::path(
    patch,
    path = "/filters/{key}",
    operation_id = "patch_filter",
    tag = "filters",
    security(("api_key" = ["admin"])),
    extensions(("x-audited" = json!(true)), ("x-fails" = json!([ENGINE, KEYED, MISSING, BODY, CHANGE, RETRIED, [Code::IdempotencyFilterGone]]))),
    params(FilterKey),
    request_body(content = FilterChanges, description = "The fields to change.", content_type = "application/json", example = json!({"ttl_seconds": 86_400})),
    responses((status = 200, description = "The filter with its new expiry.", body = FilterBody, example = json!(ending_example())))
)]
pub(crate) async fn patch_filter(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let (ttl_seconds, key) = changed_ttl(&app, request).await?;
    let answered = engine.set_ttl(&name, ttl_seconds, key).await?;
    let mut response = json(&FilterBody::from(&answered.answer))?;
    let seconds = ttl_seconds.map_or("none".to_owned(), |seconds| seconds.to_string());
    let note = Note(format!("ttl_seconds={seconds}").into());
    response.extensions_mut().insert(note);
    Ok(marked(&answered, response))
}

/// Delete a filter
///
/// Deletes the filter with all its items; the key can be used again at once.
#[utoipa::path(
    delete,
    path = "/filters/{key}",
    operation_id = "delete_filter",
    tag = "filters",
    security(("api_key" = ["admin"])),
    extensions(("x-audited" = json!(true)), ("x-fails" = json!([ENGINE, KEYED, MISSING, CHANGE, RETRIED]))),
    params(FilterKey),
    responses((status = 204, description = "The filter was deleted."))
)]
pub(crate) async fn delete_filter(
    CallerEngine(engine): CallerEngine,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let (parts, _) = request.into_parts();
    Query::none(&parts.uri)?;
    let key = Keyed::of(&parts)?.map(|keyed| keyed.with_body(b""));
    let answered = engine.delete_filter(&name, key).await?;
    let response = StatusCode::NO_CONTENT.into_response();
    Ok(marked(&answered, response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_list_is_coerced() {
        assert_eq!(listed("7"), Some(7));
        assert_eq!(listed("0"), Some(1));
        assert_eq!(listed("1001"), Some(1000));
        assert_eq!(listed("99999999999999999999999"), Some(1000));
        for text in ["", "-1", "1.5", "all"] {
            assert_eq!(listed(text), None, "{text}");
        }
    }
}
