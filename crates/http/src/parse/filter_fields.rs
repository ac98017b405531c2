//! The fields of a filter, as users write them: one table, by which they are
//! read, in JSON and in queries, refused and described. What is said of them is in
//! `schema`.

#[cfg(test)]
pub(super) mod schema;

use super::attributes;
use crate::bounds::key_in_words;
use crate::chain::params::{
    LayoutKind, MAX_BUCKET_SIZE, MAX_CAPACITY, MAX_ERROR_RATE, MAX_EXPANSION, MAX_PROMISED_GROWTH,
    MAX_VALUE_BITS, MAX_VALUES_PER_ITEM, MAX_WINDOW_SECONDS, MIN_ERROR_RATE,
};
use crate::engine::{FilterName, MAX_TTL_SECONDS, NewFilter};

/// A field of a filter.
pub(super) struct FilterField {
    pub(super) name: &'static str,
    takes: Takes,
}

/// What a field takes.
enum Takes {
    /// An integer from one to another.
    Integer {
        from: u64,
        to: u64,
        field: IntegerOf,
    },
    /// One of these integers.
    OneOf {
        integers: [u64; 4],
        field: IntegerOf,
    },
    /// A false-positive rate.
    Rate,
    /// The name of a layout.
    Layout,
    /// A list of attributes.
    Attributes,
    /// The key of a filter.
    Filter,
}

/// Where an integer is put.
type IntegerOf = fn(&mut NewFilter) -> &mut Option<u64>;

/// All of them.
#[rustfmt::skip]
pub(super) static FILTER_FIELDS: [FilterField; 16] = [
    integer("capacity", [1, MAX_CAPACITY], |filter| &mut filter.params.capacity),
    field("error_rate", Takes::Rate),
    field("fingerprint_bits", Takes::OneOf {
        integers: [12, 16, 21, 32],
        field: |filter| &mut filter.params.fingerprint_bits,
    }),
    integer("promised_growth", [1, MAX_PROMISED_GROWTH], |filter| &mut filter.params.promised_growth),
    integer("value_bits", [1, MAX_VALUE_BITS], |filter| &mut filter.params.value_bits),
    integer("values_per_item", [1, MAX_VALUES_PER_ITEM], |filter| &mut filter.params.values_per_item),
    field("attributes", Takes::Attributes),
    integer("window_seconds", [1, MAX_WINDOW_SECONDS], |filter| &mut filter.params.window_seconds),
    integer("window_resolution_seconds", [1, MAX_WINDOW_SECONDS], |filter| &mut filter.params.window_resolution_seconds),
    field("layout", Takes::Layout),
    integer("bucket_size", [1, MAX_BUCKET_SIZE], |filter| &mut filter.params.bucket_size),
    integer("max_iterations", [1, u16::MAX as u64], |filter| &mut filter.params.max_iterations),
    integer("expansion", [0, MAX_EXPANSION], |filter| &mut filter.params.expansion),
    integer("max_expansions", [0, u16::MAX as u64], |filter| &mut filter.params.max_expansions),
    TTL_SECONDS,
    field("sibling_of", Takes::Filter),
];

/// When it ends: the one field that can be changed.
pub(super) const TTL_SECONDS: FilterField =
    integer("ttl_seconds", [1, MAX_TTL_SECONDS], |filter| {
        &mut filter.ttl_seconds
    });

/// A field that takes an integer from one to another.
const fn integer(name: &'static str, [from, to]: [u64; 2], it: IntegerOf) -> FilterField {
    let takes = Takes::Integer {
        from,
        to,
        field: it,
    };
    field(name, takes)
}

const fn field(name: &'static str, takes: Takes) -> FilterField {
    FilterField { name, takes }
}

/// Their names.
pub(super) fn filter_field_names() -> [&'static str; 16] {
    FILTER_FIELDS.each_ref().map(|field| field.name)
}

/// Why a field was not set.
#[derive(Debug)]
pub(super) struct Refused {
    /// The pointer from the field to what is wrong.
    pub(super) below: String,
    /// What was given there, if that is not all of it.
    pub(super) given: Option<String>,
    pub(super) allowed: String,
}

/// A value as it was written: in quotes or not.
#[derive(Clone, Copy)]
pub(super) enum Scalar<'a> {
    Quoted(&'a str),
    Bare(&'a str),
}

impl FilterField {
    /// The field of a name.
    pub(super) fn find(name: &str) -> Option<&'static FilterField> {
        FILTER_FIELDS.iter().find(|field| field.name == name)
    }

    /// Sets it to what a query says.
    ///
    /// # Errors
    /// Says what is allowed.
    pub(super) fn set_to_text(&self, filter: &mut NewFilter, text: &str) -> Result<(), String> {
        let value = match self.takes {
            Takes::Layout | Takes::Filter => Scalar::Quoted(text),
            _ => Scalar::Bare(text),
        };
        self.set(filter, value).map_err(|refused| refused.allowed)
    }

    /// Sets it. Ranges are not checked here.
    ///
    /// # Errors
    /// Says what is allowed.
    pub(super) fn set(&self, filter: &mut NewFilter, value: Scalar<'_>) -> Result<(), Refused> {
        let is_set = match (&self.takes, value) {
            (Takes::Integer { field, .. } | Takes::OneOf { field, .. }, Scalar::Bare(text)) => {
                let field = field(filter);
                *field = whole_number(text);
                field.is_some()
            }
            (Takes::Rate, Scalar::Bare(text)) => {
                // What JSON takes for a number; a query follows the same rule.
                filter.params.error_rate = serde_json::from_str(text).ok();
                filter.params.error_rate.is_some()
            }
            (Takes::Layout, Scalar::Quoted(text)) => {
                let mut layouts = LayoutKind::ALL.into_iter();
                filter.params.layout = layouts.find(|layout| layout.name() == text);
                filter.params.layout.is_some()
            }
            (Takes::Filter, Scalar::Quoted(text)) => {
                filter.sibling_of = FilterName::parse(text).ok();
                filter.sibling_of.is_some()
            }
            (Takes::Attributes, Scalar::Bare(json)) => {
                let read = attributes::attributes(json).map_err(|error| Refused {
                    below: error.pointer,
                    given: Some(error.given),
                    allowed: error.allowed,
                })?;
                filter.params.attributes = Some(read);
                true
            }
            _ => false,
        };
        is_set.then_some(()).ok_or_else(|| Refused {
            below: String::new(),
            given: None,
            allowed: self.allowed(),
        })
    }

    /// Whether it is set to what it takes, whatever the other fields are.
    pub(super) fn is_in_range(&self, filter: &mut NewFilter) -> bool {
        match self.takes {
            Takes::Integer {
                from, to, field, ..
            } => field(filter).is_none_or(|it| (from..=to).contains(&it)),
            Takes::OneOf { integers, field } => {
                field(filter).is_none_or(|it| integers.contains(&it))
            }
            Takes::Rate => {
                let range = MIN_ERROR_RATE..=MAX_ERROR_RATE;
                filter
                    .params
                    .error_rate
                    .is_none_or(|it| range.contains(&it))
            }
            Takes::Layout | Takes::Attributes | Takes::Filter => true,
        }
    }

    /// What it takes, in words.
    pub(super) fn allowed(&self) -> String {
        match self.takes {
            Takes::Integer { from, to, .. } => format!("an integer from {from} to {to}"),
            Takes::OneOf {
                integers: [a, b, c, d],
                ..
            } => format!("{a}, {b}, {c} or {d}"),
            Takes::Rate => {
                format!("a number from {MIN_ERROR_RATE:e} to {MAX_ERROR_RATE}, such as 0.001")
            }
            Takes::Layout => LayoutKind::ALL
                .map(|layout| format!("\"{}\"", layout.name()))
                .join(" or "),
            Takes::Attributes => attributes::ALLOWED.to_owned(),
            Takes::Filter => key_in_words(),
        }
    }
}

/// An integer that is not negative. It may be written with a fraction of zero or with
/// an exponent, as some languages write large ones: `1e6` is as good as `1000000`.
pub(super) fn whole_number(text: &str) -> Option<u64> {
    /// Up to here each integer has a double of its own.
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let number: f64 = serde_json::from_str(text).ok()?;
    let is_whole = number.fract() == 0.0 && (0.0..=LARGEST).contains(&number);
    is_whole.then_some(number as u64)
}
