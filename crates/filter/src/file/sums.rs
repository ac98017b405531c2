//! A checksum a block, and the digest of a file.

use super::header::in_digest;
use super::parts::{BLOCK_BYTES, END_BYTES, SUM_BYTES};
use sha2::{Digest as _, Sha256};

/// The last bytes of every file.
pub(super) const END: [u8; 8] = *b"CUCKEND1";

/// The digest that a file says it has; equal filters have the same. `None`: it does not
/// end like a file.
pub(super) fn told_digest(file: &[u8]) -> Option<[u8; 32]> {
    file.strip_suffix(&END)?.last_chunk().copied()
}

/// Takes the bytes of a file in their order, and makes its end of them.
#[derive(Clone)]
pub struct Sums {
    digest: Sha256,
    block: crc32fast::Hasher,
    /// Bytes of the block under way.
    filled: usize,
    sums: Vec<u8>,
}

impl Sums {
    /// Begins behind a header, all of it, of a file of so many blocks.
    pub fn new(header: &[u8], blocks: u64) -> Sums {
        let sums = blocks * SUM_BYTES + END_BYTES;
        let mut digest = Sha256::new();
        digest.update(in_digest(header));
        Sums {
            digest,
            block: crc32fast::Hasher::new(),
            filled: 0,
            sums: Vec::with_capacity(usize::try_from(sums).unwrap_or(0)),
        }
    }

    /// The next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.digest.update(bytes);
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.filled));
            self.block.update(now);
            self.filled += now.len();
            if self.filled == BLOCK_BYTES {
                let block = std::mem::take(&mut self.block);
                self.sums.extend_from_slice(&block.finalize().to_le_bytes());
                self.filled = 0;
            }
            bytes = later;
        }
    }

    /// What stands behind the last block: the checksums of all of them, and the end
    /// of the file. And its digest.
    pub fn finish(mut self) -> (Vec<u8>, [u8; 32]) {
        let mut out = self.sums;
        let sum = crc32fast::hash(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        self.digest.update(&out);
        let digest: [u8; 32] = self.digest.finalize().into();
        out.extend_from_slice(&digest);
        out.extend_from_slice(&END);
        (out, digest)
    }
}
