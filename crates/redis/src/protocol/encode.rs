//! Replies, in the version that a connection speaks.

use super::number;

/// The version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    /// RESP2, which every connection begins with.
    #[default]
    Resp2 = 2,
    /// RESP3, which has types of its own for maps, sets, booleans and nothing.
    Resp3 = 3,
}

impl Version {
    /// The one of a number.
    pub(crate) fn of(number: i64) -> Option<Version> {
        [Version::Resp2, Version::Resp3]
            .into_iter()
            .find(|it| *it as i64 == number)
    }
}

/// Replies as they are written, one after another.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    out: Vec<u8>,
    /// The version of those that follow.
    pub(crate) version: Version,
}

impl Replies {
    /// The same, where nothing is written any more.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// What is to be sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Bytes that are to be sent.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Forgets what was sent, and memory that only a large reply needs.
    pub(crate) fn clear(&mut self) {
        const KEPT: usize = 128 << 10;
        self.out.clear();
        self.out.shrink_to(KEPT);
    }

    /// A status.
    pub(crate) fn status(&mut self, text: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.end();
    }

    /// Replies that are written already, in the same version.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// `OK`.
    pub(crate) fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// An error; a line end within it would end the reply, and is a blank.
    pub(crate) fn error(&mut self, text: &str) {
        self.out.push(b'-');
        let plain = |byte| match byte {
            b'\r' | b'\n' => b' ',
            other => other,
        };
        self.out.extend(text.bytes().map(plain));
        self.end();
    }

    /// An integer.
    #[inline]
    pub(crate) fn integer(&mut self, number: i64) {
        self.out.push(b':');
        number::push(number, &mut self.out);
        self.end();
    }

    /// A count; what is beyond an integer is the largest one.
    #[inline]
    pub(crate) fn count(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// Yes or no, an integer in RESP2.
    #[inline]
    pub(crate) fn boolean(&mut self, yes: bool) {
        self.out.extend_from_slice(match (self.version, yes) {
            (Version::Resp2, true) => b":1\r\n",
            (Version::Resp2, false) => b":0\r\n",
            (Version::Resp3, true) => b"#t\r\n",
            (Version::Resp3, false) => b"#f\r\n",
        });
    }

    /// A string of any bytes.
    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.end();
    }

    /// Several of these, one after another.
    pub(crate) fn bulks<T: AsRef<[u8]>>(&mut self, all: impl IntoIterator<Item = T>) {
        all.into_iter().for_each(|it| self.bulk(it.as_ref()));
    }

    /// A text for people, of several lines.
    pub(crate) fn text(&mut self, text: &str) {
        match self.version {
            Version::Resp2 => self.bulk(text.as_bytes()),
            Version::Resp3 => {
                self.head(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    /// Nothing.
    pub(crate) fn nil(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// The head of a list of so many replies.
    pub(crate) fn array(&mut self, length: usize) {
        self.head(b'*', length);
    }

    /// The head of a map of so many pairs, a list in RESP2.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.version {
            Version::Resp2 => self.head(b'*', 2 * pairs),
            Version::Resp3 => self.head(b'%', pairs),
        }
    }

    /// The head of a set of so many replies, a list in RESP2.
    pub(crate) fn set(&mut self, length: usize) {
        match self.version {
            Version::Resp2 => self.head(b'*', length),
            Version::Resp3 => self.head(b'~', length),
        }
    }

    fn head(&mut self, mark: u8, length: usize) {
        self.out.push(mark);
        number::push(i64::try_from(length).unwrap_or(i64::MAX), &mut self.out);
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::{Value, parse_redis_value};

    fn of(version: Version, write: impl Fn(&mut Replies)) -> Value {
        let mut replies = Replies {
            version,
            ..Replies::default()
        };
        write(&mut replies);
        parse_redis_value(replies.bytes()).unwrap()
    }

    #[test]
    fn a_client_reads_what_is_written() {
        use Version::{Resp2, Resp3};
        let text = |text: &str| Value::SimpleString(text.to_owned());
        for version in [Resp2, Resp3] {
            assert_eq!(of(version, Replies::ok), Value::Okay);
            assert_eq!(of(version, |it| it.status("PONG")), text("PONG"));
            assert_eq!(of(version, Replies::nil), Value::Nil);
            for number in [0, 7, -7, 10, i64::MIN, i64::MAX] {
                let value = of(version, |it| it.integer(number));
                assert_eq!(value, Value::Int(number));
            }
            let bytes = b"a\r\nb\0".to_vec();
            let value = of(version, |it| it.bulk(&bytes));
            assert_eq!(value, Value::BulkString(bytes));
            let value = of(version, |it| it.count(u64::MAX));
            assert_eq!(value, Value::Int(i64::MAX));
        }
        assert_eq!(of(Resp2, |it| it.boolean(true)), Value::Int(1));
        assert_eq!(of(Resp3, |it| it.boolean(false)), Value::Boolean(false));
        let pair = |it: &mut Replies| {
            it.map(1);
            it.status("a");
            it.integer(1);
        };
        let flat = vec![text("a"), Value::Int(1)];
        assert_eq!(of(Resp2, pair), Value::Array(flat));
        let map = vec![(text("a"), Value::Int(1))];
        assert_eq!(of(Resp3, pair), Value::Map(map));
        let one = |it: &mut Replies| {
            it.set(1);
            it.integer(1);
        };
        assert_eq!(of(Resp2, one), Value::Array(vec![Value::Int(1)]));
        assert_eq!(of(Resp3, one), Value::Set(vec![Value::Int(1)]));
        let lines = of(Resp3, |it| it.text("a\r\nb"));
        assert!(matches!(lines, Value::VerbatimString { text, .. } if text == "a\r\nb"));
    }

    #[test]
    fn an_error_is_one_line() {
        let mut replies = Replies::default();
        replies.error("ERR one\r\ntwo");
        assert_eq!(replies.bytes(), b"-ERR one  two\r\n");
    }
}
