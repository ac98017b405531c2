//! cuckood: named cuckoo filters as a service.
pub mod chain;
pub mod config;
pub mod cuckoo;
pub mod engine;
pub mod http;
pub mod metrics;
pub mod page;
pub mod store;
