//! Parameters that more than one operation has, or of which a schema can say
//! more than their type.

use super::schemas::{key, name, one_of, prefix, text, text_of};
use crate::engine::MAX_IMPORT_ID_LENGTH;
use crate::http::bounds::{
    MAX_IDEMPOTENCY_KEY_BYTES, MAX_LISTED, MAX_QUERY_ITEM_BYTES, key_in_words, name_in_words,
};
use crate::http::parse::{WHERE, WITHIN_SECONDS, within_seconds_schema as within_seconds};
use serde_json::json;
use utoipa::IntoParams;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{RefOr, Required};

/// Base64url of whole bytes; the bits that are left over in the last character
/// are zero, so that no two texts are the same item.
const BASE64URL: &str =
    "^(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-][AQgw](?:==)?|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048]=?)?$";

/// The characters of that for the longest item of a query.
const MAX_BASE64URL_LENGTH: usize = MAX_QUERY_ITEM_BYTES.div_ceil(3) * 4;

/// Parameters as an operation names them.
macro_rules! parameters {
    ($($(#[$about:meta])* $name:ident: [$($parameter:expr),* $(,)?];)*) => {$(
        $(#[$about])*
        pub(crate) struct $name;

        impl IntoParams for $name {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                vec![$($parameter.build()),*]
            }
        }
    )*};
}

parameters! {
    /// The filter of the path.
    FilterKey: [
        in_path("key", &format!("Key of the filter, percent-encoded once: {}.", key_in_words()))
            .schema(Some(key()))
            .example(Some(json!("coupons"))),
    ];

    /// The one item of a question.
    OneItem: [
        in_query("item", "The item, up to 4 KiB, form-encoded: `+` is a space, a plus sign is `%2B`.")
            .schema(Some(text().max_length(Some(MAX_QUERY_ITEM_BYTES))))
            .example(Some(json!("SPRING-24"))),
        in_query("item_base64url", "The item in base64url, instead of `item`.").schema(Some(
            text()
                .max_length(Some(MAX_BASE64URL_LENGTH))
                .pattern(Some(BASE64URL)),
        )),
    ];

    /// How far a question goes back, in a filter with a window.
    WithinSeconds: [
        in_query(
            WITHIN_SECONDS,
            "Of a filter with a window: whether the item was seen within the last so many seconds, rounded up to the resolution of the window; at most the window.",
        )
        .schema(Some(within_seconds())),
    ];

    /// What a row of the item must meet, in a filter with attributes.
    WhereRow: [
        in_query(
            WHERE,
            "Of a filter with attributes: whether one row of the item has one of the listed values for each of these attributes. JSON, as in the body of a POST.",
        )
        .schema(Some(text()))
        .example(Some(json!("{\"plan\":[\"pro\"]}"))),
    ];

    /// Which page of the list of filters.
    ListPage: [
        in_query("prefix", "Only filters whose keys start with this.")
            .schema(Some(prefix()))
            .example(Some(json!("shop:"))),
        // Any number of digits is a number, however large.
        in_query("limit", &format!("Most filters of the page; more than {MAX_LISTED} is taken as {MAX_LISTED}, 0 as 1."))
            .schema(Some(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0))))
            .example(Some(json!(100))),
        in_query("cursor", "`next_cursor` of the previous page.")
            .schema(Some(key()))
            .example(Some(json!("coupons"))),
    ];

    /// The import that is begun or taken up.
    ImportId: [
        in_query(
            "import_id",
            &format!(
                "Name of the import within the filter: {}. It is kept for a week after its last commit.",
                name_in_words(MAX_IMPORT_ID_LENGTH),
            ),
        )
        .required(Required::True)
        .schema(Some(name(MAX_IMPORT_ID_LENGTH)))
        .example(Some(json!("2026-11-21-codes"))),
    ];

    /// The import of the path.
    ImportInPath: [
        in_path("id", "Name of the import.")
            .schema(Some(name(MAX_IMPORT_ID_LENGTH)))
            .example(Some(json!("2026-11-21-codes"))),
    ];
}

fn in_path(name: &str, description: &str) -> ParameterBuilder {
    parameter(ParameterIn::Path, name, description).required(Required::True)
}

fn in_query(name: &str, description: &str) -> ParameterBuilder {
    parameter(ParameterIn::Query, name, description).required(Required::False)
}

fn parameter(place: ParameterIn, name: &str, description: &str) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .description(Some(description))
}

/// Describes the header by which a request says how long it waits.
pub(super) fn add_deadline(operation: &mut Operation) {
    let wait = parameter(
        ParameterIn::Header,
        "Prefer",
        "`wait=SECONDS` (RFC 7240): how long the client waits for the answer, a decimal number from 0.001 (`wait=2.5`). It counts from the head of the request; the server waits no longer than its `--request-timeout-seconds`. What is not done by then is answered 503 (`deadline_exceeded`) and changes nothing. Other preferences are ignored.",
    )
    .required(Required::False)
    .schema(Some(text()))
    .example(Some(json!("wait=2.5")))
    .build();
    operation
        .parameters
        .get_or_insert_default()
        .push(RefOr::T(wait));
}

/// Describes the headers by which a request says how new its answer is to be.
pub(super) fn add_positions(operation: &mut Operation) {
    let min_position = parameter(
        ParameterIn::Header,
        "cuckood-min-position",
        "In a cluster: what changes were answered as `cuckood-position`, several separated by commas. The pod answers as soon as it has applied all of them, and 503 (`position_not_reached`) if it has not in time. A server in no cluster gives no positions, and refuses the header (422, `invalid_position`).",
    )
    .required(Required::False)
    .schema(Some(text()))
    .example(Some(json!("1.3.4711")));
    let consistency = parameter(
        ParameterIn::Header,
        "cuckood-consistency",
        "In a cluster, for a question to one filter: `strong` takes into account everything that was acknowledged before, on any pod; `local`, the default, what the pod has applied.",
    )
    .required(Required::False)
    .schema(Some(one_of(["local", "strong"])))
    .example(Some(json!("local")));
    let parameters = operation.parameters.get_or_insert_default();
    for header in [min_position, consistency] {
        parameters.push(RefOr::T(header.build()));
    }
}

/// Describes the header that says where a filter's lane stands with a change.
pub(super) fn add_position(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let (true, RefOr::T(response)) = (status.starts_with('2'), response) {
            let position = HeaderBuilder::new()
                .schema(Some(Schema::from(text().build())))
                .description(Some(
                    "In a cluster: where the filter's lane stands with the change, for `cuckood-min-position`.",
                ))
                .build();
            response
                .headers
                .insert("cuckood-position".to_owned(), RefOr::T(position));
        }
    }
}

/// Describes the header by which a retry is known, and the one that says so.
pub(super) fn add_idempotency_key(operation: &mut Operation) {
    let key = parameter(
        ParameterIn::Header,
        "Idempotency-Key",
        "1 to 255 visible ASCII characters, new for each request that is not a retry. For 24 hours a retry with the same value, from the same API key, gets the answer of the first request and changes nothing.",
    )
    .required(Required::False)
    .schema(Some(
        text_of(1, MAX_IDEMPOTENCY_KEY_BYTES).pattern(Some("^[!-~]+$")),
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
                .schema(Some(Schema::from(one_of(["true"]))))
                .description(Some(
                    "The answer is the stored answer to an earlier request with this key.",
                ))
                .build();
            response
                .headers
                .insert("Idempotency-Replayed".to_owned(), RefOr::T(replayed));
        }
    }
}
