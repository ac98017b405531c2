//! Bounds that are the same for every server. Those that are flags stand in
//! [`Limits`](super::Limits).

use crate::engine::{FilterName, MAX_NAME_LENGTH};

/// Bytes of a request's head, the request line included.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;

/// Lines of a request's head, beside the first. It is what the HTTP library
/// takes by itself; told so, it would allocate for them.
#[cfg(test)]
const MAX_HEADERS: usize = 100;

/// Largest item, in bytes.
pub(crate) const MAX_ITEM_BYTES: usize = 64 << 10;

/// Largest item of a query, in bytes; a body takes more.
pub(crate) const MAX_QUERY_ITEM_BYTES: usize = 4 << 10;

/// Longest `Idempotency-Key`, in bytes.
pub(crate) const MAX_IDEMPOTENCY_KEY_BYTES: usize = 255;

/// What a filter's key may be, in words.
pub(crate) fn key_in_words() -> String {
    format!(
        "1 to {MAX_NAME_LENGTH} visible ASCII characters, no blanks, and neither . nor .. alone"
    )
}

/// A filter's path. Percent-encoded is what a segment can't have as it is (RFC
/// 3986).
pub(crate) fn path_of(name: &FilterName) -> String {
    let mut path = "/filters/".to_owned();
    for byte in name.as_str().bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+'
            | b',' | b';' | b'=' | b':' | b'@' => path.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => path.push(char::from(byte)),
            _ => path += &format!("%{byte:02X}"),
        }
    }
    path
}

/// What the name of an import may be, in words.
pub(crate) fn name_in_words(longest: usize) -> String {
    format!("1 to {longest} characters of A-Z a-z 0-9 . _ : ~ -")
}

/// Most filters that one page of the list holds.
pub(crate) const MAX_LISTED: usize = 1000;

/// Imports that one page of the list of a filter's holds.
pub(crate) const MAX_LISTED_IMPORTS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_too_large_a_head_is_told_its_bounds() {
        let sentence = crate::codes::Code::HeadTooLarge.sentence();
        let bounds = format!("more than {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} lines");
        assert!(sentence.contains(&bounds), "{sentence}");
    }

    #[test]
    fn a_path_leads_back_to_its_key() {
        let path = |key: &str| path_of(&FilterName::parse(key).unwrap());
        assert_eq!(path("shop:a_b.c~1-2"), "/filters/shop:a_b.c~1-2");
        assert_eq!(path("a/b?c#d%e"), "/filters/a%2Fb%3Fc%23d%25e");
        assert_eq!(path("{u}@x\"y"), "/filters/%7Bu%7D@x%22y");
    }
}
