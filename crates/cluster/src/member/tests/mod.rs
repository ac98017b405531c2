//! Engines of one process that share a simulated log.

use super::Member;
use crate::engine::Engine;
use std::ops::Deref;

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

impl Deref for Member {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}
