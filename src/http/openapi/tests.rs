use super::*;
use crate::http::{openapi_document, routes};
use serde_json::Value;

#[test]
fn the_committed_document_is_what_the_code_says() {
    let committed = include_str!("../../../openapi/openapi.json");
    assert!(
        committed == openapi_document(),
        "openapi/openapi.json is stale; run: cuckood openapi > openapi/openapi.json"
    );
}

#[test]
fn every_response_is_described_and_every_operation_named() {
    let document: Value = serde_json::from_str(&openapi_document()).unwrap();
    let mut ids = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(id.contains('_'), "{id}");
            ids.push(id.to_owned());
            for (status, response) in operation["responses"].as_object().unwrap() {
                let at = format!("{method} {path} {status}");
                assert_ne!(response["description"].as_str().unwrap(), "", "{at}");
                let Some(content) = response.get("content") else {
                    let bodiless = ["204", "304"].contains(&status.as_str()) || method == "head";
                    assert!(bodiless, "{at} has no content");
                    continue;
                };
                for media in content.as_object().unwrap().values() {
                    let example = media.get("example").or(media.get("examples"));
                    assert!(example.is_some(), "{at} has no example");
                }
            }
        }
    }
    let total = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), total, "an operation id is used twice");
}

#[test]
fn what_requests_may_look_like_is_said_as_strictly_as_it_is_held_to() {
    let document: Value = serde_json::from_str(&openapi_document()).unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let at = format!("{method} {path}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let (name, schema) = (parameter["name"].as_str().unwrap(), &parameter["schema"]);
                let is_key = ["key", "cursor", "import_id", "Idempotency-Key"].contains(&name);
                assert!(!is_key || schema.get("pattern").is_some(), "{at} {name}");
            }
            let contents = operation["responses"].as_object().unwrap().values();
            let contents = contents.chain([&operation["requestBody"]]);
            for content in contents.filter_map(|part| part["content"].as_object()) {
                for (media_type, described) in content {
                    let is_bytes =
                        !media_type.starts_with("text/") && !media_type.ends_with("json");
                    let is_called_bytes = described["schema"]["format"] == "binary";
                    assert_eq!(is_called_bytes, is_bytes, "{at} {media_type}");
                }
            }
        }
    }
    for body in [
        "AddBody",
        "FilterChanges",
        "FilterFields",
        "ItemsBody",
        "LookupBody",
    ] {
        let schema = &document["components"]["schemas"][body];
        assert_eq!(schema["additionalProperties"], false, "{body}");
    }
}

#[test]
fn every_declared_fact_is_known_and_none_is_handed_out() {
    let known = [
        facts::FAILS,
        facts::NARROWED,
        facts::AUDITED,
        facts::STREAMED,
        facts::BODY_IS_OPTIONAL,
    ];
    let mut document = routes::table().into_openapi();
    let declared = document.paths.paths.values_mut().flat_map(operations);
    let declared = declared.filter_map(|operation| operation.extensions.as_ref());
    let names: Vec<&String> = declared.flat_map(|extensions| extensions.keys()).collect();
    assert!(names.len() >= 25);
    assert!(names.iter().all(|name| known.contains(&name.as_str())));
    assert!(!openapi_document().contains("\"x-"));
}

#[test]
fn what_a_request_may_wait_for_and_may_be_too_large_for_is_said_where_it_holds() {
    let document: Value = serde_json::from_str(&openapi_document()).unwrap();
    let waits = |path: &str, method: &str| {
        let parameters = document["paths"][path][method]["parameters"].as_array();
        parameters.is_some_and(|all| all.iter().any(|it| it["name"] == "Prefer"))
    };
    let may_be_too_large = |path: &str, method: &str| {
        let refusals = &document["paths"][path][method]["responses"]["413"];
        refusals.to_string().contains("too_costly")
    };
    let of_a_filter = |path: &str| format!("/filters/{{key}}{path}");
    for (path, method, is_timed) in [
        ("/import", "post", false),
        ("/dump", "get", false),
        ("/dump", "put", false),
        ("/items", "post", true),
        ("/exists", "get", true),
    ] {
        assert_eq!(waits(&of_a_filter(path), method), is_timed, "{path}");
    }
    for (path, method, is_bounded) in [
        ("/exists", "post", true),
        ("/count", "post", true),
        ("/locate", "get", false),
        ("/items", "post", true),
        ("/import", "post", false),
    ] {
        let may_be = may_be_too_large(&of_a_filter(path), method);
        assert_eq!(may_be, is_bounded, "{method} {path}");
    }
}
