//! The API over a real socket: one module per resource.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers included"
)]

mod bodies;
mod connections;
mod filters;
mod guard;
mod items;
mod lines;
mod ops;
mod program;
mod server;
