//! What an operation takes and answers beside what is said of it, by what it
//! declares.

use super::common_parameters::{in_path, parameter};
use crate::bounds::{MAX_IDEMPOTENCY_KEY_BYTES, key_in_words};
use crate::engine::ANSWER_KEPT_FOR;
use crate::schemas::strict::{key, text_of};
use crate::schemas::{one_of, text};
use serde_json::json;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{RefOr, Required};

/// Describes the filter of the path.
pub(super) fn add_key(operation: &mut Operation) {
    let about = format!(
        "Key of the filter, percent-encoded once: {}.",
        key_in_words()
    );
    let key = in_path("key", &about)
        .schema(Some(key()))
        .example(Some(json!("coupons")))
        .build();
    let parameters = operation.parameters.get_or_insert_default();
    parameters.insert(0, RefOr::T(key));
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
        "1 to 255 visible ASCII characters, new for each request that is not a retry. For 24 hours, or as `Idempotency-Key-Lifetime` says, a retry with the same value, from the same API key, gets the answer of the first request and changes nothing.",
    )
    .required(Required::False)
    .schema(Some(
        text_of(1, MAX_IDEMPOTENCY_KEY_BYTES).pattern(Some("^[!-~]+$")),
    ))
    .example(Some(json!("6f1c2a9e-0d3b-4a57-9a44-2f0d1f3f6a10")))
    .build();
    let lifetime = parameter(
        ParameterIn::Header,
        "Idempotency-Key-Lifetime",
        "Seconds for which the answer is kept for retries with this `Idempotency-Key`, from the first request on: as long as one may be sent again. Left out: 24 hours.",
    )
    .required(Required::False)
    .schema(Some(
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(ANSWER_KEPT_FOR.as_secs() as usize)),
    ))
    .example(Some(json!(90)))
    .build();
    let parameters = operation.parameters.get_or_insert_default();
    parameters.extend([RefOr::T(key), RefOr::T(lifetime)]);
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
