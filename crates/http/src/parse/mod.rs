//! From bytes to items and fields, without an allocation per item, with a
//! pointer to whatever is refused.
//!
//! | file | owns |
//! |---|---|
//! | `attributes` | the attributes of a filter, in JSON |
//! | `batch_fields` | the fields of bodies with items |
//! | `filter_fields` | the fields of a filter |
//! | `json`, `json_items`, `json_entries` | batches in JSON |
//! | `entries` | what an entry is made of, in lines and in JSON |
//! | `condition` | a condition on the rows of items |
//! | `lines`, `line_options` | batches as `text/plain`, and their options in the query |
//! | `places` | the members of objects; where refused JSON stands, and what was given |
//! | `visitors` | what the visitors of items and entries have in common |
//! | `lookup` | which filters a lookup asks |
//! | `filter` | a filter to be created or changed, in JSON |
//! | `feed` | streams of lines, cut into commits |

mod attributes;
mod batch_fields;
mod condition;
mod entries;
mod feed;
mod filter;
mod filter_fields;
mod json;
mod json_entries;
mod json_items;
mod line_options;
mod lines;
mod lookup;
pub mod measured;
mod places;
mod visitors;

#[cfg(test)]
pub(crate) use batch_fields::schema::{
    AddBody, AddValuesBody, CheckBody, EntriesBody, ItemsBody, ListValuesBody, LookupBody,
    ReplaceValuesBody, within_seconds,
};
pub(crate) use batch_fields::{BatchKind, Encoding, WITHIN_SECONDS};
pub(crate) use condition::WHERE;
pub(crate) use entries::Column;
pub(crate) use feed::{LineFeed, LineFormat};
pub(crate) use filter::{changed_ttl, new_filter};
#[cfg(test)]
pub(crate) use filter_fields::schema::{FilterChanges, FilterFields};
pub(crate) use json::json_batch;
pub(crate) use line_options::{LineOptions, lately_or_where, line_options};
pub(crate) use lines::text_batch;
#[cfg(test)]
pub(crate) use lookup::MergeBody;
pub(crate) use lookup::merged;

use places::{Refusals, given, pointer, string};
use visitors::kind_of;

use super::answer::Format;
use super::bounds::MAX_ITEM_BYTES;
use super::problem::{FieldPlace, HttpError, Result};
use crate::engine::{
    AddOptions, Entries, IdempotencyKey, ItemBatch, LookupFilters, LookupMode, Replacements, Where,
};
use crate::server::admission::budget::Held;
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// What some programs write before a text in UTF-8: no part of its first line. In JSON an
/// item may begin with it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Base64 in either spelling of the padding; trailing bits must be zero, so
/// that no two texts are the same item.
const fn tolerant_of_padding(alphabet: &alphabet::Alphabet) -> GeneralPurpose {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(alphabet, config)
}

const BASE64: GeneralPurpose = tolerant_of_padding(&alphabet::STANDARD);
const BASE64_URL: GeneralPurpose = tolerant_of_padding(&alphabet::URL_SAFE);

/// The items of a request and what to do with them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The form in which its results are wanted.
    pub(crate) format: Format,
    pub(crate) items: ItemBatch,
    /// A value or a row of each item, if these are entries.
    pub(crate) entries: Option<Column>,
    /// What it is to become, if they are to be replaced.
    pub(crate) becomes: Option<Column>,
    /// What a row of each item must meet.
    pub(crate) condition: Option<Where>,
    /// Positions of blank lines among the lines, ascending; they are answered
    /// with a blank line. Always empty for JSON.
    pub(crate) blanks: Vec<usize>,
    pub(crate) options: AddOptions,
    pub(crate) options_in: OptionsIn,
    /// What a lookup asks. Always there in a batch for one.
    pub(crate) looked_up_in: Option<LookupFilters>,
    pub(crate) lookup_mode: LookupMode,
    /// Whether a list of values says how many copies there are of each.
    pub(crate) with_copies: bool,
    /// How far a question goes back, in seconds.
    pub(crate) within_seconds: Option<u64>,
    /// What makes a change the same as one sent before.
    pub(crate) key: Option<IdempotencyKey>,
    /// Held until the items are answered.
    pub(crate) memory: Option<Held>,
    /// The turn of a large question; ends when it has to wait, or is answered.
    pub(crate) turn: Option<Held>,
    /// What the answer to a change may take.
    pub(crate) answer: Option<Held>,
}

impl Batch {
    /// Its entries, if it has any.
    pub(crate) fn entries(&self) -> Option<Entries<'_>> {
        let values = self.entries.as_ref()?.values();
        let items = &self.items;
        Some(Entries { items, values })
    }

    /// Its entries and what they are to become.
    pub(crate) fn replacements(&self) -> Option<Replacements<'_>> {
        Some(Replacements {
            items: &self.items,
            from: self.entries.as_ref()?.values(),
            to: self.becomes.as_ref()?.values(),
        })
    }

    /// Labels of all rows.
    pub(crate) fn labels(&self) -> usize {
        let columns = self.entries.iter().chain(&self.becomes);
        columns.map(Column::labels).sum()
    }
}

/// Where the options of a batch stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OptionsIn {
    #[default]
    Body,
    Query,
}

impl OptionsIn {
    /// Where it stands how far a question goes back.
    pub(crate) fn place_of_seconds(self) -> FieldPlace {
        match self {
            OptionsIn::Body => FieldPlace::Body(pointer("", WITHIN_SECONDS)),
            OptionsIn::Query => FieldPlace::Query(WITHIN_SECONDS.to_owned()),
        }
    }

    /// Where the field of a filter to be created stands.
    pub(crate) fn place_of(self, field: &str) -> FieldPlace {
        match self {
            OptionsIn::Body => FieldPlace::Body(pointer("/create", field)),
            OptionsIn::Query => FieldPlace::Query(field.to_owned()),
        }
    }
}

/// Decodes an item of a query.
///
/// # Errors
/// It is not base64url.
pub(crate) fn base64url_item(text: &[u8]) -> Result<Vec<u8>> {
    const ALLOWED: &str = "base64 with - and _, padded or not";
    let decoded = BASE64_URL.decode(text);
    decoded.map_err(|_| HttpError::parameter("item_base64url", "not base64url", ALLOWED))
}

fn decode_base64(
    items: &ItemBatch,
    list: &str,
    place: impl Fn(usize) -> String,
) -> Result<ItemBatch> {
    let mut decoded = ItemBatch::default();
    let mut refused = Refusals::default();
    let mut bytes = Vec::new();
    for (index, item) in items.iter().enumerate() {
        bytes.clear();
        if BASE64.decode_vec(item, &mut bytes).is_err() {
            const ALLOWED: &str = "standard base64, padded or not";
            refused.add(HttpError::field(place(index), "not base64", ALLOWED));
        } else if bytes.len() > MAX_ITEM_BYTES {
            refused.add(too_long(place(index), bytes.len()));
        } else {
            decoded.push(&bytes);
        }
    }
    refused.none(list).map(|()| decoded)
}

fn too_long(place: String, bytes: usize) -> HttpError {
    let given = format!("{bytes} bytes long");
    HttpError::field(place, given, format!("up to {MAX_ITEM_BYTES} bytes"))
}

/// What the parser said of this JSON, without the bytes it said it about.
fn json_error(error: &serde_json::Error, json: &[u8], pointer: &str, allowed: &str) -> HttpError {
    match error.classify() {
        serde_json::error::Category::Data => {
            let given = String::from_utf8_lossy(json);
            HttpError::field(pointer.to_owned(), kind_of(&given), allowed)
        }
        _ => HttpError::MalformedJson {
            reason: error.to_string(),
        },
    }
}
