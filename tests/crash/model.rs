//! An engine in memory that is fed the same commits, in the same order. The
//! same commands give the same bytes, so every answer must be the same, false
//! positives included.

use crate::memory::MemoryStore;
use cuckood::engine::{
    AddMode, AddOptions, AddResult, Adopted, Engine, EngineOptions, FilterName, ItemBatch, Replace,
};
use cuckood::file::FileView;
use cuckood::metrics::Metrics;
use cuckood::store::PageStore;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Many filters. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub(crate) struct Model {
    engine: Engine,
    metrics: Arc<Metrics>,
    runtime: Arc<Runtime>,
}

impl Model {
    pub(crate) fn new() -> Model {
        let options = EngineOptions {
            max_log_bytes: 16 << 20,
            checkpoint_slice_bytes: 1 << 20,
            max_imports: 1,
            after_commit: Some(crate::checked::after_commit),
            ..EngineOptions::with_cache(128 << 20)
        };
        let store = PageStore::open(Arc::new(MemoryStore::new())).unwrap();
        let metrics = Arc::new(Metrics::new().unwrap());
        Model {
            engine: Engine::open(Arc::new(store), &options, Arc::clone(&metrics)).unwrap(),
            metrics,
            runtime: Arc::new(Runtime::new().unwrap()),
        }
    }

    /// Takes over a filter as its dump describes it, with the key of its hash.
    pub(crate) fn take_over(&self, filter: &str, dump: &[u8]) {
        let filter = name(filter);
        let taken = async {
            let intake = self
                .engine
                .intake(&name("f"), Replace::Nothing)
                .await
                .unwrap();
            let staged = tokio::task::block_in_place(|| intake.dump(dump).unwrap());
            let adopted = self.engine.adopt(&filter, staged, Replace::Nothing);
            assert!(matches!(adopted.await.unwrap(), Adopted::New(_)));
        };
        self.runtime.block_on(taken);
    }

    /// One word an item, as the server says it.
    pub(crate) fn add(&self, filter: &str, items: &[String], mode: AddMode) -> Vec<String> {
        let options = AddOptions { mode, create: None };
        let (filter, items) = (name(filter), batch(items));
        let added = self
            .runtime
            .block_on(self.engine.add(&filter, &items, &options, None));
        let word = |result: AddResult| match result {
            AddResult::Added => "added",
            AddResult::Exists => "exists",
            AddResult::Refreshed => "refreshed",
            AddResult::Full(_) => "full",
        };
        added
            .unwrap()
            .answer
            .into_iter()
            .map(|result| word(result).to_owned())
            .collect()
    }

    pub(crate) fn delete(&self, filter: &str, items: &[String]) -> Vec<String> {
        let (filter, items) = (name(filter), batch(items));
        let deleted = self.engine.delete(&filter, &items, None);
        words(self.runtime.block_on(deleted).map(|it| it.answer))
    }

    pub(crate) fn exists(&self, filter: &str, items: &[String]) -> Vec<String> {
        let (filter, items) = (name(filter), batch(items));
        words(self.runtime.block_on(self.engine.exists(&filter, &items)))
    }

    pub(crate) fn count(&self, filter: &str, items: &[String]) -> Vec<String> {
        let (filter, items) = (name(filter), batch(items));
        words(self.runtime.block_on(self.engine.count(&filter, &items)))
    }

    /// The filter's dump.
    /// What is the same of its dump and those of equal filters.
    pub(crate) fn content(&self, filter: &str) -> [u8; 32] {
        let mut whole = Vec::new();
        self.engine.dump(&name(filter), &mut whole).unwrap();
        FileView::open(whole).unwrap().verify().unwrap()
    }

    /// Items in the filter.
    pub(crate) fn items(&self, filter: &str) -> u64 {
        let filter = name(filter);
        let info = self.runtime.block_on(self.engine.filter_info(&filter));
        info.unwrap().items
    }

    /// Pages that were split and merged, of all filters.
    pub(crate) fn splits_and_merges(&self) -> (u64, u64) {
        let metrics = &self.metrics;
        (metrics.page_splits.get(), metrics.page_merges.get())
    }
}

fn name(filter: &str) -> FilterName {
    FilterName::parse(filter).unwrap()
}

fn batch(items: &[String]) -> ItemBatch {
    let mut batch = ItemBatch::default();
    for item in items {
        batch.push(item.as_bytes());
    }
    batch
}

fn words<T: ToString, E: std::fmt::Debug>(results: Result<Vec<T>, E>) -> Vec<String> {
    results.unwrap().iter().map(T::to_string).collect()
}
