//! The versions of pages: a fixed number of them, shared by the pages of all
//! filters.

use super::seqlock::{Version, WordsRead};
use super::table::PageTable;

/// Two pages of one stripe cost each other a repeated read now and then, never
/// a wrong one.
const STRIPES: usize = 1 << 15;

/// A [`Version`] for every page. Two equal numbers of it say that no commit
/// changed the page in between.
pub struct Versions {
    stripes: Box<[Version]>,
}

impl Versions {
    pub(super) fn new() -> Versions {
        Versions {
            stripes: (0..STRIPES).map(|_| Version::new()).collect(),
        }
    }

    /// The version of a page. There always is one.
    #[inline]
    pub fn of(&self, table: &PageTable, page: u32) -> Option<&Version> {
        let stripe = table.first_stripe.wrapping_add(page as usize) % STRIPES;
        self.stripes.get(stripe)
    }

    /// Whether each version still has the number that it had before words were
    /// read.
    #[inline]
    pub fn are_still(seen: &[(&Version, u64)], read: WordsRead) -> bool {
        seen.iter()
            .all(|&(version, number)| version.is_still(number, read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{FilterId, Ordinal};
    use crate::resident::PageGeometry;
    use cuckood_filter::cuckoo::bucket::SlotWidth;

    #[test]
    fn a_version_is_unknown_while_two_lanes_publish_and_new_afterwards() {
        let geometry = PageGeometry::fixed(1, SlotWidth::Bits16);
        let table = PageTable::new(FilterId(7), Ordinal(0), &geometry);
        let versions = Versions::new();
        let version = versions.of(&table, 0).unwrap();
        let before = version.read().unwrap();
        Version::change(
            || [version].into_iter(),
            || {
                assert_eq!(version.read(), None);
                Version::change(
                    || [version].into_iter(),
                    || assert_eq!(version.read(), None),
                );
                assert_eq!(version.read(), None);
            },
        );
        assert_ne!(version.read(), Some(before));
        assert!(!Versions::are_still(
            &[(version, before)],
            WordsRead::fence()
        ));
    }
}
