//! Reading pages for a question that are not resident: off the async threads,
//! all of them in one batch, within the memory that all such reads may take.

use super::caller::Caller;
use super::error::Result;
use super::filters::{FilterView, OpenFilter};
use super::pages::{Beside, Images};
use super::slot::lane_of;
use super::state::EngineState;
use super::store_work::PagesHeld;
use crate::chain::address::PageAddress;
use std::sync::Arc;

/// Rounds through the store before the lane is kept from publishing for one.
pub(super) const ROUNDS: usize = 6;

/// Pages of one filter that are wanted: ascending and distinct.
pub(super) type Wanted = (Arc<FilterView>, Vec<PageAddress>);

/// What was read, and the memory that it counts as.
#[derive(Default)]
pub(super) struct ColdImages {
    pub(super) images: Images,
    _held: Option<PagesHeld>,
}

impl EngineState {
    /// From the last [round](ROUNDS) on: nothing is published to the filter until what
    /// is returned is dropped. So what was read is asked of at last; a page that was
    /// published to since is resident, or is read once more.
    pub(super) fn hold_publications(
        &self,
        filter: &OpenFilter,
        round: usize,
    ) -> Option<impl Sized> {
        let hold = || {
            let lane = lane_of(&filter.name, self.lanes.lanes);
            self.checkpointer.hold_publications(lane)
        };
        (round >= ROUNDS).then(hold).flatten()
    }

    /// Reads those of the pages that are not resident. Each filter occurs once. The
    /// first round is 1.
    ///
    /// # Errors
    /// Those of [`StoreWork::run`](super::store_work::StoreWork::run), or a page can't
    /// be read.
    pub(super) async fn read_cold(
        &self,
        caller: &Caller,
        mut wanted: Vec<Wanted>,
        round: usize,
    ) -> Result<ColdImages> {
        for (view, pages) in &mut wanted {
            pages.retain(|page| {
                let table = view.tables.get(page.sub as usize);
                table.is_some_and(|table| !self.cache.is_resident(table, page.page))
            });
        }
        let pages = wanted.iter().map(|(_, pages)| pages.len()).sum();
        if pages == 0 {
            return Ok(ColdImages::default());
        }
        caller.end_turn();
        let held = self.store_work.hold_pages(caller, pages).await?;
        let loader = Arc::clone(&self.loader);
        let beside = match round {
            1 => Beside::Some,
            _ => Beside::All,
        };
        let reading = move || {
            let of_each = wanted.iter().map(|(view, pages)| (&*view.tables, &**pages));
            let images = loader.read_of_many(of_each, beside)?;
            Ok(ColdImages {
                images,
                _held: Some(held),
            })
        };
        self.store_work.run(caller, reading).await?
    }
}
