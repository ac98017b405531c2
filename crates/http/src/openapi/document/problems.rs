//! The answers to what an operation can fail with: one for each status, with an
//! example of each kind, as the error itself renders it.

use super::failures::{CALLER, EVERY, declared_failures};
use super::samples::sample;
use crate::codes::Code;
use crate::media::PROBLEM_JSON;
use crate::requirement::{ResourceScope, RouteRequirement};
use crate::schemas::text;
use serde_json::json;
use std::collections::BTreeMap;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::Operation;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Ref, RefOr};

/// Adds them to the operation.
pub(super) fn add(operation: &mut Operation, requirement: RouteRequirement) {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in failures(operation, requirement) {
        let codes = by_status.entry(code.status()).or_default();
        // Some come from more than one group.
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    for (status, codes) in by_status {
        operation
            .responses
            .responses
            .insert(status.to_string(), problem_response(&codes).into());
    }
}

/// What answers a HEAD has no body.
pub(super) fn without_bodies(operation: &mut Operation) {
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            response.content.clear();
        }
    }
}

/// What it can fail with, by what it declares and by what it asks of its caller.
fn failures(operation: &Operation, requirement: RouteRequirement) -> Vec<Code> {
    let resource: &[Code] = match requirement.resource {
        ResourceScope::Filter => &[Code::FilterForbidden],
        ResourceScope::Narrowed => &[],
        ResourceScope::Server => &[Code::ServerForbidden],
    };
    let caller = requirement.scope.map(|_| [CALLER, resource].concat());
    let mut failures = caller.unwrap_or_default();
    failures.extend_from_slice(EVERY);
    failures.extend(declared_failures(operation));
    failures
}

fn problem_response(codes: &[Code]) -> Response {
    let examples = codes.iter().map(|&code| {
        let problem = sample(code).problem("f3b0c44298fc1c14");
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
        Some(401) => Some((
            "WWW-Authenticate",
            "The authentication scheme: `Bearer` with an API key.",
        )),
        Some(416) => Some(("Content-Range", "How many bytes there are.")),
        Some(429 | 503) => Some((
            "Retry-After",
            "Seconds to wait before the request is sent again.",
        )),
        _ => None,
    };
    if let Some((name, description)) = header {
        response = response.header(name, text_header(description));
    }
    response.build()
}

fn text_header(description: &str) -> Header {
    HeaderBuilder::new()
        .schema(Some(Schema::from(text())))
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
