//! How the description of the API says them.

use super::{FILTER_FIELDS, FilterField, TTL_SECONDS, Takes};
use crate::chain::params::{LayoutKind, MAX_ERROR_RATE, MIN_ERROR_RATE};
use crate::engine::MAX_TTL_SECONDS;
use crate::parse::attributes;
use crate::schemas::one_of;
use crate::schemas::strict::{closed_object, key};
use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

/// An example of a field, and what is said of it.
#[rustfmt::skip]
fn said(name: &str) -> (Value, &'static str) {
    match name {
        "capacity" => (json!(100_000), "Items that fit before the filter grows, up to 2^40; for the layout `classic` at least 2 * bucket_size."),
        "error_rate" => (json!(0.001), "`paged`: the highest false-positive rate (the share of never-added items that are found), promised while the filter grows to promised_growth times its capacity. It determines the width of a slot."),
        "fingerprint_bits" => (json!(16), "`paged`: bits per slot, instead of `error_rate`."),
        "promised_growth" => (json!(64), "`paged`: how many times its capacity the filter may have and keep its error rate. More growth takes wider slots. Left out: 64, or 8192 without a capacity, or what the slots keep if that is less; 1 with expansion 0."),
        "value_bits" => (json!(12), "`paged`: bits of the values that the items of the filter have. Each item is added with a value then, and may have up to 1,024. Left out: items have no values."),
        "values_per_item" => (json!(4), "With `value_bits` or `attributes`: values or rows that an item is expected to have, which sizes the filter. Left out: 1."),
        "attributes" => (Value::Null, "`paged`: what the rows of items consist of, up to 8 attributes of up to 16 bits together. Each item is added with a row then, one value for each attribute, and may have up to 1,024 rows. Not together with `value_bits`. Left out: items have no rows."),
        "window_seconds" => (json!(86_400), "`paged`: seconds after which an item expires by itself that was not seen again. The capacity is that of the items of one window then. Left out: items do not expire."),
        "window_resolution_seconds" => (json!(3_600), "With `window_seconds`: in which steps items expire, from a 255th of the window to all of it. An item expires up to so many seconds late. Left out: a 24th of the window."),
        "layout" => (json!("paged"), "How fingerprints are placed. `paged` reads about one page a question and keeps its error rate; `classic` is bit-compatible with RedisBloom and Apache Kvrocks. Left out: `paged` with error_rate, promised_growth or fingerprint_bits, `classic` with bucket_size or max_iterations, else the server's default."),
        "bucket_size" => (json!(2), "`classic`: slots per bucket. More slots fill better and cause more false positives."),
        "max_iterations" => (json!(20), "`classic`: longest path of kick-outs for one item."),
        "expansion" => (json!(2), "`classic`: how much larger each further sub-filter is; rounded up to a power of two. `paged` grows page by page, whatever the number. 0 = the filter never grows. Left out: 2 for `paged`, 1 for `classic`."),
        "max_expansions" => (json!(32), "`classic`: largest number of sub-filters beyond the first; `paged`: of doublings."),
        "ttl_seconds" => (json!(86_400), "Seconds until the filter expires, 1 to 3162240000; left out = it does not expire."),
        "sibling_of" => (json!("coupons-of-may"), "A filter with which this one can be merged: it is made as that one was, with the same secret key of its hash. The other fields but `ttl_seconds` are left out, or are those of that filter. The API key needs the right `export`, or the scope `admin`."),
        _ => panic!("nothing is said of the field {name}"),
    }
}

impl FilterField {
    fn schema(&self) -> Schema {
        let (example, about) = said(self.name);
        let schema = match self.takes {
            Takes::Integer { from, to, .. } => integer_schema(from, to),
            Takes::OneOf { integers, .. } => ObjectBuilder::new()
                .schema_type(Type::Integer)
                .enum_values(Some(integers.map(Value::from))),
            Takes::Rate => ObjectBuilder::new()
                .schema_type(Type::Number)
                .format(Some(SchemaFormat::KnownFormat(KnownFormat::Double)))
                .minimum(Some(MIN_ERROR_RATE))
                .maximum(Some(MAX_ERROR_RATE)),
            Takes::Layout => one_of(LayoutKind::ALL.map(LayoutKind::name)),
            Takes::Filter => key(),
            Takes::Attributes => return attributes::schema::schema(about).into(),
        };
        schema.examples([example]).description(Some(about)).into()
    }
}

fn integer_schema(from: u64, to: u64) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(from))
        .maximum(Some(to))
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
        let seconds = integer_schema(1, MAX_TTL_SECONDS)
            .examples([json!(86_400)])
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
