//! The bytes of a dump; `docs/format.md` tabulates them.
//!
//! A dump is a sequence of blocks, each with a checksum, and the last one has
//! the digest of everything before it. It is canonical: every choice that a
//! writer could have is taken by a rule, and a reader refuses what breaks one.
//! So equal filters have equal dumps, and a dump that was read is the one that
//! would be written.

use sha2::{Digest as _, Sha256};
use std::cmp::Ordering;
use std::io::{self, Read};

/// The first bytes of every dump.
pub const MAGIC: [u8; 8] = *b"CUCKDUMP";

/// Newest version of the format.
pub const DUMP_VERSION: u8 = 4;

/// Largest image of a page, with what is counted beside it.
pub const MAX_IMAGE_BYTES: usize = 320 << 10;

/// Largest description of a filter.
pub const MAX_DESCRIPTION_BYTES: usize = 2 << 20;

/// A block of pages ends with the first page that brings it to this.
const FULL_BLOCK_BYTES: usize = 64 << 10;

/// Kind and length before the payload, checksum behind it.
const BLOCK_HEAD_BYTES: usize = 5;
const CHECKSUM_BYTES: usize = 4;

/// Sub-filter, page and length before an image.
const PAGE_HEAD_BYTES: usize = 12;

const DESCRIPTION: u8 = 1;
const PAGES: u8 = 2;
const END: u8 = 3;

const DIGEST_BYTES: usize = 32;

/// SHA-256 of a dump, by which equal filters are known.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; DIGEST_BYTES]);

impl Digest {
    /// Reads what it is shown as: 64 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Option<Digest> {
        let mut bytes = [0; DIGEST_BYTES];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        let is_lower_case = !text.contains(|digit: char| digit.is_ascii_uppercase());
        is_lower_case.then_some(Digest(bytes))
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Where a page lies in a dump: position of its sub-filter, page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DumpedPage {
    /// Position of the sub-filter in the chain, 0 = oldest.
    pub sub: u32,
    /// Page within the sub-filter.
    pub page: u32,
}

/// Why bytes are no dump.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// They contradict the format, or were altered or cut off.
    #[error("the dump is corrupt: {0}")]
    Corrupt(String),
    /// A newer program wrote them.
    #[error("the dump has format version {found}, this server reads {DUMP_VERSION} alone")]
    Newer {
        /// The version found.
        found: u8,
    },
    /// An older program wrote them.
    #[error(
        "the dump has format version {found}, this server reads {DUMP_VERSION} alone: restore it on a server of the version that made it, or create the filter anew and add its items again"
    )]
    Older {
        /// The version found.
        found: u8,
    },
    /// They could not be read.
    #[error("the dump could not be read: {0}")]
    Read(#[source] io::Error),
}

impl DumpError {
    pub(super) fn corrupt(what: impl Into<String>) -> DumpError {
        DumpError::Corrupt(what.into())
    }
}

impl From<io::Error> for DumpError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => DumpError::corrupt("it ends early"),
            _ => DumpError::Read(error),
        }
    }
}

/// Writes a dump piece by piece: what [`take`](Self::take) returns, in order.
pub struct DumpWriter {
    pending: Vec<u8>,
    /// Payload of the block of pages under way.
    pages: Vec<u8>,
    digest: Sha256,
    bytes: u64,
}

impl DumpWriter {
    /// Starts a dump with the description of the filter.
    pub fn new(description: &[u8]) -> DumpWriter {
        let mut writer = DumpWriter {
            pending: Vec::new(),
            pages: Vec::with_capacity(FULL_BLOCK_BYTES + PAGE_HEAD_BYTES + MAX_IMAGE_BYTES),
            digest: Sha256::new(),
            bytes: 0,
        };
        writer.put(&MAGIC);
        writer.put(&[DUMP_VERSION]);
        writer.block(DESCRIPTION, description);
        writer
    }

    /// Adds a page behind all others. Zeros at the end of its image are left
    /// out, and so is a page of nothing else.
    pub fn page(&mut self, at: DumpedPage, image: &[u8]) {
        let used = image
            .iter()
            .rposition(|&byte| byte != 0)
            .map_or(0, |last| last + 1);
        let image = image.get(..used).unwrap_or_default();
        if image.is_empty() {
            return;
        }
        self.pages.extend_from_slice(&at.sub.to_le_bytes());
        self.pages.extend_from_slice(&at.page.to_le_bytes());
        self.pages
            .extend_from_slice(&(image.len() as u32).to_le_bytes());
        self.pages.extend_from_slice(image);
        if self.pages.len() >= FULL_BLOCK_BYTES {
            self.end_pages();
        }
    }

    /// How many bytes are ready.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Bytes that are ready. Whatever follows, they stay as they are.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Ends the dump. Returns its last bytes, its digest and its length.
    pub fn finish(mut self) -> (Vec<u8>, Digest, u64) {
        if !self.pages.is_empty() {
            self.end_pages();
        }
        let digest = Digest(self.digest.clone().finalize().into());
        self.block(END, &digest.0);
        (self.pending, digest, self.bytes)
    }

    fn end_pages(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        self.block(PAGES, &pages);
        self.pages = pages;
        self.pages.clear();
    }

    fn block(&mut self, kind: u8, payload: &[u8]) {
        let head = block_head(kind, payload.len());
        self.put(&head);
        self.put(payload);
        self.put(&checksum(&head, payload).to_le_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.pending.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
    }
}

fn block_head(kind: u8, length: usize) -> [u8; BLOCK_HEAD_BYTES] {
    let [a, b, c, d] = (length as u32).to_le_bytes();
    [kind, a, b, c, d]
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(head), payload)
}

/// Reads a dump block by block. Announced lengths are checked before anything
/// is allocated for them; what was handed out is worth something only when
/// [`next_page`](Self::next_page) has come to the end.
pub struct DumpReader<R> {
    source: R,
    digest: Sha256,
    description: Vec<u8>,
    /// Payload of the block of pages that is being read, and how far it is.
    pages: Vec<u8>,
    at: usize,
    last: Option<DumpedPage>,
    found: Option<Digest>,
}

impl<R: Read> DumpReader<R> {
    /// Reads up to the description of the filter.
    ///
    /// # Errors
    /// No dump, or one of a newer program.
    pub fn open(source: R) -> Result<DumpReader<R>, DumpError> {
        let mut reader = DumpReader {
            source,
            digest: Sha256::new(),
            description: Vec::new(),
            pages: Vec::new(),
            at: 0,
            last: None,
            found: None,
        };
        let mut start = [0; MAGIC.len() + 1];
        reader.source.read_exact(&mut start)?;
        let [magic @ .., version] = start;
        if magic != MAGIC {
            return Err(DumpError::corrupt("it does not begin like a dump"));
        }
        match version.cmp(&DUMP_VERSION) {
            Ordering::Equal => {}
            Ordering::Greater => return Err(DumpError::Newer { found: version }),
            Ordering::Less => return Err(DumpError::Older { found: version }),
        }
        reader.digest.update(start);
        let (kind, description) = reader.block()?;
        if kind != DESCRIPTION {
            return Err(DumpError::corrupt("it has no description"));
        }
        reader.description = description;
        Ok(reader)
    }

    /// The description of the filter.
    pub fn description(&self) -> &[u8] {
        &self.description
    }

    /// The next page and its image, in ascending order; `None` at the end,
    /// when everything was found right.
    ///
    /// # Errors
    /// The dump is corrupt, or can't be read.
    pub fn next_page(&mut self) -> Result<Option<(DumpedPage, &[u8])>, DumpError> {
        if self.found.is_some() {
            return Ok(None);
        }
        if self.at >= self.pages.len() && !self.next_block()? {
            return Ok(None);
        }
        if self.at >= FULL_BLOCK_BYTES {
            return Err(DumpError::corrupt("a block goes on when it is full"));
        }
        let rest = self.pages.get(self.at..).unwrap_or_default();
        let (sub, rest) = number(rest)?;
        let (page, rest) = number(rest)?;
        let (length, rest) = number(rest)?;
        let page = DumpedPage { sub, page };
        let image = usize::try_from(length)
            .ok()
            .filter(|&length| length <= MAX_IMAGE_BYTES)
            .and_then(|length| rest.get(..length))
            .ok_or_else(|| DumpError::corrupt("a page is longer than its block"))?;
        if image.last().is_none_or(|&last| last == 0) {
            return Err(DumpError::corrupt("a page is not as short as can be"));
        }
        if self.last.is_some_and(|last| last >= page) {
            return Err(DumpError::corrupt("its pages do not ascend"));
        }
        self.last = Some(page);
        self.at += PAGE_HEAD_BYTES + image.len();
        Ok(Some((page, image)))
    }

    /// The digest of the dump, once it was read to its end.
    pub fn digest(&self) -> Option<Digest> {
        self.found
    }

    /// Reads the next block of pages; `false` if it was the end.
    fn next_block(&mut self) -> Result<bool, DumpError> {
        let is_short = !self.pages.is_empty() && self.pages.len() < FULL_BLOCK_BYTES;
        let before: [u8; DIGEST_BYTES] = self.digest.clone().finalize().into();
        let (kind, payload) = self.block()?;
        match kind {
            PAGES if is_short => Err(DumpError::corrupt("a block ends before it is full")),
            PAGES if payload.is_empty() => Err(DumpError::corrupt("a block is empty")),
            PAGES => {
                self.pages = payload;
                self.at = 0;
                Ok(true)
            }
            END if payload != before => Err(DumpError::corrupt("its digest is not the one it has")),
            END => {
                let mut more = [0];
                match self.source.read(&mut more) {
                    Ok(0) => {}
                    Ok(_) => return Err(DumpError::corrupt("something follows its end")),
                    Err(error) => return Err(DumpError::Read(error)),
                }
                self.found = Some(Digest(before));
                Ok(false)
            }
            _ => Err(DumpError::corrupt("a block is of an unknown kind")),
        }
    }

    fn block(&mut self) -> Result<(u8, Vec<u8>), DumpError> {
        let mut head = [0; BLOCK_HEAD_BYTES];
        self.source.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let most = match kind {
            DESCRIPTION => MAX_DESCRIPTION_BYTES,
            PAGES => FULL_BLOCK_BYTES + PAGE_HEAD_BYTES + MAX_IMAGE_BYTES,
            END => DIGEST_BYTES,
            _ => 0,
        };
        let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > most {
            return Err(DumpError::corrupt(
                "a block is too long, or of an unknown kind",
            ));
        }
        let mut payload = vec![0; length];
        self.source.read_exact(&mut payload)?;
        let mut sum = [0; CHECKSUM_BYTES];
        self.source.read_exact(&mut sum)?;
        if u32::from_le_bytes(sum) != checksum(&head, &payload) {
            return Err(DumpError::corrupt("a checksum does not match"));
        }
        self.digest.update(head);
        self.digest.update(&payload);
        self.digest.update(sum);
        Ok((kind, payload))
    }
}

fn number(bytes: &[u8]) -> Result<(u32, &[u8]), DumpError> {
    bytes
        .split_first_chunk()
        .map(|(number, rest)| (u32::from_le_bytes(*number), rest))
        .ok_or_else(|| DumpError::corrupt("a page ends early"))
}

#[cfg(test)]
mod tests;
