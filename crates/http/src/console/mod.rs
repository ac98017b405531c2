//! The console: a page for people, at `/console`. Its files are part of the
//! program and need no key; what they show comes through the API, with the key
//! that its user gives.
//!
//! The policy holds the browser to what the page is made of: its own files, no
//! inline script or style, no other host.

use super::assets::{Asset, Assets};
use super::problem::{HttpError, Result};
use crate::codes::Code;
use crate::server::App;
use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH, REFERRER_POLICY, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types 'none'",
);

/// Asked for again each time, and answered without a body when nothing changed:
/// after an update of the server no page is put together of two versions.
const CACHING: HeaderValue = HeaderValue::from_static("no-cache");

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// What is said at the root to who is no browser.
const WHERE: &str = concat!(
    "cuckood ",
    env!("CARGO_PKG_VERSION"),
    "
/console  the console, for browsers
/docs     the API; /openapi.json for programs
",
    "/readyz   whether it serves; /metrics for Prometheus
"
);

/// The page itself.
const PAGE: &str = "index.html";

/// One file: its name, its media type and what is in it.
struct File {
    name: &'static str,
    media_type: &'static str,
    content: &'static str,
}

/// Names files of this directory.
macro_rules! files {
    ($($name:literal: $media_type:expr;)*) => {
        [$(File {
            name: $name,
            media_type: $media_type,
            content: include_str!($name),
        }),*]
    };
}

static FILES: &[File] = &files! {
    "index.html": HTML;
    "style.css": STYLE;
    "egg.svg": IMAGE;
    "api.js": SCRIPT;
    "app.js": SCRIPT;
    "caller.js": SCRIPT;
    "chain.js": SCRIPT;
    "cluster.js": SCRIPT;
    "compact.js": SCRIPT;
    "create.js": SCRIPT;
    "curl.js": SCRIPT;
    "end.js": SCRIPT;
    "epochs.js": SCRIPT;
    "fields.js": SCRIPT;
    "filter.js": SCRIPT;
    "format.js": SCRIPT;
    "growth.js": SCRIPT;
    "history.js": SCRIPT;
    "import.js": SCRIPT;
    "items.js": SCRIPT;
    "list.js": SCRIPT;
    "metrics.js": SCRIPT;
    "parts.js": SCRIPT;
    "uploads.js": SCRIPT;
    "values.js": SCRIPT;
    "vitals.js": SCRIPT;
    "work.js": SCRIPT;
    "preact.mjs": SCRIPT;
    "hooks.mjs": SCRIPT;
    "LICENSE-preact.txt": "text/plain; charset=utf-8";
};

/// What is handed out by a name, and its tag. Weak: a file is the same when it is
/// sent compressed.
static ASSETS: Assets = Assets::new(|| {
    let asset = |file: &File| (file.name, Asset::new(file.media_type, file.content));
    FILES.iter().map(asset).collect()
});

static TAGS: LazyLock<HashMap<&str, HeaderValue>> = LazyLock::new(|| {
    let tag = |file: &File| {
        let digest = Sha256::digest(file.content.as_bytes());
        let text = format!("W/\"{:.24}\"", hex::encode(digest));
        let tag = HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("W/\"\""));
        (file.name, tag)
    };
    FILES.iter().map(tag).collect()
});

/// The page and its files.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(root))
        .route(
            "/console",
            get(|headers: HeaderMap| async move { file(PAGE, &headers).await }),
        )
        // The page names its files beside itself.
        .route(
            "/console/",
            get(|| async { Redirect::permanent("../console") }),
        )
        .route(
            "/console/{file}",
            get(|Path(name): Path<String>, headers: HeaderMap| async move {
                match name.as_str() {
                    PAGE => Err(HttpError::Plain(Code::UnknownRoute)),
                    name => file(name, &headers).await,
                }
            }),
        )
}

/// Leads browsers to the page, and tells others where everything is.
async fn root(asked: HeaderMap) -> Response {
    let accepted = asked.get(ACCEPT).and_then(|it| it.to_str().ok());
    let vary = [(VARY, HeaderValue::from_static("accept"))];
    match accepted.is_some_and(|it| it.contains("text/html")) {
        true => (vary, Redirect::temporary("console")).into_response(),
        false => (vary, WHERE).into_response(),
    }
}

async fn file(name: &str, asked: &HeaderMap) -> Result {
    let tag = TAGS.get(name).ok_or(HttpError::Plain(Code::UnknownRoute))?;
    let headers = [
        (ETAG, tag.clone()),
        (CACHE_CONTROL, CACHING),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (OPENER_POLICY, HeaderValue::from_static("same-origin")),
    ];
    if knows(asked, tag) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, ASSETS.get(name).await?.answer(asked)).into_response())
}

/// Whether the client has the file with this tag (RFC 9110, 13.1.2: tags are
/// compared weakly).
fn knows(asked: &HeaderMap, tag: &HeaderValue) -> bool {
    let opaque = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
    let own = opaque(tag.as_bytes());
    asked
        .get_all(IF_NONE_MATCH)
        .iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .any(|given| given == b"*" || opaque(given) == own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_file_of_the_page_is_handed_out() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/console");
        let there: BTreeSet<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "mod.rs")
            .collect();
        let handed_out: BTreeSet<String> = FILES.iter().map(|file| file.name.to_owned()).collect();
        assert_eq!(there, handed_out);
    }

    #[test]
    fn nothing_in_the_page_names_another_host_or_needs_inline_code() {
        for file in FILES {
            // The licence and namespaces are no addresses that are asked for.
            let text = file
                .content
                .replace("http://www.w3.org/", "")
                .replace("https://preactjs.com", "");
            if file.name != "LICENSE-preact.txt" {
                assert!(!text.contains("://"), "{}", file.name);
            }
            assert!(!text.contains("eval("), "{}", file.name);
        }
        let page = FILES.iter().find(|file| file.name == PAGE).unwrap().content;
        for inline in ["<style", " style=", " onclick=", "<script>"] {
            assert!(!page.contains(inline), "{inline}");
        }
    }

    #[test]
    fn tags_are_compared_weakly_and_one_of_many_is_enough() {
        let tag = HeaderValue::from_static("W/\"a\"");
        for (given, known) in [
            ("W/\"a\"", true),
            ("\"a\"", true),
            ("\"b\", W/\"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
        ] {
            let mut asked = HeaderMap::new();
            asked.insert(IF_NONE_MATCH, HeaderValue::from_static(given));
            assert_eq!(knows(&asked, &tag), known, "{given}");
        }
        assert!(!knows(&HeaderMap::new(), &tag));
    }
}
