//! The frames of the pages that a commit changes, taken before it is written:
//! after that nothing may fail.

use super::changes::Changes;
use crate::chain::address::PageAddress;
use crate::pages::{FrameIndex, Loader, PageCache, PageTable};
use crate::store::StoreError;
use std::sync::Arc;

/// The frame of every page that a commit changes. Pages that were there are
/// pinned by the group commit; those that are not published yet get their frames here,
/// and are pinned until this is dropped.
pub(super) struct Frames<'a> {
    cache: &'a PageCache,
    /// Aligned with the changes.
    pub(super) of_changes: Vec<ChangedFrames>,
    new: Vec<NewFrame>,
    /// Whether the new pages have come to be.
    pub(super) are_published: bool,
}

/// The frames of what changes in one filter.
#[derive(Default)]
pub(super) struct ChangedFrames {
    /// Aligned with the pages in which words change.
    pub(super) changed: Vec<FrameIndex>,
    /// Aligned with the pages that are set as a whole.
    pub(super) wholes: Vec<FrameIndex>,
}

/// The frame of a page that comes to be with the commit.
struct NewFrame {
    index: FrameIndex,
    table: Arc<PageTable>,
    page: u32,
}

impl<'a> Frames<'a> {
    pub(super) fn take(
        cache: &'a PageCache,
        loader: &Loader,
        changes: &[Changes],
    ) -> Result<Self, StoreError> {
        let mut frames = Frames {
            cache,
            of_changes: Vec::with_capacity(changes.len()),
            new: Vec::new(),
            are_published: false,
        };
        for it in changes {
            let mut of_each = |page: PageAddress| -> Result<FrameIndex, StoreError> {
                let table = it.table(page).ok_or(StoreError::PageNotResident)?;
                if !it.is_new(page) {
                    let pinned = cache.resident_frame(table, page.page);
                    return pinned.ok_or(StoreError::PageNotResident);
                }
                let index = loader.install_new(table, page.page)?;
                frames.new.push(NewFrame {
                    index,
                    table: Arc::clone(table),
                    page: page.page,
                });
                Ok(index)
            };
            let changed = it.pages.pages.iter().map(|page| of_each(page.address));
            let changed = changed.collect::<Result<_, _>>()?;
            let wholes = it.pages.wholes.iter().map(|&(page, _)| of_each(page));
            let wholes = wholes.collect::<Result<_, _>>()?;
            frames.of_changes.push(ChangedFrames { changed, wholes });
        }
        Ok(frames)
    }
}

impl Drop for Frames<'_> {
    fn drop(&mut self) {
        for new in &self.new {
            self.cache.unpin(new.index);
            if !self.are_published {
                self.cache.take_back(&new.table, new.page);
            }
        }
    }
}
