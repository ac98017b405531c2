//! The API over a real socket: one module per resource.

mod bodies;
mod connections;
mod filters;
mod guard;
mod items;
mod lines;
mod ops;
mod program;
mod server;
