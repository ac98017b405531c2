//! The HTTP surface: takes a request apart, asks the engine, puts the answer
//! together. No rule about filters lives here; no status code is chosen in a
//! handler.
//!
//! | file | what it owns |
//! |---|---|
//! | `routes` | the only route table, and the order of the layers around it |
//! | `handlers` | one function per operation, by resource |
//! | `listen` | listeners and connections: TLS, timeouts, draining |
//! | `middleware` | the layers: errors, web pages of other origins, API keys, compression |
//! | `admission` | what requests may take: bytes of memory, concurrency, time |
//! | `app` | what all handlers share |
//! | `cluster` | in a cluster: passing changes on, positions, readiness |
//! | `extract`, `query`, `parse` | from a request's bytes to items and fields |
//! | `idempotency` | which request is the same as one sent before |
//! | `answer`, `stream` | answers that are written at once, and while they are sent |
//! | `mapped_body` | bodies whose pieces go through a function while they are sent |
//! | `problem` | every error, with its status and its stable code |
//! | `openapi` | the description of the API |
//! | `assets` | answers that are always the same, compressed once |
//! | `console` | the page for people, whose files are in the program |
//! | `docs` | the page that shows the description |
//! | `bounds`, `headers`, `media`, `time`, `words` | sizes, headers, media types, times and words, as they are written |

mod admission;
mod answer;
mod app;
mod assets;
mod bounds;
mod cluster;
mod console;
mod docs;
mod extract;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz_targets;
mod handlers;
mod headers;
mod idempotency;
mod listen;
mod mapped_body;
mod media;
mod middleware;
mod openapi;
mod parse;
mod problem;
mod query;
mod routes;
mod stream;
mod time;
mod words;

// What the other listeners share with this one.
pub(crate) use admission::answers::reserve as reserve_answer;
pub(crate) use admission::budget::{Held, Holder};
pub use admission::deadline::MAX_REQUEST_TIMEOUT;
pub use admission::limits::Limits;
pub use app::{Access, App};
pub(crate) use cluster::answer::LEADER_PATIENCE;
pub(crate) use cluster::passed::{
    CommandWorker, NotPassed, PassedHead, PassedOnBy, PassedReplies, Worked,
};
pub(crate) use cluster::position::LanePosition;
pub use cluster::{Cluster, ClusterStatus, Links, SNAPSHOT, Staleness};
pub(crate) use handlers::dumps::paces;
pub(crate) use listen::connection::told;
pub(crate) use listen::places::{Place, Places};
pub(crate) use listen::polls::{Timed, Work, note_work};
pub use listen::role::{ListenerRole, Transport};
pub(crate) use listen::server::CONNECTIONS_PART;
pub use listen::server::{Endpoint, ServerOptions, serve};
pub use listen::tls::{ClientCertPolicy, Tls, TlsError, TlsFiles};
pub use middleware::origin::HostPolicy;
pub(crate) use middleware::principal::Principal;
#[doc(hidden)]
pub use parse::measured;
pub(crate) use problem::HttpError;
pub use routes::{openapi_document, router};
