//! Which filters a lookup asks, or a merge takes in, in JSON.

use super::{given, json_error, string};
use crate::bounds::key_in_words;
use crate::engine::{FilterName, LookupFilters};
use crate::problem::{HttpError, Result};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashSet;

/// The filters of a list, in its order.
///
/// # Errors
/// It is no list of keys, or names one twice.
pub(super) fn named(value: &RawValue) -> Result<LookupFilters> {
    names(value, "/filters").map(LookupFilters::Named)
}

/// Filters that one request merges into another, at most.
const MAX_MERGED: usize = 16;

/// The filters to merge into the filter of the path.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct MergeBody {
    /// Keys of the other filters; each once.
    #[cfg_attr(test, schema(schema_with = merged_keys))]
    from: Box<RawValue>,
}

#[cfg(test)]
fn merged_keys() -> utoipa::openapi::schema::ArrayBuilder {
    let keys = crate::schemas::strict::keys().min_items(Some(1));
    keys.max_items(Some(MAX_MERGED))
}

/// The filters of the body of a merge.
///
/// # Errors
/// It is none, or names none, too many, or one twice.
pub(crate) fn merged(json: &[u8]) -> Result<Vec<FilterName>> {
    let body: MergeBody = serde_json::from_slice(json)
        .map_err(|error| json_error(&error, json, "", "an object with the field from alone"))?;
    let from = names(&body.from, "/from")?;
    match from.len() {
        1..=MAX_MERGED => Ok(from),
        given => Err(HttpError::field(
            "/from".to_owned(),
            format!("an array of {given}"),
            format!("1 to {MAX_MERGED} keys; merge more in further requests"),
        )),
    }
}

/// The keys of a list at that pointer, in its order.
fn names(value: &RawValue, at: &str) -> Result<Vec<FilterName>> {
    let listed: Vec<&RawValue> = serde_json::from_str(value.get())
        .map_err(|error| json_error(&error, value.get().as_bytes(), at, "an array of keys"))?;
    let mut names = Vec::with_capacity(listed.len());
    let mut seen = HashSet::with_capacity(listed.len());
    for (index, value) in listed.into_iter().enumerate() {
        let refuse = |given: String, allowed: &str| {
            HttpError::field(format!("{at}/{index}"), given, allowed)
        };
        let name = string(value)
            .and_then(|text| FilterName::parse(&text).ok())
            .ok_or_else(|| refuse(given(value), &key_in_words()))?;
        if !seen.insert(name.clone()) {
            return Err(refuse("given twice".to_owned(), "each key once"));
        }
        names.push(name);
    }
    Ok(names)
}

/// The filters whose keys start with a text; the empty one is all of them.
///
/// # Errors
/// No key starts with it.
pub(super) fn prefix(value: &RawValue) -> Result<LookupFilters> {
    string(value)
        .filter(|text| FilterName::can_start_with(text))
        .map(LookupFilters::Prefix)
        .ok_or_else(|| {
            let allowed = format!("empty, or the start of a key: {}", key_in_words());
            HttpError::field("/prefix".to_owned(), given(value), allowed)
        })
}

#[cfg(test)]
mod tests {
    use crate::engine::{LookupFilters, LookupMode};
    use crate::parse::{Batch, BatchKind, json_batch};
    use crate::problem::{FieldPlace, HttpError};

    fn lookup(json: &str) -> Result<Batch, HttpError> {
        json_batch(json.as_bytes(), BatchKind::Lookup, 3)
    }

    #[test]
    fn a_lookup_names_filters_or_a_prefix() {
        let batch = lookup(r#"{"items": ["a", 1], "filters": ["x", "b"], "first": true}"#).unwrap();
        assert_eq!(batch.items.len(), 2);
        assert_eq!(batch.lookup_mode, LookupMode::First);
        let Some(LookupFilters::Named(names)) = batch.looked_up_in else {
            panic!("no names");
        };
        let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
        assert_eq!(names, ["x", "b"]);

        let batch = lookup(r#"{"prefix": "", "items": [], "first": false}"#).unwrap();
        assert_eq!(batch.lookup_mode, LookupMode::All);
        let prefix = LookupFilters::Prefix(String::new());
        assert_eq!(batch.looked_up_in, Some(prefix));
    }

    #[test]
    fn refusals_point_to_the_field() {
        for (json, place) in [
            (r#"{"items": ["a"]}"#, "/filters"),
            (r#"{"items": [], "filters": [], "prefix": ""}"#, "/prefix"),
            (r#"{"items": [], "prefix": "", "filters": []}"#, "/filters"),
            (r#"{"items": [], "filters": "a"}"#, "/filters"),
            (r#"{"items": [], "filters": ["a", 7]}"#, "/filters/1"),
            (r#"{"items": [], "filters": ["a b"]}"#, "/filters/0"),
            (r#"{"items": [], "filters": ["a", "b", "a"]}"#, "/filters/2"),
            (r#"{"items": [], "prefix": "a b"}"#, "/prefix"),
            (r#"{"items": [], "prefix": null}"#, "/prefix"),
            (r#"{"items": [], "filters": [], "first": 1}"#, "/first"),
            (r#"{"items": [], "filters": [], "create": {}}"#, "/create"),
        ] {
            match lookup(json).unwrap_err() {
                HttpError::InvalidFields(fields) => {
                    assert_eq!(
                        fields[0].place,
                        FieldPlace::Body(place.to_owned()),
                        "{json}"
                    );
                }
                other => panic!("{json}: {other}"),
            }
        }
    }
}
