//! The words of HTTP: takes a request apart, asks the engine, puts the answer
//! together. No rule about filters lives here; no status code is chosen in a
//! handler. What requests hold, and who asks, is of [`server`].
//!
//! | file | what it owns |
//! |---|---|
//! | `listen` | listeners of HTTP: connections, their clocks, draining |
//! | `routes` | the only route table, and the order of the layers around it |
//! | `handlers` | one function per operation, by resource |
//! | `middleware` | the layers: errors, web pages of other origins, API keys, compression |
//! | `cluster` | in a cluster: forwarding changes, and what pods ask of each other |
//! | `admission` | bodies in both directions, and until when a request is worked on |
//! | `requirement` | what the route table declares of each operation |
//! | `extract`, `query`, `parse` | from a request's bytes to items and fields |
//! | `idempotency` | which request is the same as one sent before |
//! | `answer`, `stream` | answers that are written at once, and while they are sent |
//! | `mapped_body` | bodies whose pieces go through a function while they are sent |
//! | `problem` | every error, as HTTP words it |
//! | `openapi`, `schemas` | the description of the API, made and held to the route table by tests |
//! | `assets` | answers that are always the same, compressed once |
//! | `console` | the page for people, whose files are in the program |
//! | `docs` | the page that shows the description |
//! | `layer` | makes a layer of one function |
//! | `bearer` | the API key of a request |
//! | `bounds`, `headers`, `media`, `time`, `words` | sizes, headers, media types, times and words, as they are written |

mod admission;
mod answer;
mod assets;
mod bearer;
mod bounds;
mod cluster;
mod console;
mod docs;
mod extract;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz_targets;
mod handlers;
mod headers;
mod idempotency;
mod layer;
mod listen;
mod mapped_body;
mod media;
mod middleware;
mod openapi;
mod parse;
mod problem;
mod query;
mod requirement;
mod routes;
#[cfg(test)]
mod schemas;
mod stream;
mod time;
mod words;

use cuckood_filter::chain;
use {
    cuckood_access as access, cuckood_backup as backup, cuckood_codes as codes,
    cuckood_engine as engine, cuckood_server as server,
};
#[cfg(test)]
use {cuckood_metrics as metrics, cuckood_share as share};

pub use cluster::SNAPSHOT;
pub use listen::server::{Endpoint, serve};
pub use openapi::OPENAPI_DOCUMENT;
#[doc(hidden)]
pub use parse::measured;
pub use routes::router;
