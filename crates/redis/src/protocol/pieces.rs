//! Commands as clients write them, in pieces: what is forwarded to another pod is
//! never in memory a second time as a whole.

use super::pipeline::Pipeline;
use bytes::Bytes;

/// Bytes after which a piece is large enough, and of a word beyond which it is a
/// piece by itself that lies where it came.
const PIECE_BYTES: usize = 64 << 10;

/// See the module.
pub(crate) struct Pieces {
    commands: Pipeline,
    /// The next command, and the next of its words.
    at: usize,
    word: usize,
    /// The word that comes next by itself, and the end of its line behind it.
    long: Option<Bytes>,
    begins: &'static [u8],
}

impl Pieces {
    /// Of all commands.
    pub(crate) fn of(commands: Pipeline) -> Pieces {
        Pieces {
            commands,
            at: 0,
            word: 0,
            long: None,
            begins: b"",
        }
    }
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if let Some(long) = self.long.take() {
            self.begins = b"\r\n";
            return Some(long);
        }
        let mut piece = std::mem::take(&mut self.begins).to_vec();
        while self.at < self.commands.len() && piece.len() < PIECE_BYTES && self.long.is_none() {
            let words = self.commands.command(self.at);
            if self.word == 0 {
                piece.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            }
            let Some(place) = words.places().get(self.word) else {
                (self.at, self.word) = (self.at + 1, 0);
                continue;
            };
            self.word += 1;
            piece.extend_from_slice(format!("${}\r\n", place.len()).as_bytes());
            match place.len() > PIECE_BYTES {
                true => self.long = Some(words.bytes().slice(place.clone())),
                false => {
                    piece.extend_from_slice(words.get(self.word - 1));
                    piece.extend_from_slice(b"\r\n");
                }
            }
        }
        (!piece.is_empty()).then(|| piece.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::decode::{Bounds, Decoded, Decoder};
    use crate::protocol::pipeline::KeptCommands;

    #[test]
    fn pieces_are_the_commands_and_none_is_large_but_a_word() {
        let long = vec![b'x'; 3 * PIECE_BYTES];
        let mut kept = KeptCommands::default();
        kept.push([&b"CF.ADD"[..], b"", &long]);
        kept.push((0..40_000).map(|_| &b"item"[..]));
        kept.push([&long[..], &long, b"\r\n"]);
        kept.push([&b"PING"[..]]);
        let commands = kept.into_pipeline();
        let of_some = commands.of_these([2, 0, 1, 3].into_iter());
        for commands in [commands, of_some, Pipeline::default()] {
            let mut decoder = Decoder::new();
            for piece in Pieces::of(commands.clone()) {
                assert!(
                    piece == long || piece.len() < PIECE_BYTES + 64,
                    "{}",
                    piece.len()
                );
                decoder.room().extend_from_slice(&piece);
            }
            let mut decoded = Vec::new();
            let bounds = Bounds::of_known(1 << 20, 1 << 30);
            while let Decoded::Commands(pipeline) = decoder.decode(&bounds, usize::MAX) {
                let words = |at| {
                    pipeline
                        .command(at)
                        .iter()
                        .map(<[u8]>::to_vec)
                        .collect::<Vec<_>>()
                };
                decoded.extend((0..pipeline.len()).map(words));
            }
            let words = |at| {
                commands
                    .command(at)
                    .iter()
                    .map(<[u8]>::to_vec)
                    .collect::<Vec<_>>()
            };
            assert_eq!(decoded, (0..commands.len()).map(words).collect::<Vec<_>>());
        }
    }
}
