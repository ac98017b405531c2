//! The bytes of a chain's description, which `docs/format.md` tabulates.

use super::chain::{Chain, Pages};
use super::links::Links;
use super::sub_filter::Link;
use super::table::{MAX_ITEMS, Table};
use super::version::{FilterVersion, Lineage};
use crate::chain::address::Ordinal;
use crate::chain::counters::MAX_COUNTERS;
use crate::chain::params::{
    Attributes, ClassicPlacement, ErrorRate, FilterParams, PagedPlacement, Placement, Window,
};
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::hash::{HashId, HashKey};
use crate::cuckoo::paged::PAGE_BYTES;
use crate::cuckoo::paged::code::SlotCode;

/// Version of the encoding.
pub const META_VERSION: u8 = 1;

/// Sub-filters a chain can have at most: `max_expansions` beyond the first.
const MAX_SUB_FILTERS: usize = u16::MAX as usize + 1;

/// The layout `paged` with a window, and with attributes.
const WITH_WINDOW: u8 = 3;
const WITH_ATTRIBUTES: u8 = 4;

/// Bytes of a sub-filter.
const LINK_BYTES: usize = 28;

/// Bytes of the version, which is last.
const VERSION_BYTES: usize = 32;

/// Bytes that are no description of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetaError {
    /// A newer program wrote them.
    #[error(
        "filter metadata has version {found}, this program reads {META_VERSION} alone: use a newer one"
    )]
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
        let mut out = Vec::with_capacity(160);
        let (hash, key) = match self.hash {
            HashId::Murmur64A => (1, HashKey([0; 16])),
            HashId::SipHash13(key) => (2, key),
        };
        let layout = match self.pages {
            Pages::Links(_) => 1,
            Pages::Table(_) if self.params.window().is_some() => WITH_WINDOW,
            Pages::Table(_) if self.params.attributes().is_some() => WITH_ATTRIBUTES,
            Pages::Table(_) => 2,
        };
        out.extend_from_slice(&[META_VERSION, layout, hash]);
        out.extend_from_slice(&PAGE_BYTES.to_le_bytes());
        out.extend_from_slice(&self.params.capacity().to_le_bytes());
        out.extend_from_slice(&self.params.expansion().to_le_bytes());
        out.extend_from_slice(&self.params.max_expansions().to_le_bytes());
        out.extend_from_slice(&self.params.max_filter_bytes().to_le_bytes());
        out.extend_from_slice(&self.created_at_ms.to_le_bytes());
        out.extend_from_slice(&self.deletions.to_le_bytes());
        out.extend_from_slice(&key.0);
        match &self.pages {
            Pages::Links(links) => {
                out.push(self.params.bucket_size());
                out.extend_from_slice(&self.params.max_iterations().unwrap_or(0).to_le_bytes());
                links.encode(&mut out);
            }
            Pages::Table(table) => {
                let promised = self.params.promised_growth().unwrap_or(0);
                let value_bits = self.params.slot_code().map_or(0, |code| code.value_bits());
                out.push(self.params.slot_width().bits() as u8);
                out.extend_from_slice(&self.params.error_rate().unwrap_or(0.0).to_le_bytes());
                out.extend_from_slice(&promised.to_le_bytes());
                out.push(value_bits as u8);
                let per_item = self.params.values_per_item().unwrap_or(0);
                out.extend_from_slice(&per_item.to_le_bytes());
                if let Some(attributes) = self.params.attributes() {
                    attributes.encode(&mut out);
                }
                if let Some(window) = self.params.window() {
                    out.extend_from_slice(&window.seconds().to_le_bytes());
                    out.extend_from_slice(&window.resolution_seconds().to_le_bytes());
                }
                out.extend_from_slice(&table.encode());
            }
        }
        out.extend_from_slice(&self.version.lineage.0);
        out.extend_from_slice(&self.version.changes.to_le_bytes());
        out.extend_from_slice(&self.version.changed_at_ms.to_le_bytes());
        out
    }

    /// Reads a stored description.
    ///
    /// # Errors
    /// Another version, or bytes that no filter encodes to.
    pub fn decode(bytes: &[u8]) -> Result<Chain, MetaError> {
        let mut reader = Reader(bytes);
        match reader.byte()? {
            0 => return Err(MetaError::Corrupt("its version is 0")),
            META_VERSION => {}
            found => return Err(MetaError::Newer { found }),
        }
        let version = reader.version_at_end()?;
        let (layout, hash) = (reader.byte()?, reader.byte()?);
        let page_bytes = u32::from_le_bytes(reader.array()?);
        let capacity = u64::from_le_bytes(reader.array()?);
        let expansion = u32::from_le_bytes(reader.array()?);
        let max_expansions = u16::from_le_bytes(reader.array()?);
        let max_filter_bytes = u64::from_le_bytes(reader.array()?);
        let created_at_ms = u64::from_le_bytes(reader.array()?);
        let deletions = u64::from_le_bytes(reader.array()?);
        let key = HashKey(reader.array()?);
        // Each layout has its hash.
        let hash = match (hash, layout) {
            (1, 1) => HashId::Murmur64A,
            (2, 2..=WITH_ATTRIBUTES) => HashId::SipHash13(key),
            (_, 1..=WITH_ATTRIBUTES) => return Err(MetaError::Corrupt("unknown hash")),
            _ => return Err(MetaError::Corrupt("unknown layout")),
        };
        let placement = match layout {
            1 => Placement::Classic(ClassicPlacement {
                bucket_size: reader.byte()?,
                max_iterations: u16::from_le_bytes(reader.array()?),
            }),
            _ => Placement::Paged(reader.paged(layout == WITH_WINDOW)?),
        };
        let has_attributes = layout == WITH_ATTRIBUTES;
        let attributes = has_attributes.then(|| reader.attributes()).transpose()?;
        let params = FilterParams {
            capacity,
            placement,
            expansion,
            max_expansions,
            max_filter_bytes,
            attributes,
        };
        let params = params
            .checked()
            .filter(|_| page_bytes == PAGE_BYTES)
            .ok_or(MetaError::Corrupt("a parameter is out of range"))?;
        let pages = match params.first_pages() {
            Some(first) => Pages::Table(Table::decode(reader.0, &first, params.window())?),
            None => Pages::Links(Links::decode(reader, &params)?),
        };
        Ok(Chain {
            params,
            hash,
            created_at_ms,
            deletions,
            version,
            pages,
        })
    }
}

impl Links {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.next_ordinal.to_le_bytes());
        out.extend_from_slice(&(self.links.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.open as u32).to_le_bytes());
        out.extend_from_slice(&self.compacted_at.to_le_bytes());
        for link in self.iter() {
            out.extend_from_slice(&link.ordinal.0.to_le_bytes());
            out.extend_from_slice(&link.occupied.to_le_bytes());
            out.extend_from_slice(&link.counted.to_le_bytes());
            out.extend_from_slice(&link.keys.to_le_bytes());
        }
    }

    fn decode(mut reader: Reader<'_>, params: &FilterParams) -> Result<Links, MetaError> {
        let next_ordinal = u32::from_le_bytes(reader.array()?);
        let count = u32::from_le_bytes(reader.array()?) as usize;
        let open = u32::from_le_bytes(reader.array()?) as usize;
        let compacted_at = u64::from_le_bytes(reader.array()?);
        if count == 0 || count > MAX_SUB_FILTERS || reader.0.len() != LINK_BYTES * count {
            return Err(MetaError::Corrupt("wrong number of sub-filters"));
        }
        if open == 0 || open > count {
            return Err(MetaError::Corrupt("a compaction that can't be"));
        }
        let mut links = Vec::with_capacity(count);
        let mut smallest_ordinal = 0;
        let mut copies = 0u64;
        for position in 0..count {
            let ordinal = u32::from_le_bytes(reader.array()?);
            let occupied = u64::from_le_bytes(reader.array()?);
            let counted = u64::from_le_bytes(reader.array()?);
            let keys = u64::from_le_bytes(reader.array()?);
            let layout = params
                .layout_at(position)
                .ok_or(MetaError::Corrupt("a sub-filter is too large"))?;
            if ordinal < smallest_ordinal || ordinal >= next_ordinal {
                return Err(MetaError::Corrupt("sub-filter numbers do not ascend"));
            }
            if occupied > layout.slots() {
                return Err(MetaError::Corrupt("more items than slots"));
            }
            // Slots beside them may be in use, as many as there are.
            copies = copies
                .checked_add(counted)
                .filter(|&copies| copies <= MAX_ITEMS)
                .ok_or(MetaError::Corrupt("more items than can be counted"))?;
            let most_keys = u64::from(layout.pages()) * MAX_COUNTERS as u64;
            if !(counted.min(1)..=counted.min(most_keys)).contains(&keys) {
                return Err(MetaError::Corrupt("counters that can't be"));
            }
            smallest_ordinal = ordinal + 1;
            links.push(Link {
                ordinal: Ordinal(ordinal),
                occupied,
                counted,
                keys,
                layout,
            });
        }
        Ok(Links {
            links,
            next_ordinal,
            open,
            compacted_at,
        })
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

    fn version_at_end(&mut self) -> Result<FilterVersion, MetaError> {
        let rest = self.0.len().checked_sub(VERSION_BYTES);
        let (rest, end) = self
            .0
            .split_at(rest.ok_or(MetaError::Corrupt("it ends too early"))?);
        self.0 = rest;
        let mut end = Reader(end);
        Ok(FilterVersion {
            lineage: Lineage(end.array()?),
            changes: u64::from_le_bytes(end.array()?),
            changed_at_ms: u64::from_le_bytes(end.array()?),
        })
    }

    fn byte(&mut self) -> Result<u8, MetaError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// What slots a filter that splits pages has, what it promises, and whether
    /// its items expire.
    fn paged(&mut self, has_window: bool) -> Result<PagedPlacement, MetaError> {
        let bits = u64::from(self.byte()?);
        let rate = f64::from_le_bytes(self.array()?);
        let rate = (rate.to_bits() != 0).then_some(rate);
        let error_rate = rate.map(|rate| {
            ErrorRate::new(rate).ok_or(MetaError::Corrupt("a parameter is out of range"))
        });
        let width = SlotWidth::from_bits(bits).ok_or(MetaError::Corrupt("unknown slot width"))?;
        let promised_growth = u32::from_le_bytes(self.array()?);
        let code = SlotCode::with_values(width, self.byte()?);
        Ok(PagedPlacement {
            code: code.ok_or(MetaError::Corrupt("values larger than slots"))?,
            error_rate: error_rate.transpose()?,
            promised_growth,
            values_per_item: u16::from_le_bytes(self.array()?),
            window: has_window.then(|| self.window()).transpose()?,
        })
    }

    fn attributes(&mut self) -> Result<Attributes, MetaError> {
        let attributes = Attributes::decode(&mut self.0);
        attributes.ok_or(MetaError::Corrupt("attributes that can't be"))
    }

    fn window(&mut self) -> Result<Window, MetaError> {
        let seconds = u32::from_le_bytes(self.array()?);
        let resolution_seconds = u32::from_le_bytes(self.array()?);
        Window::new(seconds.into(), resolution_seconds.into())
            .ok_or(MetaError::Corrupt("a window that can't be"))
    }
}
