//! What a file says of its filter.

use super::error::{FILE_VERSION, FileError};
use super::parts::{BLOCK_BYTES, FIXED_BYTES, Parts, SUB_FILTER_BYTES};
use crate::chain::meta::{Chain, FilterVersion, Lineage, MetaError};
use crate::chain::params::{Epoch, Window};
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::classic::Classic;
use crate::cuckoo::hash::{HashId, HashKey};
use crate::cuckoo::layout::Layout;
use crate::cuckoo::paged::Paged;
use crate::cuckoo::paged::code::SlotCode;
use sha2::{Digest as _, Sha256};
use std::ops::Range;

/// Largest description of a filter.
pub const MAX_DESCRIPTION_BYTES: usize = 2 << 20;

const MAGIC: [u8; 8] = *b"CUCKFILE";

/// Where the version stands, the checksum of the header, and its length.
const VERSION: Range<usize> = 8..10;
const SUM: Range<usize> = 12..16;
const LENGTH: Range<usize> = 24..32;

/// What is not part of the digest: the checksum, when the filter was changed last, and
/// which of all filters it is. So equal filters have equal digests.
const NOT_IN_DIGEST: [Range<usize>; 3] = [SUM, 120..128, 216..248];

/// Longest header: that of 2^16 sub-filters and the largest description is shorter.
const MAX_HEADER_BYTES: u64 = 4 << 20;

const VALUES: u32 = 1;
const WINDOW: u32 = 2;
const ATTRIBUTES: u32 = 4;
const NO_KEY: u32 = 8;

/// The key of a filter's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKey {
    /// Its hash needs none.
    None,
    /// It is in the file.
    Here(HashKey),
    /// It is not: the first bytes of its SHA-256.
    LeftOut([u8; 16]),
}

impl FileKey {
    /// What stands in a file that leaves a key out.
    pub fn left_out(key: HashKey) -> FileKey {
        let digest = Sha256::digest(key.0);
        FileKey::LeftOut(digest.first_chunk().copied().unwrap_or_default())
    }

    fn bytes(self) -> [u8; 16] {
        match self {
            FileKey::None => [0; 16],
            FileKey::Here(key) => key.0,
            FileKey::LeftOut(digest) => digest,
        }
    }
}

/// Where items expire: for how long they are found, and the epoch in which the filter
/// was changed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowAt {
    /// For how long.
    pub window: Window,
    /// The epoch.
    pub current: Epoch,
}

/// What a file says of its filter. The header of a file is what
/// [`encode`](Self::encode) makes of one, and nothing else is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Where everything lies, and the geometry of the pages.
    pub parts: Parts,
    /// The key of its hash.
    pub key: FileKey,
    /// Where items expire.
    pub window: Option<WindowAt>,
    /// Whether values are rows of attributes, which the description names.
    pub has_attributes: bool,
    /// When the filter was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// Which filter it is, in which of its states.
    pub version: FilterVersion,
    /// Items: adds less deletes.
    pub items: u64,
    /// Slots in use.
    pub occupied: u64,
    /// Copies that are counted beside pages.
    pub counted: u64,
    /// Probability that an item is found that was never added.
    pub false_positive_rate: f64,
    /// All that is known of the filter beside its pages, as [`Chain::portable`] encodes
    /// it. A restore needs it, a reader does not.
    pub description: Vec<u8>,
}

impl Header {
    /// The header of a filter's file. `None` of a filter whose file would be too large.
    pub fn of(chain: &Chain) -> Option<Header> {
        let description = chain.portable().encode();
        let layouts = chain.sub_filters().map(|sub| sub.layout);
        let epochs = chain.table().and_then(|table| table.epochs.as_ref());
        let keys = chain.sub_filters().map(|sub| sub.keys);
        let beside = epochs.is_none().then(|| keys.sum::<u64>());
        Some(Header {
            parts: Parts::of(layouts, description.len() as u64, beside)?,
            key: match chain.hash_id() {
                HashId::Murmur64A => FileKey::None,
                HashId::SipHash13(key) => FileKey::Here(key),
            },
            window: epochs.map(|epochs| WindowAt {
                window: epochs.window,
                current: epochs.current,
            }),
            has_attributes: chain.params().attributes().is_some(),
            created_ms: chain.created_at_ms(),
            version: *chain.version(),
            items: chain.items(),
            occupied: chain.sub_filters().map(|sub| sub.occupied).sum(),
            counted: chain.sub_filters().map(|sub| sub.counted).sum(),
            false_positive_rate: chain.false_positive_rate(),
            description,
        })
    }

    /// The filter that it describes, where one may take so many bytes.
    ///
    /// # Errors
    /// The description is that of no filter, or of another than the rest, which is what
    /// readers go by.
    pub fn chain(&self, max_filter_bytes: u64) -> Result<Chain, MetaError> {
        let chain = Chain::from_portable(&self.description, max_filter_bytes)?;
        let follows = Header::of(&chain).map(|it| Header {
            version: self.version,
            // Other computers may round it another way.
            false_positive_rate: self.false_positive_rate,
            ..it
        });
        match follows.as_ref() == Some(self) {
            true => Ok(chain),
            false => Err(MetaError::Corrupt(
                "its header does not follow from its description",
            )),
        }
    }

    /// The header of a file that leaves the key out, of a filter whose hash has one.
    pub fn without_key(mut self) -> Header {
        if let FileKey::Here(key) = self.key {
            self.key = FileKey::left_out(key);
            Chain::forget_key(&mut self.description);
        }
        self
    }

    /// The geometry of a filter that splits pages.
    pub fn paged(&self) -> Option<&Paged> {
        self.parts.subs.first()?.0.paged()
    }

    /// The error rate that the filter keeps, if it was created with one.
    pub fn error_rate(&self) -> Option<f64> {
        let chain = Chain::from_portable(&self.description, u64::MAX).ok()?;
        chain.params().error_rate()
    }

    /// Whether items have values, and not epochs in their place.
    pub(super) fn has_values(&self) -> bool {
        self.window.is_none() && self.paged().is_some_and(|it| it.code().value_bits() > 0)
    }

    fn features(&self) -> u32 {
        let bits = [
            (self.has_values(), VALUES),
            (self.window.is_some(), WINDOW),
            (self.has_attributes, ATTRIBUTES),
            (matches!(self.key, FileKey::LeftOut(_)), NO_KEY),
        ];
        bits.iter().filter(|it| it.0).map(|it| it.1).sum()
    }

    /// The first bytes of the file, up to its pages.
    pub fn encode(&self) -> Vec<u8> {
        let parts = &self.parts;
        let mut out = Vec::with_capacity(usize::try_from(parts.pages_at).unwrap_or(0));
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FILE_VERSION.to_le_bytes());
        let classic = || parts.subs.iter().filter(|it| it.0.paged().is_none());
        let layout: u16 = if classic().next().is_some() { 1 } else { 2 };
        out.extend_from_slice(&layout.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        let numbers = [
            parts.bytes,
            parts.pages_at,
            parts.pages,
            parts.stamps_at,
            parts.index_at,
            parts.counters_at,
            parts.counters,
            parts.sums_at,
            parts.description_at,
            self.description.len() as u64,
        ];
        out.extend(numbers.iter().flat_map(|it| it.to_le_bytes()));
        put(&mut out, self.key.bytes());
        let numbers = [
            self.created_ms,
            self.version.changed_at_ms,
            self.items,
            self.occupied,
            self.counted,
            self.false_positive_rate.to_bits(),
        ];
        out.extend(numbers.iter().flat_map(|it| it.to_le_bytes()));
        put(&mut out, self.features().to_le_bytes());
        let (bits, pages) = match self.paged() {
            None => ([8, 0, 0, 0], [0; 3]),
            Some(it) => {
                let code = it.code();
                let (anchor, suffix) = (code.anchor_bits(), code.suffix_bits());
                let (width, value) = (u32::from(code.width().bits()), code.value_bits());
                let pages = [it.families(), it.level().into(), it.pointer()];
                ([width, anchor, suffix, value].map(|it| it as u8), pages)
            }
        };
        put(&mut out, bits);
        let window = self.window.map(|it| it.window);
        let window = window.map_or([0; 3], |it| [it.seconds(), it.resolution_seconds(), 0]);
        out.extend(pages.iter().chain(&window).flat_map(|it| it.to_le_bytes()));
        let current = self.window.map_or(0, |it| it.current);
        put(&mut out, current.to_le_bytes());
        let subs = classic().count() as u32;
        let bucket_size = classic().next().map_or(0, |it| it.0.bucket_size());
        let table_at = if subs > 0 { FIXED_BYTES as u32 } else { 0 };
        let numbers = [bucket_size.into(), subs, table_at, 0];
        out.extend(numbers.iter().flat_map(|it| it.to_le_bytes()));
        put(&mut out, self.version.lineage.0);
        put(&mut out, self.version.changes.to_le_bytes());
        put(&mut out, [0; 16]);
        for (layout, at) in classic() {
            put(&mut out, layout.buckets().to_le_bytes());
            put(&mut out, at.to_le_bytes());
        }
        out.extend_from_slice(&self.description);
        out.resize(out.len().next_multiple_of(BLOCK_BYTES), 0);
        seal(&mut out);
        out
    }

    /// How long the header of a file is, by its first [`FIXED_BYTES`].
    ///
    /// # Errors
    /// No such file, one of another version, or no length that there is.
    pub fn bytes(file: &[u8]) -> Result<usize, FileError> {
        let begin = file.first_chunk::<{ FIXED_BYTES as usize }>();
        let begin = begin.filter(|it| it.starts_with(&MAGIC));
        let begin = begin.ok_or(FileError::Foreign)?;
        let mut fields = Fields(begin.get(VERSION).unwrap_or_default());
        let version = u16::from_le_bytes(fields.take()?);
        if version != FILE_VERSION {
            return Err(FileError::Version { found: version });
        }
        let mut fields = Fields(begin.get(LENGTH).unwrap_or_default());
        let [bytes] = fields.numbers()?;
        let may_be = (FIXED_BYTES..=MAX_HEADER_BYTES).contains(&bytes);
        let bytes = usize::try_from(bytes).ok().filter(|_| may_be);
        bytes.ok_or(FileError::Header("it is of no length that there is"))
    }

    /// Reads the header of a file, from its first bytes; others may follow.
    ///
    /// # Errors
    /// No such file, one of another version, or a header that is not as it would be
    /// written. Nothing is allocated before its checksum is known to be right.
    pub fn decode(file: &[u8]) -> Result<Header, FileError> {
        let bytes = Header::bytes(file)?;
        let header = file.get(..bytes);
        let header = header.ok_or(FileError::Header("it is cut off"))?;
        let mut fields = Fields(header.get(VERSION.end..).unwrap_or_default());
        let layout = u16::from_le_bytes(fields.take()?);
        let sum = u32::from_le_bytes(fields.take()?);
        let [_bytes, _pages_at] = fields.numbers()?;
        if checksum(header) != sum {
            return Err(FileError::Header("its checksum does not match"));
        }
        let [_pages, _stamps, _index, _at, counters, _sums] = fields.numbers()?;
        let [description_at, description_bytes] = fields.numbers()?;
        let key = fields.take()?;
        let [created_ms, changed_ms, items, occupied, counted, rate] = fields.numbers()?;
        let features = u32::from_le_bytes(fields.take()?);
        let unknown = features & !(VALUES | WINDOW | ATTRIBUTES | NO_KEY);
        if unknown != 0 {
            return Err(FileError::Features { unknown });
        }
        let [width, _anchor, _suffix, value_bits] = fields.take()?;
        let [families, level, pointer, seconds, resolution, _zero] = fields.words()?;
        let [current] = fields.numbers()?;
        let [bucket_size, subs, _table_at, _zero] = fields.words()?;
        let version = FilterVersion {
            lineage: Lineage(fields.take()?),
            changes: u64::from_le_bytes(fields.take()?),
            changed_at_ms: changed_ms,
        };
        let layouts = match layout {
            1 => classic_layouts(header, bucket_size, subs),
            2 => SlotWidth::from_bits(width.into())
                .and_then(|width| SlotCode::with_values(width, value_bits))
                .zip(u8::try_from(level).ok())
                .and_then(|(code, level)| Paged::grown(families.into(), level, pointer, code))
                .map(|paged| vec![Layout::Paged(paged)]),
            _ => return Err(FileError::Header("it has an unknown layout")),
        };
        let layouts = layouts.ok_or(FileError::Header("its pages can't be"))?;
        let window = match features & WINDOW {
            0 => None,
            _ => Some(WindowAt {
                window: Window::new(seconds.into(), resolution.into())
                    .filter(|it| current <= it.epoch_at(u64::MAX))
                    .ok_or(FileError::Header("its window can't be"))?,
                current,
            }),
        };
        let description = usize::try_from(description_at).ok().and_then(|at| {
            let bytes = usize::try_from(description_bytes).ok()?;
            header.get(at..at.checked_add(bytes)?)
        });
        let description = description
            .filter(|it| it.len() <= MAX_DESCRIPTION_BYTES)
            .ok_or(FileError::Header("its description is not in it"))?;
        let beside = window.is_none().then_some(counters);
        let parts = Parts::of(layouts.into_iter(), description_bytes, beside);
        let read = Header {
            parts: parts.ok_or(FileError::Header("it is too large"))?,
            key: match (layout, features & NO_KEY) {
                (1, _) => FileKey::None,
                (_, 0) => FileKey::Here(HashKey(key)),
                _ => FileKey::LeftOut(key),
            },
            window,
            has_attributes: features & ATTRIBUTES != 0,
            created_ms,
            version,
            items,
            occupied,
            counted,
            false_positive_rate: f64::from_bits(rate),
            description: description.to_vec(),
        };
        let slots: u64 = read.parts.subs.iter().map(|it| it.0.slots()).sum();
        let entries = occupied.checked_add(counted);
        if occupied > slots || entries.is_none_or(|it| it < items) {
            return Err(FileError::Header("its items are more than its pages hold"));
        }
        if !(0.0..=1.0).contains(&read.false_positive_rate) {
            return Err(FileError::Header("its false-positive rate can't be"));
        }
        // So every field that follows from others is what follows from them.
        match read.encode() == header {
            true => Ok(read),
            false => Err(FileError::Header("its fields do not fit each other")),
        }
    }
}

fn classic_layouts(header: &[u8], bucket_size: u32, subs: u32) -> Option<Vec<Layout>> {
    let bucket_size = u8::try_from(bucket_size).ok()?;
    let table = header.get(FIXED_BYTES as usize..)?;
    let bytes = (subs as usize).checked_mul(SUB_FILTER_BYTES as usize)?;
    let mut table = Fields(table.get(..bytes).filter(|it| !it.is_empty())?);
    let layout = |_| {
        let [buckets, _at] = table.numbers().ok()?;
        buckets.checked_mul(bucket_size.into())?;
        Some(Layout::Classic(Classic::new(buckets, bucket_size)?))
    };
    (0..subs).map(layout).collect()
}

fn put<const N: usize>(out: &mut Vec<u8>, bytes: [u8; N]) {
    out.extend_from_slice(&bytes);
}

/// The checksum of a header, whatever stands in its place.
fn checksum(header: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(header.get(..SUM.start).unwrap_or_default());
    sum.update(&[0; 4]);
    sum.update(header.get(SUM.end..).unwrap_or_default());
    sum.finalize()
}

/// Puts the checksum of a header into its place.
pub(super) fn seal(header: &mut [u8]) {
    let sum = checksum(header).to_le_bytes();
    if let Some(place) = header.get_mut(SUM) {
        place.copy_from_slice(&sum);
    }
}

/// The header as the digest takes it.
pub(super) fn in_digest(header: &[u8]) -> Vec<u8> {
    let mut masked = header.to_vec();
    for place in NOT_IN_DIGEST {
        if let Some(place) = masked.get_mut(place) {
            place.fill(0);
        }
    }
    masked
}

/// Takes fields off the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], FileError> {
        let taken = self.0.split_first_chunk::<N>();
        let (front, rest) = taken.ok_or(FileError::Header("it ends too early"))?;
        self.0 = rest;
        Ok(*front)
    }

    fn numbers<const N: usize>(&mut self) -> Result<[u64; N], FileError> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = u64::from_le_bytes(self.take()?);
        }
        Ok(numbers)
    }

    fn words<const N: usize>(&mut self) -> Result<[u32; N], FileError> {
        let mut words = [0; N];
        for word in &mut words {
            *word = u32::from_le_bytes(self.take()?);
        }
        Ok(words)
    }
}
