//! Chains that leave for another server or come from elsewhere.

use super::chain::Chain;
use super::encoding::MetaError;
use super::version::FilterVersion;
use crate::chain::address::Ordinal;
use crate::chain::params::{ClassicPlacement, FilterParams, MAX_CAPACITY, Placement};
use crate::cuckoo::classic::{self, Classic};
use crate::cuckoo::hash::HashKey;

/// The last millisecond that a date of RFC 3339 shows, of the year 9999.
const LAST_DATE_MS: u64 = 253_402_300_799_999;

/// A chain of the layout `classic` that another program made, by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignChain {
    /// Buckets of the first sub-filter.
    pub first_buckets: u64,
    /// Slots per bucket.
    pub bucket_size: u8,
    /// Longest kick-out path.
    pub max_iterations: u16,
    /// Growth factor of each further sub-filter; 0 = never grow.
    pub expansion: u32,
    /// Sub-filters.
    pub sub_filters: usize,
    /// Deletes that found their item.
    pub deletions: u64,
    /// Milliseconds since 1970 when it came here.
    pub created_at_ms: u64,
    /// Most bytes that the slots of all sub-filters together may take.
    pub max_filter_bytes: u64,
    /// Most sub-filters beyond the first, unless it has more already.
    pub max_expansions: u64,
}

impl Chain {
    /// The chain as another server may take it: without what is this one's
    /// own, the numbers of its sub-filters, the bytes that it may take, what came of
    /// compactions, and its version. Equal filters have equal ones.
    pub fn portable(&self) -> Chain {
        let mut chain = self.clone();
        chain.reopen();
        chain.version = FilterVersion::default();
        chain.params.max_filter_bytes = u64::MAX;
        if let Some(links) = chain.links_mut() {
            links.compacted_at = 0;
            for (link, ordinal) in links.links.iter_mut().zip(0..) {
                link.ordinal = Ordinal(ordinal);
            }
            links.next_ordinal = links.links.len() as u32;
        }
        chain
    }

    /// The chain where a filter may take so many bytes.
    #[must_use]
    pub fn with_max_filter_bytes(mut self, max_filter_bytes: u64) -> Chain {
        self.params.max_filter_bytes = max_filter_bytes;
        self
    }

    /// Reads what [`encode`](Self::encode) made of a
    /// [`portable`](Self::portable) chain, for a server where a filter may
    /// take so many bytes.
    ///
    /// # Errors
    /// Another version, or bytes that are no such chain.
    pub fn from_portable(bytes: &[u8], max_filter_bytes: u64) -> Result<Chain, MetaError> {
        let chain = Chain::decode(bytes)?;
        if chain.portable().encode() != bytes {
            return Err(MetaError::Corrupt("it is not as it would be written"));
        }
        if chain.created_at_ms > LAST_DATE_MS {
            return Err(MetaError::Corrupt(
                "it was created at a time that no date shows",
            ));
        }
        Ok(chain.portable().with_max_filter_bytes(max_filter_bytes))
    }

    /// A chain of the layout `classic` that another program made, none of its
    /// slots in use. `None` if there can't be such a chain here.
    pub fn of_foreign(foreign: &ForeignChain) -> Option<Chain> {
        let (buckets, bucket_size) = (foreign.first_buckets, foreign.bucket_size);
        let first = Classic::new(buckets, bucket_size)?;
        let slots = buckets.checked_mul(u64::from(bucket_size))?;
        if slots > MAX_CAPACITY {
            return None;
        }
        // The number of buckets follows from the capacity.
        let params = FilterParams {
            capacity: classic::capacity_of(buckets, bucket_size),
            placement: Placement::Classic(ClassicPlacement {
                bucket_size,
                max_iterations: foreign.max_iterations,
            }),
            expansion: foreign.expansion,
            max_expansions: u16::try_from(foreign.max_expansions)
                .unwrap_or(u16::MAX)
                .max(u16::try_from(foreign.sub_filters.checked_sub(1)?).ok()?),
            max_filter_bytes: foreign.max_filter_bytes,
            attributes: None,
        };
        let params = params.checked()?;
        // Its hash has no key.
        let mut chain = Chain::new(params, HashKey([0; 16]), foreign.created_at_ms)?;
        chain.deletions = foreign.deletions;
        for position in 1..foreign.sub_filters {
            let layout = chain.params.layout_at(position)?;
            chain.links_mut()?.push(layout);
        }
        let is_alike = chain.links().get(0)?.layout == first;
        is_alike.then_some(chain)
    }
}
