//! The pages of one filter as they were at one moment.

use crate::chain::address::PageAddress;
use crate::chain::meta::Chain;
use crate::page::{FilterId, PageId};
use crate::pages::PageGeometry;
use crate::pages::image::{self, PageImage};
use crate::store::{Snapshot, StoreError};
use crate::stored::{self, PageVisitor};
use std::ops::{ControlFlow, Range};

/// Shows `each` every page of the spans that was ever written to, until it ends that. Where
/// nothing is held that others wait for, `between` is called, which may end it, too.
///
/// # Errors
/// Why it was ended, or the store can't be read.
pub(super) fn each_page<E: From<StoreError>>(
    view: &Snapshot<'_>,
    (id, chain): (FilterId, &Chain),
    spans: &[Range<PageId>],
    max_entries: usize,
    between: &mut dyn FnMut() -> Result<(), E>,
    each: &mut dyn FnMut(PageAddress, &PageImage<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut reading = Reading {
        id,
        chain,
        between,
        each,
        ended: None,
    };
    // It breaks for no other reason than the one that it keeps.
    let _ = stored::each_page(view, spans, max_entries, &mut reading)?;
    reading.ended.map_or(Ok(()), Err)
}

struct Reading<'a, E> {
    id: FilterId,
    chain: &'a Chain,
    between: &'a mut dyn FnMut() -> Result<(), E>,
    each: &'a mut dyn FnMut(PageAddress, &PageImage<'_>) -> Result<(), E>,
    ended: Option<E>,
}

impl<E> Reading<'_, E> {
    /// Where a page lies; `None`: it is of no sub-filter.
    fn address_of(&self, id: PageId) -> Option<PageAddress> {
        let is_ours = id.filter == self.id;
        let position = is_ours.then(|| self.chain.position_of(id.ordinal))??;
        Some(PageAddress::new(position, id.page.0))
    }

    fn flow(&mut self, so_far: Result<(), E>) -> ControlFlow<()> {
        match so_far {
            Ok(()) => ControlFlow::Continue(()),
            Err(ended) => {
                self.ended = Some(ended);
                ControlFlow::Break(())
            }
        }
    }
}

impl<E> PageVisitor for Reading<'_, E> {
    fn between(&mut self) -> ControlFlow<()> {
        let so_far = (self.between)();
        self.flow(so_far)
    }

    fn geometry(&self, id: PageId) -> Option<PageGeometry> {
        let sub = self.address_of(id)?.sub as usize;
        Some(PageGeometry::of(&self.chain.sub_filter(sub)?.layout))
    }

    fn page(
        &mut self,
        id: PageId,
        image: Result<&[u8], StoreError>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let image = image?;
        let (Some(at), Some(geometry)) = (self.address_of(id), self.geometry(id)) else {
            return Ok(ControlFlow::Continue(()));
        };
        let page = image::decode(image, geometry.page_bytes(), id)?;
        let so_far = (self.each)(at, &page);
        Ok(self.flow(so_far))
    }
}
