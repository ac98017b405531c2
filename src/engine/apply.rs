//! What redo records say about pages, as recovery and the followers of a lane take
//! it to the pages' frames.

use super::pages::{PageGeometry, image};
use crate::chain::pages::WholePage;
use crate::page::{FilterId, PageId, Sequence};
use crate::store::StoreError;
use crate::store::redo::RedoWrite;
use std::sync::Arc;

/// Brings the writes of a page together, which a record has in several sections. Most
/// records have one, and stay as they are.
pub(super) fn sort_by_page(writes: &mut [RedoWrite<'_>]) {
    writes.sort_by_key(RedoWrite::page);
}

/// The sorted writes of each filter.
pub(super) fn by_filter<'w, 'a>(
    writes: &'w [RedoWrite<'a>],
) -> impl Iterator<Item = (FilterId, &'w [RedoWrite<'a>])> {
    let of_filter = |write: &RedoWrite<'_>| write.page().filter;
    let all = writes.chunk_by(move |one, next| of_filter(one) == of_filter(next));
    all.filter_map(move |writes| Some((of_filter(writes.first()?), writes)))
}

/// The sorted writes of each page.
pub(super) fn by_page<'w, 'a>(
    writes: &'w [RedoWrite<'a>],
) -> impl Iterator<Item = (PageId, &'w [RedoWrite<'a>])> {
    let all = writes.chunk_by(|one, next| one.page() == next.page());
    all.filter_map(|writes| Some((writes.first()?.page(), writes)))
}

/// What a record says about one page.
pub(super) struct LoggedPage<'w, 'a> {
    /// The page as it is set.
    pub(super) whole: Option<Arc<WholePage>>,
    /// Whether it is no more.
    pub(super) is_dropped: bool,
    /// Whether slots or counters are set.
    pub(super) is_written: bool,
    /// All that is said.
    pub(super) writes: &'w [RedoWrite<'a>],
}

impl<'w, 'a> LoggedPage<'w, 'a> {
    /// Whether it is split or merged.
    pub(super) fn reshapes(&self) -> bool {
        self.whole.is_some() || self.is_dropped
    }

    /// # Errors
    /// A page of that geometry can't ever have had such entries.
    pub(super) fn of(
        geometry: &PageGeometry,
        sequence: Sequence,
        id: PageId,
        writes: &'w [RedoWrite<'a>],
    ) -> Result<LoggedPage<'w, 'a>, StoreError> {
        if !writes.iter().all(|write| geometry.fits(write)) {
            return Err(StoreError::Corrupt {
                what: format!("redo record {}", sequence.0),
                reason: format!("{id} has no such slot"),
            });
        }
        let mut page = LoggedPage {
            whole: None,
            is_dropped: false,
            is_written: false,
            writes,
        };
        for write in writes {
            match write {
                RedoWrite::Slot(_) | RedoWrite::Counter(_) => page.is_written = true,
                RedoWrite::Whole(whole) => {
                    let mut scratch = Vec::new();
                    let bytes = whole.image(&mut scratch);
                    let bytes = bytes.map_err(|error| error.in_record(sequence))?;
                    page.whole = Some(Arc::new(image::whole(bytes, geometry, id)?));
                }
                RedoWrite::Dropped(_) => page.is_dropped = true,
            }
        }
        Ok(page)
    }
}
