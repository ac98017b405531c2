//! What a redo record says about a page, as recovery and the followers of a lane
//! take it to the page's frame.

use super::pages::{PageGeometry, image};
use crate::chain::pages::WholePage;
use crate::page::{PageId, Sequence};
use crate::store::StoreError;
use crate::store::redo::RedoWrite;

/// What a record says about one page.
#[derive(Default)]
pub(super) struct LoggedPage<'a> {
    /// The page as it is set.
    pub(super) whole: Option<WholePage>,
    /// Slots and counters.
    pub(super) writes: Vec<RedoWrite<'a>>,
    /// Whether it is no more.
    pub(super) is_dropped: bool,
}

impl<'a> LoggedPage<'a> {
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
        writes: Vec<RedoWrite<'a>>,
    ) -> Result<LoggedPage<'a>, StoreError> {
        if !writes.iter().all(|write| geometry.fits(write)) {
            return Err(StoreError::Corrupt {
                what: format!("redo record {}", sequence.0),
                reason: format!("{id} has no such slot"),
            });
        }
        let mut page = LoggedPage::default();
        for write in writes {
            match write {
                RedoWrite::Slot(_) | RedoWrite::Counter(_) => page.writes.push(write),
                RedoWrite::Whole(whole) => {
                    let mut scratch = Vec::new();
                    let bytes = whole.image(&mut scratch);
                    let bytes = bytes.map_err(|error| error.in_record(sequence))?;
                    page.whole = Some(image::whole(bytes, geometry, id)?);
                }
                RedoWrite::Dropped(_) => page.is_dropped = true,
            }
        }
        Ok(page)
    }
}
