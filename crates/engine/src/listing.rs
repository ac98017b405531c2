//! The list of filters, a page at a time.
//!
//! A description may have many KiB, most of which the list does not show: so few
//! of them are in memory at a time, and a page ends where it has read a lot.

use super::answer::{FilterPage, FilterSummary};
use super::filters::{decode, stored_name};
use super::name::FilterName;
use super::ttl::has_ended;
use crate::store::{PageStore, StoreError};

/// Descriptions that are read at once: a quarter of a MiB at most, for filters of
/// few sub-filters.
const AT_ONCE: usize = 16;

/// Bytes of descriptions after which a page ends: those of thousands of usual
/// filters.
const PAGE_BYTES: usize = 1 << 20;

/// Up to `limit` filters that have not ended, whose names start with `prefix`,
/// contain `part` and are greater than `after`.
pub(super) fn page_of(
    store: &PageStore,
    prefix: &str,
    part: &str,
    after: Option<FilterName>,
    limit: usize,
    now_ms: u64,
) -> Result<FilterPage, StoreError> {
    let (mut page, mut bytes) = (FilterPage::default(), 0);
    // One that was looked at, and whose place nobody is told before the page ends.
    let mut last = after;
    while bytes < PAGE_BYTES {
        // One more than asked for tells whether there is a next page.
        let wanted = match part {
            "" => (limit + 1 - page.filters.len()).min(AT_ONCE),
            _ => AT_ONCE,
        };
        let found = store.list_filters(prefix, last.as_ref().map(FilterName::as_str), wanted)?;
        let is_end = found.len() < wanted;
        for stored in found {
            let name = stored_name(stored.id, &stored.name)?;
            bytes += stored.meta.len();
            if !has_ended(stored.expiry, now_ms) && name.as_str().contains(part) {
                if page.filters.len() == limit {
                    page.next = last;
                    return Ok(page);
                }
                let chain = decode(stored.id, &stored.meta)?;
                let chain = chain.as_of(now_ms);
                page.filters.push(FilterSummary {
                    name: name.clone(),
                    params: chain.params().clone(),
                    items: chain.items(),
                    slot_bytes: chain.slot_bytes(),
                    sub_filters: chain.sub_filter_count(),
                    load: chain.load(),
                    expected_false_positive_rate: chain.false_positive_rate(),
                    keeps_promise: chain.keeps_promise(),
                    created_at_ms: chain.created_at_ms(),
                    expiry: stored.expiry,
                });
            }
            last = Some(name);
        }
        if is_end {
            return Ok(page);
        }
    }
    page.next = last;
    Ok(page)
}
