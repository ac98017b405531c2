//! The browsable description, at `/docs`. Its files are part of the program; the
//! policy holds the browser to it.

use super::assets::{Asset, Assets};
use super::problem::Result;
use crate::server::App;
use axum::Router;
use axum::extract::Path;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Redirect;
use axum::routing::get;
use std::sync::Arc;
use utoipa_swagger_ui::Config;

const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'",
);

const PAGE: &str = "index.html";

/// What the page is made of.
const FILES: [&str; 8] = [
    PAGE,
    "favicon-16x16.png",
    "favicon-32x32.png",
    "index.css",
    "swagger-initializer.js",
    "swagger-ui-bundle.js",
    "swagger-ui-standalone-preset.js",
    "swagger-ui.css",
];

static ASSETS: Assets = Assets::new(|| {
    let config = Arc::new(Config::from("/openapi.json").validator_url("none"));
    let asset = |name: &'static str| {
        let file = utoipa_swagger_ui::serve(name, Arc::clone(&config)).ok()??;
        let asset = Asset::new(&file.content_type, file.bytes.into_owned());
        Some((name, asset))
    };
    FILES.into_iter().filter_map(asset).collect()
});

/// The page and its files.
pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        // The page names its files beside itself.
        .route("/docs", get(|| async { Redirect::to("/docs/") }))
        .route(
            "/docs/",
            get(|asked: HeaderMap| file(PAGE.to_owned(), asked)),
        )
        .route(
            "/docs/{file}",
            get(|Path(name): Path<String>, asked: HeaderMap| file(name, asked)),
        )
}

async fn file(name: String, asked: HeaderMap) -> Result {
    let mut response = ASSETS.get(&name).await?.answer(&asked);
    response
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, POLICY);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_file_that_the_page_names_is_handed_out() {
        let config = Arc::new(Config::from("/openapi.json"));
        let page = utoipa_swagger_ui::serve(PAGE, config).unwrap().unwrap();
        let page = String::from_utf8(page.bytes.into_owned()).unwrap();
        let named: Vec<&str> = page
            .split('"')
            .filter_map(|it| it.strip_prefix("./"))
            .collect();
        assert!(named.len() >= 5, "{page}");
        for name in named {
            assert!(FILES.contains(&name), "{name}");
        }
        for name in FILES {
            assert!(ASSETS.get(name).await.is_ok(), "{name}");
        }
    }
}
