//! The description of the API, generated from the handlers. What each
//! operation can fail with is added here, from the table below, with examples
//! that the error type itself renders.

mod strict;

pub(super) use strict::{key_prefix, named_filters};

use super::media::PROBLEM_JSON;
use super::middleware::auth::{ResourceScope, RouteRequirement, SCHEME};
use super::problem::{Code, Problem, ProblemField, sample};
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{
    AnyOfBuilder, ArrayBuilder, ObjectBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ComponentsBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, PathItem, Ref, RefOr,
    Required,
};

const DESCRIPTION: &str = "Named cuckoo filters over HTTP, kept in RocksDB: *have we seen this?*

A filter that says *absent* is right. A filter that says *exists* is right but for its false-positive rate.

**Deleting what was never added may remove another item's fingerprint**, after which that item is missed. \
So let your database decide: ask the filter first; if it may exist, act in the database; delete from the \
filter after that is committed.

Items are JSON strings (their UTF-8 bytes) or integers from -2^63 to 2^64-1 (their decimal digits), up to \
64 KiB. Callers send an API key, unless the server was started without keys. Errors are \
`application/problem+json` (RFC 9457) with a stable `code`. Every response carries \
`x-request-id`.";

/// The whole document as JSON text, with what the handlers leave out.
pub(super) fn text(mut document: OpenApi) -> String {
    for (path, item) in &mut document.paths.paths {
        for operation in operations(item) {
            let requirement = RouteRequirement::of(path, operation);
            add_problems(operation, requirement);
            add_idempotency_key(operation);
            strict::parts(operation);
            if matches!(
                operation.operation_id.as_deref(),
                Some("put_filter" | "preview_filter")
            ) && let Some(RefOr::T(body)) = &mut operation.request_body
            {
                body.required = Some(Required::False);
            }
        }
    }
    if let Some(components) = &mut document.components {
        strict::bodies(components);
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
            tag("filters", "Filters themselves."),
            tag("items", "What is in a filter."),
            tag("operations", "For those who run the server."),
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

/// How callers say who they are.
fn api_key() -> SecurityScheme {
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "An API key: `Authorization: Bearer cuckood_…`. Its scope is `read`, `write` or `admin`, of which \
             each allows what those before it do. A key with a prefix is for filters whose keys start with it. \
             A server that was started without keys asks for none.",
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

/// What an operation can fail with, by its id and by what it asks of its caller.
fn failures(operation: &str, requirement: RouteRequirement) -> Vec<Code> {
    const CALLER: &[Code] = &[
        Code::ApiKeyMissing,
        Code::ApiKeyUnknown,
        Code::ScopeInsufficient,
        Code::RateLimited,
        Code::Overloaded,
    ];
    const EVERY: &[Code] = &[
        Code::BadRequest,
        Code::ForeignHost,
        Code::ForeignOrigin,
        Code::HeadTimeout,
        Code::HeadTooLarge,
        Code::Internal,
    ];
    const ENGINE: &[Code] = &[
        Code::MalformedQuery,
        Code::InvalidFields,
        Code::StorageFailed,
        Code::Starting,
        Code::Draining,
        Code::Overloaded,
    ];
    const KEYED: &[Code] = &[Code::MalformedPath, Code::InvalidKey];
    const MISSING: &[Code] = &[Code::FilterNotFound];
    const BODY: &[Code] = &[
        Code::MalformedJson,
        Code::UnreadableBody,
        Code::BodyTimeout,
        Code::BodyTooLarge,
        Code::UnsupportedMediaType,
        Code::UnsupportedContentEncoding,
    ];
    const STREAM: &[Code] = &[
        Code::UnreadableBody,
        Code::BodyTimeout,
        Code::UnsupportedMediaType,
        Code::UnsupportedContentEncoding,
        Code::TooManyPages,
        Code::IdempotencyKeyNotTaken,
        Code::ImportRunning,
        Code::ImportsFull,
    ];
    const BATCH: &[Code] = &[Code::BatchTooLarge, Code::TooManyPages];
    const LOOKUP: &[Code] = &[Code::BatchTooLarge, Code::LookupTooLarge];
    const ADMIN: &[Code] = &[
        Code::CertificateMissing,
        Code::MalformedQuery,
        Code::InvalidFields,
        Code::BackupsOff,
        Code::StorageFailed,
        Code::Starting,
        Code::Draining,
    ];
    const DUMPED: &[Code] = &[
        Code::UnreadableBody,
        Code::BodyTimeout,
        Code::UnsupportedMediaType,
        Code::UnsupportedContentEncoding,
        Code::IdempotencyKeyNotTaken,
    ];
    const RESTORE: &[Code] = &[
        Code::NoRoom,
        Code::FilterTaken,
        Code::FilterChanged,
        Code::CorruptDump,
        Code::NewerDump,
        Code::FilterTooLarge,
    ];
    const CHANGE: &[Code] = &[Code::OutcomeUnknown, Code::DiskReserve, Code::DiskFull];
    const NEW: &[Code] = &[Code::FilterDiffers, Code::FilterExists];
    const QUOTA: &[Code] = &[Code::OverQuota, Code::TooManyFilters];
    const KEPT: &[Code] = &[
        Code::InvalidIdempotencyKey,
        Code::IdempotencyKeyReused,
        Code::IdempotencyInFlight,
        Code::IdempotencyFull,
    ];
    const QUESTION: &[Code] = &[Code::ItemTooLongForQuery];

    let groups: &[&[Code]] = match operation {
        "get_readiness" => &[EVERY, &[Code::Starting, Code::Draining]],
        "list_filters" => &[EVERY, ENGINE],
        "put_filter" => &[EVERY, ENGINE, KEYED, BODY, CHANGE, NEW, QUOTA],
        "get_filter" | "head_filter" => &[EVERY, ENGINE, KEYED, MISSING],
        "patch_filter" => &[EVERY, ENGINE, KEYED, MISSING, BODY, CHANGE],
        "delete_filter" => &[EVERY, ENGINE, KEYED, MISSING, CHANGE],
        "add_items" => &[EVERY, ENGINE, KEYED, MISSING, BODY, BATCH, CHANGE, QUOTA],
        "delete_items" => &[EVERY, ENGINE, KEYED, MISSING, BODY, BATCH, CHANGE],
        "import_items" => &[EVERY, ENGINE, KEYED, MISSING, STREAM, CHANGE],
        "get_import" => &[EVERY, ENGINE, KEYED, MISSING, &[Code::ImportNotFound]],
        "check_items" | "count_items" => &[EVERY, ENGINE, KEYED, MISSING, BODY, BATCH],
        "look_up_items" => &[EVERY, ENGINE, BODY, LOOKUP],
        "compact_filter" => &[
            EVERY,
            ENGINE,
            KEYED,
            MISSING,
            CHANGE,
            &[Code::CompactionRunning],
        ],
        "get_compaction" => &[EVERY, ENGINE, KEYED, MISSING, &[Code::CompactionNotFound]],
        "preview_filter" => &[EVERY, ENGINE, BODY, QUOTA],
        "get_item_exists" | "get_item_count" | "get_item_location" => {
            &[EVERY, ENGINE, KEYED, MISSING, QUESTION]
        }
        "dump_filter" => &[EVERY, ENGINE, KEYED, MISSING],
        "restore_filter" => &[EVERY, ENGINE, KEYED, DUMPED, CHANGE, RESTORE, QUOTA],
        "create_backup" => &[
            EVERY,
            ADMIN,
            &[
                Code::BackupRunning,
                Code::NoRoom,
                Code::DiskReserve,
                Code::IdempotencyKeyNotTaken,
            ],
        ],
        "list_backups" => &[EVERY, ADMIN],
        "get_backup_status" => &[EVERY, ADMIN, &[Code::BackupNotFound]],
        "download_backup" => &[
            EVERY,
            ADMIN,
            &[Code::BackupNotFound, Code::BackupRunning, Code::Overloaded],
        ],
        _ => &[EVERY],
    };
    let kept = takes_idempotency_key(operation).then_some(&KEPT);
    let reach: &[Code] = match requirement.resource {
        ResourceScope::Filter => &[Code::FilterForbidden],
        ResourceScope::Narrowed => &[],
        ResourceScope::Server => &[Code::ServerForbidden],
    };
    let caller = requirement.scope.map(|_| [CALLER, reach]);
    caller
        .iter()
        .flatten()
        .chain(groups)
        .chain(kept)
        .flat_map(|group| group.iter().copied())
        .collect()
}

/// Whether the answers of an operation are kept for retries.
fn takes_idempotency_key(operation: &str) -> bool {
    matches!(
        operation,
        "put_filter"
            | "patch_filter"
            | "delete_filter"
            | "add_items"
            | "delete_items"
            | "compact_filter"
    )
}

/// Describes the header by which a retry is known, and the one that says so.
fn add_idempotency_key(operation: &mut Operation) {
    if !takes_idempotency_key(operation.operation_id.as_deref().unwrap_or_default()) {
        return;
    }
    let key = ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "1 to 255 visible ASCII characters, new for each request that is not a retry. For 24 hours \
             a retry with the same one, of the same API key, is answered as the first request was, and changes nothing.",
        ))
        .example(Some(json!("6f1c2a9e-0d3b-4a57-9a44-2f0d1f3f6a10")))
        .build();
    operation
        .parameters
        .get_or_insert_default()
        .push(RefOr::T(key));
    for (status, response) in &mut operation.responses.responses {
        if let (true, RefOr::T(response)) = (status.starts_with('2'), response) {
            let replayed = HeaderBuilder::new()
                .schema(Some(Schema::from(words(&["true"]))))
                .description(Some(
                    "The answer is that to an earlier request with this key.",
                ))
                .build();
            response
                .headers
                .insert("Idempotency-Replayed".to_owned(), RefOr::T(replayed));
        }
    }
}

/// Adds one response per status, with an example per code.
fn add_problems(operation: &mut Operation, requirement: RouteRequirement) {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let mut by_status: BTreeMap<StatusCode, Vec<Code>> = BTreeMap::new();
    for code in failures(id, requirement) {
        let codes = by_status.entry(code.status()).or_default();
        // Some come from more than one group.
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    let bodiless = id == "head_filter";
    for (status, codes) in by_status {
        let response = match bodiless {
            true => Response::new(titles(&codes)),
            false => problem_response(&codes),
        };
        operation
            .responses
            .responses
            .insert(status.as_str().to_owned(), response.into());
    }
}

fn problem_response(codes: &[Code]) -> Response {
    let examples = codes.iter().map(|&code| {
        let problem = sample(code).map(|error| error.problem("f3b0c44298fc1c14"));
        let example = ExampleBuilder::new()
            .summary(code.title())
            .value(Some(json!(problem)))
            .build();
        (code.name(), example)
    });
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .examples_from_iter(examples)
        .build();
    let mut response = ResponseBuilder::new()
        .description(titles(codes))
        .content(PROBLEM_JSON, content);
    let header = match codes.first().map(|code| code.status()) {
        Some(StatusCode::UNAUTHORIZED) => Some((
            "WWW-Authenticate",
            "How to say who calls: `Bearer` and an API key.",
        )),
        Some(StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) => Some((
            "Retry-After",
            "Seconds after which trying again makes sense.",
        )),
        _ => None,
    };
    if let Some((name, description)) = header {
        response = response.header(name, text_header(description));
    }
    response.build()
}

fn text_header(description: &str) -> Header {
    let text = ObjectBuilder::new().schema_type(Type::String);
    HeaderBuilder::new()
        .schema(Some(Schema::from(text)))
        .description(Some(description))
        .build()
}

fn titles(codes: &[Code]) -> String {
    let titles: Vec<String> = codes
        .iter()
        .map(|code| format!("`{}`: {}.", code.name(), code.title()))
        .collect();
    titles.join(" ")
}

fn words(allowed: &[&str]) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(allowed.iter().map(|&word| Value::from(word))))
}

/// The schema of a layout's name.
pub(super) fn layout() -> Schema {
    words(&["paged", "classic"])
        .description(Some(
            "How fingerprints are placed. `paged` reads about one page a question and keeps its error rate while it grows; `classic` is bit-compatible with RedisBloom and Apache Kvrocks.",
        ))
        .examples([json!("paged")])
        .into()
}

/// The schema of a slot's width.
pub(super) fn fingerprint_bits() -> Schema {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .enum_values(Some([8, 16, 32].map(Value::from)))
        .description(Some("`paged`: bits of a slot, instead of an error rate."))
        .examples([json!(16)])
        .into()
}

/// The schema of how far a backup is.
pub(super) fn backup_state() -> Schema {
    words(&["writing", "verifying", "complete", "failed"])
        .description(Some(
            "`writing`: the archive is being written; `verifying`: it is being read again; `complete`; `failed`: nothing is left of it.",
        ))
        .examples([json!("writing")])
        .into()
}

/// The schema of the items of a body.
pub(super) fn item_list() -> Schema {
    // The bounds are said in words: some generators can't hold them as numbers.
    let integer = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .description(Some(
            "From -2^63 to 2^64-1; its decimal digits are the item.",
        ));
    let string = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("Up to 64 KiB; its UTF-8 bytes are the item."));
    ArrayBuilder::new()
        .items(RefOr::T(Schema::AnyOf(
            AnyOfBuilder::new().item(string).item(integer).build(),
        )))
        .description(Some(
            "Up to 250,000 items, unless the server was started with another limit.",
        ))
        .max_items(None)
        .examples([json!(["SPRING-24", 17])])
        .into()
}

/// The schema of the encoding of the items.
pub(super) fn encoding() -> Schema {
    words(&["utf-8", "base64"])
        .description(Some(
            "How strings are to be read; with `base64` integers are refused.",
        ))
        .default(Some(json!("utf-8")))
        .examples([json!("utf-8")])
        .into()
}

/// The schema of the parameters that an add may create its filter with.
pub(super) fn create() -> RefOr<Schema> {
    Ref::from_schema_name("FilterFields").into()
}

/// The schema of the results of an add.
pub(super) fn added_list() -> Schema {
    let word = words(&["added", "exists", "full"])
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .enum_values(Some([
            json!("added"),
            json!("exists"),
            json!("full"),
            json!(null),
        ]));
    ArrayBuilder::new()
        .items(RefOr::T(Schema::from(word)))
        .description(Some(
            "`added`; `exists`: found already and left (with `only_if_absent`); `full`: no room. Null for a blank line.",
        ))
        .examples([json!(["added", "exists"])])
        .into()
}

/// The schema of what an import is doing.
pub(super) fn import_state() -> Schema {
    words(&["running", "interrupted", "complete"])
        .description(Some(
            "`running`: a request is being worked on; `interrupted`: it waits to be taken up again; `complete`: the end of the stream came.",
        ))
        .examples([json!("complete")])
        .into()
}

/// The schema of how far a compaction is.
pub(super) fn compaction_state() -> Schema {
    words(&["running", "done", "overtaken", "no_room", "failed"])
        .description(Some(
            "`running`; `done`: what could be emptied is gone; `overtaken`: adds needed the room that was being emptied; `no_room`: an entry found no room in the older sub-filters; `failed`: the storage refused again and again, or the page cache is too small.",
        ))
        .examples([json!("running")])
        .into()
}

/// The schema of why a line is no item.
pub(super) fn bad_line_reason() -> Schema {
    words(&["too_long", "not_json", "not_an_item"])
        .description(Some(
            "`too_long`: more than 64 KiB; `not_json`; `not_an_item`: JSON, but neither a string nor an integer.",
        ))
        .examples([json!("too_long")])
        .into()
}

/// The schema of the limit that stopped a filter from growing.
pub(super) fn full_reason() -> Schema {
    words(&["expansion_off", "max_expansions", "max_filter_bytes"])
        .description(Some(
            "The limit that was met; only when a result is `full`.",
        ))
        .examples([json!("expansion_off")])
        .into()
}

/// The schema of the limit that ends a filter's growth.
pub(super) fn stopped_by() -> Schema {
    words(&["expansion_off", "max_expansions", "max_filter_bytes"])
        .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
        .enum_values(Some([
            json!("expansion_off"),
            json!("max_expansions"),
            json!("max_filter_bytes"),
            json!(null),
        ]))
        .description(Some(
            "The limit that ends its growth at the last stage; null: it grows on.",
        ))
        .examples([json!("max_expansions")])
        .into()
}

/// The schema of what the slots of a bucket hold.
pub(super) fn slot_list() -> Schema {
    ArrayBuilder::new()
        .items(RefOr::T(Schema::from(words(&["empty", "match", "other"]))))
        .description(Some(
            "`match`: the item's fingerprint, its own or one of another item that can't be told apart; `other`: another fingerprint; `empty`: none.",
        ))
        .examples([json!(["other", "match", "empty", "empty"])])
        .into()
}

#[cfg(test)]
mod tests;
