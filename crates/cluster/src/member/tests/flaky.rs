//! Stores of which some unforced writes fail, before or after they are done.

use crate::memory::{Failing, MemoryStore};
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

    /// Has writes of a store be among those.
    pub(super) fn befall(&self, store: &MemoryStore) {
        let failures = self.clone();
        store.fail(move || failures.draw());
    }

    fn draw(&self) -> Option<Failing> {
        let (percent, random) = &mut *self.0.lock();
        let (fails, is_done) = (random.percent(*percent), random.percent(50));
        fails.then_some(match is_done {
            true => Failing::After,
            false => Failing::Before,
        })
    }
}
