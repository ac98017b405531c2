//! Filters themselves: create, list, describe, delete.

use super::filter_body::FilterBody;
use crate::admission::deadline::Deadline;
use crate::answer::{json, json_at};
use crate::bounds::{MAX_LISTED, key_in_words, path_of};
use crate::chain::params::Window;
use crate::codes::Code;
use crate::engine::{Created, FilterName, FilterPage, FilterSummary};
use crate::extract::{CallerEngine, NoQuery, Sent, Target};
use crate::idempotency::marked;
use crate::middleware::audit::noted;
use crate::problem::{HttpError, Result, excerpt};
use crate::query::Query;
#[cfg(test)]
use crate::schemas;
use crate::server::App;
use crate::server::principal::Principal;
use crate::time::rfc3339_ms;
use axum::Extension;
use axum::extract::State;
use axum::http::header::IF_NONE_MATCH;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use serde::Serialize;
use std::sync::Arc;

/// A page of the list of filters.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct FilterListBody {
    /// Filters in byte order of their keys.
    filters: Vec<FilterLineBody>,
    /// Pass it as `cursor` for the next page; null on the last page.
    next_cursor: Option<String>,
}

/// A line of the list of filters.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct FilterLineBody {
    /// Its name.
    key: String,
    /// How fingerprints are placed.
    #[cfg_attr(test, schema(schema_with = schemas::layout))]
    layout: &'static str,
    /// Items that fit before the first expansion.
    capacity: u64,
    /// Bits of the values of its items; null: they have none.
    value_bits: Option<u8>,
    /// Names of the attributes of its items; null: they have none.
    attributes: Option<Vec<String>>,
    /// Seconds for which its items are found; null: they do not expire.
    window_seconds: Option<u32>,
    /// Items in it.
    items: u64,
    /// Sub-filters.
    sub_filters: usize,
    /// Share of its slots in use, 0 to 1.
    load: f64,
    /// Bytes that its slots take when every page is written.
    bytes: u64,
    /// The promised false-positive rate: the share of never-added items that are found; null without a promise.
    error_rate: Option<f64>,
    /// Whether the promise still holds.
    error_rate_holds: bool,
    /// Expected false-positive rate at the current load: the probability that a never-added item is found.
    expected_false_positive_rate: f64,
    /// When it was created (RFC 3339).
    #[cfg_attr(test, schema(format = DateTime))]
    created_at: String,
    /// When it expires (RFC 3339); null: it does not expire.
    #[cfg_attr(test, schema(format = DateTime))]
    expires_at: Option<String>,
}

impl From<&FilterSummary> for FilterLineBody {
    fn from(summary: &FilterSummary) -> FilterLineBody {
        let params = &summary.params;
        FilterLineBody {
            key: summary.name.as_str().to_owned(),
            layout: params.layout().name(),
            capacity: params.capacity(),
            value_bits: params.plain_value_bits(),
            attributes: params
                .attributes()
                .map(|attributes| attributes.iter().map(|it| it.name.clone()).collect()),
            window_seconds: params.window().map(Window::seconds),
            items: summary.items,
            sub_filters: summary.sub_filters,
            load: summary.load,
            bytes: summary.slot_bytes,
            error_rate: params.error_rate(),
            error_rate_holds: summary.keeps_promise,
            expected_false_positive_rate: summary.expected_false_positive_rate,
            created_at: rfc3339_ms(summary.created_at_ms),
            expires_at: summary.expiry.map(|expiry| rfc3339_ms(expiry.at_ms)),
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
#[cfg(test)]
pub(crate) fn list_example() -> serde_json::Value {
    serde_json::json!(FilterListBody {
        filters: vec![FilterLineBody {
            key: "coupons".to_owned(),
            layout: "paged",
            capacity: 100_000,
            value_bits: None,
            attributes: None,
            window_seconds: None,
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

/// `PUT /filters/{key}`.
pub(crate) async fn put_filter(Target(engine, name): Target, sent: Sent) -> Result {
    let mut conditions = sent.request.headers().get_all(IF_NONE_MATCH).iter();
    let only_new = conditions.any(|it| it.as_bytes().trim_ascii() == b"*");
    let (mut wanted, key) = sent.fields().await?;
    wanted.must_be_new = only_new;
    let answered = engine.create_filter(&name, &wanted, key).await?;
    let response = match &answered.answer {
        Created::New(info) => {
            let path = path_of(&name);
            json_at(StatusCode::CREATED, &path, &FilterBody::from(info))?
        }
        Created::Existing(_) | Created::Differs(..) if only_new => {
            return Err(HttpError::Plain(Code::FilterExists));
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

/// `GET /filters`.
pub(crate) async fn list_filters(
    State(app): State<Arc<App>>,
    CallerEngine(engine): CallerEngine,
    Extension(permit): Extension<Principal>,
    Extension(Deadline(deadline)): Extension<Deadline>,
    uri: Uri,
) -> Result {
    let query = Query::parse(&uri, &["prefix", "contains", "limit", "cursor"])?;
    let prefix = part_parameter(&query, "prefix")?;
    let part = part_parameter(&query, "contains")?;
    let after = query.read("cursor", |it| FilterName::parse(it).ok(), key_in_words)?;
    let limit = query.read("limit", listed, || {
        format!("a whole number; 0 is taken as 1, more than {MAX_LISTED} as {MAX_LISTED}")
    })?;
    let limit = limit.unwrap_or(MAX_LISTED);

    let Some(prefix) = permit.narrow(prefix) else {
        return json(&FilterListBody::from(&FilterPage::default()));
    };
    // As a request with a large body: nobody knows how large what is read will be.
    let admission = &app.admission;
    let turn = admission.turn(permit.holder(), deadline, usize::MAX, false);
    let engine = engine.in_turn(turn.await?);
    let page = engine.list_filters(&prefix, part, after.as_ref(), limit);
    json(&FilterListBody::from(&page.await?))
}

/// What a key can begin with; empty if it is left out.
fn part_parameter<'a>(query: &'a Query<'_>, name: &'static str) -> Result<&'a str> {
    let text = query.text(name)?.unwrap_or_default();
    if FilterName::can_start_with(text) {
        return Ok(text);
    }
    let allowed = format!("empty, or a part of a key: {}", key_in_words());
    Err(HttpError::parameter(name, excerpt(text), allowed))
}

/// Any number of digits is a number, however large.
fn listed(text: &str) -> Option<usize> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(MAX_LISTED).clamp(1, MAX_LISTED))
}

/// `GET /filters/{key}`.
pub(crate) async fn get_filter(Target(engine, name): Target, _: NoQuery) -> Result {
    json(&FilterBody::from(&engine.filter_info(&name).await?))
}

/// `PATCH /filters/{key}`.
pub(crate) async fn patch_filter(Target(engine, name): Target, sent: Sent) -> Result {
    let (ttl_seconds, key) = sent.changed_ttl().await?;
    let answered = engine.set_ttl(&name, ttl_seconds, key).await?;
    let response = json(&FilterBody::from(&answered.answer))?;
    let seconds = ttl_seconds.map_or("none".to_owned(), |seconds| seconds.to_string());
    let response = noted(response, format!("ttl_seconds={seconds}"));
    Ok(marked(&answered, response))
}

/// `DELETE /filters/{key}`.
pub(crate) async fn delete_filter(Target(engine, name): Target, sent: Sent) -> Result {
    let answered = engine.delete_filter(&name, sent.nothing()?).await?;
    Ok(marked(&answered, StatusCode::NO_CONTENT.into_response()))
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
