//! The fields of bodies with items: by one table they are read, refused and
//! described.

use super::condition::{MAX_LISTED_LABELS, WHERE};
use super::filter_fields::FilterFields;
use crate::chain::params::{MAX_VALUE_BITS, MAX_WINDOW_SECONDS};
use crate::http::openapi::schemas::{closed_object, key, one_of, prefix};
use serde_json::json;
use utoipa::openapi::schema::{AnyOfBuilder, Array, ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// What a batch is for; an add and a lookup take more fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchKind {
    Add,
    Delete,
    Lookup,
    Question,
    /// Whether items, or entries, are there.
    Exists,
    AddValues,
    DeleteValues,
    ReplaceValues,
    ListValues,
}

/// A field of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchField {
    Items,
    /// Items, each with a value.
    Entries,
    Encoding,
    OnlyIfAbsent,
    Create,
    Filters,
    Prefix,
    First,
    Counts,
    WithinSeconds,
    Where,
}

use BatchField::{
    Counts, Create, Entries, Filters, First, Items, OnlyIfAbsent, Prefix, Where, WithinSeconds,
};

impl BatchKind {
    /// Whether it changes the filter.
    pub(crate) fn is_change(self) -> bool {
        match self {
            BatchKind::Add
            | BatchKind::Delete
            | BatchKind::AddValues
            | BatchKind::DeleteValues
            | BatchKind::ReplaceValues => true,
            BatchKind::Lookup | BatchKind::Question | BatchKind::Exists | BatchKind::ListValues => {
                false
            }
        }
    }

    /// Whether its lines have values.
    pub(crate) fn has_values(self) -> bool {
        self.fields().first() == Some(&Entries)
    }

    fn fields(self) -> &'static [BatchField] {
        match self {
            BatchKind::Add => &[Items, BatchField::Encoding, OnlyIfAbsent, Create],
            BatchKind::Lookup => &[
                Items,
                BatchField::Encoding,
                Filters,
                Prefix,
                First,
                WithinSeconds,
            ],
            BatchKind::Delete | BatchKind::Question => &[Items, BatchField::Encoding],
            BatchKind::Exists => &[Items, Entries, BatchField::Encoding, WithinSeconds, Where],
            BatchKind::AddValues => &[Entries, BatchField::Encoding, OnlyIfAbsent],
            BatchKind::DeleteValues | BatchKind::ReplaceValues => &[Entries, BatchField::Encoding],
            BatchKind::ListValues => &[Items, BatchField::Encoding, Counts],
        }
    }

    /// The field of a name, if a batch of this kind has it.
    pub(super) fn find(self, name: &str) -> Option<BatchField> {
        let mut fields = self.fields().iter().copied();
        fields.find(|field| field.name() == name)
    }

    /// The names of its fields, for an error.
    pub(super) fn names(self) -> String {
        let names: Vec<&str> = self.fields().iter().map(|field| field.name()).collect();
        names.join(", ")
    }

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
    pub(super) fn name(self) -> &'static str {
        match self {
            Items => "items",
            Entries => "entries",
            BatchField::Encoding => "encoding",
            OnlyIfAbsent => "only_if_absent",
            Create => "create",
            Filters => "filters",
            Prefix => "prefix",
            First => "first",
            Counts => "counts",
            WithinSeconds => WITHIN_SECONDS,
            Where => WHERE,
        }
    }

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
            Filters => ArrayBuilder::new()
                .items(RefOr::T(Schema::from(key())))
                .unique_items(true)
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

/// Asks a filter with a window for what was seen lately.
pub(crate) const WITHIN_SECONDS: &str = "within_seconds";

/// Its schema.
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

/// Largest value that any filter takes.
pub(super) const MAX_VALUE: u32 = (1 << MAX_VALUE_BITS) - 1;

/// How the items of a batch are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The UTF-8 bytes of a string, or the digits of an integer.
    #[default]
    Plain,
    /// Standard base64.
    Base64,
}

impl Encoding {
    const ALL: [Encoding; 2] = [Encoding::Plain, Encoding::Base64];

    fn name(self) -> &'static str {
        match self {
            Encoding::Plain => "utf-8",
            Encoding::Base64 => "base64",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Encoding> {
        let mut all = Encoding::ALL.into_iter();
        all.find(|encoding| encoding.name() == text)
    }

    /// What `parse` takes, for an error.
    pub(super) fn names() -> String {
        Encoding::ALL.map(Encoding::name).join(" or ")
    }
}

/// Items to add.
pub(crate) struct AddBody;

impl PartialSchema for AddBody {
    fn schema() -> RefOr<Schema> {
        BatchKind::Add.schema("Items to add.")
    }
}

impl ToSchema for AddBody {}

/// Items to ask for or to delete.
pub(crate) struct ItemsBody;

impl PartialSchema for ItemsBody {
    fn schema() -> RefOr<Schema> {
        BatchKind::Question.schema("Items to ask for or to delete.")
    }
}

impl ToSchema for ItemsBody {}

/// Items, or entries, to ask for.
pub(crate) struct CheckBody;

impl PartialSchema for CheckBody {
    fn schema() -> RefOr<Schema> {
        BatchKind::Exists.schema("Items, or entries of a filter with values, to ask for.")
    }
}

impl ToSchema for CheckBody {}

/// Entries to add.
pub(crate) struct AddValuesBody;

impl PartialSchema for AddValuesBody {
    fn schema() -> RefOr<Schema> {
        BatchKind::AddValues.schema("Entries to add.")
    }
}

impl ToSchema for AddValuesBody {}

/// Entries to delete.
pub(crate) struct EntriesBody;

impl PartialSchema for EntriesBody {
    fn schema() -> RefOr<Schema> {
        BatchKind::DeleteValues.schema("Entries to delete.")
    }
}

impl ToSchema for EntriesBody {}

/// Entries to replace.
pub(crate) struct ReplaceValuesBody;

impl PartialSchema for ReplaceValuesBody {
    fn schema() -> RefOr<Schema> {
        BatchKind::ReplaceValues.schema("Entries to replace.")
    }
}

impl ToSchema for ReplaceValuesBody {}

/// Items whose values are asked for.
pub(crate) struct ListValuesBody;

impl PartialSchema for ListValuesBody {
    fn schema() -> RefOr<Schema> {
        BatchKind::ListValues.schema("Items whose values are asked for.")
    }
}

impl ToSchema for ListValuesBody {}

/// Items, and the filters to ask.
pub(crate) struct LookupBody;

impl PartialSchema for LookupBody {
    fn schema() -> RefOr<Schema> {
        BatchKind::Lookup.schema("Items, and the filters to ask.")
    }
}

impl ToSchema for LookupBody {}
