//! cuckood: named cuckoo filters as a service.
pub mod chain;
pub mod cuckoo;
pub mod engine;
pub mod metrics;
pub mod page;
pub mod store;
