//! A condition on the rows of items, in JSON: a list of values for each of some
//! attributes.

use super::places::{given, members, pointer};
use crate::chain::params::{MAX_ATTRIBUTES, check_label};
use crate::engine::Where;
use crate::problem::{FieldPlace, HttpError, Result, excerpt};

/// The name of the field, and of the parameter.
pub(crate) const WHERE: &str = "where";

/// Values that one list may have.
pub(crate) const MAX_LISTED_LABELS: usize = 64;

const ALLOWED: &str =
    "an object with a list of values for each of some attributes, such as {\"plan\": [\"pro\"]}";

/// Takes a condition apart. `place_of` says where something of it stands, by the
/// pointer to it.
///
/// # Errors
/// It is none.
pub(crate) fn condition(json: &str, place_of: impl Fn(String) -> FieldPlace) -> Result<Where> {
    let refuse = |at: String, given: String, allowed: String| {
        HttpError::refused(place_of(at), given, allowed)
    };
    let pairs =
        members(json).map_err(|_| refuse(String::new(), excerpt(json), ALLOWED.to_owned()))?;
    if !(1..=MAX_ATTRIBUTES).contains(&pairs.len()) {
        let allowed = format!("1 to {MAX_ATTRIBUTES} attributes, each with a list of values");
        let given = format!("of {} attributes", pairs.len());
        return Err(refuse(String::new(), given, allowed));
    }
    let mut condition = Where::default();
    for (name, listed) in pairs {
        let at = pointer("", &name);
        if condition.0.iter().any(|(known, _)| *known == name) {
            return Err(refuse(at, "given twice".to_owned(), "once".to_owned()));
        }
        let labels: Option<Vec<String>> = serde_json::from_str(listed.get()).ok();
        let allowed = || format!("an array of 1 to {MAX_LISTED_LABELS} strings");
        let labels = labels.ok_or_else(|| refuse(at.clone(), given(listed), allowed()))?;
        if !(1..=MAX_LISTED_LABELS).contains(&labels.len()) {
            let given = match labels.len() {
                0 => "an empty array".to_owned(),
                many => format!("an array of {many}"),
            };
            return Err(refuse(at, given, allowed()));
        }
        for (position, label) in labels.iter().enumerate() {
            check_label(label.len())
                .map_err(|(given, allowed)| refuse(format!("{at}/{position}"), given, allowed))?;
        }
        condition.0.push((name, labels));
    }
    Ok(condition)
}

/// Where something of the condition in a body stands.
pub(crate) fn in_body(at: String) -> FieldPlace {
    FieldPlace::Body(format!("/{WHERE}{at}"))
}

/// The same of a query, which has no pointers.
pub(crate) fn in_query(_: String) -> FieldPlace {
    FieldPlace::Query(WHERE.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> (String, String) {
        let HttpError::InvalidFields(fields) = condition(json, in_body).unwrap_err() else {
            panic!("another error");
        };
        let FieldPlace::Body(pointer) = &fields[0].place else {
            panic!("another place");
        };
        (pointer.clone(), fields[0].given.clone())
    }

    #[test]
    fn a_condition_is_a_list_of_strings_for_each_attribute() {
        let read = condition(r#"{"plan": ["pro"], "tag": ["DE", "\u00e9"]}"#, in_body).unwrap();
        let expected = [("plan", vec!["pro"]), ("tag", vec!["DE", "é"])];
        let expected = expected.map(|(name, labels)| {
            let labels = labels.into_iter().map(str::to_owned).collect();
            (name.to_owned(), labels)
        });
        assert_eq!(read, Where(expected.into()));
        let many = format!(r#"{{"a": {:?}}}"#, vec!["x"; 65]);
        let long = format!(r#"{{"a": ["x", "{}"]}}"#, "y".repeat(257));
        for (json, place, given) in [
            ("[]", "/where", "[]"),
            ("{}", "/where", "of 0 attributes"),
            (r#"{"a": ["x"]"#, "/where", r#"{"a": ["x"]"#),
            (r#"{"a": []}"#, "/where/a", "an empty array"),
            (r#"{"a": "x"}"#, "/where/a", "\"x\""),
            (r#"{"a/b": [1]}"#, "/where/a~1b", "[1]"),
            (r#"{"a": ["x"], "a": ["y"]}"#, "/where/a", "given twice"),
            (many.as_str(), "/where/a", "an array of 65"),
            (long.as_str(), "/where/a/1", "257 bytes long"),
        ] {
            assert_eq!(
                refused(json),
                (place.to_owned(), given.to_owned()),
                "{json}"
            );
        }
    }
}
