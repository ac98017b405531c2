//! The other side of the comparison: axum with nothing around it. It parses
//! what cuckood parses, hashes each item, and answers in the same shape; it
//! keeps nothing.

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::hash::BuildHasher as _;

/// Serves until it is killed; says on its output where.
pub(crate) fn serve() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        let router = Router::new()
            .route("/constant", get(constant))
            .route("/json", post(json))
            .route("/lines", post(lines));
        // What cuckood does, too: a failure shows in the latency.
        let listener = listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        axum::serve(listener, router).await?;
        Ok(())
    })
}

async fn constant() -> Response {
    answer("{\"exists\":true}\n".into())
}

#[derive(Deserialize)]
struct Items<'a> {
    #[serde(borrow)]
    items: Vec<&'a str>,
}

#[derive(Serialize)]
struct Results {
    results: Vec<bool>,
}

async fn json(body: Bytes) -> Response {
    match serde_json::from_slice::<Items<'_>>(&body) {
        Ok(body) => answer_all(body.items.into_iter().map(str::as_bytes)),
        Err(error) => error.to_string().into_response(),
    }
}

async fn lines(body: Bytes) -> Response {
    let body = body.strip_suffix(b"\n").unwrap_or(&body);
    answer_all(body.split(|&byte| byte == b'\n'))
}

fn answer_all<'a>(items: impl Iterator<Item = &'a [u8]>) -> Response {
    let hasher = foldhash::fast::FixedState::default();
    let results = items.map(|item| hasher.hash_one(item) & 1 == 0).collect();
    match serde_json::to_vec(&Results { results }) {
        Ok(body) => answer(body.into()),
        Err(error) => error.to_string().into_response(),
    }
}

fn answer(body: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}
