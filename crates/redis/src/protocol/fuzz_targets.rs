//! The fuzz target for requests.

use super::decode::{Bounds, Decoded, Decoder, Dropped};
use super::malformed::Malformed;
use super::pipeline::KeptCommands;
use redis::Value;

/// What came of bytes: commands, what was dropped between them, and how they
/// ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) commands: Vec<Result<Vec<Vec<u8>>, Dropped>>,
    pub(super) malformed: Option<Malformed>,
    is_within_command: bool,
}

pub(super) const BOUNDS: Bounds = Bounds {
    words: 200,
    word_bytes: 5000,
    kept_words: 100,
    kept_bytes: 4000,
    is_known: true,
};

/// Decodes pieces, at most so many commands at once.
pub(super) fn decode<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    bounds: &Bounds,
    most: usize,
) -> Parsed {
    let (mut decoder, mut outcome) = (Decoder::new(), Parsed::default());
    let mut came = 0;
    for piece in pieces {
        came += piece.len();
        decoder.room().extend_from_slice(piece);
        decoder.adapt_to_read(piece.len());
        loop {
            match decoder.decode(bounds, most) {
                Decoded::Incomplete => break,
                Decoded::Dropped(why) => outcome.commands.push(Err(why)),
                Decoded::Commands(pipeline) => {
                    assert!((1..=most).contains(&pipeline.len()));
                    for index in 0..pipeline.len() {
                        let words = pipeline.command(index);
                        assert!(words.len() > 0);
                        let mut kept = KeptCommands::default();
                        kept.push(words.iter());
                        let words: Vec<_> = words.iter().map(<[u8]>::to_vec).collect();
                        let kept = kept.into_pipeline();
                        assert!(kept.command(0).iter().eq(words.iter().map(Vec::as_slice)));
                        outcome.commands.push(Ok(words));
                    }
                    decoder.recycle(pipeline);
                }
                Decoded::Malformed(malformed) => {
                    outcome.malformed = Some(malformed);
                    return outcome;
                }
            }
        }
        // Announced bytes take no memory.
        assert!(decoder.room().capacity() <= 2 * came + (256 << 10));
    }
    outcome.is_within_command = decoder.is_within_command();
    outcome
}

/// What another parser makes of the commands at the front, as far as it knows
/// them: it has no lines and no bounds.
pub(super) fn judged(mut bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut commands = Vec::new();
    // It reads ahead, and keeps what it read.
    let mut parser = redis::Parser::new();
    while let Ok(Value::Array(words)) = parser.parse_value(&mut bytes) {
        let words = words.into_iter().map(|word| match word {
            Value::BulkString(word) => Some(word),
            _ => None,
        });
        match words.collect::<Option<Vec<_>>>() {
            Some(words) if words.is_empty() => {}
            Some(words) => commands.push(words),
            None => break,
        }
    }
    commands
}

/// What becomes of a command that is read to its end.
pub(super) fn kept(words: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Dropped> {
    let bytes: usize = words.iter().map(Vec::len).sum();
    match (words.len() > BOUNDS.kept_words, bytes > BOUNDS.kept_bytes) {
        (true, _) => Err(Dropped::TooManyWords),
        (false, true) => Err(Dropped::TooLarge),
        (false, false) => Ok(words),
    }
}

/// Bytes that a client sends: however they are cut, and however many commands
/// are taken at once, the same commands come of them, and they end the same way.
/// What another parser takes for commands is the same here.
pub(crate) fn resp(bytes: &[u8]) {
    let whole = decode(std::iter::once(bytes), &BOUNDS, 1024);
    let one_by_one = decode(bytes.chunks(1), &BOUNDS, 1);
    assert_eq!(whole, one_by_one);
    // Cuts that follow from the bytes.
    let length = bytes.iter().map(|&it| usize::from(it)).sum::<usize>() % 61 + 1;
    assert_eq!(whole, decode(bytes.chunks(length), &BOUNDS, 1 + length % 7));
    let unknown = Bounds {
        words: 3,
        word_bytes: 20,
        is_known: false,
        ..BOUNDS
    };
    let before_auth = decode(bytes.chunks(length), &unknown, 1);
    let shared = before_auth.commands.len();
    assert_eq!(Some(&*before_auth.commands), whole.commands.get(..shared));
    for (command, judged) in whole.commands.into_iter().zip(judged(bytes)) {
        // One that is dropped is one for the judge, too.
        assert_eq!(command, kept(judged));
    }
}

/// What fuzzing begins with.
#[cfg(test)]
pub(crate) fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let long = format!("*2\r\n$4\r\nECHO\r\n$900\r\n{}\r\n", "x".repeat(900));
    [
        ("add", "*3\r\n$6\r\nCF.ADD\r\n$1\r\nk\r\n$1\r\na\r\n"),
        (
            "pipeline",
            "*1\r\n$4\r\nPING\r\n*0\r\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\nPING\r\n\r\n*1\r\n$4\r\nQUIT\r\n",
        ),
        ("null", "\0\r\nping\0 'a\r\n"),
        ("line", "cf.add \"k\\x41\" 'it''s'\r\nping\n"),
        ("http", "POST /x HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n"),
        ("long", &long.repeat(6)),
        ("wide", &format!("*101\r\n{}PING\r\n", "$1\r\nx\r\n".repeat(101))),
        ("wide-word", &format!("*1\r\n$4500\r\n{}\r\nPING\r\n", "x".repeat(4500))),
        ("wrong", "*2\r\n$4\r\nPING\r\n:3\r\n"),
        ("huge", "*99999999999999999999999\r\n"),
        ("negative", "*-1\r\n*1\r\n$-1\r\n"),
    ]
    .map(|(name, text)| ("resp", name.to_owned(), text.as_bytes().to_vec()))
    .to_vec()
}
