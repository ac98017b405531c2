//! From bytes to commands.
//!
//! Bytes come in pieces that are cut anywhere. What came of a command is kept
//! as places in one buffer, so that nothing is looked at twice and no argument
//! is copied. All whole commands are handed over together, with the bytes that
//! they lie in. Announced lengths are believed only in proportion to what came.

use super::inline;
use super::lines;
use super::malformed::Malformed;
use super::pipeline::Pipeline;
use bytes::{Buf as _, Bytes, BytesMut};
use std::ops::Range;

/// Commands, and bytes of them, that are handed over at once.
const MAX_COMMANDS: usize = 1024;
const MAX_BYTES: usize = 128 << 10;

/// Bytes that a new connection reads at once, and one that sent as many.
const FIRST_READ_BYTES: usize = 4 << 10;
const READ_BYTES: usize = 64 << 10;

/// Words that came behind which room is taken for those that are announced, at most four
/// times as many as came: to copy so many places at each doubling takes long.
const MANY_WORDS: usize = 1 << 16;

/// What a byte is that begins a handshake of TLS.
const TLS_HANDSHAKE: u8 = 0x16;

/// What one command may have. What is over a bound of a kept command is read to its
/// end and dropped, so that its client learns why; what is over one of a readable
/// command ends the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Words of a readable command, the name included.
    pub(crate) words: usize,
    /// Bytes of one word of it.
    pub(crate) word_bytes: usize,
    /// Words of a kept command.
    pub(crate) kept_words: usize,
    /// Bytes of all words of it.
    pub(crate) kept_bytes: usize,
    /// Whether its client has said who it is, or need not.
    pub(crate) is_known: bool,
}

/// Words that a command may have beside its items.
const OTHER_WORDS: usize = 16;

/// Words of a command, and bytes of a word, that are read of who is known, kept or not.
const READABLE_WORDS: usize = 1 << 20;
const READABLE_WORD_BYTES: usize = 512 << 20;

impl Bounds {
    /// For clients who have said who they are: items, and bytes, of a command.
    pub(crate) fn of_known(items: usize, bytes: usize) -> Bounds {
        let kept_words = items.saturating_add(OTHER_WORDS);
        Bounds {
            words: kept_words.max(READABLE_WORDS),
            word_bytes: bytes.max(READABLE_WORD_BYTES),
            kept_words,
            kept_bytes: bytes,
            is_known: true,
        }
    }
}

/// What came of the bytes so far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// Whole commands, at least one.
    Commands(Pipeline),
    /// A command was dropped; its place in the order is here.
    Dropped(Dropped),
    /// Nothing that is whole: read on.
    Incomplete,
    /// No command: the connection must end.
    Malformed(Malformed),
}

/// Why a command was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// It has more words than a command may have.
    TooManyWords,
    /// It has more bytes than a command may have.
    TooLarge,
    /// There was no memory for it.
    NoMemory,
}

/// Where the decoder is within a command.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Between two commands, so many bytes of a line behind its first.
    Between { scanned: usize },
    /// So many words are still to come.
    Words { left: usize },
    /// The same, and the first of them has so many bytes.
    Word { left: usize, length: usize },
}

/// How far a command came.
enum Progress {
    /// It is whole.
    Whole,
    /// It was dropped, and this is its end.
    Dropped,
    /// A line: as many bytes as that, its end included.
    Line(usize),
    /// Bytes are missing.
    Incomplete,
}

/// See the module.
pub(crate) struct Decoder {
    input: BytesMut,
    /// What was looked at.
    at: usize,
    state: State,
    arguments: Vec<Range<usize>>,
    ends: Vec<usize>,
    /// Bytes of the whole commands.
    whole: usize,
    /// What the command under way takes, as far as it is announced.
    under_way: usize,
    /// Whether the command under way is dropped, and why.
    dropping: Option<Dropped>,
    /// The same of one that ended.
    dropped: Option<Dropped>,
    read_bytes: usize,
    /// Most bytes that the buffer had since it was made.
    largest: usize,
}

impl Decoder {
    /// Nothing came.
    pub(crate) fn new() -> Decoder {
        Decoder {
            input: BytesMut::new(),
            at: 0,
            state: State::Between { scanned: 0 },
            arguments: Vec::new(),
            ends: Vec::new(),
            whole: 0,
            under_way: 0,
            dropping: None,
            dropped: None,
            read_bytes: FIRST_READ_BYTES,
            largest: 0,
        }
    }

    /// All of it came.
    pub(crate) fn of(bytes: Bytes) -> Decoder {
        Decoder {
            input: bytes.into(),
            ..Decoder::new()
        }
    }

    /// Where bytes that come are put, with room for some.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        self.input.reserve(self.missing_room());
        &mut self.input
    }

    /// Bytes that are copied to make this room: all that came, or none if it is there.
    pub(crate) fn copied_for_room(&self) -> usize {
        match self.missing_room() {
            0 => 0,
            _ => self.input.len(),
        }
    }

    /// Bytes for which there is no room yet: as many again as there are, if a long word
    /// is under way, since announced bytes take no memory before they come.
    fn missing_room(&self) -> usize {
        let missing = match self.state {
            State::Word { length, .. } => (self.at + length + 2).saturating_sub(self.input.len()),
            _ => 0,
        };
        let wanted = missing.min(self.input.len()).max(self.read_bytes);
        let is_there = self.input.capacity() - self.input.len() >= wanted.min(self.read_bytes);
        if is_there { 0 } else { wanted }
    }

    /// Adapts to how many bytes came at once.
    pub(crate) fn adapt_to_read(&mut self, bytes: usize) {
        self.largest = self.largest.max(self.input.len());
        if bytes >= self.read_bytes {
            self.read_bytes = READ_BYTES;
        }
    }

    /// Whether a command has begun and is not whole.
    pub(crate) fn is_within_command(&self) -> bool {
        !matches!(self.state, State::Between { .. }) || self.input.len() > self.at
    }

    /// Bytes of memory that the command under way takes, those included that may
    /// come next.
    pub(crate) fn memory(&self) -> usize {
        let places = self.arguments.capacity() * size_of::<Range<usize>>();
        match self.dropping {
            None => {
                let wanted = self.input.len() + self.missing_room();
                self.input.capacity().max(wanted) + places
            }
            Some(_) => 0,
        }
    }

    /// Has the rest of the command under way read and dropped.
    pub(crate) fn drop_command(&mut self, why: Dropped) {
        if !matches!(self.state, State::Between { .. }) && self.dropping.is_none() {
            self.dropping = Some(why);
            self.arguments
                .truncate(self.ends.last().copied().unwrap_or(0));
            // Nobody answers for the memory of its words any more.
            self.arguments.shrink_to_fit();
        }
    }

    /// Takes the vectors of a pipeline back that is done with, so that the next one
    /// needs no new ones.
    pub(crate) fn recycle(&mut self, pipeline: Pipeline) {
        const MOST: usize = 4 << 10;
        let Pipeline {
            bytes,
            mut arguments,
            mut ends,
        } = pipeline;
        drop(bytes);
        self.let_go();
        if self.arguments.is_empty() && self.ends.is_empty() && arguments.capacity() <= MOST {
            arguments.clear();
            ends.clear();
            (self.arguments, self.ends) = (arguments, ends);
        }
    }

    /// Takes the bytes that came apart, up to `most` commands of them.
    pub(crate) fn decode(&mut self, bounds: &Bounds, most: usize) -> Decoded {
        if let Some(dropped) = self.dropped.take() {
            return Decoded::Dropped(dropped);
        }
        let most = most.min(MAX_COMMANDS);
        while self.ends.len() < most && self.whole < MAX_BYTES {
            match self.go_on(bounds) {
                Ok(Progress::Whole) => {}
                Ok(Progress::Incomplete) => {
                    // What came of one that is dropped goes, unless whole ones lie
                    // before it.
                    if self.dropping.is_some() && self.ends.is_empty() {
                        self.skip();
                    }
                    break;
                }
                Ok(Progress::Dropped) => {
                    let dropped = self.dropping.take();
                    let pipeline = self.split();
                    self.skip();
                    return match (pipeline, dropped) {
                        (Some(pipeline), _) => {
                            self.dropped = dropped;
                            Decoded::Commands(pipeline)
                        }
                        (None, Some(dropped)) => Decoded::Dropped(dropped),
                        (None, None) => Decoded::Incomplete,
                    };
                }
                // What came before it is handed over by itself.
                Ok(Progress::Line(_)) if !self.ends.is_empty() => break,
                Ok(Progress::Line(length)) => match self.line(length) {
                    Ok(None) => {}
                    Ok(Some(pipeline)) => return Decoded::Commands(pipeline),
                    Err(malformed) => return Decoded::Malformed(malformed),
                },
                Err(_) if !self.ends.is_empty() => break,
                Err(malformed) => return Decoded::Malformed(malformed),
            }
        }
        self.split().map_or(Decoded::Incomplete, Decoded::Commands)
    }

    /// Goes on to the end of a command, or of what came.
    fn go_on(&mut self, bounds: &Bounds) -> Result<Progress, Malformed> {
        loop {
            match self.state {
                State::Between { scanned } => match self.input.get(self.at) {
                    None => return Ok(Progress::Incomplete),
                    Some(b'*') => {
                        let Some((count, next)) = self.length(Malformed::LongArgumentCount)? else {
                            return Ok(Progress::Incomplete);
                        };
                        let count = count.ok_or(Malformed::ArgumentCount)?;
                        let words = usize::try_from(count).unwrap_or(0);
                        if words > bounds.words {
                            return Err(match bounds.is_known {
                                true => Malformed::ArgumentCount,
                                false => Malformed::ArgumentCountBeforeAuth,
                            });
                        }
                        self.at = next;
                        if words == 0 {
                            // It is skipped, as redis does.
                            match self.ends.is_empty() {
                                true => self.skip(),
                                false => self.whole = self.at,
                            }
                            continue;
                        }
                        self.under_way = 0;
                        self.state = State::Words { left: words };
                        if words > bounds.kept_words {
                            self.drop_command(Dropped::TooManyWords);
                        }
                    }
                    Some(&TLS_HANDSHAKE) => return Err(Malformed::Foreign),
                    Some(_) => return self.find_line(scanned),
                },
                State::Words { left } => {
                    match self.input.get(self.at) {
                        None => return Ok(Progress::Incomplete),
                        Some(b'$') => {}
                        Some(&other) => return Err(Malformed::NoArgument(other)),
                    }
                    let Some((length, next)) = self.length(Malformed::LongArgumentLength)? else {
                        return Ok(Progress::Incomplete);
                    };
                    let length = length.and_then(|it| usize::try_from(it).ok());
                    let length = length.ok_or(Malformed::ArgumentLength)?;
                    if length > bounds.word_bytes {
                        return Err(match bounds.is_known {
                            true => Malformed::ArgumentLength,
                            false => Malformed::ArgumentLengthBeforeAuth,
                        });
                    }
                    self.at = next;
                    self.under_way += length;
                    self.state = State::Word { left, length };
                    if self.under_way > bounds.kept_bytes {
                        self.drop_command(Dropped::TooLarge);
                    }
                }
                State::Word { left, length } => {
                    let Some(behind) = self.word(left, length)? else {
                        return Ok(Progress::Incomplete);
                    };
                    self.at = behind;
                    if left > 1 {
                        self.state = State::Words { left: left - 1 };
                        continue;
                    }
                    self.state = State::Between { scanned: 0 };
                    self.under_way = 0;
                    if self.dropping.is_some() {
                        return Ok(Progress::Dropped);
                    }
                    self.ends.push(self.arguments.len());
                    self.whole = self.at;
                    return Ok(Progress::Whole);
                }
            }
        }
    }

    /// Notes a word that came as a whole, and returns where the next begins.
    #[inline]
    fn word(&mut self, left: usize, length: usize) -> Result<Option<usize>, Malformed> {
        let (start, end) = (self.at, self.at + length);
        match self.input.get(end..end + 2) {
            Some(b"\r\n") => {}
            Some(_) => return Err(Malformed::ArgumentLength),
            None => {
                if self.dropping.is_some() {
                    let came = self.input.len().min(end) - start;
                    self.at += came;
                    let length = length - came;
                    self.state = State::Word { left, length };
                }
                return Ok(None);
            }
        }
        if self.dropping.is_none() {
            let places = self.arguments.len();
            if places >= MANY_WORDS && places == self.arguments.capacity() {
                self.arguments.reserve_exact(left.min(4 * places));
            }
            self.arguments.push(start..end);
        }
        Ok(Some(end + 2))
    }

    /// The number of the line that begins here with a mark, and where the next line
    /// begins; as [`lines::length`].
    #[inline]
    fn length(&self, too_long: Malformed) -> Result<Option<(Option<i64>, usize)>, Malformed> {
        let line = self.input.get(self.at + 1..).unwrap_or_default();
        Ok(lines::length(line, too_long)?.map(|(number, end)| (number, self.at + 1 + end)))
    }

    /// Looks for the end of a line.
    fn find_line(&mut self, scanned: usize) -> Result<Progress, Malformed> {
        let line = self.input.get(self.at..).unwrap_or_default();
        if let Some(end) = lines::end(line, scanned)? {
            return Ok(Progress::Line(end));
        }
        let scanned = line.len();
        self.state = State::Between { scanned };
        Ok(Progress::Incomplete)
    }

    /// Takes a line of so many bytes, and returns its command if it has words.
    fn line(&mut self, length: usize) -> Result<Option<Pipeline>, Malformed> {
        let line = self.input.get(self.at..self.at + length);
        let line = line.unwrap_or_default();
        if inline::is_http(line) {
            return Err(Malformed::Foreign);
        }
        let words = inline::words(line)?;
        self.at += length;
        self.state = State::Between { scanned: 0 };
        self.skip();
        if words.is_empty() {
            return Ok(None);
        }
        let mut pipeline = Pipeline {
            ends: vec![words.len()],
            ..Pipeline::default()
        };
        let mut start = 0;
        for word in &words {
            pipeline.arguments.push(start..start + word.len());
            start += word.len();
        }
        pipeline.bytes = Bytes::from(words.concat());
        Ok(Some(pipeline))
    }

    /// Splits the whole commands off, if there are any, with their bytes.
    fn split(&mut self) -> Option<Pipeline> {
        let last = self.ends.last().copied()?;
        let bytes = self.input.split_to(self.whole).freeze();
        // Those of a command that is not whole stay, and so do its bytes.
        let begun = self.arguments.get(last..).unwrap_or_default();
        let behind = |place: &Range<usize>| place.start - self.whole..place.end - self.whole;
        let begun = begun.iter().map(behind).collect();
        self.arguments.truncate(last);
        self.at -= self.whole;
        self.whole = 0;
        Some(Pipeline {
            bytes,
            arguments: std::mem::replace(&mut self.arguments, begun),
            ends: std::mem::take(&mut self.ends),
        })
    }

    /// Forgets what was looked at.
    fn skip(&mut self) {
        self.input.advance(self.at);
        self.at = 0;
        self.let_go();
    }

    /// Gives back memory that only a large command needed: a connection may say
    /// nothing for days.
    fn let_go(&mut self) {
        if self.largest > 2 * READ_BYTES && self.input.len() <= READ_BYTES {
            self.input = BytesMut::from(&*self.input);
            self.largest = 0;
        }
    }
}

#[cfg(test)]
mod tests;
