//! The fields of a filter, as users write them: one table, by which they are
//! read, in JSON and in queries, refused and described.

use super::attributes;
use crate::chain::params::{
    LayoutKind, MAX_BUCKET_SIZE, MAX_CAPACITY, MAX_ERROR_RATE, MAX_EXPANSION, MAX_PROMISED_GROWTH,
    MAX_VALUE_BITS, MAX_VALUES_PER_ITEM, MAX_WINDOW_SECONDS, MIN_ERROR_RATE,
};
use crate::engine::{MAX_TTL_SECONDS, NewFilter};
use crate::http::openapi::schemas::{closed_object, one_of};
use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// A field of a filter.
pub(super) struct FilterField {
    pub(super) name: &'static str,
    takes: Takes,
    about: &'static str,
}

/// What a field takes.
enum Takes {
    /// An integer from one to another; such as `like`.
    Integer {
        from: u64,
        to: u64,
        like: u64,
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
}

/// Where an integer is put.
type IntegerOf = fn(&mut NewFilter) -> &mut Option<u64>;

/// All of them.
pub(super) static FILTER_FIELDS: [FilterField; 15] = [
    FilterField {
        name: "capacity",
        takes: Takes::Integer {
            from: 1,
            to: MAX_CAPACITY,
            like: 100_000,
            field: |filter| &mut filter.params.capacity,
        },
        about: "Items that fit before the filter grows, up to 2^40; for the layout `classic` at least 2 * bucket_size.",
    },
    FilterField {
        name: "error_rate",
        takes: Takes::Rate,
        about: "`paged`: the highest false-positive rate (the share of never-added items that are found), promised while the filter grows to promised_growth times its capacity. It determines the width of a slot.",
    },
    FilterField {
        name: "fingerprint_bits",
        takes: Takes::OneOf {
            integers: [12, 16, 21, 32],
            field: |filter| &mut filter.params.fingerprint_bits,
        },
        about: "`paged`: bits per slot, instead of `error_rate`.",
    },
    FilterField {
        name: "promised_growth",
        takes: Takes::Integer {
            from: 1,
            to: MAX_PROMISED_GROWTH,
            like: 64,
            field: |filter| &mut filter.params.promised_growth,
        },
        about: "`paged`: how many times its capacity the filter may have and keep its error rate. More growth takes wider slots. Left out: 64, or 8192 without a capacity, or what the slots keep if that is less; 1 with expansion 0.",
    },
    FilterField {
        name: "value_bits",
        takes: Takes::Integer {
            from: 1,
            to: MAX_VALUE_BITS,
            like: 12,
            field: |filter| &mut filter.params.value_bits,
        },
        about: "`paged`: bits of the values that the items of the filter have. Each item is added with a value then, and may have up to 1,024. Left out: items have no values.",
    },
    FilterField {
        name: "values_per_item",
        takes: Takes::Integer {
            from: 1,
            to: MAX_VALUES_PER_ITEM,
            like: 4,
            field: |filter| &mut filter.params.values_per_item,
        },
        about: "With `value_bits` or `attributes`: values or rows that an item is expected to have, which sizes the filter. Left out: 1.",
    },
    FilterField {
        name: "attributes",
        takes: Takes::Attributes,
        about: "`paged`: what the rows of items consist of, up to 8 attributes of up to 16 bits together. Each item is added with a row then, one value for each attribute, and may have up to 1,024 rows. Not together with `value_bits`. Left out: items have no rows.",
    },
    FilterField {
        name: "window_seconds",
        takes: Takes::Integer {
            from: 1,
            to: MAX_WINDOW_SECONDS,
            like: 86_400,
            field: |filter| &mut filter.params.window_seconds,
        },
        about: "`paged`: seconds after which an item expires by itself that was not seen again. The capacity is that of the items of one window then. Left out: items do not expire.",
    },
    FilterField {
        name: "window_resolution_seconds",
        takes: Takes::Integer {
            from: 1,
            to: MAX_WINDOW_SECONDS,
            like: 3_600,
            field: |filter| &mut filter.params.window_resolution_seconds,
        },
        about: "With `window_seconds`: in which steps items expire, from a 255th of the window to all of it. An item expires up to so many seconds late. Left out: a 24th of the window.",
    },
    FilterField {
        name: "layout",
        takes: Takes::Layout,
        about: "How fingerprints are placed. `paged` reads about one page a question and keeps its error rate; `classic` is bit-compatible with RedisBloom and Apache Kvrocks. Left out: `paged` with error_rate, promised_growth or fingerprint_bits, `classic` with bucket_size or max_iterations, else the server's default.",
    },
    FilterField {
        name: "bucket_size",
        takes: Takes::Integer {
            from: 1,
            to: MAX_BUCKET_SIZE,
            like: 2,
            field: |filter| &mut filter.params.bucket_size,
        },
        about: "`classic`: slots per bucket. More slots fill better and cause more false positives.",
    },
    FilterField {
        name: "max_iterations",
        takes: Takes::Integer {
            from: 1,
            to: u16::MAX as u64,
            like: 20,
            field: |filter| &mut filter.params.max_iterations,
        },
        about: "`classic`: longest path of kick-outs for one item.",
    },
    FilterField {
        name: "expansion",
        takes: Takes::Integer {
            from: 0,
            to: MAX_EXPANSION,
            like: 2,
            field: |filter| &mut filter.params.expansion,
        },
        about: "`classic`: how much larger each further sub-filter is; rounded up to a power of two. `paged` grows page by page, whatever the number. 0 = the filter never grows. Left out: 2 for `paged`, 1 for `classic`.",
    },
    FilterField {
        name: "max_expansions",
        takes: Takes::Integer {
            from: 0,
            to: u16::MAX as u64,
            like: 32,
            field: |filter| &mut filter.params.max_expansions,
        },
        about: "`classic`: largest number of sub-filters beyond the first; `paged`: of doublings.",
    },
    TTL_SECONDS,
];

/// When it ends: the one field that can be changed.
pub(super) const TTL_SECONDS: FilterField = FilterField {
    name: "ttl_seconds",
    takes: Takes::Integer {
        from: 1,
        to: MAX_TTL_SECONDS,
        like: 86_400,
        field: |filter| &mut filter.ttl_seconds,
    },
    about: "Seconds until the filter expires, 1 to 3162240000; left out = it does not expire.",
};

/// Their names.
pub(super) fn filter_field_names() -> [&'static str; 15] {
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
            Takes::Layout => Scalar::Quoted(text),
            _ => Scalar::Bare(text),
        };
        self.set(filter, value).map_err(|refused| refused.allowed)
    }

    /// Sets it. Ranges are not checked here.
    ///
    /// # Errors
    /// Says what is allowed.
    pub(super) fn set(&self, filter: &mut NewFilter, value: Scalar<'_>) -> Result<(), Refused> {
        let is_set = match self.takes {
            Takes::Integer { field, .. } | Takes::OneOf { field, .. } => {
                let field = field(filter);
                *field = integer(value);
                field.is_some()
            }
            Takes::Rate => {
                filter.params.error_rate = match value {
                    // What JSON takes for a number; a query follows the same rule.
                    Scalar::Bare(text) => serde_json::from_str(text).ok(),
                    Scalar::Quoted(_) => None,
                };
                filter.params.error_rate.is_some()
            }
            Takes::Layout => {
                filter.params.layout = match value {
                    Scalar::Quoted(text) => {
                        let mut layouts = LayoutKind::ALL.into_iter();
                        layouts.find(|layout| layout.name() == text)
                    }
                    Scalar::Bare(_) => None,
                };
                filter.params.layout.is_some()
            }
            Takes::Attributes => {
                if let Scalar::Bare(json) = value {
                    let read = attributes::attributes(json).map_err(|error| Refused {
                        below: error.pointer,
                        given: Some(error.given),
                        allowed: error.allowed,
                    })?;
                    filter.params.attributes = Some(read);
                }
                filter.params.attributes.is_some()
            }
        };
        is_set.then_some(()).ok_or_else(|| Refused {
            below: String::new(),
            given: None,
            allowed: self.allowed(),
        })
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
            Takes::Layout => {
                let names = LayoutKind::ALL.map(|layout| format!("\"{}\"", layout.name()));
                names.join(" or ")
            }
            Takes::Attributes => attributes::ALLOWED.to_owned(),
        }
    }

    fn schema(&self) -> Schema {
        let schema = match self.takes {
            Takes::Integer { from, to, like, .. } => integer_schema(from, to, like),
            Takes::OneOf { integers, .. } => ObjectBuilder::new()
                .schema_type(Type::Integer)
                .enum_values(Some(integers.map(Value::from)))
                .examples([json!(16)]),
            Takes::Rate => ObjectBuilder::new()
                .schema_type(Type::Number)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Double)))
                .minimum(Some(MIN_ERROR_RATE))
                .maximum(Some(MAX_ERROR_RATE))
                .examples([json!(0.001)]),
            Takes::Layout => {
                one_of(LayoutKind::ALL.map(LayoutKind::name)).examples([json!("paged")])
            }
            Takes::Attributes => return attributes::schema(self.about).into(),
        };
        schema.description(Some(self.about)).into()
    }
}

fn integer_schema(from: u64, to: u64, like: u64) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(from))
        .maximum(Some(to))
        .examples([json!(like)])
}

fn integer(value: Scalar<'_>) -> Option<u64> {
    match value {
        Scalar::Bare(text) => whole_number(text),
        Scalar::Quoted(_) => None,
    }
}

/// An integer that is not negative.
pub(super) fn whole_number(text: &str) -> Option<u64> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok(),
        false => whole(text),
    }
}

/// An integer that is written with a fraction of zero or with an exponent, as
/// some languages write large ones: `1e6` is as good as `1000000`.
fn whole(text: &str) -> Option<u64> {
    /// Up to here each integer has a double of its own.
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    let number: f64 = serde_json::from_str(text).ok()?;
    let is_whole = number.fract() == 0.0 && (0.0..=LARGEST).contains(&number);
    is_whole.then_some(number as u64)
}

/// The body that says what a filter is to be.
pub(crate) struct FilterFields;

impl PartialSchema for FilterFields {
    fn schema() -> RefOr<Schema> {
        let fields = FILTER_FIELDS.iter();
        fields
            .fold(closed_object(), |body, field| body.property(field.name, field.schema()))
            .description(Some(
                "Parameters of a filter. Every field is optional; the server's defaults fill in missing fields.",
            ))
            .into()
    }
}

impl ToSchema for FilterFields {}

/// The body that says what is to change about a filter.
pub(crate) struct FilterChanges;

impl PartialSchema for FilterChanges {
    fn schema() -> RefOr<Schema> {
        let or_null = SchemaType::from_iter([Type::Integer, Type::Null]);
        let seconds = integer_schema(1, MAX_TTL_SECONDS, 86_400)
            .schema_type(or_null)
            .description(Some(
                "Seconds from now until the filter expires, 1 to 3162240000; null = it does not expire.",
            ));
        closed_object()
            .property(TTL_SECONDS.name, seconds)
            .required(TTL_SECONDS.name)
            .description(Some("Fields of a filter to change."))
            .into()
    }
}

impl ToSchema for FilterChanges {}
