//! What is said on the wire: HTTP/1.1 to cuckood and to the bare handler, RESP
//! to cuckood and to a Redis server.

use std::io::Write as _;

/// How requests and answers are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// HTTP/1.1 with keep-alive.
    Http,
    /// The protocol of Redis, version 2; so many replies to each request, which
    /// is a pipeline of as many commands.
    Resp(usize),
}

/// What came is not an answer to be counted.
#[derive(Debug, thiserror::Error)]
#[error("the server answered: {0}")]
pub(crate) struct WireError(String);

impl Wire {
    /// Whether these bytes are one whole answer.
    ///
    /// # Errors
    /// They are a refusal, or not this protocol.
    pub(crate) fn is_whole(self, came: &[u8]) -> Result<bool, WireError> {
        match self {
            Wire::Http => is_whole_response(came),
            Wire::Resp(replies) => {
                let mut end = 0;
                for _ in 0..replies {
                    match reply_end(came, end)? {
                        Some(next) => end = next,
                        None => return Ok(false),
                    }
                }
                Ok(true)
            }
        }
    }
}

fn refused(came: &[u8]) -> WireError {
    let start = came.get(..came.len().min(300)).unwrap_or_default();
    WireError(String::from_utf8_lossy(start).into_owned())
}

fn is_whole_response(came: &[u8]) -> Result<bool, WireError> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let head = match response.parse(came) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Ok(false),
        Err(_) => return Err(refused(came)),
    };
    if response.code != Some(200) {
        return Err(refused(came));
    }
    let length = response
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"))
        .and_then(|header| {
            std::str::from_utf8(header.value)
                .ok()?
                .parse::<usize>()
                .ok()
        });
    match length {
        Some(length) => Ok(came.len() >= head + length),
        None => Err(refused(came)),
    }
}

/// Where the reply that begins at `start` ends, if all of it is there.
fn reply_end(came: &[u8], start: usize) -> Result<Option<usize>, WireError> {
    let rest = came.get(start..).unwrap_or_default();
    let Some(line) = rest.iter().position(|&byte| byte == b'\n') else {
        return Ok(None);
    };
    let number = || {
        let digits = rest.get(1..line.saturating_sub(1)).unwrap_or_default();
        let digits = std::str::from_utf8(digits).ok();
        digits.and_then(|digits| digits.parse::<i64>().ok())
    };
    let after = start + line + 1;
    match (rest.first(), number()) {
        (Some(b'+' | b':'), _) => Ok(Some(after)),
        (Some(b'$'), Some(length)) => {
            let end = after + usize::try_from(length).map_or(0, |length| length + 2);
            Ok((came.len() >= end).then_some(end))
        }
        (Some(b'*'), Some(count)) => {
            let mut end = after;
            for _ in 0..count {
                match reply_end(came, end)? {
                    Some(next) => end = next,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        _ => Err(refused(came)),
    }
}

/// A request without a body.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// How the items of a body are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// `{"items":[…]}`
    Json,
    /// One a line.
    Lines,
}

/// A request that brings items.
pub(crate) fn post(path: &str, form: Form, items: impl Iterator<Item = String>) -> Vec<u8> {
    let mut body = Vec::new();
    let media_type = match form {
        Form::Json => {
            body.extend_from_slice(br#"{"items":["#);
            for (number, item) in items.enumerate() {
                let comma = if number == 0 { "" } else { "," };
                // Writing to a vector can't fail; our items need no escapes.
                let _ = write!(body, "{comma}\"{item}\"");
            }
            body.extend_from_slice(b"]}");
            "application/json"
        }
        Form::Lines => {
            for item in items {
                body.extend_from_slice(item.as_bytes());
                body.push(b'\n');
            }
            "text/plain"
        }
    };
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat()
}

/// A command to Redis.
pub(crate) fn command<'a>(
    name: &'a str,
    key: &'a str,
    options: &'a [&'a str],
    items: impl ExactSizeIterator<Item = String>,
) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", 2 + options.len() + items.len()).into_bytes();
    let mut push = |word: &str| {
        // Writing to a vector can't fail.
        let _ = write!(bytes, "${}\r\n{word}\r\n", word.len());
    };
    [name, key]
        .iter()
        .chain(options)
        .for_each(|word| push(word));
    items.for_each(|item| push(&item));
    bytes
}
