//! Whether, and how often, items are in a filter: asked beside its lane, and
//! through it only for items that commits keep overtaking.

use crate::chain::paged::values::ValueCopies;
use crate::cuckoo::hash::ItemHash;
use crate::engine::batch::ItemBatch;
use crate::engine::caller::Caller;
use crate::engine::error::EngineError;
use crate::engine::filters::OpenFilter;
use crate::engine::lane::command::{Command, ItemOp, Outcome, ValueOp};
use crate::engine::lane::submit::hash_items;
use crate::engine::name::FilterName;
use crate::engine::ops::values::check_has_values;
use crate::engine::reader::{self, Count, Exists, HasRow, HasValue, Question, Values};
use crate::engine::state::{Engine, EngineState};
use std::sync::Arc;

impl Engine {
    /// Whether each item is there. "No" is right, "yes" is right but for the
    /// filter's false-positive rate.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::TooManyProbes`], or a page can't
    /// be read.
    pub async fn exists(
        &self,
        name: &FilterName,
        items: &ItemBatch,
    ) -> Result<Vec<bool>, EngineError> {
        let question = Exists::within(None);
        let results = self.state.ask(&self.caller, name, items, question).await?;
        self.state.count_found(&results);
        Ok(results)
    }

    /// Whether each item was seen within the last so many seconds, in a filter
    /// whose items expire. "No" is right: what was seen at most so long ago is
    /// found, and also what was seen at most a resolution of the window before.
    ///
    /// # Errors
    /// [`EngineError::NoWindow`]; [`EngineError::BeyondWindow`] if that is longer
    /// than the window; those of [`exists`](Self::exists).
    pub async fn seen_within(
        &self,
        name: &FilterName,
        items: &ItemBatch,
        seconds: u64,
    ) -> Result<Vec<bool>, EngineError> {
        let question = Exists::within(Some(seconds));
        let results = self.state.ask(&self.caller, name, items, question).await?;
        self.state.count_found(&results);
        Ok(results)
    }

    /// How often each item is there: at least its true count.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::TooManyProbes`], or a page can't
    /// be read.
    pub async fn count(
        &self,
        name: &FilterName,
        items: &ItemBatch,
    ) -> Result<Vec<u64>, EngineError> {
        let results = self
            .state
            .ask(&self.caller, name, items, Count::default())
            .await?;
        self.state.count_items("count", "answered", results.len());
        Ok(results)
    }
}

/// A question that a lane can answer, too.
pub(super) trait LaneQuestion: Question {
    /// What the lane is asked to do with the items at some positions.
    fn command(self, items: Arc<[ItemHash]>, positions: &[usize]) -> Command;

    /// What it is about in a filter, as of a moment in milliseconds since 1970.
    ///
    /// # Errors
    /// The filter is of another kind.
    fn about_filter(self, _: &OpenFilter, _: impl Fn() -> u64) -> Result<Self, EngineError> {
        Ok(self)
    }

    /// Its answers, one an item; `None` if the filter was replaced.
    fn answers(outcome: Outcome) -> Option<Vec<Self::Answer>>;
}

impl LaneQuestion for Exists {
    fn command(self, items: Arc<[ItemHash]>, _: &[usize]) -> Command {
        Command::Items(ItemOp::Exists(self.since), items, 0)
    }

    fn about_filter(
        self,
        filter: &OpenFilter,
        now_ms: impl Fn() -> u64,
    ) -> Result<Self, EngineError> {
        self.check(filter)?;
        Ok(self.at(&filter.view.load(), now_ms))
    }

    fn answers(outcome: Outcome) -> Option<Vec<bool>> {
        match outcome {
            Outcome::Found(found) => Some(found),
            _ => None,
        }
    }
}

impl LaneQuestion for Count {
    fn command(self, items: Arc<[ItemHash]>, _: &[usize]) -> Command {
        Command::Items(ItemOp::Count, items, self.now_ms)
    }

    fn about_filter(
        self,
        filter: &OpenFilter,
        now_ms: impl Fn() -> u64,
    ) -> Result<Self, EngineError> {
        let Exists { since, .. } = Exists::default().at(&filter.view.load(), &now_ms);
        let now_ms = since.map_or(0, |_| now_ms());
        Ok(Count { since, now_ms })
    }

    fn answers(outcome: Outcome) -> Option<Vec<u64>> {
        match outcome {
            Outcome::Counted(counts) => Some(counts),
            _ => None,
        }
    }
}

impl LaneQuestion for HasValue<'_> {
    fn command(self, items: Arc<[ItemHash]>, positions: &[usize]) -> Command {
        let values = positions.iter().map(|&at| self.about(at).value());
        Command::Values(ValueOp::Exists, items, values.collect())
    }

    fn answers(outcome: Outcome) -> Option<Vec<bool>> {
        Exists::answers(outcome)
    }
}

impl LaneQuestion for HasRow<'_> {
    fn command(self, items: Arc<[ItemHash]>, _: &[usize]) -> Command {
        let HasRow(test) = self;
        Command::Rows(Arc::clone(test), items)
    }

    fn answers(outcome: Outcome) -> Option<Vec<bool>> {
        Exists::answers(outcome)
    }
}

impl LaneQuestion for Values {
    fn command(self, items: Arc<[ItemHash]>, _: &[usize]) -> Command {
        Command::Values(ValueOp::List, items, Arc::from([]))
    }

    fn about_filter(self, filter: &OpenFilter, _: impl Fn() -> u64) -> Result<Self, EngineError> {
        check_has_values(filter)?;
        Ok(self)
    }

    fn answers(outcome: Outcome) -> Option<Vec<Vec<ValueCopies>>> {
        match outcome {
            Outcome::Listed(values) => Some(values),
            _ => None,
        }
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

    pub(super) async fn ask<Q: LaneQuestion>(
        &self,
        caller: &Caller,
        name: &FilterName,
        items: &ItemBatch,
        question: Q,
    ) -> Result<Vec<Q::Answer>, EngineError> {
        loop {
            let filter = self.find(caller, name).await?;
            if let Some(answers) = self.ask_of(caller, &filter, items, question).await? {
                return Ok(answers);
            }
        }
    }

    /// The same of a filter that was found. `None` if it is gone meanwhile.
    pub(super) async fn ask_of<Q: LaneQuestion>(
        &self,
        caller: &Caller,
        filter: &Arc<OpenFilter>,
        items: &ItemBatch,
        question: Q,
    ) -> Result<Option<Vec<Q::Answer>>, EngineError> {
        let question = question.about_filter(filter, || self.clock.now_ms())?;
        let sub_filters = filter.view.load().tables.len();
        self.check_probes(items.len(), sub_filters)?;
        let at_once = reader::ask_at_once(question, filter, items, &self.cache);
        let mut asked = match at_once {
            Some(asked) => asked,
            // Seldom, and far larger than all else that this future holds.
            None => {
                let (cache, cold) = (&self.cache, &self.cold_pages);
                let asking = reader::ask(question, filter, items, cache, cold, caller);
                Box::pin(asking).await?
            }
        };
        self.cached_reads.inc_by(asked.cached_pages);
        self.metrics.read_retries.inc_by(asked.retries);
        // Pages of a filter that is gone read as zeros.
        if filter.is_removed() {
            return Ok(None);
        }
        if asked.open.is_empty() {
            return Ok(Some(asked.answers));
        }
        let answers = Box::pin(self.ask_lane(question, caller, filter, items, &asked.open));
        let Some(answers) = answers.await? else {
            return Ok(None);
        };
        for (&index, answer) in asked.open.iter().zip(answers) {
            if let Some(slot) = asked.answers.get_mut(index) {
                *slot = answer;
            }
        }
        Ok(Some(asked.answers))
    }

    /// Has the lane answer a question about the items at some positions, as
    /// many at once as may be: a question may ask for more pages than a command
    /// may touch. `None` if the filter was replaced.
    pub(super) async fn ask_lane<Q: LaneQuestion>(
        &self,
        question: Q,
        caller: &Caller,
        filter: &Arc<OpenFilter>,
        items: &ItemBatch,
        positions: &[usize],
    ) -> Result<Option<Vec<Q::Answer>>, EngineError> {
        let mut answers = Vec::with_capacity(positions.len());
        let mut at_once = positions.len();
        let mut left = positions;
        while !left.is_empty() {
            let (some, rest) = left.split_at(at_once.min(left.len()));
            let mut batch = ItemBatch::new();
            for item in some.iter().filter_map(|&index| items.get(index)) {
                batch.push(item);
            }
            let hashes = hash_items(caller, &filter.view.load_full().chain, &batch).await?;
            let command = question.command(hashes, some);
            let asked = self.lanes.submit(caller, filter, command, None).await;
            let outcome = match asked {
                Err(EngineError::TooManyPages { .. }) if at_once > 1 => {
                    at_once /= 2;
                    continue;
                }
                asked => asked?,
            };
            match Q::answers(outcome) {
                Some(some) => answers.extend(some),
                None => return Ok(None),
            }
            left = rest;
        }
        Ok(Some(answers))
    }
}
