//! Filters of RedisBloom, as `CF.SCANDUMP` hands them out.
//!
//! What comes is a stream of frames, one for each pair that `CF.SCANDUMP`
//! returned, in order: the iterator (`i64`), the length of the chunk (`u32`),
//! the chunk. The first chunk describes the filter, the others are the slots of
//! its sub-filters one after another. RedisBloom's iterator is one more than
//! the bytes of slots so far, so a chunk that is missing or out of its place is
//! noticed. Nothing that is announced is believed before it was checked.

use super::error::DumpError;
use bytes::Buf as _;
use std::io::{self, Read};

/// Bytes of a frame before its chunk.
const FRAME_BYTES: u64 = 12;

/// Bytes of the chunk that describes the filter.
pub const HEADER_BYTES: usize = 38;

/// Largest chunk; RedisBloom's have up to 16 MiB.
pub const MAX_CHUNK_BYTES: u64 = 64 << 20;

/// Sub-filters that a description may announce: as many as a chain can have.
const MAX_SUB_FILTERS: u64 = 1 << 16;

/// What the first chunk says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Items in the filter.
    pub items: u64,
    /// Buckets of the first sub-filter.
    pub buckets: u64,
    /// Deletes that found their item, since RedisBloom last compacted.
    pub deletions: u64,
    /// Sub-filters.
    pub sub_filters: u64,
    /// Slots per bucket.
    pub bucket_size: u16,
    /// Longest path of kick-outs.
    pub max_iterations: u16,
    /// How much larger each further sub-filter is; 0 = it never grows.
    pub expansion: u16,
}

impl Header {
    /// Reads the first chunk.
    ///
    /// # Errors
    /// It describes what can't be.
    pub fn parse(chunk: &[u8; HEADER_BYTES]) -> Result<Header, DumpError> {
        let mut rest = chunk.as_slice();
        let header = Header {
            items: rest.get_u64_le(),
            buckets: rest.get_u64_le(),
            deletions: rest.get_u64_le(),
            sub_filters: rest.get_u64_le(),
            bucket_size: rest.get_u16_le(),
            max_iterations: rest.get_u16_le(),
            expansion: rest.get_u16_le(),
        };
        let grows = header.sub_filters > 1;
        let makes_sense = (1..=MAX_SUB_FILTERS).contains(&header.sub_filters)
            && header.buckets.is_power_of_two()
            && (1..=255).contains(&header.bucket_size)
            && header.max_iterations > 0
            && (header.expansion == 0 || header.expansion.is_power_of_two())
            && !(grows && header.expansion == 0);
        match makes_sense {
            true => Ok(header),
            false => Err(DumpError::corrupt("its first chunk describes no filter")),
        }
    }

    /// The first chunk.
    pub fn encode(&self) -> Vec<u8> {
        let mut chunk = Vec::with_capacity(HEADER_BYTES);
        for number in [self.items, self.buckets, self.deletions, self.sub_filters] {
            chunk.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.bucket_size, self.max_iterations, self.expansion] {
            chunk.extend_from_slice(&number.to_le_bytes());
        }
        chunk
    }
}

/// Reads the frames: first the description, then the slots as one stream.
pub struct ChunkReader<R> {
    source: R,
    /// The description.
    pub header: Header,
    /// Bytes of slots that came so far.
    slots: u64,
    /// Bytes of the chunk that are still to come.
    left: u64,
    failed: Option<DumpError>,
}

impl<R: Read> ChunkReader<R> {
    /// Reads up to the description.
    ///
    /// # Errors
    /// There is none.
    pub fn open(mut source: R) -> Result<ChunkReader<R>, DumpError> {
        let Some((1, length)) = frame(&mut source)? else {
            return Err(DumpError::corrupt(
                "its first frame has not the iterator 1; RedisBloom can't dump an empty filter",
            ));
        };
        if length != HEADER_BYTES as u64 {
            return Err(DumpError::corrupt("its first chunk has not 38 bytes"));
        }
        let mut chunk = [0; HEADER_BYTES];
        source.read_exact(&mut chunk)?;
        Ok(ChunkReader {
            source,
            header: Header::parse(&chunk)?,
            slots: 0,
            left: 0,
            failed: None,
        })
    }

    /// Fills `slots` with the next slots.
    ///
    /// # Errors
    /// There are not so many, or a chunk is not in its place.
    pub fn fill(&mut self, slots: &mut [u8]) -> Result<(), DumpError> {
        self.read_exact(slots)
            .map_err(|error| self.failed.take().unwrap_or_else(|| error.into()))
    }

    /// Sees that nothing is left.
    ///
    /// # Errors
    /// Something is.
    pub fn finish(mut self) -> Result<(), DumpError> {
        if self.left > 0 || frame(&mut self.source)?.is_some() {
            return Err(DumpError::corrupt(
                "it has more slots than its first chunk describes",
            ));
        }
        Ok(())
    }

    fn next_chunk(&mut self) -> Result<bool, DumpError> {
        let Some((iterator, length)) = frame(&mut self.source)? else {
            return Ok(false);
        };
        if length == 0 || length > MAX_CHUNK_BYTES {
            return Err(DumpError::corrupt("a chunk is empty or too long"));
        }
        let behind = self.slots + length;
        if u64::try_from(iterator).ok() != behind.checked_add(1) {
            return Err(DumpError::corrupt(
                "a chunk is missing, cut or out of its place",
            ));
        }
        self.slots = behind;
        self.left = length;
        Ok(true)
    }
}

impl<R: Read> Read for ChunkReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            match self.next_chunk() {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(error) => {
                    self.failed = Some(error);
                    return Err(io::Error::other("a frame is refused"));
                }
            }
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let length = buffer.len().min(most);
        let read = match buffer.get_mut(..length) {
            Some(front) => self.source.read(front)?,
            None => 0,
        };
        if read == 0 && length > 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

/// Iterator and length of the next frame; `None` at the end.
fn frame(source: &mut impl Read) -> Result<Option<(i64, u64)>, DumpError> {
    let mut head = Vec::new();
    source.take(FRAME_BYTES).read_to_end(&mut head)?;
    match head.len() as u64 {
        0 => Ok(None),
        FRAME_BYTES => {
            let mut head = head.as_slice();
            Ok(Some((head.get_i64_le(), u64::from(head.get_u32_le()))))
        }
        _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
    }
}

#[cfg(test)]
mod tests;
