//! Cuts what is read into chunks of whole lines.

use crate::client::lists::without_mark;
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Read};
use tokio::sync::mpsc::{self, Receiver};

/// Bytes of a chunk, about.
const CHUNK_BYTES: usize = 256 << 10;

/// More of a line is not sent: it is far too long for an item either way.
const MOST_LINE_BYTES: usize = 1 << 20;

/// First bytes of a gzipped file (RFC 1952, 2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Whole lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Number of the first, from 1.
    pub(crate) first_line: u64,
    /// How many.
    pub(super) lines: u64,
    /// As they came, but for the excess of very long ones, and a byte order mark.
    pub(crate) bytes: Vec<u8>,
}

impl Chunk {
    fn from(first_line: u64) -> Chunk {
        Chunk {
            first_line,
            lines: 0,
            bytes: Vec::new(),
        }
    }

    /// Number of the last line.
    pub(super) fn last_line(&self) -> u64 {
        self.first_line + self.lines - 1
    }
}

/// Reads on a thread of its own, a few chunks ahead.
pub(super) fn chunks(reader: impl Read + Send + 'static) -> Receiver<io::Result<Chunk>> {
    let (sender, receiver) = mpsc::channel(2);
    tokio::task::spawn_blocking(move || {
        let each = |chunk| sender.blocking_send(chunk).is_ok();
        if let Err(error) = read(reader, |chunk| each(Ok(chunk))) {
            each(Err(error));
        }
    });
    receiver
}

/// Shows `each` every chunk until it wants no more.
pub(crate) fn read(reader: impl Read, each: impl FnMut(Chunk) -> bool) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(CHUNK_BYTES, reader);
    if reader.fill_buf()?.starts_with(GZIP) {
        let unpacked = MultiGzDecoder::new(reader);
        cut(BufReader::with_capacity(CHUNK_BYTES, unpacked), each)
    } else {
        cut(reader, each)
    }
}

fn cut(mut reader: impl BufRead, mut each: impl FnMut(Chunk) -> bool) -> io::Result<()> {
    let mut chunk = Chunk::from(1);
    loop {
        let start = chunk.bytes.len();
        let mut line = (&mut reader).take(MOST_LINE_BYTES as u64);
        let read = line.read_until(b'\n', &mut chunk.bytes)?;
        if read > 0 {
            if chunk.first_line == 1 && chunk.lines == 0 {
                without_mark(&mut chunk.bytes)?;
            }
            chunk.lines += 1;
            if !chunk.bytes.ends_with(b"\n") {
                if read == MOST_LINE_BYTES {
                    reader.skip_until(b'\n')?;
                }
                chunk.bytes.push(b'\n');
            }
        }
        let is_end = chunk.bytes.len() == start;
        if chunk.lines > 0 && (is_end || chunk.bytes.len() >= CHUNK_BYTES) {
            let next = Chunk::from(chunk.last_line() + 1);
            if !each(std::mem::replace(&mut chunk, next)) {
                return Ok(());
            }
        }
        if is_end {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests;
