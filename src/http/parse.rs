//! From bytes to items and fields: the JSON and `text/plain` bodies, without
//! an allocation per item, with a pointer to whatever is refused.

use super::problem::{FieldError, HttpError, Place};
use super::query::excerpt;
use crate::chain::params::{FilterRequest, LayoutKind, MAX_CAPACITY, MAX_EXPANSION};
use crate::engine::{AddMode, AddOptions, ItemBatch};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt::{self, Write as _};

/// Largest item, in bytes.
pub(crate) const MAX_ITEM_BYTES: usize = 64 << 10;

/// Largest item of a query, in bytes; a body takes more.
pub(crate) const MAX_QUERY_ITEM_BYTES: usize = 4 << 10;

/// Refused fields that one answer lists.
const MAX_FIELD_ERRORS: usize = 16;

const ITEM_KINDS: &str =
    "a string, or an integer from -2^63 to 2^64-1 without fraction or exponent";

/// Base64 in either spelling of the padding; trailing bits must be zero, so
/// that no two texts are the same item.
const fn tolerant_of_padding(alphabet: &alphabet::Alphabet) -> GeneralPurpose {
    let config =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(alphabet, config)
}

const BASE64: GeneralPurpose = tolerant_of_padding(&alphabet::STANDARD);
const BASE64_URL: GeneralPurpose = tolerant_of_padding(&alphabet::URL_SAFE);

/// What a batch is for; an add takes more fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchKind {
    Add,
    Other,
}

impl BatchKind {
    fn takes(self, field: &str) -> bool {
        match field {
            "items" | "encoding" => true,
            "only_if_absent" | "create" => self == BatchKind::Add,
            _ => false,
        }
    }

    fn fields(self) -> &'static str {
        match self {
            BatchKind::Add => "items, encoding, only_if_absent, create",
            BatchKind::Other => "items, encoding",
        }
    }
}

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
    pub(crate) fn parse(text: &str) -> Option<Encoding> {
        match text {
            "utf-8" => Some(Encoding::Plain),
            "base64" => Some(Encoding::Base64),
            _ => None,
        }
    }

    /// What `parse` takes, for an error.
    pub(crate) const NAMES: &'static str = "utf-8 or base64";
}

/// The items of a request and what to do with them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) items: ItemBatch,
    /// Positions of blank lines among the lines, ascending; they are answered
    /// with a blank line. Always empty for JSON.
    pub(crate) blanks: Vec<usize>,
    pub(crate) options: AddOptions,
    pub(crate) options_in: OptionsIn,
}

/// Where the options of a batch stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OptionsIn {
    #[default]
    Body,
    Query,
}

impl OptionsIn {
    /// Where the field of a filter to be created stands.
    pub(crate) fn place_of(self, field: &str) -> Place {
        match self {
            OptionsIn::Body => Place::Body(pointer("/create", field)),
            OptionsIn::Query => Place::Query(field.to_owned()),
        }
    }
}

impl Batch {
    /// A batch of one.
    pub(crate) fn of(item: &[u8]) -> Batch {
        Batch {
            items: ItemBatch::of(item),
            ..Batch::default()
        }
    }
}

/// Takes a JSON body apart.
///
/// # Errors
/// Not JSON, or a field refused, with the pointer to it.
pub(crate) fn json_batch(
    json: &[u8],
    kind: BatchKind,
    max_items: usize,
) -> Result<Batch, HttpError> {
    let mut body = BatchBody {
        kind,
        max_items,
        items: None,
        first_integer: None,
        encoding: Encoding::Plain,
        options: AddOptions::default(),
        refused: None,
        digits: String::new(),
    };
    let mut json_reader = serde_json::Deserializer::from_slice(json);
    let outcome = BodySeed(&mut body)
        .deserialize(&mut json_reader)
        .and_then(|()| json_reader.end());
    if let Some(refused) = body.refused {
        return Err(refused);
    }
    outcome.map_err(|error| json_error(&error, "", "an object with the field items"))?;
    let Some(items) = body.items else {
        return Err(HttpError::field(
            "/items".to_owned(),
            "left out",
            "an array of items",
        ));
    };
    let items = match body.encoding {
        Encoding::Plain => {
            let too_large = items
                .iter()
                .enumerate()
                .find(|(_, item)| item.len() > MAX_ITEM_BYTES);
            if let Some((index, item)) = too_large {
                return Err(too_long(item_pointer(index), item.len()));
            }
            items
        }
        Encoding::Base64 => {
            if let Some(index) = body.first_integer {
                return Err(HttpError::field(
                    item_pointer(index),
                    "an integer",
                    "a base64 string, since encoding is base64",
                ));
            }
            decode_base64(&items, item_pointer)?
        }
    };
    Ok(Batch {
        items,
        options: body.options,
        ..Batch::default()
    })
}

/// Takes a `text/plain` body apart, one item a line.
///
/// # Errors
/// Too many lines, too long a line, or not base64 where that was announced.
pub(crate) fn text_batch(
    text: &[u8],
    encoding: Encoding,
    options: AddOptions,
    max_items: usize,
) -> Result<Batch, HttpError> {
    let mut batch = Batch {
        options,
        options_in: OptionsIn::Query,
        ..Batch::default()
    };
    let mut lines_seen = 0;
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let lines = body.split(|&byte| byte == b'\n');
    for (number, line) in lines.enumerate().take_while(|_| !text.is_empty()) {
        lines_seen += 1;
        if lines_seen > max_items {
            return Err(HttpError::BatchTooLarge { limit: max_items });
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            batch.blanks.push(number);
            continue;
        }
        if encoding == Encoding::Plain && line.len() > MAX_ITEM_BYTES {
            return Err(too_long(line_name(number), line.len()));
        }
        batch.items.push(line);
    }
    if encoding == Encoding::Base64 {
        let blanks = &batch.blanks;
        batch.items = decode_base64(&batch.items, |index| line_name(line_of(blanks, index)))?;
    }
    Ok(batch)
}

/// Line of the nth item, counting the blank lines before it.
fn line_of(blanks: &[usize], item: usize) -> usize {
    let mut line = item;
    for &blank in blanks {
        if blank > line {
            break;
        }
        line += 1;
    }
    line
}

/// A text body has no JSON pointers; lines are numbered from 1, as editors do.
fn line_name(number: usize) -> String {
    format!("line {}", number + 1)
}

/// Decodes an item of a query.
///
/// # Errors
/// It is not base64url.
pub(crate) fn base64url_item(text: &[u8]) -> Result<Vec<u8>, HttpError> {
    BASE64_URL.decode(text).map_err(|_| {
        HttpError::parameter(
            "item_base64url",
            "not base64url",
            "base64 with - and _, padded or not",
        )
    })
}

fn decode_base64(
    items: &ItemBatch,
    place: impl Fn(usize) -> String,
) -> Result<ItemBatch, HttpError> {
    let mut decoded = ItemBatch::new();
    let mut bytes = Vec::new();
    for (index, item) in items.iter().enumerate() {
        bytes.clear();
        BASE64.decode_vec(item, &mut bytes).map_err(|_| {
            HttpError::field(place(index), "not base64", "standard base64, padded or not")
        })?;
        if bytes.len() > MAX_ITEM_BYTES {
            return Err(too_long(place(index), bytes.len()));
        }
        decoded.push(&bytes);
    }
    Ok(decoded)
}

fn item_pointer(index: usize) -> String {
    format!("/items/{index}")
}

fn too_long(place: String, bytes: usize) -> HttpError {
    HttpError::field(
        place,
        format!("{bytes} bytes long"),
        format!("up to {MAX_ITEM_BYTES} bytes"),
    )
}

/// What the parser said, without the bytes it said it about.
fn json_error(error: &serde_json::Error, pointer: &str, allowed: &str) -> HttpError {
    match error.classify() {
        serde_json::error::Category::Data => {
            HttpError::field(pointer.to_owned(), "of another type", allowed)
        }
        _ => HttpError::MalformedJson {
            reason: error.to_string(),
        },
    }
}

/// A batch while it is read. A refusal is kept here, since serde's own errors
/// hold nothing but text.
struct BatchBody {
    kind: BatchKind,
    max_items: usize,
    items: Option<ItemBatch>,
    first_integer: Option<usize>,
    encoding: Encoding,
    options: AddOptions,
    refused: Option<HttpError>,
    digits: String,
}

impl BatchBody {
    /// Keeps the refusal and ends the reading.
    fn refuse<T, E: serde::de::Error>(&mut self, refusal: HttpError) -> Result<T, E> {
        self.refused = Some(refusal);
        Err(E::custom("refused"))
    }

    fn option(&mut self, field: &str, value: &RawValue) -> Result<(), HttpError> {
        let refuse = |allowed: &str| HttpError::field(pointer("", field), given(value), allowed);
        match field {
            "encoding" => {
                let text = string(value).as_deref().and_then(Encoding::parse);
                self.encoding = text.ok_or_else(|| refuse(Encoding::NAMES))?;
            }
            "only_if_absent" => {
                self.options.mode = match value.get() {
                    "true" => AddMode::OnlyIfAbsent,
                    "false" => AddMode::Always,
                    _ => return Err(refuse("true or false")),
                };
            }
            _ => self.options.create = Some(filter_request(value.get().as_bytes(), "/create")?),
        }
        Ok(())
    }
}

struct BodySeed<'b>(&'b mut BatchBody);

impl<'de> DeserializeSeed<'de> for BodySeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for BodySeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the field items")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let BodySeed(body) = self;
        let mut seen: Vec<String> = Vec::new();
        while let Some(field) = map.next_key::<String>()? {
            if !body.kind.takes(&field) {
                let allowed = body.kind.fields();
                return body.refuse(HttpError::field(
                    pointer("", &field),
                    "not a field here",
                    allowed,
                ));
            }
            if seen.contains(&field) {
                return body.refuse(HttpError::field(pointer("", &field), "given twice", "once"));
            }
            if field == "items" {
                map.next_value_seed(ItemsSeed(body))?;
            } else {
                let value: &RawValue = map.next_value()?;
                if let Err(refusal) = body.option(&field, value) {
                    return body.refuse(refusal);
                }
            }
            seen.push(field);
        }
        Ok(())
    }
}

/// Reads the array of items into one batch.
struct ItemsSeed<'b>(&'b mut BatchBody);

impl ItemsSeed<'_> {
    fn wrong<T, E: serde::de::Error>(self, given: &str) -> Result<T, E> {
        self.0.refuse(HttpError::field(
            "/items".to_owned(),
            given,
            "an array of items",
        ))
    }
}

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let ItemsSeed(body) = self;
        let mut items = ItemBatch::new();
        while array
            .next_element_seed(ItemSeed {
                body: &mut *body,
                items: &mut items,
            })?
            .is_some()
        {
            if items.len() > body.max_items {
                let limit = body.max_items;
                return body.refuse(HttpError::BatchTooLarge { limit });
            }
        }
        body.items = Some(items);
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        self.wrong("a string")
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        self.wrong("a number")
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        self.wrong("a number")
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.wrong("a number")
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.wrong("a boolean")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.wrong("null")
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.wrong("an object")
    }
}

/// Reads one item straight into the batch.
struct ItemSeed<'b> {
    body: &'b mut BatchBody,
    items: &'b mut ItemBatch,
}

impl ItemSeed<'_> {
    fn wrong<T, E: serde::de::Error>(self, given: &str) -> Result<T, E> {
        let index = self.items.len();
        self.body
            .refuse(HttpError::field(item_pointer(index), given, ITEM_KINDS))
    }

    fn integer(self, number: impl fmt::Display) {
        let index = self.items.len();
        self.body.first_integer.get_or_insert(index);
        self.body.digits.clear();
        // Writing to a string can't fail.
        let _ = write!(self.body.digits, "{number}");
        self.items.push(self.body.digits.as_bytes());
    }
}

impl<'de> DeserializeSeed<'de> for ItemSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ITEM_KINDS)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        // Base64 takes four characters for three bytes; what it decodes to is
        // measured when the encoding is known.
        if text.len() > MAX_ITEM_BYTES.div_ceil(3) * 4 {
            let index = self.items.len();
            return self.body.refuse(too_long(item_pointer(index), text.len()));
        }
        self.items.push(text.as_bytes());
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        self.integer(number);
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.integer(number);
        Ok(())
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.wrong("a number with a fraction, an exponent or too many digits")
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.wrong("a boolean")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.wrong("null")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.wrong("an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        self.wrong("an object")
    }
}

/// Takes the fields of a filter apart. No bytes at all are no fields: the
/// server's defaults. `at` is the pointer to the object in the body.
///
/// # Errors
/// Not JSON, or all refused fields at once. Ranges are not checked here.
pub(crate) fn filter_request(json: &[u8], at: &str) -> Result<FilterRequest, HttpError> {
    let mut fields = Fields {
        at,
        request: FilterRequest::default(),
        seen: Vec::new(),
        refused: Vec::new(),
    };
    if json.iter().all(u8::is_ascii_whitespace) {
        return Ok(fields.request);
    }
    let mut json_reader = serde_json::Deserializer::from_slice(json);
    json_reader
        .deserialize_map(&mut fields)
        .and_then(|()| json_reader.end())
        .map_err(|error| json_error(&error, at, "an object with the fields of a filter"))?;
    match fields.refused.is_empty() {
        true => Ok(fields.request),
        false => Err(HttpError::InvalidFields(fields.refused)),
    }
}

struct Fields<'a> {
    at: &'a str,
    request: FilterRequest,
    seen: Vec<String>,
    refused: Vec<FieldError>,
}

impl<'de> Visitor<'de> for &mut Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the fields of a filter")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key::<String>()? {
            if self.refused.len() >= MAX_FIELD_ERRORS {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: &RawValue = map.next_value()?;
            let refusal = if self.seen.contains(&field) {
                Some(("given twice".to_owned(), "once".to_owned()))
            } else {
                let text = string(value);
                let text = text
                    .as_deref()
                    .map_or(Scalar::Bare(value.get()), Scalar::Quoted);
                set_field(&mut self.request, &field, text)
                    .err()
                    .map(|allowed| match FIELDS.contains(&field.as_str()) {
                        true => (given(value), allowed),
                        false => ("not a field here".to_owned(), allowed),
                    })
            };
            if let Some((given, allowed)) = refusal {
                self.refused.push(FieldError {
                    place: Place::Body(pointer(self.at, &field)),
                    given,
                    allowed,
                });
            }
            self.seen.push(field);
        }
        Ok(())
    }
}

/// The fields of a filter, as users write them.
pub(crate) const FIELDS: [&str; 6] = [
    "capacity",
    "layout",
    "bucket_size",
    "max_iterations",
    "expansion",
    "max_expansions",
];

/// A value as it was written: in quotes or not.
#[derive(Clone, Copy)]
pub(crate) enum Scalar<'a> {
    Quoted(&'a str),
    Bare(&'a str),
}

/// Sets one field of a request.
///
/// # Errors
/// Says what is allowed.
pub(crate) fn set_field(
    request: &mut FilterRequest,
    field: &str,
    value: Scalar<'_>,
) -> Result<(), String> {
    let number = |allowed: String| match value {
        Scalar::Bare(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            text.parse::<u64>().map(Some).map_err(|_| allowed)
        }
        Scalar::Bare(_) | Scalar::Quoted(_) => Err(allowed),
    };
    let up_to = |low: u64, high: u64| format!("an integer from {low} to {high}");
    match field {
        "capacity" => {
            request.capacity =
                number(format!("an integer from 2 * bucket_size to {MAX_CAPACITY}"))?;
        }
        "layout" => {
            request.layout = match value {
                Scalar::Quoted("classic") => Some(LayoutKind::Classic),
                Scalar::Bare(_) | Scalar::Quoted(_) => return Err("\"classic\"".to_owned()),
            };
        }
        "bucket_size" => {
            request.bucket_size = number(up_to(1, crate::chain::params::MAX_BUCKET_SIZE))?
        }
        "max_iterations" => request.max_iterations = number(up_to(1, u64::from(u16::MAX)))?,
        "expansion" => request.expansion = number(up_to(0, MAX_EXPANSION))?,
        "max_expansions" => request.max_expansions = number(up_to(0, u64::from(u16::MAX)))?,
        _ => return Err(FIELDS.join(", ")),
    }
    Ok(())
}

fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

fn given(value: &RawValue) -> String {
    excerpt(value.get())
}

/// JSON pointer (RFC 6901) to a field of the object at `at`.
fn pointer(at: &str, field: &str) -> String {
    let escaped = field.replace('~', "~0").replace('/', "~1");
    format!("{at}/{}", excerpt(&escaped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(json: &str) -> Vec<Vec<u8>> {
        let batch = json_batch(json.as_bytes(), BatchKind::Add, 100).unwrap();
        batch.items.iter().map(<[u8]>::to_vec).collect()
    }

    fn refused(json: &str, kind: BatchKind) -> (u16, String) {
        let error = json_batch(json.as_bytes(), kind, 3).unwrap_err();
        let place = match &error {
            HttpError::InvalidFields(fields) => match &fields[0].place {
                Place::Body(pointer) => pointer.clone(),
                Place::Query(name) => name.clone(),
            },
            _ => String::new(),
        };
        (error.code().status().as_u16(), place)
    }

    #[test]
    fn strings_and_integers_are_items() {
        assert_eq!(
            items(r#"{"items": ["a", "", "é\n", 0, -9223372036854775808, 18446744073709551615]}"#),
            [
                "a".as_bytes(),
                b"",
                "é\n".as_bytes(),
                b"0",
                b"-9223372036854775808",
                b"18446744073709551615"
            ]
        );
        assert!(items(r#"{"items": []}"#).is_empty());
    }

    #[test]
    fn base64_is_decoded_wherever_the_field_stands() {
        assert_eq!(
            items(r#"{"items": ["AP8="], "encoding": "base64"}"#),
            [[0, 255]]
        );
        assert_eq!(
            items(r#"{"encoding": "base64", "items": ["AP8"]}"#),
            [[0, 255]]
        );
    }

    #[test]
    fn refusals_point_to_the_field() {
        use BatchKind::{Add, Other};
        for (json, kind, status, place) in [
            (r#"{"items": ["a", 1.5]}"#, Add, 422, "/items/1"),
            (r#"{"items": ["a", "b", null]}"#, Add, 422, "/items/2"),
            (r#"{"items": [[]]}"#, Add, 422, "/items/0"),
            (r#"{"items": [{}]}"#, Add, 422, "/items/0"),
            (r#"{"items": [true]}"#, Add, 422, "/items/0"),
            (r#"{"items": [18446744073709551616]}"#, Add, 422, "/items/0"),
            (r#"{"items": "a"}"#, Add, 422, "/items"),
            (r#"{}"#, Add, 422, "/items"),
            (r#"[]"#, Add, 422, ""),
            (r#"{"items": [], "item": 1}"#, Add, 422, "/item"),
            (r#"{"items": [], "a/~": 1}"#, Add, 422, "/a~1~0"),
            (r#"{"items": [], "items": []}"#, Add, 422, "/items"),
            (
                r#"{"items": [], "only_if_absent": 1}"#,
                Add,
                422,
                "/only_if_absent",
            ),
            (
                r#"{"items": [], "only_if_absent": true}"#,
                Other,
                422,
                "/only_if_absent",
            ),
            (r#"{"items": [], "encoding": "hex"}"#, Add, 422, "/encoding"),
            (
                r#"{"items": ["!"], "encoding": "base64"}"#,
                Add,
                422,
                "/items/0",
            ),
            (
                r#"{"items": [1], "encoding": "base64"}"#,
                Add,
                422,
                "/items/0",
            ),
            (
                r#"{"items": [], "create": {"capacity": -5}}"#,
                Add,
                422,
                "/create/capacity",
            ),
            (r#"{"items": [], "create": 7}"#, Add, 422, "/create"),
            (r#"{"items": [1, 2, 3, 4]}"#, Add, 413, ""),
            (r#"{"items": ["a"]"#, Add, 400, ""),
            (r#"{"items": ["a"]} x"#, Add, 400, ""),
            (r#"{"items": ["\ud800"]}"#, Add, 400, ""),
            ("", Add, 400, ""),
            ("nonsense", Add, 400, ""),
        ] {
            assert_eq!(refused(json, kind), (status, place.to_owned()), "{json}");
        }
    }

    #[test]
    fn an_item_may_have_64_kib() {
        let longest = "x".repeat(MAX_ITEM_BYTES);
        assert_eq!(items(&format!(r#"{{"items": ["{longest}"]}}"#)).len(), 1);
        let longer = format!(r#"{{"items": ["", "{longest}x"]}}"#);
        assert_eq!(
            refused(&longer, BatchKind::Add),
            (422, "/items/1".to_owned())
        );
    }

    #[test]
    fn fields_of_a_filter_are_refused_all_at_once() {
        let request = filter_request(br#"{"capacity": 10, "layout": "classic"}"#, "").unwrap();
        assert_eq!(request.capacity, Some(10));
        assert_eq!(request.layout, Some(LayoutKind::Classic));
        assert_eq!(filter_request(b" ", "").unwrap(), FilterRequest::default());

        let json =
            br#"{"capacity": -5, "bucket_size": 2.5, "expansion": "x", "max_iterations": 1e30,
            "max_expansions": null, "layout": "paged", "colour": [1]}"#;
        let HttpError::InvalidFields(fields) = filter_request(json, "/create").unwrap_err() else {
            panic!("another error");
        };
        let seen: Vec<_> = fields
            .iter()
            .map(|field| match &field.place {
                Place::Body(pointer) => (pointer.as_str(), field.given.as_str()),
                Place::Query(_) => panic!("not a query"),
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("/create/capacity", "-5"),
                ("/create/bucket_size", "2.5"),
                ("/create/expansion", "\"x\""),
                ("/create/max_iterations", "1e30"),
                ("/create/max_expansions", "null"),
                ("/create/layout", "\"paged\""),
                ("/create/colour", "not a field here"),
            ]
        );
    }

    #[test]
    fn lines_end_in_lf_or_crlf_and_blank_ones_are_remembered() {
        let lines = |text: &[u8]| {
            let batch = text_batch(text, Encoding::Plain, AddOptions::default(), 4).unwrap();
            let items: Vec<Vec<u8>> = batch.items.iter().map(<[u8]>::to_vec).collect();
            (items, batch.blanks)
        };
        assert_eq!(lines(b""), (vec![], vec![]));
        assert_eq!(lines(b"\n"), (vec![], vec![0]));
        assert_eq!(lines(b"a"), (vec![b"a".to_vec()], vec![]));
        assert_eq!(
            lines(b"a\r\n\r\nb\n"),
            (vec![b"a".to_vec(), b"b".to_vec()], vec![1])
        );
        assert_eq!(lines(b"\n\na\xff\n"), (vec![b"a\xff".to_vec()], vec![0, 1]));
        assert!(text_batch(b"\n\n\n\n\n", Encoding::Plain, AddOptions::default(), 4).is_err());
    }

    #[test]
    fn a_refused_line_is_named_by_its_number() {
        let error = text_batch(b"\nAP8=\n\n!\n", Encoding::Base64, AddOptions::default(), 9);
        assert!(error.unwrap_err().to_string().starts_with("line 4 "));
    }
}
