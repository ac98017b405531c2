//! The bytes of a chain's description, which `docs/format.md` tabulates.

use super::chain::{Chain, MAX_ITEMS};
use super::sub_filter::SubFilter;
use crate::chain::params::{ErrorRate, FilterParams, LayoutKind, Placement, StoredParams};
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::hash::{HashId, HashKey};
use crate::page::Ordinal;

/// Newest version of the encoding.
pub const META_VERSION: u8 = 3;

/// Sub-filters a chain can have at most: `max_expansions` beyond the first.
const MAX_SUB_FILTERS: usize = u16::MAX as usize + 1;

/// Bytes that are no description of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// A newer program wrote them.
    #[error("filter metadata has version {found}, this program reads up to {META_VERSION}")]
    Newer {
        /// The version found.
        found: u8,
    },
    /// They contradict the format.
    #[error("filter metadata is corrupt: {0}")]
    Corrupt(&'static str),
}

impl Chain {
    /// The description as it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(93 + 20 * self.sub_filters.len());
        let key = match self.hash {
            HashId::Murmur64A => HashKey([0; 16]),
            HashId::SipHash13(key) => key,
        };
        out.push(META_VERSION);
        out.push(match self.params.layout() {
            LayoutKind::Classic => 1,
            LayoutKind::Paged => 2,
        });
        out.push(match self.hash {
            HashId::Murmur64A => 1,
            HashId::SipHash13(_) => 2,
        });
        out.push(self.params.bucket_size());
        out.extend_from_slice(&self.params.page_bytes().to_le_bytes());
        out.extend_from_slice(&self.params.capacity().to_le_bytes());
        out.extend_from_slice(&self.params.max_iterations().unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&self.params.expansion().to_le_bytes());
        out.extend_from_slice(&self.params.max_expansions().to_le_bytes());
        out.extend_from_slice(&self.params.max_filter_bytes().to_le_bytes());
        out.extend_from_slice(&self.created_at_ms.to_le_bytes());
        out.extend_from_slice(&self.deletions.to_le_bytes());
        out.extend_from_slice(&self.next_ordinal.to_le_bytes());
        out.extend_from_slice(&(self.sub_filters.len() as u32).to_le_bytes());
        out.push(self.params.slot_width().bits() as u8);
        out.extend_from_slice(&self.params.error_rate().unwrap_or(0.0).to_le_bytes());
        out.extend_from_slice(&key.0);
        out.extend_from_slice(&(self.open as u32).to_le_bytes());
        out.extend_from_slice(&self.compacted_at.to_le_bytes());
        for sub in &self.sub_filters {
            out.extend_from_slice(&sub.ordinal.0.to_le_bytes());
            out.extend_from_slice(&sub.occupied.to_le_bytes());
            out.extend_from_slice(&sub.counted.to_le_bytes());
        }
        out
    }

    /// Reads a stored description, of this version or an older one.
    ///
    /// # Errors
    /// A newer version, or bytes that no chain encodes to.
    pub fn decode(bytes: &[u8]) -> Result<Chain, MetaError> {
        let mut reader = Reader(bytes);
        let version = reader.byte()?;
        if version > META_VERSION {
            return Err(MetaError::Newer { found: version });
        }
        if version == 0 {
            return Err(MetaError::Corrupt("unknown version"));
        }
        let (layout, hash, bucket_size) = (reader.byte()?, reader.byte()?, reader.byte()?);
        let page_bytes = u32::from_le_bytes(reader.array()?);
        let capacity = u64::from_le_bytes(reader.array()?);
        let max_iterations = u16::from_le_bytes(reader.array()?);
        let expansion = u32::from_le_bytes(reader.array()?);
        let max_expansions = u16::from_le_bytes(reader.array()?);
        let max_filter_bytes = u64::from_le_bytes(reader.array()?);
        let created_at_ms = u64::from_le_bytes(reader.array()?);
        let deletions = u64::from_le_bytes(reader.array()?);
        let next_ordinal = u32::from_le_bytes(reader.array()?);
        let count = u32::from_le_bytes(reader.array()?) as usize;
        // Version 1 knew the layout `classic` only, and no side counters.
        let (slot_bits, error_rate, key) = match version {
            1 => (8, 0.0, [0; 16]),
            _ => (
                reader.byte()?,
                f64::from_le_bytes(reader.array()?),
                reader.array()?,
            ),
        };
        // Versions before 3 knew no compaction.
        let (open, compacted_at) = match version {
            1 | 2 => (count, 0),
            _ => (
                u32::from_le_bytes(reader.array()?) as usize,
                u64::from_le_bytes(reader.array()?),
            ),
        };
        let placement = match (layout, version) {
            (1, _) => Placement::Classic {
                bucket_size,
                max_iterations,
            },
            (2, 2..) => Placement::Paged {
                width: SlotWidth::from_bits(u64::from(slot_bits))
                    .ok_or(MetaError::Corrupt("unknown slot width"))?,
                error_rate: match error_rate {
                    0.0 => None,
                    rate => Some(
                        ErrorRate::new(rate)
                            .ok_or(MetaError::Corrupt("a parameter is out of range"))?,
                    ),
                },
            },
            _ => return Err(MetaError::Corrupt("unknown layout")),
        };
        // Each layout has its hash.
        let hash = match (hash, layout) {
            (1, 1) => HashId::Murmur64A,
            (2, 2) => HashId::SipHash13(HashKey(key)),
            _ => return Err(MetaError::Corrupt("unknown hash")),
        };
        let params = FilterParams::from_stored(StoredParams {
            capacity,
            placement,
            page_bytes,
            expansion,
            max_expansions,
            max_filter_bytes,
        })
        .ok_or(MetaError::Corrupt("a parameter is out of range"))?;
        let entry_bytes = if version == 1 { 12 } else { 20 };
        if count == 0 || count > MAX_SUB_FILTERS || reader.0.len() != entry_bytes * count {
            return Err(MetaError::Corrupt("wrong number of sub-filters"));
        }
        if open == 0 || open > count || compacted_at > deletions {
            return Err(MetaError::Corrupt("a compaction that can't be"));
        }
        let mut chain = Chain {
            params,
            hash,
            created_at_ms,
            deletions,
            next_ordinal,
            sub_filters: Vec::with_capacity(count),
            open,
            compacted_at,
        };
        let mut smallest_ordinal = 0;
        let mut items = 0u64;
        for position in 0..count {
            let ordinal = u32::from_le_bytes(reader.array()?);
            let occupied = u64::from_le_bytes(reader.array()?);
            let counted = match version {
                1 => 0,
                _ => u64::from_le_bytes(reader.array()?),
            };
            let layout = chain
                .params
                .layout_at(position)
                .ok_or(MetaError::Corrupt("a sub-filter is too large"))?;
            if ordinal < smallest_ordinal || ordinal >= next_ordinal {
                return Err(MetaError::Corrupt("sub-filter numbers do not ascend"));
            }
            if occupied > layout.slots() {
                return Err(MetaError::Corrupt("more items than slots"));
            }
            items = occupied
                .checked_add(counted)
                .and_then(|more| items.checked_add(more))
                .filter(|&items| items <= MAX_ITEMS)
                .ok_or(MetaError::Corrupt("more items than can be counted"))?;
            smallest_ordinal = ordinal + 1;
            let mut sub = SubFilter::new(Ordinal(ordinal), layout, &chain.params);
            (sub.occupied, sub.counted) = (occupied, counted);
            chain.sub_filters.push(sub);
        }
        Ok(chain)
    }
}

/// Takes bytes off the front, or says that they ended.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], MetaError> {
        let (front, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(MetaError::Corrupt("it ends too early"))?;
        self.0 = rest;
        Ok(*front)
    }

    fn byte(&mut self) -> Result<u8, MetaError> {
        self.array::<1>().map(|[byte]| byte)
    }
}
