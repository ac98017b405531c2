//! What a form is: requests, or commands, that are asked again and again.

use crate::prepared::World;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

type Make = Box<dyn Fn(&World) -> Vec<Round>>;

/// One way to ask one route or command.
pub(crate) struct Form {
    /// The route or the command, as the server's own table calls it.
    pub(crate) door: &'static str,
    /// What is dear about it.
    pub(crate) what: String,
    /// Whether it is asked by many in the short test, too.
    pub(crate) is_among_the_worst: bool,
    /// Whether the server refuses it, and nothing else is legal.
    pub(crate) is_refused: bool,
    make: Make,
}

/// What one connection sends before it waits.
pub(crate) enum Round {
    /// One request after the other.
    Http(Vec<Request>),
    /// A pipeline.
    Redis(Bytes),
}

/// A request of HTTP.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
    /// A status that is as good as success.
    pub(crate) or: u16,
}

impl Form {
    pub(crate) fn new(
        door: &'static str,
        what: &str,
        make: impl Fn(&World) -> Vec<Round> + 'static,
    ) -> Form {
        Form {
            door,
            what: what.to_owned(),
            is_among_the_worst: false,
            is_refused: false,
            make: Box::new(make),
        }
    }

    /// One request, whatever is asked before.
    pub(crate) fn request(
        door: &'static str,
        what: &str,
        change: impl Fn(&World, Request) -> Request + 'static,
    ) -> Form {
        Form::new(door, what, move |world| {
            vec![Round::Http(vec![change(world, Request::to(door, "x"))])]
        })
    }

    pub(crate) fn among_the_worst(self) -> Form {
        Form {
            is_among_the_worst: true,
            ..self
        }
    }

    pub(crate) fn refused(self) -> Form {
        Form {
            is_refused: true,
            ..self
        }
    }

    pub(crate) fn rounds(&self, world: &World) -> Vec<Round> {
        (self.make)(world)
    }
}

impl Request {
    /// To the route of this name, about this filter.
    pub(crate) fn to(door: &'static str, key: &str) -> Request {
        let (method, path) = door.split_once(' ').unwrap();
        Request {
            method,
            path: path.replace("{key}", key),
            headers: Vec::new(),
            body: Bytes::new(),
            or: 200,
        }
    }

    pub(crate) fn at(self, key: &str) -> Request {
        Request {
            path: self.path.replace("/filters/x", &format!("/filters/{key}")),
            ..self
        }
    }

    pub(crate) fn query(mut self, query: &str) -> Request {
        self.path = format!("{}?{query}", self.path);
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Request {
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn zipped(self) -> Request {
        self.header("accept-encoding", "gzip")
    }

    /// The longest key of a retry, kept for as long as may be.
    pub(crate) fn once(self, number: usize) -> Request {
        self.header("idempotency-key", format!("{number:~>255}"))
            .header("idempotency-key-lifetime", "86400")
    }

    pub(crate) fn body(self, media_type: &str, body: impl Into<Bytes>) -> Request {
        let body = body.into();
        Request { body, ..self }.header("content-type", media_type)
    }

    pub(crate) fn text(self, body: String) -> Request {
        self.body("text/plain", body).header("accept", "text/plain")
    }

    pub(crate) fn json(self, body: String) -> Request {
        self.body("application/json", body)
    }

    /// With its body compressed.
    pub(crate) fn packed(self) -> Request {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&self.body).unwrap();
        let body = gzip.finish().unwrap().into();
        Request { body, ..self }.header("content-encoding", "gzip")
    }

    pub(crate) fn or(self, status: u16) -> Request {
        Request { or: status, ..self }
    }
}

/// A command as it is sent.
pub(crate) fn command<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
