//! Commands as a person types them into `telnet` or `nc`: words on a line,
//! maybe in quotes.

use super::malformed::Malformed;

/// The words of a line, quoted as redis' `sdssplitargs` takes them: a byte of
/// value 0 ends it.
///
/// # Errors
/// [`Malformed::Quotes`].
pub(super) fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut words = Vec::new();
    let end = memchr::memchr(0, line).unwrap_or(line.len());
    let mut rest = line.get(..end).unwrap_or(line);
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(words);
        }
        let mut word = Vec::new();
        rest = one_word(rest, &mut word)?;
        words.push(word);
    }
}

/// Takes one word off a line, and returns what follows it.
fn one_word<'a>(line: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], Malformed> {
    let mut rest = line;
    loop {
        rest = match rest {
            [] => return Ok(rest),
            [blank, ..] if blank.is_ascii_whitespace() => return Ok(rest),
            [quote @ (b'"' | b'\''), inside @ ..] => {
                let behind = quoted(*quote, inside, word)?;
                return match behind.first() {
                    None => Ok(behind),
                    Some(blank) if blank.is_ascii_whitespace() => Ok(behind),
                    // A closing quote ends a word.
                    Some(_) => Err(Malformed::Quotes),
                };
            }
            [byte, behind @ ..] => {
                word.push(*byte);
                behind
            }
        };
    }
}

/// Takes what is inside quotes, and returns what follows them.
fn quoted<'a>(quote: u8, inside: &'a [u8], word: &mut Vec<u8>) -> Result<&'a [u8], Malformed> {
    let mut rest = inside;
    loop {
        let (byte, behind) = match (quote, rest) {
            (_, []) => return Err(Malformed::Quotes),
            (b'"', [b'\\', b'x', high, low, behind @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (digit(*high) << 4 | digit(*low), behind)
            }
            (b'"', [b'\\', escaped, behind @ ..]) => (unescaped(*escaped), behind),
            (b'\'', [b'\\', b'\'', behind @ ..]) => (b'\'', behind),
            (quote, [byte, behind @ ..]) if *byte == quote => return Ok(behind),
            (_, [byte, behind @ ..]) => (*byte, behind),
        };
        word.push(byte);
        rest = behind;
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

/// The value of a hexadecimal digit.
fn digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// Methods of HTTP, and the first word of its version 2.
const METHODS: [&[u8]; 10] = [
    b"get", b"head", b"post", b"put", b"patch", b"delete", b"options", b"connect", b"trace", b"pri",
];

/// Whether a line is one of an HTTP request: its first, or a header. A web page
/// can have a browser send those, and what it likes behind them.
pub(super) fn is_http(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace);
    let word = line.get(..end.unwrap_or(line.len())).unwrap_or_default();
    word.ends_with(b":") || METHODS.iter().any(|it| it.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Option<Vec<String>> {
        let words = words(line.as_bytes()).ok()?;
        let text = |word: Vec<u8>| word.escape_ascii().to_string();
        Some(words.into_iter().map(text).collect())
    }

    #[test]
    fn words_are_split_as_redis_splits_them() {
        for (line, words) in [
            ("", &[][..]),
            ("  ping  ", &["ping"]),
            ("cf.add k\ta", &["cf.add", "k", "a"]),
            (r#"set "a b" 'c d'"#, &["set", "a b", "c d"]),
            (r#""\x41\n\r\t\b\a\q\\""#, &["A\\n\\r\\t\\x08\\x07q\\\\"]),
            (r#"'\' \n'"#, &["\\' \\\\n"]),
            (r#""\xzz""#, &["xzz"]),
            (r#""" ''"#, &["", ""]),
            (r#"a"b""#, &["ab"]),
            ("\0", &[]),
            ("ping\0 pong", &["ping"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        for line in [
            r#"""#, r#""a"#, "'a", r#""a"b"#, r#"'a'b"#, r#""a\"#, r#"a"b"#, "'\0'",
        ] {
            assert_eq!(split(line), None, "{line}");
        }
    }

    #[test]
    fn lines_of_http_are_known() {
        for line in [
            "GET / HTTP/1.1",
            "post /filters HTTP/1.1",
            "Host: example.org",
            "X-Anything:",
            "PRI * HTTP/2.0",
            "  content-length: 5",
        ] {
            assert!(is_http(line.as_bytes()), "{line}");
        }
        for line in ["PING", "", "cf.add a: b", "getter x", "host :x"] {
            assert!(!is_http(line.as_bytes()), "{line}");
        }
    }
}
