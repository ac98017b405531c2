//! In which slots of a filter an item lies.
//!
//! Answered as a question is, from the pages as they are published, all of
//! them as they were at one moment. It is for people: where commits keep
//! overtaking it, it gives up instead of holding up the lane.

use crate::chain::locate::{Located, locate};
use crate::cold::{ColdImages, ROUNDS};
use crate::error::{Overload, Result};
use crate::name::FilterName;
use crate::reader::{PublishedWords, Reshapes, all_pages};
use crate::state::Engine;

/// How often it starts over because the filter was replaced.
const RESTARTS: usize = 8;

impl Engine {
    /// In which slots an item lies, or would: of each sub-filter its candidate
    /// buckets and what their slots hold. Reads up to two pages a sub-filter.
    ///
    /// # Errors
    /// [`EngineError::NotFound`](crate::EngineError::NotFound), a page can't be read, or
    /// [`Overload::FilterChanges`] if the filter changes all the time.
    pub async fn locate(&self, name: &FilterName, item: &[u8]) -> Result<Located> {
        let state = &self.state;
        for _ in 0..RESTARTS {
            let filter = self.find(name).await?;
            let mut read = ColdImages::default();
            let mut round = 0;
            let mut reshapes = Reshapes::default();
            while round < ROUNDS {
                let view = filter.view.load_full();
                let hash = view.chain.hash(item);
                let (located, again) = {
                    let mut words = PublishedWords::new(&state.cache, &filter, &view, &read.images);
                    let located =
                        words.settle_with(|chain, words| locate(chain, hash, words), |_| false);
                    state.cached_reads.inc_by(words.cached_pages);
                    state.metrics.read_retries.inc_by(words.retries);
                    let again = located.is_none() && reshapes.ask_again(&words);
                    (located, again)
                };
                if again {
                    continue;
                }
                round += 1;
                // Pages of a filter that is gone read as zeros.
                if filter.is_removed() {
                    break;
                }
                if let Some(located) = located {
                    state.count_items("locate", "answered", 1);
                    return Ok(located);
                }
                let pages = all_pages(&view.chain, std::iter::once(&hash));
                // What was read before counts no longer.
                drop(read);
                read = state
                    .read_cold(&self.caller, vec![(view, pages)], round)
                    .await?;
            }
        }
        Err(Overload::FilterChanges.into())
    }
}
