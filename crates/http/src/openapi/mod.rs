//! The description of the API. What is handed out is the file that is committed; the
//! tests make it from what is said of each route, and hold it to the route table.
//!
//! | file | owns |
//! |---|---|
//! | `document` | of the tests: the document |

#[cfg(test)]
mod document;

/// The OpenAPI document as JSON text, indented, with a final newline.
pub const OPENAPI_DOCUMENT: &str = include_str!("../../../../openapi/openapi.json");
