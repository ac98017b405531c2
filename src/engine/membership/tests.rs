//! Engines of one process that share a simulated log.

mod chaos;
mod clocks;
mod cluster;
mod dumps;
mod flaky;
mod followers;
mod large_records;
mod leaders;
mod past;
mod rows;
mod small_caches;
mod stale;
mod starts;
mod unfit;
mod unheard;
