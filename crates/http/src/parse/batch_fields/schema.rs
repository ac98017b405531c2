//! How the description of the API says them.

use super::BatchField::{
    self, Counts, Create, Entries, Filters, First, Items, OnlyIfAbsent, Prefix, Where,
    WithinSeconds,
};
use super::{BatchKind, Encoding, MAX_VALUE};
use crate::chain::params::MAX_WINDOW_SECONDS;
use crate::parse::condition::MAX_LISTED_LABELS;
use crate::parse::filter_fields::schema::FilterFields;
use crate::schemas::one_of;
use crate::schemas::strict::{closed_object, keys, prefix};
use serde_json::json;
use utoipa::openapi::schema::{AnyOfBuilder, Array, ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

impl BatchKind {
    fn schema(self, about: &str) -> RefOr<Schema> {
        let fields = self.fields().iter();
        let body = fields.fold(closed_object(), |body, field| {
            body.property(field.name(), field.schema(self))
        });
        let body = match self {
            BatchKind::Exists => body,
            kind if kind.has_values() => body.required(Entries.name()),
            _ => body.required(Items.name()),
        };
        body.description(Some(about)).into()
    }
}

impl BatchField {
    fn schema(self, of: BatchKind) -> RefOr<Schema> {
        match self {
            Items => item_list().into(),
            Entries if of == BatchKind::ReplaceValues => replacement_list().into(),
            Entries => entry_list().into(),
            BatchField::Encoding => one_of(Encoding::ALL.map(Encoding::name))
                .description(Some(
                    "How strings are decoded; with `base64` integers are refused.",
                ))
                .default(Some(json!("utf-8")))
                .examples([json!("utf-8")])
                .into(),
            WithinSeconds => within_seconds().into(),
            Where => where_object().into(),
            Counts => switch("Say beside each value how many copies of it the item has."),
            OnlyIfAbsent => switch(
                "Skip an item (with values: an entry) that the filter already contains (or seems to contain, at its false-positive rate).",
            ),
            // What the filter is created with if it is missing.
            Create => Ref::from_schema_name(FilterFields::name()).into(),
            Filters => keys()
                .description(Some(
                    "Keys of the filters to ask, in this order; each once. Either this or `prefix`.",
                ))
                .examples([json!(["campaign-3", "campaign-17"])])
                .into(),
            Prefix => prefix()
                .description(Some(
                    "Ask all filters whose keys start with this, in byte order of their keys. Either this or `filters`.",
                ))
                .examples([json!("campaign-")])
                .into(),
            First => switch("Stop at the first filter that contains the item."),
        }
    }
}

/// The seconds of a question about what was seen lately.
pub(crate) fn within_seconds() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(MAX_WINDOW_SECONDS))
        .description(Some(
            "Of filters with a window: whether the item was seen within the last so many seconds, rounded up to the resolution of the window; at most the window. Left out: within the window.",
        ))
        .examples([json!(7_200)])
}

/// A field that is true or, left out, false.
fn switch(about: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::Boolean)
        .description(Some(about))
        .default(Some(json!(false)))
        .into()
}

fn item() -> Schema {
    // The bounds are said in words: some generators can't hold them as numbers.
    let integer = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .description(Some(
            "From -2^63 to 2^64-1; its decimal digits are the item.",
        ));
    let string = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("Up to 64 KiB; its UTF-8 bytes are the item."));
    Schema::AnyOf(AnyOfBuilder::new().item(string).item(integer).build())
}

fn item_list() -> Array {
    ArrayBuilder::new()
        .items(RefOr::T(item()))
        .description(Some(
            "Up to 250,000 items, unless the server has another limit.",
        ))
        .max_items(None)
        .examples([json!(["SPRING-24", 17])])
        .build()
}

fn value() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(0))
        .maximum(Some(MAX_VALUE))
        .description(Some("As large as the filter's `value_bits` allow."))
}

/// A string for each attribute.
fn row() -> ObjectBuilder {
    let label = ObjectBuilder::new().schema_type(Type::String);
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(RefOr::T(Schema::from(label))))
        .description(Some(
            "A value of each of the filter's `attributes`, by its name; up to 256 bytes.",
        ))
}

fn entry_list() -> Array {
    let entry = closed_object()
        .property("item", item())
        .property("value", value())
        .property("attributes", row())
        .required("item");
    ArrayBuilder::new()
        .items(RefOr::T(Schema::from(entry.build())))
        .description(Some(
            "Items, each with a `value`, or to a filter with attributes with `attributes`; up to 250,000, unless the server has another limit.",
        ))
        .max_items(None)
        .examples([json!([{"item": "ada", "value": 17}])])
        .build()
}

fn replacement_list() -> Array {
    let either = |about: &str| {
        let either = AnyOfBuilder::new().item(value()).item(row());
        Schema::AnyOf(either.description(Some(about)).build())
    };
    let entry = closed_object()
        .property("item", item())
        .property(
            "from",
            either("The value that the item has, or its attributes."),
        )
        .property("to", either("What comes in its place."))
        .required("item")
        .required("from")
        .required("to");
    ArrayBuilder::new()
        .items(RefOr::T(Schema::from(entry.build())))
        .description(Some(
            "Items, each with the value or the attributes that it has, and what comes in their place; up to 250,000, unless the server has another limit.",
        ))
        .max_items(None)
        .examples([json!([{"item": "ada", "from": 17, "to": 18}])])
        .build()
}

/// A condition on the rows of items.
fn where_object() -> ObjectBuilder {
    let label = ObjectBuilder::new().schema_type(Type::String);
    let labels = ArrayBuilder::new()
        .items(RefOr::T(Schema::from(label)))
        .min_items(Some(1))
        .max_items(Some(MAX_LISTED_LABELS));
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(RefOr::T(Schema::from(labels))))
        .description(Some(
            "Of a filter with attributes: whether one row of the item has one of the listed values for each of these attributes.",
        ))
        .examples([json!({"plan": ["pro"], "tag": ["DE", "AT"]})])
}

/// Bodies by their names.
macro_rules! bodies {
    ($($name:ident: $kind:ident, $about:literal;)*) => {$(
        #[doc = $about]
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                BatchKind::$kind.schema($about)
            }
        }

        impl ToSchema for $name {}
    )*};
}

bodies! {
    AddBody: Add, "Items to add.";
    ItemsBody: Question, "Items to ask for or to delete.";
    CheckBody: Exists, "Items, or entries of a filter with values, to ask for.";
    AddValuesBody: AddValues, "Entries to add.";
    EntriesBody: DeleteValues, "Entries to delete.";
    ReplaceValuesBody: ReplaceValues, "Entries to replace.";
    ListValuesBody: ListValues, "Items whose values are asked for.";
    LookupBody: Lookup, "Items, and the filters to ask.";
}
