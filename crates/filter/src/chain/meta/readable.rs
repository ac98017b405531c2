//! A filter that can be asked and nothing else, of what a file says of its pages.

use super::chain::{Chain, Pages};
use super::links::Links;
use super::table::Epochs;
use crate::chain::params::{
    ClassicPlacement, Epoch, FilterParams, PagedPlacement, Placement, Window,
};
use crate::cuckoo::hash::HashKey;
use crate::cuckoo::layout::Layout;
use std::ops::Range;

/// Where the key of the hash stands in a description.
const KEY: Range<usize> = 45..61;

impl Chain {
    /// Puts zeros in place of the key of a description.
    pub(crate) fn forget_key(description: &mut [u8]) {
        if let Some(key) = description.get_mut(KEY) {
            key.fill(0);
        }
    }

    /// A filter with these sub-filters, one if it splits pages, and a window as of an
    /// epoch. What it says of its items and parameters means nothing: a question needs
    /// none of it. `None` without a sub-filter, or if they are not of one layout.
    pub fn to_be_asked(
        layouts: impl Iterator<Item = Layout> + Clone,
        key: HashKey,
        window: Option<(Window, Epoch)>,
    ) -> Option<Chain> {
        let placement = match layouts.clone().next()? {
            Layout::Classic(classic) => Placement::Classic(ClassicPlacement {
                bucket_size: classic.bucket_size(),
                max_iterations: 1,
            }),
            Layout::Paged(paged) => Placement::Paged(PagedPlacement {
                code: paged.code(),
                error_rate: None,
                promised_growth: 1,
                values_per_item: 0,
                window: window.map(|it| it.0),
            }),
        };
        let params = FilterParams {
            capacity: 1,
            placement,
            expansion: 0,
            max_expansions: 0,
            max_filter_bytes: u64::MAX,
            attributes: None,
        };
        let mut chain = Chain::new(params, key, 0)?;
        if let Pages::Links(links) = &mut chain.pages {
            *links = Links::NONE.clone();
        }
        for layout in layouts {
            match (&mut chain.pages, layout) {
                (Pages::Links(links), Layout::Classic(classic)) => links.push(classic),
                (Pages::Table(table), Layout::Paged(paged)) => {
                    table.layout = paged;
                    table.epochs = window.map(|(window, current)| Epochs::new(window, current));
                }
                _ => return None,
            }
        }
        Some(chain)
    }
}
