//! The description of the API, generated from the handlers: this room puts it
//! together, and adds to each operation what follows from what it declares.
//!
//! | file | owns |
//! |---|---|
//! | `facts` | what a handler declares of its route beside the document's own fields |
//! | `parameters` | parameters that more than one operation has, or that have a pattern |
//! | `problems` | the answers to what an operation can fail with |
//! | `schemas` | schemas that more than one body or parameter has |

pub(super) mod facts;
pub(super) mod parameters;
mod problems;
pub(super) mod schemas;

use super::middleware::requirement::{RouteRequirement, SCHEME};
use super::problem::{Problem, ProblemField};
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, PathItem, RefOr,
    Required,
};

const DESCRIPTION: &str = "Named cuckoo filters over HTTP, kept in RocksDB: *have we seen this?*

When a filter answers that an item is absent, it is. When it answers that an item exists, the answer can be a **false positive**: the item was never added. The **false-positive rate** is the share of never-added items for which the answer is `true`.

**Deleting an item that was never added can remove another item's fingerprint**, and that item is then no longer found. Therefore let your database decide: ask the filter first; if the item may exist, act in the database; delete from the filter after that is committed.

Items are JSON strings (their UTF-8 bytes) or integers from -2^63 to 2^64-1 (their decimal digits), up to \
64 KiB. Callers send an API key, unless the server has no keys. Errors are \
`application/problem+json` (RFC 9457) with a stable `code`. Every response carries \
`x-request-id`.";

/// The whole document as JSON text, with what follows from what the handlers
/// declare.
pub(super) fn text(mut document: OpenApi) -> String {
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            let requirement = RouteRequirement::of(path, operation);
            problems::add(operation, requirement);
            if facts::has_deadline(operation) {
                parameters::add_deadline(operation);
            }
            if facts::has_position(operation) {
                parameters::add_positions(operation);
            }
            if facts::is_change(operation) {
                parameters::add_position(operation);
            }
            if facts::is_retried(operation) {
                parameters::add_idempotency_key(operation);
            }
            if facts::declares(operation, facts::BODY_IS_OPTIONAL)
                && let Some(RefOr::T(body)) = &mut operation.request_body
            {
                body.required = Some(Required::False);
            }
            operation.extensions = None;
        }
        if let Some(head) = &mut item.head {
            problems::without_bodies(head);
        }
    }
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// What the document says before any route.
pub(super) fn preamble() -> OpenApi {
    let tag = |name: &str, description: &str| {
        TagBuilder::new()
            .name(name)
            .description(Some(description))
            .build()
    };
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("cuckood")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(DESCRIPTION))
                .license(Some(
                    LicenseBuilder::new()
                        .name("Apache-2.0")
                        .identifier(Some("Apache-2.0"))
                        .build(),
                ))
                .build(),
        )
        .tags(Some([
            tag("filters", "Filters."),
            tag("items", "Items of a filter."),
            tag(
                "values",
                "Values of the items of a filter that was created with `value_bits`.",
            ),
            tag("operations", "Operations of the server."),
        ]))
        .components(Some(
            ComponentsBuilder::new()
                .schema_from::<Problem>()
                .schema_from::<ProblemField>()
                .security_scheme(SCHEME, api_key())
                .build(),
        ))
        .build()
}

/// How callers authenticate.
fn api_key() -> SecurityScheme {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "An API key: `Authorization: Bearer cuckood_…`. Its scope is `read`, `write` or `admin`; each scope includes the ones before it. A key with a prefix is restricted to filters whose keys start with it. A server without keys requires none.",
        ))
        .build();
    SecurityScheme::Http(scheme)
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [
        item.get.as_mut(),
        item.put.as_mut(),
        item.post.as_mut(),
        item.delete.as_mut(),
        item.head.as_mut(),
        item.patch.as_mut(),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests;
