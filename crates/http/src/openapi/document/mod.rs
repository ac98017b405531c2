//! The document: this room says it, puts it together, and adds to each operation what
//! follows from what it declares and from the route table.
//!
//! | file | owns |
//! |---|---|
//! | `examples` | examples of whole answers, and from these of single fields |
//! | `failures` | what an operation declares that it can fail with, and what that says |
//! | `operations` | what is said of each route |
//! | `common_parameters` | parameters that more than one operation has, or that have a pattern |
//! | `parameters` | what an operation takes and answers beside what is said of it |
//! | `problems` | the answers to what an operation can fail with |
//! | `samples` | an error of each kind |

mod common_parameters;
mod examples;
mod failures;
mod operations;
mod parameters;
mod problems;
mod samples;
mod tests;

use crate::problem::{Problem, ProblemField};
use crate::requirement::RouteRequirement;
use crate::routes;
use axum::http::Method;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, PathItem, RefOr,
    Required,
};

/// Name of the security scheme.
const SCHEME: &str = "api_key";

const DESCRIPTION: &str = "Named cuckoo filters over HTTP, kept in RocksDB: *have we seen this?*

When a filter answers that an item is absent, it is. When it answers that an item exists, the answer can be a **false positive**: the item was never added. The **false-positive rate** is the share of never-added items for which the answer is `true`.

**Deleting an item that was never added can remove another item's fingerprint**, and that item is then no longer found. Therefore let your database decide: ask the filter first; if the item may exist, act in the database; delete from the filter after that is committed.

Items are JSON strings (their UTF-8 bytes) or integers from -2^63 to 2^64-1 (their decimal digits), up to \
64 KiB. Callers send an API key, unless the server has no keys. Errors are \
`application/problem+json` (RFC 9457) with a stable `code`. Every response carries \
`x-request-id`.";

/// The whole document as JSON text.
fn text() -> String {
    let mut document = preamble();
    document.merge(operations::described());
    let operations = routes::operations();
    let mut named = examples::Named::new();
    for (path, item) in &mut document.paths.paths {
        for (method, operation) in operations_of(item) {
            let requirement = operations.find(path, &method);
            operation.security = Some(vec![security(requirement)]);
            problems::add(operation, requirement);
            if path.contains("/{key}") {
                parameters::add_key(operation);
            }
            examples::add_whole(operation);
            named.extend(examples::of_answers(operation));
            if failures::has_deadline(operation) {
                parameters::add_deadline(operation);
            }
            if failures::has_position(operation) {
                parameters::add_positions(operation);
            }
            if failures::is_change(operation) {
                parameters::add_position(operation);
            }
            if failures::is_retried(operation) {
                parameters::add_idempotency_key(operation);
            }
            if failures::declares(operation, failures::BODY_IS_OPTIONAL)
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
    if let Some(components) = &mut document.components {
        examples::add_to_fields(components, named);
    }
    let mut text = document.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// The operations of a path.
fn operations_of(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    [
        (Method::GET, item.get.as_mut()),
        (Method::PUT, item.put.as_mut()),
        (Method::POST, item.post.as_mut()),
        (Method::DELETE, item.delete.as_mut()),
        (Method::HEAD, item.head.as_mut()),
        (Method::PATCH, item.patch.as_mut()),
    ]
    .into_iter()
    .filter_map(|(method, operation)| Some((method, operation?)))
}

/// What a route asks of its caller, as the document says it.
fn security(requirement: RouteRequirement) -> SecurityRequirement {
    let Some(scope) = requirement.scope else {
        return SecurityRequirement::default();
    };
    let export = requirement.exports.then_some("export");
    SecurityRequirement::new(SCHEME, [scope.name()].into_iter().chain(export))
}

/// What the document says before any route.
fn preamble() -> OpenApi {
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
