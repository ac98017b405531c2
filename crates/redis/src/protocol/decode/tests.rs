use super::super::fuzz_targets::{BOUNDS, Parsed, decode, judged, kept, resp};
use super::super::lines::MAX_LINE_BYTES;
use super::*;
use proptest::prelude::*;

fn of(text: &[u8]) -> Parsed {
    resp(text);
    decode(std::iter::once(text), &BOUNDS, 1024)
}

fn written(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut out = Vec::new();
    for words in commands {
        out.extend(format!("*{}\r\n", words.len()).bytes());
        for word in words {
            out.extend(format!("${}\r\n", word.len()).bytes());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
    }
    out
}

#[test]
fn what_is_no_command_ends_the_connection_in_the_words_of_redis() {
    let long_line = "x".repeat(MAX_LINE_BYTES);
    for (text, words) in [
        ("*x\r\n", "invalid multibulk length"),
        ("*+1\r\n", "invalid multibulk length"),
        ("*201\r\n", "invalid multibulk length"),
        ("*1\n", "invalid multibulk length"),
        ("*1\r\n$5001\r\n", "invalid bulk length"),
        // Also where the command is dropped.
        ("*101\r\n$5001\r\n", "invalid bulk length"),
        ("*101\r\n$1\r\nab\r\n", "invalid bulk length"),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$\r\n", "invalid bulk length"),
        ("*1\r\n$1\r\nab\r\n", "invalid bulk length"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\n\r\n", "expected '$', got '\\r'"),
        (
            "*00000000000000000000000000000000",
            "too big mbulk count string",
        ),
        (
            "*1\r\n$00000000000000000000000000000000",
            "too big bulk count string",
        ),
        (&long_line, "too big inline request"),
        ("ping \"a", "unbalanced quotes in request"),
        ("ping \"a\n", "unbalanced quotes in request"),
        ("GET / HTTP/1.1\r\n", "another protocol"),
        ("\x16\x03\x01", "another protocol"),
    ] {
        let outcome = of(text.as_bytes());
        // The end of a line must come before its quotes are looked at.
        if text == "ping \"a" {
            assert_eq!(outcome.malformed, None);
            continue;
        }
        assert_eq!(outcome.malformed.unwrap().to_string(), words, "{text}");
    }
}

#[test]
fn before_a_client_is_known_it_sends_little() {
    let bounds = Bounds {
        words: 10,
        word_bytes: 16384,
        is_known: false,
        ..Bounds::of_known(100, 1 << 20)
    };
    for (text, words) in [
        ("*11\r\n", "unauthenticated multibulk length"),
        ("*1\r\n$16385\r\n", "unauthenticated bulk length"),
    ] {
        let outcome = decode(std::iter::once(text.as_bytes()), &bounds, 1);
        assert_eq!(outcome.malformed.unwrap().to_string(), words);
    }
}

#[test]
fn commands_before_one_that_is_none_are_handed_over() {
    let outcome = of(b"*1\r\n$4\r\nPING\r\n*0\r\n\r\n  \nping\r\n*x\r\n");
    let words = [b"PING".to_vec(), b"ping".to_vec()];
    let commands: Vec<_> = words.into_iter().map(|word| Ok(vec![word])).collect();
    assert_eq!(outcome.commands, commands);
    assert_eq!(outcome.malformed, Some(Malformed::ArgumentCount));
}

#[test]
fn a_command_that_is_too_large_is_dropped_and_the_next_one_is_read() {
    let ping = vec![b"PING".to_vec()];
    for (large, why) in [
        (vec![vec![b'x'; 900]; 6], Dropped::TooLarge),
        (vec![vec![b'x'; 4500]], Dropped::TooLarge),
        (vec![b"x".to_vec(); 101], Dropped::TooManyWords),
        (vec![vec![b'x'; 90]; 101], Dropped::TooManyWords),
    ] {
        let bytes = written(&[ping.clone(), large, ping.clone()]);
        let outcome = of(&bytes);
        let expected = [Ok(ping.clone()), Err(why), Ok(ping.clone())];
        assert_eq!(outcome.commands, expected);
    }
}

#[test]
fn what_is_too_large_from_its_beginning_takes_no_memory() {
    let bounds = Bounds::of_known(10, 100);
    let ping = vec![b"PING".to_vec()];
    for (large, why) in [
        (vec![b"x".to_vec(); READABLE_WORDS], Dropped::TooManyWords),
        (vec![vec![b'x'; 4 << 20]; 2], Dropped::TooLarge),
    ] {
        let mut decoder = Decoder::new();
        let mut dropped = None;
        for piece in written(&[large, ping.clone()]).chunks(READ_BYTES) {
            assert!(dropped.is_none());
            decoder.room().extend_from_slice(piece);
            decoder.adapt_to_read(piece.len());
            match decoder.decode(&bounds, 10) {
                Decoded::Incomplete => {}
                other => dropped = Some(other),
            }
            let places = decoder.arguments.capacity() * size_of::<Range<usize>>();
            assert!(decoder.room().capacity() + places <= 4 * READ_BYTES);
            assert_eq!(decoder.memory() == 0, dropped.is_none());
        }
        assert_eq!(dropped, Some(Decoded::Dropped(why)));
        assert!(matches!(decoder.decode(&bounds, 10), Decoded::Commands(_)));
    }
}

#[test]
fn what_is_dropped_keeps_no_memory() {
    let bytes = written(&[vec![b"x".to_vec(); 100_000]]);
    let bounds = Bounds::of_known(100_000, bytes.len());
    let mut decoder = Decoder::new();
    for piece in bytes[..bytes.len() - 1].chunks(READ_BYTES) {
        decoder.room().extend_from_slice(piece);
        assert_eq!(decoder.decode(&bounds, 10), Decoded::Incomplete);
        decoder.adapt_to_read(piece.len());
    }
    decoder.drop_command(Dropped::NoMemory);
    assert_eq!(decoder.decode(&bounds, 10), Decoded::Incomplete);
    let places = decoder.arguments.capacity() * size_of::<Range<usize>>();
    assert!(
        decoder.input.capacity() + places <= 4 * READ_BYTES,
        "{places}"
    );
}

#[test]
fn what_room_for_a_large_word_costs_is_known_before_it_is_made() {
    let bytes = written(&[vec![vec![b'x'; 8 << 20]]]);
    let bounds = Bounds::of_known(1, bytes.len());
    let mut decoder = Decoder::new();
    let mut grown = 0;
    for piece in bytes[..bytes.len() - 1].chunks(READ_BYTES) {
        let copied = decoder.copied_for_room();
        if copied > 1 << 20 {
            assert_eq!(copied, decoder.input.len());
            let told = decoder.memory();
            assert!(decoder.room().capacity() >= decoder.input.len() + READ_BYTES);
            assert!(told > decoder.input.len() && decoder.copied_for_room() == 0);
            grown += 1;
        }
        decoder.room().extend_from_slice(piece);
        decoder.adapt_to_read(piece.len());
        assert_eq!(decoder.decode(&bounds, 10), Decoded::Incomplete);
    }
    assert!((2..10).contains(&grown), "{grown}");
}

#[test]
fn a_command_for_which_there_is_no_memory_is_dropped_from_where_it_is() {
    let bytes = written(&[
        vec![b"a".to_vec(), vec![b'x'; 500], b"b".to_vec()],
        vec![b"PING".to_vec()],
    ]);
    for cut in 5..bytes.len() - 20 {
        let (front, rest) = bytes.split_at(cut);
        let mut decoder = Decoder::new();
        decoder.room().extend_from_slice(front);
        assert_eq!(decoder.decode(&BOUNDS, 10), Decoded::Incomplete);
        assert!(decoder.memory() > cut);
        decoder.drop_command(Dropped::NoMemory);
        assert_eq!(decoder.memory(), 0);
        decoder.room().extend_from_slice(rest);
        let dropped = Decoded::Dropped(Dropped::NoMemory);
        assert_eq!(decoder.decode(&BOUNDS, 10), dropped, "{cut}");
        let Decoded::Commands(pipeline) = decoder.decode(&BOUNDS, 10) else {
            panic!("{cut}");
        };
        assert_eq!(pipeline.command(0).get(0), b"PING");
    }
}

#[test]
fn announced_bytes_take_no_memory() {
    let bounds = Bounds {
        words: 1 << 20,
        word_bytes: 1 << 30,
        kept_words: 1 << 20,
        kept_bytes: 1 << 30,
        is_known: true,
    };
    let mut decoder = Decoder::new();
    decoder
        .room()
        .extend_from_slice(b"*1000000\r\n$1000000000\r\nabc");
    assert_eq!(decoder.decode(&bounds, 10), Decoded::Incomplete);
    assert!(decoder.room().capacity() < 1 << 17);
    assert!(decoder.arguments.capacity() < 100);
    assert!(decoder.memory() < 1 << 17);
}

#[test]
fn announced_words_take_memory_in_proportion_to_those_that_came() {
    let bounds = Bounds::of_known(100_000_000, 1 << 30);
    let mut decoder = Decoder::new();
    let bytes = b"*100000000\r\n".iter().copied();
    let words = b"$1\r\nx\r\n".iter().copied().cycle();
    let bytes: Vec<u8> = bytes.chain(words.take(7 * (MANY_WORDS + 1))).collect();
    decoder.room().extend_from_slice(&bytes);
    assert_eq!(decoder.decode(&bounds, 10), Decoded::Incomplete);
    let room = decoder.arguments.capacity();
    assert!((2 * MANY_WORDS..=5 * MANY_WORDS).contains(&room), "{room}");
}

#[test]
fn a_large_command_leaves_no_memory_behind() {
    let bounds = Bounds {
        word_bytes: 1 << 24,
        kept_bytes: 1 << 24,
        ..BOUNDS
    };
    let bytes = written(&[vec![vec![b'x'; 1 << 22]]]);
    for is_dropped in [false, true] {
        let mut decoder = Decoder::new();
        for piece in bytes.chunks(10_000) {
            decoder.room().extend_from_slice(piece);
            decoder.adapt_to_read(piece.len());
            match decoder.decode(&bounds, 10) {
                Decoded::Commands(pipeline) => decoder.recycle(pipeline),
                Decoded::Incomplete if is_dropped => decoder.drop_command(Dropped::NoMemory),
                _ => {}
            }
        }
        assert!(!decoder.is_within_command());
        assert!(decoder.room().capacity() <= 2 * READ_BYTES);
    }
}

fn commands() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let word = prop::collection::vec(any::<u8>(), 0..40);
    let long = (990..2010usize, any::<u8>()).prop_map(|(length, of)| vec![of; length]);
    let command = prop_oneof![
        8 => prop::collection::vec(word, 1..6),
        1 => prop::collection::vec(long, 1..6),
        1 => (90..=BOUNDS.words).prop_map(|words| vec![b"x".to_vec(); words]),
        1 => (3990..=BOUNDS.word_bytes).prop_map(|bytes| vec![vec![b'x'; bytes]]),
    ];
    prop::collection::vec(command, 0..20)
}

proptest! {
    #[test]
    fn commands_are_read_as_they_are_written(commands in commands()) {
        let bytes = written(&commands);
        let outcome = of(&bytes);
        prop_assert_eq!(&judged(&bytes), &commands);
        let commands: Vec<_> = commands.into_iter().map(kept).collect();
        prop_assert_eq!(outcome.commands, commands);
        prop_assert_eq!(outcome.malformed, None);
    }

    #[test]
    fn damaged_commands_are_read_alike_however_they_are_cut(
        commands in commands(), at: prop::sample::Index, byte: u8,
    ) {
        let mut bytes = written(&commands);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        resp(&bytes);
    }
}
