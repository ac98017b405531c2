//! Many filters by name: who may change what when, and who sees it.

pub mod answer;
pub mod batch;

use crate::chain::params::FilterRequest;
use crate::metrics::Metrics;
use crate::store::{PageStore, StoreError};
pub use answer::*;
pub use batch::ItemBatch;
use std::sync::Arc;

/// How the engine is sized. Every bound is a number of bytes, items or filters.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// What new filters get, and may have.
    pub defaults: crate::chain::params::Defaults,
    /// Writer threads; a filter always has the same one.
    pub lanes: usize,
    /// Bytes of resident pages.
    pub cache_bytes: u64,
    /// Bytes of pages that wait for a checkpoint; commits wait at the bound.
    pub max_dirty_bytes: u64,
    /// Bytes of redo records that wait for a checkpoint; commits wait at the bound.
    pub max_log_bytes: u64,
    /// Bytes of page images written at once by a checkpoint.
    pub checkpoint_slice_bytes: u64,
    /// Filters open at the same time.
    pub max_open_filters: usize,
    /// Commands that may wait in front of one lane.
    pub max_queued_commands: usize,
    /// Items that may wait in front of one lane.
    pub max_queued_items: usize,
}

/// The filters of one server. Cheap to clone; all clones are the same engine.
#[derive(Clone)]
pub struct Engine {}

impl Engine {
    /// Replays the redo log and starts the lanes. Blocks until ready to serve.
    pub fn open(store: Arc<dyn PageStore>, options: EngineOptions, metrics: Arc<Metrics>) -> Result<Engine, StoreError> { unimplemented!() }
    /// Creates a filter, or says that it is there already.
    pub async fn create_filter(&self, name: &FilterName, request: &FilterRequest) -> Result<Created, EngineError> { unimplemented!() }
    pub async fn filter_info(&self, name: &FilterName) -> Result<FilterInfo, EngineError> { unimplemented!() }
    pub async fn list_filters(&self, prefix: &str, after: Option<&FilterName>, limit: usize) -> Result<Vec<FilterSummary>, EngineError> { unimplemented!() }
    pub async fn delete_filter(&self, name: &FilterName) -> Result<(), EngineError> { unimplemented!() }
    pub async fn add(&self, name: &FilterName, items: &ItemBatch, options: &AddOptions) -> Result<Vec<AddResult>, EngineError> { unimplemented!() }
    pub async fn delete(&self, name: &FilterName, items: &ItemBatch) -> Result<Vec<bool>, EngineError> { unimplemented!() }
    pub async fn exists(&self, name: &FilterName, items: &ItemBatch) -> Result<Vec<bool>, EngineError> { unimplemented!() }
    pub async fn count(&self, name: &FilterName, items: &ItemBatch) -> Result<Vec<u64>, EngineError> { unimplemented!() }
    /// Stops taking commands, finishes those taken, checkpoints everything. Blocks.
    pub fn shutdown(&self) -> Result<(), StoreError> { unimplemented!() }
}
