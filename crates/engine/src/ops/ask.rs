//! Whether, and how often, items are in a filter: asked beside its lane.

use crate::batch::ItemBatch;
use crate::error::Result;
use crate::filters::OpenFilter;
use crate::name::FilterName;
use crate::reader::{self, Count, Exists, Question};
use crate::state::{Engine, EngineState};
use std::sync::Arc;

impl Engine {
    /// Whether each item is there. "No" is right, "yes" is right but for the
    /// filter's false-positive rate.
    ///
    /// # Errors
    /// [`EngineError::NotFound`](crate::EngineError::NotFound), [`EngineError::TooManyProbes`](crate::EngineError::TooManyProbes), or a page can't
    /// be read.
    pub async fn exists(&self, name: &FilterName, items: &ItemBatch) -> Result<Vec<bool>> {
        self.seen_within(name, items, None).await
    }

    /// Whether each item was seen within the last so many seconds, in a filter
    /// whose items expire; `None`: whether it is there, in any filter. "No" is right:
    /// what was seen at most so long ago is found, and also what was seen at most a
    /// resolution of the window before.
    ///
    /// # Errors
    /// [`EngineError::NoWindow`](crate::EngineError::NoWindow); [`EngineError::BeyondWindow`](crate::EngineError::BeyondWindow) if that is longer
    /// than the window; those of [`exists`](Self::exists).
    pub async fn seen_within(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        seconds: Option<u64>,
    ) -> Result<Vec<bool>> {
        let question = Exists::within(seconds);
        let results = self.ask(name, items, question).await?;
        self.state.count_found(&results);
        Ok(results)
    }

    /// How often each item is there: at least its true count.
    ///
    /// # Errors
    /// [`EngineError::NotFound`](crate::EngineError::NotFound), [`EngineError::TooManyProbes`](crate::EngineError::TooManyProbes), or a page can't
    /// be read.
    pub async fn count(&self, name: &FilterName, items: &ItemBatch) -> Result<Vec<u64>> {
        let results = self.ask(name, items, Count::default()).await?;
        self.state.count_items("count", "answered", results.len());
        Ok(results)
    }

    async fn ask<Q: Question>(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        question: Q,
    ) -> Result<Vec<Q::Answer>> {
        loop {
            let filter = self.find(name).await?;
            if let Some(answers) = self.ask_of(&filter, items, question).await? {
                return Ok(answers);
            }
        }
    }

    /// The same of a filter that was found. `None` if it is gone meanwhile.
    pub(super) async fn ask_of<Q: Question>(
        &self,
        filter: &Arc<OpenFilter>,
        items: &ItemBatch,
        question: Q,
    ) -> Result<Option<Vec<Q::Answer>>> {
        let (state, caller) = (&self.state, &self.caller);
        let question = question.of_filter(filter, || state.clock.now_ms())?;
        let sub_filters = filter.view.load().tables.len();
        state.check_probes(items.len(), sub_filters)?;
        let at_once = reader::ask_at_once(question, filter, items, &state.cache);
        let asked = match at_once {
            Some(asked) => asked,
            // Seldom, and far larger than all else that this future holds.
            None => Box::pin(reader::ask(question, filter, items, state, caller)).await?,
        };
        state.cached_reads.inc_by(asked.cached_pages);
        state.metrics.read_retries.inc_by(asked.retries);
        // Pages of a filter that is gone read as zeros.
        if filter.is_removed() {
            return Ok(None);
        }
        Ok(Some(asked.answers))
    }
}

impl EngineState {
    /// Counts answers of yes and no.
    pub(super) fn count_found(&self, results: &[bool]) {
        let found = results.iter().filter(|&&found| found).count();
        self.items_found.inc_by(found as u64);
        let absent = results.len() - found;
        self.items_absent.inc_by(absent as u64);
    }
}
