//! What answers say about the attributes of a filter.

use crate::chain::params::{Attributes, Codes};
use serde::Serialize;

/// An attribute of the rows of a filter's items.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct AttributeBody {
    /// Its name.
    #[cfg_attr(test, schema(example = "plan"))]
    name: String,
    /// All values that it can have; left out where a hash is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(required = false, nullable = false, example = json!(["free", "pro"])))]
    values: Option<Vec<String>>,
    /// Bits of the hash that is kept of a value; left out where values are kept exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(required = false, nullable = false, example = 5))]
    hash_bits: Option<u8>,
}

impl AttributeBody {
    /// All attributes, in their order.
    pub(super) fn all(attributes: &Attributes) -> Vec<AttributeBody> {
        let all = attributes.iter().map(|attribute| {
            let (values, hash_bits) = match &attribute.codes {
                Codes::Exact(labels) => (Some(labels.clone()), None),
                Codes::Hashed(bits) => (None, Some(*bits)),
            };
            AttributeBody {
                name: attribute.name.clone(),
                values,
                hash_bits,
            }
        });
        all.collect()
    }
}
