//! In which slots of a filter an item lies.
//!
//! Answered as a question is, from the pages as they are published, all of
//! them as they were at one moment. It is for people: where commits keep
//! overtaking it, it gives up instead of going through the lane.

use crate::chain::locate::{Located, locate};
use crate::engine::answer::{EngineError, FilterName};
use crate::engine::pages::Images;
use crate::engine::reader::{PublishedWords, ROUNDS, all_pages, off_thread};
use crate::engine::shared::Shared;
use std::sync::Arc;

/// How often it starts over because the filter was replaced.
const RESTARTS: usize = 8;

impl Shared {
    pub(crate) async fn locate(
        &self,
        name: &FilterName,
        item: &[u8],
    ) -> Result<Located, EngineError> {
        for _ in 0..RESTARTS {
            let filter = self.find(name).await?;
            let mut images = Images::default();
            for _ in 0..ROUNDS {
                let view = filter.view.load_full();
                let hash = view.chain.hash(item);
                let located = {
                    let mut words = PublishedWords::new(&self.cache, &view, &images);
                    let located =
                        words.settle_with(|chain, words| locate(chain, hash, words), |_| false);
                    self.metrics
                        .page_reads
                        .with_label_values(&["cache"])
                        .inc_by(words.cached_pages);
                    self.metrics.read_retries.inc_by(words.retries);
                    located
                };
                // Pages of a filter that is gone read as zeros.
                if filter.is_removed() {
                    break;
                }
                if let Some(located) = located {
                    self.count_items("locate", "answered", 1);
                    return Ok(located);
                }
                let pages = all_pages(&view.chain, std::iter::once(&hash));
                let loader = Arc::clone(&self.loader);
                images = off_thread(move || loader.read(&view.tables, &pages)).await??;
            }
        }
        Err(EngineError::Overloaded {
            what: "the filter changes faster than it can be looked into",
        })
    }
}
