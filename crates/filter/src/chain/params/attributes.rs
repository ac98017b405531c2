//! The attributes of a filter whose items have rows: for each a code, and all
//! codes of a row together are a value.

use super::limits::{
    MAX_ATTRIBUTE_NAME_BYTES, MAX_ATTRIBUTES, MAX_LABEL_BYTES, MAX_LABELS, MAX_NAMED_BYTES,
    MAX_VALUE_BITS,
};
use crate::varint;
use std::fmt;
use std::sync::Arc;

/// The codes of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Codes {
    /// One for each of these labels, in their order from 0 on.
    Exact(Vec<String>),
    /// So many bits of the filter's hash of whatever label: labels may share one.
    Hashed(u8),
}

/// One attribute of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// What its codes are.
    pub codes: Codes,
    /// Of an exact one: the labels' codes in the order of the labels.
    by_label: Vec<u8>,
    /// Where its code begins in the value.
    shift: u8,
    /// Bytes of `"name":"label",` at most.
    most_json_bytes: usize,
}

/// The attributes of a filter: at least one, of 16 bits together at most. The code
/// of the first lies lowest in the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Attributes(Arc<[Attribute]>);

/// What can be no attributes, and where that stands in a list of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributesError {
    /// The way from the list to it, as a JSON pointer.
    pub pointer: String,
    /// The given value.
    pub given: String,
    /// What is allowed.
    pub allowed: String,
}

impl AttributesError {
    /// What is there can be none.
    pub fn new(pointer: String, given: impl Into<String>, allowed: impl Into<String>) -> Self {
        AttributesError {
            pointer,
            given: given.into(),
            allowed: allowed.into(),
        }
    }
}

fn refuse<T>(
    pointer: String,
    given: impl Into<String>,
    allowed: impl Into<String>,
) -> Result<T, AttributesError> {
    Err(AttributesError::new(pointer, given, allowed))
}

impl Attributes {
    /// Attributes of these names and codes.
    ///
    /// # Errors
    /// The first of them that can't be.
    pub fn new(named: Vec<(String, Codes)>) -> Result<Attributes, AttributesError> {
        let count = named.len();
        if !(1..=MAX_ATTRIBUTES).contains(&count) {
            let given = format!("a list of {count}");
            return refuse(String::new(), given, format!("1 to {MAX_ATTRIBUTES}"));
        }
        let mut attributes: Vec<Attribute> = Vec::with_capacity(count);
        let (mut bits, mut bytes) = (0, 0);
        for (position, (name, codes)) in named.into_iter().enumerate() {
            check_name(position, &name)?;
            if attributes.iter().any(|it| it.name == name) {
                return refuse(format!("/{position}/name"), name, "each name once");
            }
            let by_label = check_codes(position, &codes)?;
            let attribute = Attribute {
                most_json_bytes: most_json_bytes(&name, &codes),
                name,
                codes,
                by_label,
                shift: bits,
            };
            bits += attribute.bits();
            bytes += attribute.named_bytes();
            if u64::from(bits) > MAX_VALUE_BITS {
                let given = format!("{bits} bits with those before");
                let allowed = format!(
                    "{MAX_VALUE_BITS} bits for the codes of a row: ask for fewer values, or for fewer hash_bits"
                );
                return refuse(format!("/{position}"), given, allowed);
            }
            attributes.push(attribute);
        }
        if bits == 0 {
            let allowed = "at least two values of one attribute, or one with hash_bits";
            return refuse(String::new(), "no choice", allowed);
        }
        if bytes > MAX_NAMED_BYTES {
            let given = format!("{bytes} bytes of names and values");
            return refuse(String::new(), given, format!("up to {MAX_NAMED_BYTES}"));
        }
        Ok(Attributes(attributes.into()))
    }

    /// Each of them, in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Attribute> {
        self.0.iter()
    }

    /// The one at a position.
    pub fn get(&self, position: usize) -> Option<&Attribute> {
        self.0.get(position)
    }

    /// The position of the one of a name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|it| it.name == name)
    }

    /// Bits that the codes of a row have together: 1 to 16.
    pub fn bits(&self) -> u8 {
        self.0.last().map_or(0, |it| it.shift + it.bits())
    }

    /// Bytes of a row as a JSON object, at most.
    pub fn most_json_bytes(&self) -> usize {
        self.iter().map(|it| it.most_json_bytes).sum()
    }

    /// Their names, for an error.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|it| it.name.as_str()).collect();
        names.join(", ")
    }

    pub(in crate::chain) fn encode(&self, out: &mut Vec<u8>) {
        let text = |text: &str, out: &mut Vec<u8>| {
            varint::put(out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        };
        out.push(self.0.len() as u8);
        for attribute in self.iter() {
            text(&attribute.name, out);
            match &attribute.codes {
                Codes::Hashed(bits) => out.push(*bits),
                Codes::Exact(labels) => {
                    out.push(0);
                    varint::put(out, labels.len() as u64);
                    labels.iter().for_each(|label| text(label, out));
                }
            }
        }
    }

    /// Reads what [`encode`](Self::encode) wrote off the front.
    pub(in crate::chain) fn decode(bytes: &mut &[u8]) -> Option<Attributes> {
        let (&count, rest) = bytes.split_first()?;
        *bytes = rest;
        let mut named = Vec::with_capacity(count.into());
        for _ in 0..count {
            let name = take_text(bytes)?;
            let (&bits, rest) = bytes.split_first()?;
            *bytes = rest;
            named.push((
                name,
                match bits {
                    0 => {
                        let labels = varint::take(bytes)?;
                        let labels = (labels <= MAX_LABELS as u64).then_some(labels)?;
                        let labels = (0..labels).map(|_| take_text(bytes));
                        Codes::Exact(labels.collect::<Option<_>>()?)
                    }
                    bits => Codes::Hashed(bits),
                },
            ));
        }
        Attributes::new(named).ok()
    }
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(varint::take(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

fn check_name(position: usize, name: &str) -> Result<(), AttributesError> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match (1..=MAX_ATTRIBUTE_NAME_BYTES).contains(&name.len()) && name.chars().all(is_part) {
        true => Ok(()),
        false => refuse(
            format!("/{position}/name"),
            name,
            format!("1 to {MAX_ATTRIBUTE_NAME_BYTES} letters, digits and . _ -"),
        ),
    }
}

/// Whether a label may have so many bytes.
///
/// # Errors
/// What was given, and what is allowed: no filter knows or hashes so long a label.
pub fn check_label(bytes: usize) -> Result<(), (String, String)> {
    match bytes > MAX_LABEL_BYTES {
        true => Err((
            format!("{bytes} bytes long"),
            format!("up to {MAX_LABEL_BYTES} bytes"),
        )),
        false => Ok(()),
    }
}

/// The codes of labels in the order of the labels.
fn check_codes(position: usize, codes: &Codes) -> Result<Vec<u8>, AttributesError> {
    let labels = match codes {
        Codes::Exact(labels) => labels,
        Codes::Hashed(bits) if (1..=MAX_VALUE_BITS).contains(&u64::from(*bits)) => {
            return Ok(Vec::new());
        }
        Codes::Hashed(bits) => {
            let pointer = format!("/{position}/hash_bits");
            return refuse(pointer, bits.to_string(), format!("1 to {MAX_VALUE_BITS}"));
        }
    };
    if !(1..=MAX_LABELS).contains(&labels.len()) {
        let given = format!("a list of {}", labels.len());
        let allowed = format!("1 to {MAX_LABELS}, or hash_bits instead");
        return refuse(format!("/{position}/values"), given, allowed);
    }
    let place = |at: usize| format!("/{position}/values/{at}");
    for (at, label) in labels.iter().enumerate() {
        check_label(label.len()).or_else(|(given, allowed)| refuse(place(at), given, allowed))?;
        // Six bytes each in every answer that has it.
        if label.contains(char::is_control) {
            let given = label.escape_debug().to_string();
            return refuse(place(at), given, "no control characters");
        }
    }
    let mut by_label: Vec<u8> = (0..=u8::MAX).take(labels.len()).collect();
    let label = |code: u8| labels.get(usize::from(code)).map(String::as_str);
    by_label.sort_by_key(|&code| (label(code), code));
    let twice = by_label.array_windows().find_map(|&[one, next]| {
        let is_same = label(one) == label(next);
        is_same.then_some(next)
    });
    match twice {
        Some(code) => {
            let given = label(code).unwrap_or_default();
            refuse(place(code.into()), given, "each value once")
        }
        None => Ok(by_label),
    }
}

/// Bytes of `"name":"label",` at most.
fn most_json_bytes(name: &str, codes: &Codes) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        _ => 1,
    };
    let label = |label: &String| 2 + label.bytes().map(escaped).sum::<usize>();
    let code = match codes {
        Codes::Exact(labels) => labels.iter().map(label).max().unwrap_or(0),
        Codes::Hashed(_) => "65535".len(),
    };
    "{\"\":,".len() + name.len() + code
}

impl Attribute {
    /// Bits of a code: 0 if there is only one.
    pub fn bits(&self) -> u8 {
        match &self.codes {
            // 256 at most.
            Codes::Exact(labels) => labels.len().next_power_of_two().ilog2() as u8,
            Codes::Hashed(bits) => *bits,
        }
    }

    /// Its code in a row.
    pub fn code_in(&self, row: u32) -> u32 {
        row >> self.shift & self.mask()
    }

    /// A row that has this code, and 0 of all other attributes.
    pub fn row_of(&self, code: u32) -> u32 {
        (code & self.mask()) << self.shift
    }

    /// The code of a label, of an exact one.
    pub fn code_of(&self, label: &[u8]) -> Option<u32> {
        let Codes::Exact(labels) = &self.codes else {
            return None;
        };
        let known = |code: &u8| labels.get(usize::from(*code)).map(String::as_bytes);
        let found = self
            .by_label
            .binary_search_by(|code| known(code).cmp(&Some(label)));
        self.by_label.get(found.ok()?).map(|&code| code.into())
    }

    /// The label of a code, of an exact one.
    pub fn label(&self, code: u32) -> Option<&str> {
        match &self.codes {
            Codes::Exact(labels) => labels.get(code as usize).map(String::as_str),
            Codes::Hashed(_) => None,
        }
    }

    /// The labels that it may have, for an error.
    pub fn labels(&self) -> String {
        /// More would say less.
        const SOME: usize = 16;
        match &self.codes {
            Codes::Hashed(bits) => format!("any text, of which {bits} bits of a hash are kept"),
            Codes::Exact(labels) => {
                let some: Vec<&str> = labels.iter().take(SOME).map(String::as_str).collect();
                match labels.len() {
                    ..=SOME => some.join(", "),
                    all => format!("{}, … ({all} values)", some.join(", ")),
                }
            }
        }
    }

    fn mask(&self) -> u32 {
        (1 << self.bits()) - 1
    }

    fn named_bytes(&self) -> usize {
        let labels = match &self.codes {
            Codes::Exact(labels) => labels.iter().map(String::len).sum(),
            Codes::Hashed(_) => 0,
        };
        self.name.len() + labels
    }
}

/// In few words.
impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, attribute) in self.iter().enumerate() {
            let between = if position > 0 { "; " } else { "" };
            let name = &attribute.name;
            match &attribute.codes {
                Codes::Exact(_) => write!(f, "{between}{name}: {}", attribute.labels())?,
                Codes::Hashed(bits) => write!(f, "{between}{name}: {bits} hash_bits")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attributes({self})")
    }
}
