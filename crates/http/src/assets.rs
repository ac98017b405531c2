//! Answers that are always the same: the files of pages, and the description of
//! the API. They need no key, so they are made and compressed once, when the first
//! of them is asked for, and off the async threads.

use super::headers::listed;
use super::problem::{HttpError, Result};
use crate::codes::Code;
use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::HashMap;
use std::io::Write as _;
use tokio::sync::OnceCell;

/// Marks a response whose body no layer is to compress.
#[derive(Clone)]
pub(crate) struct AsItIs;

/// One such answer.
pub(crate) struct Asset {
    media_type: HeaderValue,
    plain: Bytes,
    /// `None`: compressed it is no smaller.
    gzipped: Option<Bytes>,
}

impl Asset {
    /// Compresses the content, which takes a while.
    pub(crate) fn new(media_type: &str, plain: impl Into<Bytes>) -> Asset {
        let plain = plain.into();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let written = encoder.write_all(&plain).and_then(|()| encoder.finish());
        let gzipped = written.ok().filter(|gzipped| gzipped.len() < plain.len());
        let fallback = HeaderValue::from_static("application/octet-stream");
        Asset {
            media_type: HeaderValue::from_str(media_type).unwrap_or(fallback),
            plain,
            gzipped: gzipped.map(Bytes::from),
        }
    }

    /// The answer to a request with these headers.
    pub(crate) fn answer(&self, asked: &HeaderMap) -> Response {
        let gzipped = self.gzipped.as_ref().filter(|_| takes_gzip(asked));
        let body = gzipped.unwrap_or(&self.plain);
        let mut response = Response::new(Body::from(body.clone()));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, self.media_type.clone());
        if self.gzipped.is_some() {
            headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        }
        if gzipped.is_some() {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response.extensions_mut().insert(AsItIs);
        response
    }
}

/// Answers by their names, made together.
pub(crate) struct Assets {
    make: fn() -> HashMap<&'static str, Asset>,
    made: OnceCell<HashMap<&'static str, Asset>>,
}

impl Assets {
    pub(crate) const fn new(make: fn() -> HashMap<&'static str, Asset>) -> Assets {
        Assets {
            make,
            made: OnceCell::const_new(),
        }
    }

    /// The one of that name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) async fn get(&self, name: &str) -> Result<&Asset> {
        let make = || tokio::task::spawn_blocking(self.make);
        let made = self.made.get_or_try_init(make).await?;
        made.get(name).ok_or(HttpError::Plain(Code::UnknownRoute))
    }
}

/// Whether a client takes gzip, as far as it names it.
pub(super) fn takes_gzip(asked: &HeaderMap) -> bool {
    listed(asked, &ACCEPT_ENCODING).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
        name.trim().eq_ignore_ascii_case("gzip") && weight.trim().parse() != Ok(0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn gzip_is_sent_to_those_who_name_it() {
        for (given, taken) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("*", false),
            ("br", false),
            ("", false),
        ] {
            let mut asked = HeaderMap::new();
            asked.insert(ACCEPT_ENCODING, HeaderValue::from_static(given));
            assert_eq!(takes_gzip(&asked), taken, "{given}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn answers_are_made_once_however_many_ask() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let assets = Assets::new(|| {
            MADE.fetch_add(1, Ordering::Relaxed);
            HashMap::from([("a", Asset::new("text/plain", "a".repeat(1000)))])
        });
        let asking = (0..8).map(|_| assets.get("a"));
        for asset in futures_util::future::join_all(asking).await {
            let asset = asset.map_err(|error| error.to_string()).unwrap();
            assert_eq!(asset.plain.len(), 1000);
            assert!(asset.gzipped.as_ref().unwrap().len() < 100);
        }
        assert!(assets.get("b").await.is_err());
        assert_eq!(MADE.load(Ordering::Relaxed), 1);
    }
}
