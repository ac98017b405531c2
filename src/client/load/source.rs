//! Cuts what is read into chunks of whole lines.

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
pub(super) struct Chunk {
    /// Number of the first, from 1.
    pub(super) first_line: u64,
    /// How many.
    pub(super) lines: u64,
    /// As they came, but for the excess of very long ones.
    pub(super) bytes: Vec<u8>,
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
fn read(reader: impl Read, each: impl FnMut(Chunk) -> bool) -> io::Result<()> {
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
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn chunks_of(bytes: &[u8]) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        read(bytes, |chunk| {
            chunks.push(chunk);
            true
        })
        .unwrap();
        chunks
    }

    #[test]
    fn chunks_are_whole_lines_and_all_of_them() {
        assert_eq!(chunks_of(b""), []);
        let few = chunks_of(b"a\n\nb");
        assert_eq!(few.len(), 1);
        assert_eq!((few[0].first_line, few[0].lines), (1, 3));
        assert_eq!(few[0].bytes, b"a\n\nb\n");

        let text: String = (0..100_000).map(|line| format!("line {line}\n")).collect();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let gzip = gzip.finish().unwrap();
        // Two gzipped files after one another are a gzipped file.
        let twice = [gzip.as_slice(), &gzip].concat();
        let text_twice = text.repeat(2);
        for (bytes, text) in [
            (text.as_bytes(), &text),
            (&gzip, &text),
            (&twice, &text_twice),
        ] {
            let chunks = chunks_of(bytes);
            let mut next = 1;
            for chunk in &chunks {
                assert_eq!(chunk.first_line, next);
                next += chunk.lines;
                assert_eq!(
                    chunk.bytes.split(|&byte| byte == b'\n').count() as u64,
                    chunk.lines + 1
                );
                assert!(chunk.bytes.ends_with(b"\n"));
            }
            let whole: Vec<u8> = chunks.into_iter().flat_map(|chunk| chunk.bytes).collect();
            assert!(whole == text.as_bytes());
        }
    }

    #[test]
    fn a_line_without_end_is_cut_and_counts_as_one() {
        let text = format!("a\n{}\nb\n", "x".repeat(5 << 20));
        let chunks = chunks_of(text.as_bytes());
        let lines: u64 = chunks.iter().map(|chunk| chunk.lines).sum();
        let bytes: usize = chunks.iter().map(|chunk| chunk.bytes.len()).sum();
        assert_eq!((lines, bytes), (3, 2 + (1 << 20) + 1 + 2));
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        assert!(read(&b"\x1f\x8bnonsense"[..], |_| true).is_err());
    }
}
