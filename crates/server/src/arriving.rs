//! What arrives piece by piece, for work on a thread that may block.

use bytes::{Buf as _, Bytes};
use std::io::{self, Read};
use tokio::sync::mpsc::Receiver;

/// Reads pieces until an empty one, which is their end. Whoever sends them and goes
/// away before that has broken off.
pub struct Arriving {
    pieces: Receiver<io::Result<Bytes>>,
    piece: Bytes,
    is_whole: bool,
}

impl Arriving {
    /// Has the pieces of a queue.
    pub fn new(pieces: Receiver<io::Result<Bytes>>) -> Arriving {
        Arriving {
            pieces,
            piece: Bytes::new(),
            is_whole: false,
        }
    }
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() && !self.is_whole {
            let broken_off = || Err(io::ErrorKind::ConnectionAborted.into());
            self.piece = self.pieces.blocking_recv().unwrap_or_else(broken_off)?;
            self.is_whole = self.piece.is_empty();
        }
        (&mut self.piece).reader().read(buffer)
    }
}
