//! Filters themselves: create, list, describe, delete.

use super::App;
use super::answer::json;
use super::extract::{Key, changed_ttl, fields};
use super::idempotency::{Keyed, marked};
use super::problem::HttpError;
use super::query::{Query, excerpt};
use crate::engine::{Created, FilterInfo, FilterName, FilterSummary, SubFilterInfo};
use axum::extract::{OriginalUri, Request, State};
use axum::http::header::{IF_NONE_MATCH, LOCATION};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use utoipa::ToSchema;

/// Most filters that one page of the list holds.
const MAX_LISTED: usize = 1000;

/// What a filter is to be. Every field may be left out: then it is as the
/// server's defaults say.
#[derive(ToSchema)]
#[expect(
    dead_code,
    reason = "describes the body; the body is read field by field, to point to what is wrong"
)]
pub(crate) struct FilterFields {
    /// Items that fit before the first expansion, from 2 * bucket_size to 2^40.
    #[schema(
        example = 100_000,
        minimum = 2,
        maximum = 1_099_511_627_776_u64,
        nullable = false
    )]
    capacity: Option<u64>,
    /// How fingerprints are placed. `classic` is bit-compatible with RedisBloom and Apache Kvrocks.
    #[schema(schema_with = super::openapi::layout)]
    layout: Option<String>,
    /// Slots per bucket. More slots fill better and match more often by mistake.
    #[schema(example = 2, minimum = 1, maximum = 255, nullable = false)]
    bucket_size: Option<u64>,
    /// Longest path of kick-outs that makes room for one item.
    #[schema(example = 20, minimum = 1, maximum = 65_535, nullable = false)]
    max_iterations: Option<u64>,
    /// How much larger each further sub-filter is; rounded up to a power of two. 0 = the filter never grows.
    #[schema(example = 1, minimum = 0, maximum = 32_768, nullable = false)]
    expansion: Option<u64>,
    /// Most sub-filters beyond the first.
    #[schema(example = 32, minimum = 0, maximum = 65_535, nullable = false)]
    max_expansions: Option<u64>,
    /// Seconds after which the filter is gone, 1 to 3162240000; left out = it stays.
    #[schema(
        example = 86_400,
        minimum = 1,
        maximum = 3_162_240_000_u64,
        nullable = false
    )]
    ttl_seconds: Option<u64>,
}

/// What is to change about a filter.
#[derive(ToSchema)]
#[expect(
    dead_code,
    reason = "describes the body; the body is read field by field, to point to what is wrong"
)]
pub(crate) struct FilterChanges {
    /// Seconds from now after which the filter is gone, 1 to 3162240000; null = it stays.
    #[schema(
        required = true,
        example = 86_400,
        minimum = 1,
        maximum = 3_162_240_000_u64
    )]
    ttl_seconds: Option<u64>,
}

/// Everything there is to know about a filter.
#[derive(Serialize, ToSchema)]
pub(crate) struct FilterBody {
    /// Its name.
    #[schema(example = "coupons")]
    key: String,
    /// How fingerprints are placed.
    #[schema(schema_with = super::openapi::layout)]
    layout: &'static str,
    /// Items that fit before the first expansion.
    #[schema(example = 100_000)]
    capacity: u64,
    /// Slots per bucket.
    #[schema(example = 2)]
    bucket_size: u8,
    /// Longest path of kick-outs.
    #[schema(example = 20)]
    max_iterations: u16,
    /// How much larger each further sub-filter is; 0 = never grows.
    #[schema(example = 1)]
    expansion: u32,
    /// Most sub-filters beyond the first.
    #[schema(example = 32)]
    max_expansions: u16,
    /// Items in it: adds less deletes.
    #[schema(example = 50_000)]
    items: u64,
    /// Deletes that found their item, since creation.
    #[schema(example = 0)]
    deletions: u64,
    /// The chain, oldest sub-filter first.
    sub_filters: Vec<SubFilterBody>,
    /// Bits of slots per item; null while the filter is empty.
    #[schema(example = 20.97)]
    bits_per_item: Option<f64>,
    /// Bytes that its slots take when every page is written.
    #[schema(example = 131_072)]
    slot_bytes: u64,
    /// Bytes of its pages in memory.
    #[schema(example = 131_072)]
    memory_bytes: u64,
    /// Bytes of its pages on disk, an estimate.
    #[schema(example = 90_112)]
    disk_bytes: u64,
    /// Probability that an item which was never added is found, from the load as it is.
    #[schema(example = 0.006)]
    expected_false_positive_rate: f64,
    /// Adds left before the next expansion, an estimate.
    #[schema(example = 61_411)]
    adds_before_expansion: u64,
    /// When it was created (RFC 3339).
    #[schema(example = "2026-11-21T10:00:00Z", format = DateTime)]
    created_at: String,
    /// Seconds that were asked for when it got its end; null: it stays.
    #[schema(example = json!(null))]
    ttl_seconds: Option<u64>,
    /// From when on it is gone (RFC 3339); null: it stays.
    #[schema(example = json!(null), format = DateTime)]
    expires_at: Option<String>,
}

/// One link of a filter's chain.
#[derive(Serialize, ToSchema)]
pub(crate) struct SubFilterBody {
    /// Buckets.
    #[schema(example = 65_536)]
    buckets: u64,
    /// Pages that hold the buckets.
    #[schema(example = 32)]
    pages: u64,
    /// Bytes of slots.
    #[schema(example = 131_072)]
    bytes: u64,
    /// Fingerprints in it.
    #[schema(example = 50_000)]
    items: u64,
    /// Share of its slots in use, 0 to 1.
    #[schema(example = 0.38)]
    load: f64,
    /// Probability that it finds an item which was never added.
    #[schema(example = 0.006)]
    expected_false_positive_rate: f64,
}

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
    #[schema(schema_with = super::openapi::layout)]
    layout: &'static str,
    /// Items that fit before the first expansion.
    #[schema(example = 100_000)]
    capacity: u64,
    /// Items in it.
    #[schema(example = 50_000)]
    items: u64,
    /// Bytes that its slots take when every page is written.
    #[schema(example = 131_072)]
    bytes: u64,
    /// When it was created (RFC 3339).
    #[schema(example = "2026-11-21T10:00:00Z", format = DateTime)]
    created_at: String,
    /// From when on it is gone (RFC 3339); null: it stays.
    #[schema(example = json!(null), format = DateTime)]
    expires_at: Option<String>,
}

impl From<&FilterInfo> for FilterBody {
    fn from(info: &FilterInfo) -> FilterBody {
        FilterBody {
            key: info.name.as_str().to_owned(),
            layout: info.params.layout().name(),
            capacity: info.params.capacity(),
            bucket_size: info.params.bucket_size(),
            max_iterations: info.params.max_iterations(),
            expansion: info.params.expansion(),
            max_expansions: info.params.max_expansions(),
            items: info.items,
            deletions: info.deletions,
            sub_filters: info.sub_filters.iter().map(SubFilterBody::from).collect(),
            bits_per_item: info.bits_per_item,
            slot_bytes: info.slot_bytes,
            memory_bytes: info.memory_bytes,
            disk_bytes: info.disk_bytes,
            expected_false_positive_rate: info.expected_false_positive_rate,
            adds_before_expansion: info.adds_before_expansion,
            created_at: rfc3339(info.created_at),
            ttl_seconds: info.expiry.map(|expiry| expiry.ttl_seconds),
            expires_at: info.expiry.map(|expiry| rfc3339(expiry.at)),
        }
    }
}

impl From<&SubFilterInfo> for SubFilterBody {
    fn from(info: &SubFilterInfo) -> SubFilterBody {
        SubFilterBody {
            buckets: info.buckets,
            pages: info.pages,
            bytes: info.bytes,
            items: info.items,
            load: info.load,
            expected_false_positive_rate: info.expected_false_positive_rate,
        }
    }
}

impl From<&FilterSummary> for FilterLineBody {
    fn from(summary: &FilterSummary) -> FilterLineBody {
        FilterLineBody {
            key: summary.name.as_str().to_owned(),
            layout: summary.params.layout().name(),
            capacity: summary.params.capacity(),
            items: summary.items,
            bytes: summary.slot_bytes,
            created_at: rfc3339(summary.created_at),
            expires_at: summary.expiry.map(|expiry| rfc3339(expiry.at)),
        }
    }
}

/// A filter of the description's examples.
pub(super) fn filter_example() -> serde_json::Value {
    let rate = 0.0059;
    serde_json::json!(FilterBody {
        key: "coupons".to_owned(),
        layout: "classic",
        capacity: 100_000,
        bucket_size: 2,
        max_iterations: 20,
        expansion: 1,
        max_expansions: 32,
        items: 50_000,
        deletions: 0,
        sub_filters: vec![SubFilterBody {
            buckets: 65_536,
            pages: 32,
            bytes: 131_072,
            items: 50_000,
            load: 0.381_469_726_562_5,
            expected_false_positive_rate: rate,
        }],
        bits_per_item: Some(20.97152),
        slot_bytes: 131_072,
        memory_bytes: 131_072,
        disk_bytes: 90_112,
        expected_false_positive_rate: rate,
        adds_before_expansion: 61_411,
        created_at: "2026-11-21T10:00:00.000Z".to_owned(),
        ttl_seconds: None,
        expires_at: None,
    })
}

/// A filter that ends, of the description's examples.
fn ending_example() -> serde_json::Value {
    let mut example = filter_example();
    if let Some(fields) = example.as_object_mut() {
        fields.insert("ttl_seconds".to_owned(), 86_400.into());
        let expires_at = "2026-11-22T10:00:00.000Z";
        fields.insert("expires_at".to_owned(), expires_at.into());
    }
    example
}

/// A page of the list, of the description's examples.
fn list_example() -> serde_json::Value {
    serde_json::json!(FilterListBody {
        filters: vec![FilterLineBody {
            key: "coupons".to_owned(),
            layout: "classic",
            capacity: 100_000,
            items: 50_000,
            bytes: 131_072,
            created_at: "2026-11-21T10:00:00.000Z".to_owned(),
            expires_at: None,
        }],
        next_cursor: None,
    })
}

/// Milliseconds since 1970 as people write a time.
pub(crate) fn rfc3339_ms(ms: u64) -> String {
    rfc3339(UNIX_EPOCH + Duration::from_millis(ms))
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// Create a filter
///
/// Idempotent: a filter that exists and agrees with the fields sent is left
/// alone. An empty body creates a filter with the server's defaults.
#[utoipa::path(
    put,
    path = "/filters/{key}",
    operation_id = "put_filter",
    tag = "filters",
    params(
        ("key" = String, Path, description = "Key of the filter: 1 to 255 characters of `A-Z a-z 0-9 . _ : ~ -`.", example = "coupons", min_length = 1, max_length = 255, pattern = "^[A-Za-z0-9._:~-]+$"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: fail with 412 if the filter exists.", nullable = false, example = "*"),
    ),
    request_body(content = FilterFields, description = "What the filter is to be; empty for the server's defaults.", content_type = "application/json", example = json!({"capacity": 100_000})),
    responses(
        (status = 200, description = "It exists and agrees with the fields sent; nothing was changed.", body = FilterBody, example = json!(filter_example())),
        (status = 201, description = "It is new.", body = FilterBody, headers(("Location" = String, description = "Path of the filter.")), example = json!(filter_example())),
    )
)]
pub(crate) async fn put_filter(
    State(app): State<Arc<App>>,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let engine = app.engine()?;
    let only_new = wants_only_new(request.headers());
    let (mut wanted, retry) = fields(&app, request).await?;
    wanted.must_be_new = only_new;
    let answered = engine.once(retry).create_filter(&name, &wanted).await?;
    let response = match &answered.answer {
        Created::New(info) => {
            let mut response = json(&FilterBody::from(info))?;
            *response.status_mut() = StatusCode::CREATED;
            // A key consists of characters that stand for themselves in a path.
            if let Ok(location) = HeaderValue::from_str(&format!("/filters/{name}")) {
                response.headers_mut().insert(LOCATION, location);
            }
            response
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
/// In byte order of the keys, a page at a time.
#[utoipa::path(
    get,
    path = "/filters",
    operation_id = "list_filters",
    tag = "filters",
    params(
        ("prefix" = Option<String>, Query, description = "Only filters whose keys start with it.", example = "shop:"),
        ("limit" = Option<u64>, Query, description = "Most filters of the page; more than 1000 is taken as 1000, 0 as 1.", example = 100),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.", example = "coupons"),
    ),
    responses((status = 200, description = "A page of filters.", body = FilterListBody, example = json!(list_example())))
)]
pub(crate) async fn list_filters(
    State(app): State<Arc<App>>,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, HttpError> {
    let query = Query::parse(&uri, &["prefix", "limit", "cursor"])?;
    let prefix = match query.text("prefix")? {
        None | Some("") => String::new(),
        Some(text) => name_parameter("prefix", text)?.as_str().to_owned(),
    };
    let after = query
        .text("cursor")?
        .map(|text| name_parameter("cursor", text))
        .transpose()?;
    let limit = match query.text("limit")? {
        None => MAX_LISTED,
        Some(text) => listed(text).ok_or_else(|| {
            HttpError::parameter("limit", excerpt(text), "an integer from 1 to 1000")
        })?,
    };

    // One more than asked for tells whether there is a next page.
    let mut found = app
        .engine()?
        .list_filters(&prefix, after.as_ref(), limit + 1)
        .await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let next_cursor = found
        .last()
        .filter(|_| more)
        .map(|last| last.name.as_str().to_owned());
    json(&FilterListBody {
        filters: found.iter().map(FilterLineBody::from).collect(),
        next_cursor,
    })
}

fn name_parameter(name: &'static str, text: &str) -> Result<FilterName, HttpError> {
    FilterName::parse(text).map_err(|_| {
        HttpError::parameter(
            name,
            excerpt(text),
            "1 to 255 characters of A-Z a-z 0-9 . _ : ~ -",
        )
    })
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
    params(("key" = String, Path, description = "Key of the filter.", example = "coupons")),
    responses((status = 200, description = "Parameters, size and load as they are now.", body = FilterBody, example = json!(filter_example())))
)]
pub(crate) async fn get_filter(
    State(app): State<Arc<App>>,
    Key(name): Key,
    OriginalUri(uri): OriginalUri,
) -> Result<Response, HttpError> {
    Query::none(&uri)?;
    let info = app.engine()?.filter_info(&name).await?;
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
    params(("key" = String, Path, description = "Key of the filter.", example = "coupons")),
    responses((status = 200, description = "There is such a filter."))
)]
pub(crate) async fn head_filter(
    app: State<Arc<App>>,
    key: Key,
    uri: OriginalUri,
) -> Result<Response, HttpError> {
    get_filter(app, key, uri).await
}

/// Change when a filter ends
///
/// Counted from now, however long it was to live before. A filter that has
/// ended can't be brought back.
#[utoipa::path(
    patch,
    path = "/filters/{key}",
    operation_id = "patch_filter",
    tag = "filters",
    params(("key" = String, Path, description = "Key of the filter.", example = "coupons")),
    request_body(content = FilterChanges, description = "What is to change.", content_type = "application/json", example = json!({"ttl_seconds": 86_400})),
    responses((status = 200, description = "It ends as it was told to.", body = FilterBody, example = json!(ending_example())))
)]
pub(crate) async fn patch_filter(
    State(app): State<Arc<App>>,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let engine = app.engine()?;
    let (ttl_seconds, retry) = changed_ttl(&app, request).await?;
    let answered = engine.once(retry).set_ttl(&name, ttl_seconds).await?;
    let response = json(&FilterBody::from(&answered.answer))?;
    Ok(marked(&answered, response))
}

/// Delete a filter
///
/// With everything in it; the key is free at once.
#[utoipa::path(
    delete,
    path = "/filters/{key}",
    operation_id = "delete_filter",
    tag = "filters",
    params(("key" = String, Path, description = "Key of the filter.", example = "coupons")),
    responses((status = 204, description = "It is gone."))
)]
pub(crate) async fn delete_filter(
    State(app): State<Arc<App>>,
    Key(name): Key,
    request: Request,
) -> Result<Response, HttpError> {
    let (parts, _) = request.into_parts();
    Query::none(&parts.uri)?;
    let retry = Keyed::of(&parts)?.map(|keyed| keyed.with_body(b""));
    let answered = app.engine()?.once(retry).delete_filter(&name).await?;
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
