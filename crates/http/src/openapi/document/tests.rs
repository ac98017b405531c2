use super::*;
use serde_json::Value;
use std::collections::BTreeMap;

/// Writes it, if asked.
#[test]
fn the_committed_document_is_what_the_code_says() {
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi/openapi.json");
    if std::env::var_os("CUCKOOD_WRITE_OPENAPI").is_some() {
        std::fs::write(FILE, text()).unwrap();
    }
    let committed = std::fs::read_to_string(FILE).unwrap();
    assert!(
        committed == text(),
        "openapi/openapi.json is stale: make openapi"
    );
}

#[test]
fn every_response_is_described_and_every_operation_named() {
    let document: Value = serde_json::from_str(&text()).unwrap();
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
    let document: Value = serde_json::from_str(&text()).unwrap();
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
fn what_is_said_of_routes_is_said_of_those_of_the_table_and_they_are_audited_by_its_names() {
    let mut described = operations::described();
    let mut said = BTreeMap::new();
    for (path, item) in &mut described.paths.paths {
        for (method, operation) in operations_of(item) {
            said.insert(format!("{method} {path}"), operation.operation_id.clone());
        }
    }
    for (method, path, asks) in routes::operations().all() {
        let route = format!("{method} {path}");
        let id = said.remove(&route).unwrap_or_else(|| panic!("{route}"));
        if let Some(name) = asks.audited_as {
            assert_eq!(id.as_deref(), Some(name), "{route}");
        }
    }
    assert!(said.is_empty(), "{said:?} are no routes");
}

#[test]
fn every_declared_fact_is_known_and_none_is_handed_out() {
    let known = [
        failures::FAILS,
        failures::STREAMED,
        failures::BODY_IS_OPTIONAL,
    ];
    let mut described = operations::described();
    let declared = described.paths.paths.values_mut().flat_map(operations_of);
    let declared = declared.filter_map(|(_, operation)| operation.extensions.as_ref());
    let names: Vec<&String> = declared.flat_map(|extensions| extensions.keys()).collect();
    assert!(names.len() >= 25);
    assert!(names.iter().all(|name| known.contains(&name.as_str())));
    assert!(!text().contains("\"x-"));
}

#[test]
fn what_a_request_may_wait_for_and_may_be_too_large_for_is_said_where_it_holds() {
    let document: Value = serde_json::from_str(&text()).unwrap();
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
