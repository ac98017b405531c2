//! The options of lines, which stand in the query.

use super::batch_fields::WITHIN_SECONDS;
use super::condition::{WHERE, condition, in_query};
use super::filter_fields::{FILTER_FIELDS, filter_field_names, whole_number};
use super::{BatchKind, Encoding};
use crate::chain::params::MAX_ATTRIBUTES;
use crate::engine::{AddMode, AddOptions, NewFilter, Where};
use crate::problem::{FieldError, FieldPlace, HttpError, Result, excerpt};
use crate::query::Query;
use axum::http::Uri;

/// Names the columns of lines behind their items.
const COLUMNS: &str = "attributes";

/// What a query says of the lines of a body.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineOptions {
    pub(crate) encoding: Encoding,
    pub(crate) add: AddOptions,
    /// The attributes that stand behind the item; none: a value does.
    pub(crate) columns: Vec<String>,
    /// How far a question goes back.
    pub(crate) within_seconds: Option<u64>,
    /// What a row of the items must meet.
    pub(crate) condition: Option<Where>,
}

/// The options of a `text/plain` request, which stand in the query.
///
/// # Errors
/// A parameter is refused.
pub(crate) fn line_options(kind: BatchKind, uri: &Uri) -> Result<LineOptions> {
    // Most requests have none: no list is made of what could be in it.
    if uri.query().is_none() {
        return Ok(LineOptions::default());
    }
    let mut allowed = vec!["encoding"];
    match kind {
        BatchKind::Add => {
            allowed.extend(["only_if_absent", "create"]);
            allowed.extend(filter_field_names());
        }
        BatchKind::AddValues => allowed.extend(["only_if_absent", COLUMNS]),
        BatchKind::DeleteValues | BatchKind::ReplaceValues => allowed.push(COLUMNS),
        BatchKind::Exists => allowed.extend([WITHIN_SECONDS, WHERE]),
        _ => {}
    }
    let query = Query::parse(uri, &allowed)?;
    let encoding = query.read("encoding", Encoding::parse, Encoding::names)?;
    let (within_seconds, condition) = lately_or_where(&query)?;
    Ok(LineOptions {
        encoding: encoding.unwrap_or_default(),
        add: match kind {
            BatchKind::Add | BatchKind::AddValues => add_options(kind, &query)?,
            _ => AddOptions::default(),
        },
        columns: match kind.has_values() {
            true => columns_of(&query)?,
            false => Vec::new(),
        },
        within_seconds,
        condition,
    })
}

/// The options of an add.
fn add_options(kind: BatchKind, query: &Query<'_>) -> Result<AddOptions> {
    let mode = AddMode::of(query.switch("only_if_absent")?);
    if kind == BatchKind::AddValues {
        return Ok(AddOptions { mode, create: None });
    }
    let wanted = query.switch("create")?;
    let mut filter = NewFilter::default();
    let mut wrong = Vec::new();
    let mut refuse = |name: &str, given: String, allowed: String| {
        let place = FieldPlace::Query(name.to_owned());
        wrong.push(FieldError::new(place, given, allowed));
    };
    for field in &FILTER_FIELDS {
        let Some(text) = query.text(field.name)? else {
            continue;
        };
        if !wanted {
            let given = "given without create=true".to_owned();
            refuse(field.name, given, "together with create=true".to_owned());
        } else if let Err(allowed) = field.set_to_text(&mut filter, text) {
            refuse(field.name, excerpt(text), allowed);
        }
    }
    if !wrong.is_empty() {
        return Err(HttpError::InvalidFields(wrong));
    }
    let create = wanted.then_some(filter);
    Ok(AddOptions { mode, create })
}

/// The columns that a query names.
fn columns_of(query: &Query<'_>) -> Result<Vec<String>> {
    let names_in = |text: &str| {
        let names: Vec<String> = text.split(',').map(str::to_owned).collect();
        let mut others = names.iter().enumerate();
        let is_twice = others.any(|(at, name)| names.iter().take(at).any(|it| it == name));
        (!is_twice && names.len() <= MAX_ATTRIBUTES).then_some(names)
    };
    let names = query.read(COLUMNS, names_in, || {
        format!(
            "the names of the filter's attributes with commas between them, each once, up to {MAX_ATTRIBUTES}"
        )
    })?;
    Ok(names.unwrap_or_default())
}

/// What a question of a query says beside its items: how many seconds it goes back, or
/// what a row of the items must meet.
///
/// # Errors
/// A parameter is refused.
pub(crate) fn lately_or_where(query: &Query<'_>) -> Result<(Option<u64>, Option<Where>)> {
    let seconds = query.read(WITHIN_SECONDS, whole_number, || SECONDS)?;
    let condition = query.text(WHERE)?.map(|json| condition(json, in_query));
    match (seconds, condition.transpose()?) {
        (Some(_), Some(_)) => {
            let (given, allowed) = ("given beside where", "one of the two");
            Err(HttpError::parameter(WITHIN_SECONDS, given, allowed))
        }
        said => Ok(said),
    }
}

/// What the parameter `within_seconds` may be.
pub(crate) const SECONDS: &str = "an integer of seconds, at most the window of the filter";

#[cfg(test)]
mod tests;
