//! Examples of whole answers, made of what they are made of, and of single fields: what
//! those have there.

use crate::handlers::{
    backups, caller, clock, compaction, filter_body, filters, history, imports, locate, operations,
    preview,
};
use crate::server::cluster::status::{ClusterStatus, LaneStatus, PodStatus};
use serde_json::{Value, json};
use std::collections::VecDeque;
use utoipa::openapi::example::{Example, ExampleBuilder};
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{ArrayItems, Schema};
use utoipa::openapi::{Components, Content, RefOr};

/// Adds the examples of answers that say what was done: one for each operation that its
/// handler does not give any.
pub(super) fn add_whole(operation: &mut Operation) {
    let id = operation.operation_id.clone().unwrap_or_default();
    let example = whole(&id);
    for (status, answer) in &mut operation.responses.responses {
        if let (true, RefOr::T(answer)) = (status.starts_with('2'), answer) {
            for content in answer.content.values_mut() {
                if let RefOr::T(content) = content {
                    content.example = example.clone().or(content.example.take());
                    if id == "get_readiness" {
                        content.examples.extend(states());
                    }
                }
            }
        }
    }
}

fn states() -> impl Iterator<Item = (String, RefOr<Example>)> {
    let states = operations::states().into_iter();
    states.map(|(name, summary, said)| {
        let example = ExampleBuilder::new()
            .summary(summary)
            .value(Some(json!(said)));
        (name.to_owned(), RefOr::T(example.build()))
    })
}

fn whole(operation: &str) -> Option<Value> {
    let (backup_begun, backups, backup) = backups::examples();
    let (compaction_begun, compaction) = compaction::examples();
    let (import, imports) = imports::examples();
    Some(match operation {
        "put_filter" | "get_filter" | "restore_filter" | "merge_filter" => {
            filter_body::filter_example()
        }
        "patch_filter" => filter_body::ending_example(),
        "list_filters" => filters::list_example(),
        "get_filter_history" => history::example(),
        "preview_filter" => preview::example(),
        "get_item_location" => locate::example(),
        "compact_filter" => compaction_begun,
        "get_compaction" => compaction,
        "import_items" | "get_import" => import,
        "list_imports" => imports,
        "create_backup" => backup_begun,
        "list_backups" => backups,
        "get_backup_status" => backup,
        "get_clock" => json!(clock::example(Some(31_536_000))),
        "confirm_clock" => json!(clock::example(None)),
        "get_caller" => caller::example(),
        "get_cluster" => json!(cluster()),
        _ => return None,
    })
}

fn cluster() -> ClusterStatus {
    let address = || "http://pod-0:8080".to_owned();
    let lane = LaneStatus {
        lane: 0,
        newest: 4711,
        leader: Some(address()),
    };
    let pod = PodStatus {
        address: address(),
        writer: "6f1d0c5a9b3e4d2788aa10c2e4f60b19".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        positions: vec![4711],
        lanes_behind: 0,
        leads: 1,
    };
    ClusterStatus {
        cluster: "shop".to_owned(),
        epoch: 1,
        copies: 3,
        lanes: vec![lane],
        pods: vec![pod],
        answered_by: Some(address()),
        age_seconds: Some(0.4),
    }
}

/// A schema with a name, and an example of it.
pub(super) type Named = VecDeque<(String, Value)>;

/// The examples of an operation's answers.
pub(super) fn of_answers(operation: &Operation) -> impl Iterator<Item = (String, Value)> {
    let answers = operation.responses.responses.values();
    let contents = answers.flat_map(|answer| match answer {
        RefOr::T(answer) => answer.content.values().collect(),
        RefOr::Ref(_) => Vec::new(),
    });
    contents.filter_map(of_content)
}

fn of_content(content: &RefOr<Content>) -> Option<(String, Value)> {
    let RefOr::T(content) = content else {
        return None;
    };
    let Some(RefOr::Ref(schema)) = &content.schema else {
        return None;
    };
    let first = content.examples.values().find_map(|it| match it {
        RefOr::T(example) => example.value.clone(),
        RefOr::Ref(_) => None,
    });
    Some((
        name(&schema.ref_location),
        content.example.clone().or(first)?,
    ))
}

fn name(location: &str) -> String {
    location.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Gives the fields of these schemas their examples, and those of the schemas
/// that they have.
pub(super) fn add_to_fields(components: &mut Components, mut named: Named) {
    while let Some((name, example)) = named.pop_front() {
        if let Some(schema) = components.schemas.get_mut(&name) {
            add(schema, &example, &mut named);
        }
    }
}

fn add(schema: &mut RefOr<Schema>, example: &Value, named: &mut Named) {
    let schema = match schema {
        RefOr::Ref(to) => return named.push_back((name(&to.ref_location), example.clone())),
        RefOr::T(schema) => schema,
    };
    let place = match schema {
        Schema::Object(object) if object.properties.is_empty() => &mut object.example,
        Schema::Object(object) => {
            for (name, field) in &mut object.properties {
                if let Some(example) = example.get(name) {
                    add(field, example, named);
                }
            }
            return;
        }
        Schema::Array(array) => match &mut array.items {
            ArrayItems::RefOrSchema(items) if matches!(**items, RefOr::Ref(_)) => {
                let each = example.as_array().into_iter().flatten();
                return each.for_each(|example| add(items, example, named));
            }
            _ => &mut array.example,
        },
        // With null as another choice.
        Schema::OneOf(one_of) if !example.is_null() => {
            let named_ones = one_of.items.iter_mut();
            let named_ones = named_ones.filter(|it| matches!(it, RefOr::Ref(_)));
            return named_ones.for_each(|it| add(it, example, named));
        }
        _ => return,
    };
    // The first that says something.
    if place.as_ref().is_none_or(Value::is_null) {
        *place = Some(example.clone());
    }
}
