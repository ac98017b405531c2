//! A record of a lane, byte by byte: a commit as opaque bytes, and what every
//! replica checks before it applies it.
//!
//! Numbers are big-endian. `docs/format.md` has the table.

use crate::engine::{HistoryHash, Position};
use bytes::{BufMut, Bytes};
use std::fmt;

/// Version of the records that this program writes, and the newest it reads.
pub const RECORD_VERSION: u8 = 1;

/// Bytes of a record before its commit.
pub const HEADER_BYTES: usize = 75;

/// Largest record in bytes: below the payload of 1 MiB that a broker takes by
/// default, headers included.
pub const MAX_RECORD_BYTES: usize = 900 << 10;

/// Largest commit that fits into a record, in bytes.
pub const MAX_COMMIT_BYTES: usize = MAX_RECORD_BYTES - HEADER_BYTES;

/// Most lanes of a cluster: as many as a pod can have threads for.
pub const MAX_LANES: u32 = crate::engine::MAX_LANES as u32;

/// The epoch in which a cluster is founded.
pub const FIRST_EPOCH: u64 = 1;

/// Where the bytes begin that the checksum covers: behind version and checksum.
const CHECKED_FROM: usize = 5;

/// Which lane of which cluster: what every record of it must name, and where
/// its history begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneIdentity {
    /// Chosen at random when the cluster was founded: two clusters of the same
    /// name differ in it.
    pub founding: [u8; 16],
    /// Which life of the cluster: people begin a new one after a log was lost.
    pub epoch: u64,
    /// The lane.
    pub lane: u32,
}

impl LaneIdentity {
    /// Where a lane without records stands. It is the same in every epoch: a later
    /// one goes on where the one before ended.
    pub fn origin(&self) -> Position {
        let (epoch, lane) = (FIRST_EPOCH.to_be_bytes(), self.lane.to_be_bytes());
        let origin = [b"cuckood lane".as_slice(), &self.founding, &epoch, &lane].concat();
        Position::new(0, HistoryHash::of(&origin))
    }
}

/// One life of one process, chosen at random at its start.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Writer(pub [u8; 16]);

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What a program must understand to apply it.
    pub level: u16,
    /// The life of the cluster that it belongs to.
    pub epoch: u64,
    /// Its lane.
    pub lane: u32,
    /// Where its lane stood when it was planned: it applies there and nowhere
    /// else.
    pub previous: Position,
    /// Who wrote it.
    pub writer: Writer,
    /// The writer's number of it: no two records of a writer are the same bytes.
    pub number: u64,
    /// What time it was, in milliseconds since 1970; never less than in the
    /// record before it.
    pub stamp_ms: u64,
    /// What it changes. Empty: nothing, it is a barrier.
    pub commit: Bytes,
}

/// Why bytes are no record that can be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A newer program wrote it.
    #[error(
        "it has format version {found}, this program reads up to {RECORD_VERSION}: start a newer cuckood"
    )]
    Newer {
        /// Its version.
        found: u8,
    },
    /// It is none.
    #[error("it is no record: {reason}")]
    Unreadable {
        /// What is wrong with it.
        reason: &'static str,
    },
}

const fn unreadable(reason: &'static str) -> RecordError {
    RecordError::Unreadable { reason }
}

impl Record {
    /// Its bytes. `None`: the commit is over [`MAX_COMMIT_BYTES`].
    pub fn encode(&self) -> Option<Bytes> {
        if self.commit.len() > MAX_COMMIT_BYTES {
            return None;
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.commit.len());
        bytes.put_u8(RECORD_VERSION);
        bytes.put_u32(0);
        bytes.put_u16(self.level);
        bytes.put_u64(self.epoch);
        bytes.put_u32(self.lane);
        bytes.put_u64(self.previous.sequence);
        bytes.put_slice(self.previous.history.as_bytes());
        bytes.put_slice(&self.writer.0);
        bytes.put_u64(self.number);
        bytes.put_u64(self.stamp_ms);
        bytes.put_slice(&self.commit);
        if let Some((head, checked)) = bytes.split_first_chunk_mut::<CHECKED_FROM>() {
            let [_, checksum @ ..] = head;
            *checksum = crc32c::crc32c(checked).to_be_bytes();
        }
        Some(bytes.into())
    }

    /// Reads one; its commit shares the bytes.
    ///
    /// # Errors
    /// The bytes are anything but exactly one record.
    pub fn decode(bytes: &Bytes) -> Result<Record, RecordError> {
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(unreadable("it is too long"));
        }
        let mut fields = Fields(bytes);
        let [version] = fields.take()?;
        match version {
            RECORD_VERSION => {}
            0 => return Err(unreadable("its version is 0")),
            found => return Err(RecordError::Newer { found }),
        }
        let checksum = u32::from_be_bytes(fields.take()?);
        if crc32c::crc32c(fields.0) != checksum {
            return Err(unreadable("its checksum is another"));
        }
        Ok(Record {
            level: u16::from_be_bytes(fields.take()?),
            epoch: u64::from_be_bytes(fields.take()?),
            lane: u32::from_be_bytes(fields.take()?),
            previous: Position {
                sequence: u64::from_be_bytes(fields.take()?),
                history: HistoryHash::from_bytes(fields.take()?),
            },
            writer: Writer(fields.take()?),
            number: u64::from_be_bytes(fields.take()?),
            stamp_ms: u64::from_be_bytes(fields.take()?),
            commit: bytes.slice_ref(fields.0),
        })
    }
}

/// What has not been read yet.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], RecordError> {
        let (field, rest) = self
            .0
            .split_first_chunk()
            .ok_or(unreadable("it ends too early"))?;
        self.0 = rest;
        Ok(*field)
    }
}

#[cfg(test)]
mod tests;
