//! Reading pages for a question that are not resident: off the async threads,
//! all of them in one batch, within the memory that all such reads may take.

use super::caller::Caller;
use super::error::EngineError;
use super::filters::FilterView;
use super::pages::{Images, Loader, PageCache};
use super::store_work::{PagesHeld, StoreWork};
use crate::chain::address::PageAddress;
use std::sync::Arc;

/// Pages of one filter that are wanted: ascending and distinct.
pub(super) type Wanted = (Arc<FilterView>, Vec<PageAddress>);

/// What it takes to read them.
pub(super) struct ColdPages {
    cache: Arc<PageCache>,
    loader: Arc<Loader>,
    work: Arc<StoreWork>,
}

/// What was read, and the memory that it counts as.
#[derive(Default)]
pub(super) struct ColdImages {
    pub(super) images: Images,
    _held: Option<PagesHeld>,
}

impl ColdPages {
    pub(super) fn new(cache: Arc<PageCache>, loader: Arc<Loader>, work: Arc<StoreWork>) -> Self {
        ColdPages {
            cache,
            loader,
            work,
        }
    }

    /// Reads those of the pages that are not resident. Each filter occurs once.
    ///
    /// # Errors
    /// Those of [`StoreWork::run`], or a page can't be read.
    pub(super) async fn read(
        &self,
        caller: &Caller,
        mut wanted: Vec<Wanted>,
    ) -> Result<ColdImages, EngineError> {
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
        let held = self.work.hold_pages(caller, pages).await?;
        let loader = Arc::clone(&self.loader);
        let reading = move || {
            let of_each = wanted.iter().map(|(view, pages)| (&*view.tables, &**pages));
            let images = loader.read_of_many(of_each)?;
            Ok(ColdImages {
                images,
                _held: Some(held),
            })
        };
        self.work.run(caller, reading).await?
    }
}
