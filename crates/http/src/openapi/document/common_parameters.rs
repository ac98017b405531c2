//! Parameters that more than one operation has, or of which a schema can say
//! more than their type.

use crate::bounds::{MAX_LISTED, MAX_QUERY_ITEM_BYTES, name_in_words};
use crate::engine::MAX_IMPORT_ID_LENGTH;
use crate::parse::{WHERE, WITHIN_SECONDS, within_seconds};
use crate::schemas::strict::{key, name, prefix};
use crate::schemas::text;
use serde_json::json;
use utoipa::IntoParams;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};

/// Base64url of whole bytes; the bits that are left over in the last character
/// are zero, so that no two texts are the same item.
const BASE64URL: &str =
    "^(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-][AQgw](?:==)?|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048]=?)?$";

/// The characters of that for the longest item of a query.
const MAX_BASE64URL_LENGTH: usize = MAX_QUERY_ITEM_BYTES.div_ceil(3) * 4;

/// Parameters as an operation names them.
macro_rules! parameters {
    ($($(#[$about:meta])* $name:ident: [$($parameter:expr),* $(,)?];)*) => {$(
        $(#[$about])*
        pub(super) struct $name;

        impl IntoParams for $name {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                vec![$($parameter.build()),*]
            }
        }
    )*};
}

parameters! {
    /// The one item of a question.
    OneItem: [
        in_query("item", "The item, up to 4 KiB, form-encoded: `+` is a space, a plus sign is `%2B`.")
            .schema(Some(text().max_length(Some(MAX_QUERY_ITEM_BYTES))))
            .example(Some(json!("SPRING-24"))),
        in_query("item_base64url", "The item in base64url, instead of `item`.").schema(Some(
            text()
                .max_length(Some(MAX_BASE64URL_LENGTH))
                .pattern(Some(BASE64URL)),
        )),
    ];

    /// How far a question goes back, in a filter with a window.
    WithinSeconds: [
        in_query(
            WITHIN_SECONDS,
            "Of a filter with a window: whether the item was seen within the last so many seconds, rounded up to the resolution of the window; at most the window.",
        )
        .schema(Some(within_seconds())),
    ];

    /// What a row of the item must meet, in a filter with attributes.
    WhereRow: [
        in_query(
            WHERE,
            "Of a filter with attributes: whether one row of the item has one of the listed values for each of these attributes. JSON, as in the body of a POST.",
        )
        .schema(Some(text()))
        .example(Some(json!("{\"plan\":[\"pro\"]}"))),
    ];

    /// Which page of the list of filters.
    ListPage: [
        in_query("prefix", "Only filters whose keys start with this.")
            .schema(Some(prefix()))
            .example(Some(json!("shop:"))),
        in_query("contains", "Only filters whose keys contain this.")
            .schema(Some(prefix()))
            .example(Some(json!("guests"))),
        // Any number of digits is a number, however large.
        in_query("limit", &format!("Most filters of the page; more than {MAX_LISTED} is taken as {MAX_LISTED}, 0 as 1."))
            .schema(Some(ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0))))
            .example(Some(json!(100))),
        in_query("cursor", "`next_cursor` of the previous page.")
            .schema(Some(key()))
            .example(Some(json!("coupons"))),
    ];

    /// The import that is begun or taken up.
    ImportId: [
        in_query(
            "import_id",
            &format!(
                "Name of the import within the filter: {}. It is kept for a week after its last commit.",
                name_in_words(MAX_IMPORT_ID_LENGTH),
            ),
        )
        .required(Required::True)
        .schema(Some(name(MAX_IMPORT_ID_LENGTH)))
        .example(Some(json!("2026-11-21-codes"))),
    ];

    /// Which page of the list of imports.
    ImportCursor: [
        in_query("cursor", "`next_cursor` of the previous page.")
            .schema(Some(name(MAX_IMPORT_ID_LENGTH)))
            .example(Some(json!("2026-11-21-codes"))),
    ];

    /// The import of the path.
    ImportInPath: [
        in_path("id", "Name of the import.")
            .schema(Some(name(MAX_IMPORT_ID_LENGTH)))
            .example(Some(json!("2026-11-21-codes"))),
    ];
}

pub(super) fn in_path(name: &str, description: &str) -> ParameterBuilder {
    parameter(ParameterIn::Path, name, description).required(Required::True)
}

fn in_query(name: &str, description: &str) -> ParameterBuilder {
    parameter(ParameterIn::Query, name, description).required(Required::False)
}

pub(super) fn parameter(place: ParameterIn, name: &str, description: &str) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .description(Some(description))
}
