//! What the filters are like, all together and the largest by name, for the
//! metrics; from time to time all of them, for their history.
//!
//! Descriptions are read from the store, some at a time, by a thread that rests
//! most of the time: few filters are looked at every few seconds, a million of
//! them every few minutes. A name is a label only of the largest filters, as
//! many as the server was told, so that clients can't make series without end.

use crate::chain::meta::Chain;
use crate::filters::decode;
use crate::history::{MAX_SAMPLES, Noted};
use crate::metrics::Metrics;
use crate::state::EngineState;
use crate::store::StoreError;
use crate::threads::repeat;
use crate::ttl::has_ended;
use crossbeam_channel::{Receiver, TryRecvError};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// Most filters that may be series of their own.
pub const MAX_NAMED_FILTERS: usize = 1000;

/// Shortest pause between two surveys.
const PAUSE: Duration = Duration::from_secs(5);

/// A pause is so many times as long as the survey before it took.
const REST: u32 = 20;

/// Descriptions that are read at once.
const FILTERS_AT_ONCE: usize = 500;

/// A filter that may not grow is nearly full from this share of its reachable
/// slots on.
const NEARLY_FULL: f64 = 0.9;

/// Doublings that are few, if a filter has no more left.
const FEW_DOUBLINGS: u32 = 2;

/// What a survey found.
#[derive(Debug, Default, PartialEq)]
struct Survey {
    filters: i64,
    bytes: i64,
    over_error_rate: i64,
    nearly_full: i64,
    near_growth_limit: i64,
    /// The largest, in no order; up to twice as many as are wanted.
    largest: Vec<Surveyed>,
}

/// A filter among the largest.
#[derive(Clone, Debug, PartialEq)]
struct Surveyed {
    name: String,
    items: u64,
    bytes: u64,
    error: f64,
    promised: Option<f64>,
    final_fill: f64,
}

impl Survey {
    fn add(&mut self, name: &str, chain: &Chain, named: usize) {
        let it = Surveyed {
            name: name.to_owned(),
            items: chain.items(),
            bytes: chain.slot_bytes(),
            error: chain.false_positive_rate(),
            promised: chain.params().error_rate(),
            final_fill: chain.final_fill().unwrap_or_default(),
        };
        self.filters += 1;
        self.bytes = self.bytes.saturating_add_unsigned(it.bytes);
        self.over_error_rate += i64::from(it.promised.is_some_and(|rate| it.error > rate));
        self.nearly_full += i64::from(it.final_fill > NEARLY_FULL);
        let left = chain.doublings_left().unwrap_or(u32::MAX);
        self.near_growth_limit += i64::from(left <= FEW_DOUBLINGS);
        if named > 0 {
            self.largest.push(it);
            if self.largest.len() >= 2 * named {
                self.keep_largest(named);
            }
        }
    }

    fn keep_largest(&mut self, named: usize) {
        let largest = &mut self.largest;
        largest.sort_unstable_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        largest.truncate(named);
    }

    /// Shows what was found; series of filters that are no longer among the
    /// largest end.
    fn publish(&self, metrics: &Metrics, shown: &mut BTreeSet<String>) {
        metrics.filters.set(self.filters);
        metrics.filters_bytes.set(self.bytes);
        metrics.filters_over_error_rate.set(self.over_error_rate);
        metrics.filters_nearly_full.set(self.nearly_full);
        let near_limit = &metrics.filters_near_growth_limit;
        near_limit.set(self.near_growth_limit);
        let names: BTreeSet<String> = self.largest.iter().map(|it| it.name.clone()).collect();
        for gone in shown.difference(&names) {
            let label = [gone.as_str()];
            // One that was never there is as good as removed.
            let _ = metrics.filter_items.remove_label_values(&label);
            let _ = metrics.filter_bytes.remove_label_values(&label);
            let _ = metrics.filter_error.remove_label_values(&label);
            let _ = metrics.filter_promise.remove_label_values(&label);
            let _ = metrics.filter_final_fill.remove_label_values(&label);
        }
        for it in &self.largest {
            let label = [it.name.as_str()];
            let (items, bytes) = (&metrics.filter_items, &metrics.filter_bytes);
            for (family, value) in [(items, it.items), (bytes, it.bytes)] {
                family.with_label_values(&label).set(value as i64);
            }
            metrics.filter_error.with_label_values(&label).set(it.error);
            match it.promised {
                Some(rate) => metrics.filter_promise.with_label_values(&label).set(rate),
                // Another filter may have had the name.
                None => drop(metrics.filter_promise.remove_label_values(&label)),
            }
            let fill = metrics.filter_final_fill.with_label_values(&label);
            fill.set(it.final_fill);
        }
        *shown = names;
    }
}

/// Surveys until the engine stops.
pub(crate) fn run(state: &Weak<EngineState>, stop: &Receiver<()>, named: usize) {
    let named = named.min(MAX_NAMED_FILTERS);
    let mut shown = BTreeSet::new();
    repeat(state, stop, Duration::ZERO, |state| {
        let started = Instant::now();
        match survey(state, stop, named) {
            Ok(Some(survey)) => survey.publish(&state.metrics, &mut shown),
            Ok(None) => return ControlFlow::Break(()),
            Err(error) => {
                tracing::warn!(%error, "the filters could not be surveyed; it is tried again");
            }
        }
        ControlFlow::Continue(PAUSE.max(started.elapsed() * REST))
    });
}

/// Looks at all filters; `None` if the engine stops meanwhile.
fn survey(
    state: &EngineState,
    stop: &Receiver<()>,
    named: usize,
) -> Result<Option<Survey>, StoreError> {
    let store = &state.store;
    let mut survey = Survey::default();
    let started_ms = state.clock.now_ms();
    let mut round = state.history.is_due(started_ms).then(Vec::new);
    let mut after: Option<String> = None;
    loop {
        if stop.try_recv() != Err(TryRecvError::Empty) {
            return Ok(None);
        }
        let now_ms = state.clock.now_ms();
        let filters = store.list_filters("", after.as_deref(), FILTERS_AT_ONCE)?;
        for filter in filters.iter().filter(|it| !has_ended(it.expiry, now_ms)) {
            let chain = decode(filter.id, &filter.meta)?;
            survey.add(&filter.name, &chain, named);
            if let Some(round) = round.as_mut().filter(|it| it.len() < MAX_SAMPLES) {
                round.push(Noted::of(filter.id, &chain.as_of(now_ms)));
            }
        }
        match filters.last() {
            Some(last) if filters.len() == FILTERS_AT_ONCE => after = Some(last.name.clone()),
            _ => break,
        }
    }
    survey.keep_largest(named);
    state.history.keep(started_ms, round.unwrap_or_default());
    Ok(Some(survey))
}

#[cfg(test)]
mod tests;
