//! Where in a file everything lies.

use crate::chain::address::PageAddress;
use crate::chain::counters::CounterKey;
use crate::cuckoo::layout::Layout;

/// Bytes that have a checksum of their own.
pub const BLOCK_BYTES: usize = 4096;
pub(super) const BLOCK: u64 = BLOCK_BYTES as u64;

/// Bytes of the header that are always there.
pub const FIXED_BYTES: u64 = 256;

/// Bytes of a sub-filter in the header, of a stamp, of a number in the index of
/// counters, of a counter, of a checksum.
pub(super) const SUB_FILTER_BYTES: u64 = 16;
pub(super) const STAMP_BYTES: u64 = 8;
pub(super) const INDEX_BYTES: u64 = 8;
pub(super) const COUNTER_BYTES: u64 = 12;
pub(super) const SUM_BYTES: u64 = 4;

/// Bytes behind the checksums.
pub const END_BYTES: u64 = 48;

/// Offsets of the parts of a file, in bytes from its beginning; 0 of a part that it
/// has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Geometry and offset of each sub-filter, oldest first.
    pub subs: Vec<(Layout, u64)>,
    /// Where the description begins.
    pub description_at: u64,
    /// Where the pages begin, which is where the header ends.
    pub pages_at: u64,
    /// Pages, of [`BLOCK_BYTES`] each.
    pub pages: u64,
    /// The stamps of the pages.
    pub stamps_at: u64,
    /// How many counters lie before each page.
    pub index_at: u64,
    /// The counters.
    pub counters_at: u64,
    /// How many there are.
    pub counters: u64,
    /// The checksums.
    pub sums_at: u64,
    /// All bytes.
    pub bytes: u64,
}

/// Where a counter stands: behind those of smaller places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CounterPlace {
    /// The page of the file that it belongs to.
    pub block: u64,
    /// `paged`: the bucket of its class; `classic`: the byte within the page.
    pub place: u16,
    /// What the slots of its class hold.
    pub held: u32,
}

impl Parts {
    /// Those of a file with so many counters beside its pages; without a number, with
    /// their stamps. `None` if that were more bytes than can be numbered.
    pub(super) fn of(
        layouts: impl Iterator<Item = Layout>,
        description_bytes: u64,
        beside: Option<u64>,
    ) -> Option<Parts> {
        let mut subs: Vec<(Layout, u64)> = layouts.map(|layout| (layout, 0)).collect();
        let classic = subs.iter().filter(|it| it.0.paged().is_none()).count() as u64;
        let description_at = FIXED_BYTES + SUB_FILTER_BYTES * classic;
        let pages_at = whole_blocks(description_at.checked_add(description_bytes)?)?;
        let mut at = pages_at;
        for (layout, begin) in &mut subs {
            *begin = at;
            at = at.checked_add(whole_blocks(layout.bytes())?)?;
        }
        let pages = (at - pages_at) / BLOCK;
        let (mut stamps_at, mut index_at, mut counters_at, mut counters) = (0, 0, 0, 0);
        match beside {
            None => {
                stamps_at = at;
                at = at.checked_add(pages.checked_mul(STAMP_BYTES)?)?;
            }
            Some(0) => {}
            Some(number) => {
                index_at = at;
                counters_at = at.checked_add((pages + 1).checked_mul(INDEX_BYTES)?)?;
                counters = number;
                at = counters_at.checked_add(number.checked_mul(COUNTER_BYTES)?)?;
            }
        }
        let sums_at = whole_blocks(at)?;
        let sums = (sums_at - pages_at) / BLOCK * SUM_BYTES;
        Some(Parts {
            subs,
            description_at,
            pages_at,
            pages,
            stamps_at,
            index_at,
            counters_at,
            counters,
            sums_at,
            bytes: sums_at.checked_add(sums)?.checked_add(END_BYTES)?,
        })
    }

    /// Bytes of memory that writing the file takes: what is kept of each page.
    pub fn memory_to_write(&self) -> u64 {
        let beside = match (self.stamps_at, self.index_at) {
            (0, 0) => 0,
            (0, _) => size_of::<u32>() as u64,
            _ => STAMP_BYTES,
        };
        self.blocks() * SUM_BYTES + self.pages * beside
    }

    /// Blocks that have a checksum.
    pub fn blocks(&self) -> u64 {
        (self.sums_at - self.pages_at) / BLOCK
    }

    /// Where the pages end.
    pub fn pages_end(&self) -> u64 {
        self.pages_at + self.pages * BLOCK
    }

    /// Whether what lies before `end` follows from its own pages alone; what lies behind
    /// the pages follows from all of them.
    pub fn needs_no_sums(&self, end: u64) -> bool {
        end <= self.pages_end()
    }

    /// Where a page of the filter begins, and how many bytes it has.
    #[inline]
    pub fn page(&self, page: PageAddress) -> Option<(u64, u64)> {
        let (layout, begin) = self.subs.get(page.sub as usize)?;
        let bytes = u64::from(layout.page_bytes());
        let is_there = page.page < layout.pages();
        is_there.then(|| (begin + u64::from(page.page) * bytes, bytes))
    }

    /// Where a counter of a page of the filter stands.
    #[inline]
    pub fn place(&self, page: PageAddress, key: CounterKey) -> Option<CounterPlace> {
        let (begin, _) = self.page(page)?;
        let (within, place) = (begin - self.pages_at, key.0 >> 32);
        let (block, place) = match self.subs.get(page.sub as usize)?.0 {
            Layout::Paged(_) => (within / BLOCK, place),
            Layout::Classic(_) => ((within + place) / BLOCK, (within + place) % BLOCK),
        };
        Some(CounterPlace {
            block,
            place: u16::try_from(place).ok()?,
            held: key.0 as u32,
        })
    }

    /// What a counter is named by on the page that begins there.
    pub(super) fn key(&self, begin: u64, counter: CounterPlace) -> CounterKey {
        let place = match self.subs.first() {
            Some((Layout::Classic(_), _)) => {
                let at = self.pages_at + counter.block * BLOCK + u64::from(counter.place);
                at.saturating_sub(begin)
            }
            _ => counter.place.into(),
        };
        CounterKey(place << 32 | u64::from(counter.held))
    }
}

fn whole_blocks(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(BLOCK)
}

/// A counter, of its bytes.
pub(super) fn counter_of(block: u64, bytes: [u8; COUNTER_BYTES as usize]) -> (CounterPlace, u64) {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
    let place = CounterPlace {
        block,
        place: u16::from_le_bytes([i, j]),
        held: u32::from_le_bytes([a, b, c, d]),
    };
    (place, u64::from_le_bytes([e, f, g, h, k, l, 0, 0]))
}

/// The bytes of a counter.
pub(super) fn counter(place: CounterPlace, copies: u64) -> [u8; COUNTER_BYTES as usize] {
    let [a, b, c, d] = place.held.to_le_bytes();
    let [e, f, g, h, k, l, ..] = copies.to_le_bytes();
    let [i, j] = place.place.to_le_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l]
}
