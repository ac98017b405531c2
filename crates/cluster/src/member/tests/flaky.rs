//! A store that fails some of its unforced writes, before or after they are done.

use crate::memory::MemoryStore;
use crate::store::StoreError;
use crate::store::kv::{
    Caching, Column, Condition, Durability, EachEntry, EachValue, FrozenStore, Gauge, KeyRange,
    KeyValueStore, Reader, WriteBatch,
};
use crate::tests::random::Random;
use parking_lot::Mutex;
use std::sync::Arc;

/// Of a hundred writes so many fail, in the stores of all pods.
#[derive(Clone)]
pub(super) struct Failures(Arc<Mutex<(u64, Random)>>);

impl Failures {
    pub(super) fn new(seed: u64, percent: u64) -> Failures {
        Failures(Arc::new(Mutex::new((percent, Random::new(seed)))))
    }

    pub(super) fn set(&self, percent: u64) {
        self.0.lock().0 = percent;
    }

    fn draw(&self) -> (bool, bool) {
        let (percent, random) = &mut *self.0.lock();
        (random.percent(*percent), random.percent(50))
    }
}

pub(super) struct FlakyStore {
    pub(super) memory: MemoryStore,
    pub(super) failures: Failures,
}

impl Reader for FlakyStore {
    fn get_many(
        &self,
        column: Column,
        keys: &[&[u8]],
        each: EachValue<'_>,
    ) -> Result<(), StoreError> {
        self.memory.get_many(column, keys, each)
    }

    fn scan(
        &self,
        column: Column,
        keys: &KeyRange,
        caching: Caching,
        each: EachEntry<'_>,
    ) -> Result<(), StoreError> {
        self.memory.scan(column, keys, caching, each)
    }
}

impl KeyValueStore for FlakyStore {
    fn write(&self, batch: WriteBatch, durability: Durability) -> Result<(), StoreError> {
        let (fails, is_done) = self.failures.draw();
        if !fails || durability != Durability::Ordered {
            return self.memory.write(batch, durability);
        }
        if is_done {
            self.memory.write(batch, durability)?;
        }
        Err(StoreError::Io {
            doing: "writing",
            source: "it was told to fail".into(),
        })
    }

    fn snapshot(&self) -> Box<dyn Reader + '_> {
        self.memory.snapshot()
    }

    fn freeze(&self) -> Result<Box<dyn FrozenStore>, StoreError> {
        self.memory.freeze()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.memory.sync()
    }

    fn approximate_bytes(&self, column: Column, keys: &KeyRange) -> Result<u64, StoreError> {
        self.memory.approximate_bytes(column, keys)
    }

    fn compact_range(&self, column: Column, keys: &KeyRange) -> Result<(), StoreError> {
        self.memory.compact_range(column, keys)
    }

    fn condition(&self) -> Condition {
        self.memory.condition()
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.memory.gauges()
    }
}
