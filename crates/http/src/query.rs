//! Query strings: strict where the usual decoders are lenient. Malformed
//! percent-encoding, unknown and repeated parameters are refused, so a typo
//! never passes silently. `+` is a space, as every form encoder writes it.

use super::problem::{FieldError, FieldPlace, HttpError, Result, excerpt};
use axum::http::Uri;
use std::borrow::Cow;

/// Unknown parameters that one answer lists.
const MAX_UNKNOWN: usize = 16;

/// The parameters of one request, decoded once.
pub(crate) struct Query<'a>(Vec<(&'static str, Cow<'a, [u8]>)>);

impl<'a> Query<'a> {
    /// Decodes the query of `uri`; only the parameters in `allowed` may occur,
    /// each once.
    ///
    /// # Errors
    /// Names the parameter.
    pub(crate) fn parse(uri: &'a Uri, allowed: &[&'static str]) -> Result<Query<'a>> {
        let mut parameters: Vec<(&'static str, Cow<'a, [u8]>)> = Vec::new();
        let mut unknown = Vec::new();
        let pieces = uri.query().unwrap_or_default().split('&');
        for piece in pieces.filter(|piece| !piece.is_empty()) {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            let find = |name: &[u8]| {
                let mut allowed = allowed.iter().copied();
                allowed.find(|known| known.as_bytes() == name)
            };
            // Names are hardly ever encoded.
            let known = find(name.as_bytes()).or_else(|| find(&decode(name)?));
            let Some(known) = known else {
                if unknown.len() < MAX_UNKNOWN {
                    let place = FieldPlace::Query(excerpt(name));
                    unknown.push(FieldError::new(place, "not known here", list(allowed)));
                }
                continue;
            };
            if parameters.iter().any(|(name, _)| *name == known) {
                return Err(malformed(known, "is given twice"));
            }
            let bad_percent = || malformed(known, "has a % that no two hexadecimal digits follow");
            parameters.push((known, decode(value).ok_or_else(bad_percent)?));
        }
        match unknown.is_empty() {
            true => Ok(Query(parameters)),
            false => Err(HttpError::InvalidFields(unknown)),
        }
    }

    /// Refuses any parameter.
    ///
    /// # Errors
    /// Names them.
    pub(crate) fn none(uri: &'a Uri) -> Result<()> {
        Query::parse(uri, &[]).map(|_| ())
    }

    /// The bytes of a parameter.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        let (_, value) = self.0.iter().find(|(known, _)| *known == name)?;
        Some(value.as_ref())
    }

    /// A parameter as text.
    ///
    /// # Errors
    /// It is not UTF-8.
    pub(crate) fn text(&self, name: &'static str) -> Result<Option<&str>> {
        let text = self.bytes(name).map(std::str::from_utf8).transpose();
        text.map_err(|_| malformed(name, "is not UTF-8"))
    }

    /// What `read` makes of a parameter; `None`: it is left out.
    ///
    /// # Errors
    /// It is not UTF-8, or `read` makes nothing of it.
    pub(crate) fn read<'q, T, A: Into<String>>(
        &'q self,
        name: &'static str,
        read: impl FnOnce(&'q str) -> Option<T>,
        allowed: impl FnOnce() -> A,
    ) -> Result<Option<T>> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let read = read(text).map(Some);
        read.ok_or_else(|| HttpError::parameter(name, excerpt(text), allowed()))
    }

    /// A switch: `true` or `false`; left out is false.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn switch(&self, name: &'static str) -> Result<bool> {
        let said = self.read(name, |text| text.parse::<bool>().ok(), || "true or false")?;
        Ok(said.unwrap_or(false))
    }
}

fn malformed(name: &str, reason: &'static str) -> HttpError {
    let parameter = name.to_owned();
    HttpError::MalformedQuery { parameter, reason }
}

fn list(allowed: &[&str]) -> String {
    if allowed.is_empty() {
        "no query at all".to_owned()
    } else {
        allowed.join(", ")
    }
}

/// Percent-decoding with `+` for a space, as forms send it; `None` if a `%`
/// is not followed by two hexadecimal digits.
fn decode(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.bytes().any(|byte| matches!(byte, b'+' | b'%')) {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => hexadecimal(rest.next()?)? << 4 | hexadecimal(rest.next()?)?,
            other => other,
        });
    }
    Some(Cow::Owned(decoded))
}

fn hexadecimal(digit: u8) -> Option<u8> {
    u8::try_from(char::from(digit).to_digit(16)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(query: &'static str) -> Result<Vec<u8>, HttpError> {
        let uri = Uri::from_static(query);
        let query = Query::parse(&uri, &["item"])?;
        Ok(query.bytes("item").unwrap_or(b"<none>").to_vec())
    }

    #[test]
    fn values_are_percent_decoded_once() {
        assert_eq!(item("/?item=a%2Bb+c").unwrap(), b"a+b c");
        assert_eq!(item("/?item=%2541").unwrap(), b"%41");
        assert_eq!(item("/?item=%ff").unwrap(), [0xff]);
        assert_eq!(item("/?item=").unwrap(), b"");
        assert_eq!(item("/?item").unwrap(), b"");
        assert_eq!(item("/?item=a=b").unwrap(), b"a=b");
        assert_eq!(item("/").unwrap(), b"<none>");
    }

    #[test]
    fn broken_unknown_and_repeated_parameters_are_refused() {
        for query in [
            "/?item=%4",
            "/?item=%zz",
            "/?item=1&item=2",
            "/?itme=1",
            "/?x",
        ] {
            assert!(item(query).is_err(), "{query}");
        }
    }
}
