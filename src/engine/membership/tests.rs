//! Engines of one process that share a simulated log.

mod chaos;
mod clocks;
mod cluster;
mod dumps;
mod flaky;
mod followers;
mod past;
mod rows;
mod stale;
