//! Engines of one process that share a simulated log.

mod chaos;
mod cluster;
mod flaky;
mod followers;
