use super::*;
use proptest::prelude::*;

/// Everything that a stream comes to, cut into pieces of such lengths.
fn fed(feed: &mut LineFeed, stream: &[u8], lengths: &[usize]) -> Vec<ImportLines> {
    let mut taken = Vec::new();
    let mut rest = stream;
    let mut lengths = lengths.iter().copied().cycle();
    while !rest.is_empty() {
        let length = lengths.next().unwrap_or(rest.len()).clamp(1, rest.len());
        let (mut piece, behind) = rest.split_at(length);
        while feed.push(&mut piece) {
            taken.push(feed.take());
        }
        rest = behind;
    }
    feed.end();
    taken.push(feed.take());
    taken
}

type Seen = (Vec<(u64, Vec<u8>)>, Vec<(u64, BadLine)>, u64);

/// Items and bad lines by number, and the number of the last line.
fn seen(taken: &[ImportLines]) -> Seen {
    let (mut items, mut bad) = (Vec::new(), Vec::new());
    let mut next = taken[0].first_line;
    for lines in taken {
        assert_eq!(lines.first_line, next);
        next += u64::from(lines.count);
        assert_eq!(lines.items.len(), lines.item_lines.len());
        let numbered = lines.item_lines.iter().zip(lines.items.iter());
        items.extend(numbered.map(|(&at, item)| (lines.first_line + u64::from(at), item.to_vec())));
        let bad_lines = lines.bad.iter();
        bad.extend(bad_lines.map(|&(at, why)| (lines.first_line + u64::from(at), why)));
    }
    (items, bad, next - 1)
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{0,4}", Just("\r".to_owned()), Just(String::new())]
}

proptest! {
    #[test]
    fn lines_are_the_same_however_the_stream_is_cut_and_wherever_it_is_taken_up(
        lines in proptest::collection::vec(line(), 0..30),
        lengths in proptest::collection::vec(1..9usize, 1..5),
        first in 1..20u64,
        done in 0..40u64,
        ends_with_line_feed: bool,
    ) {
        let mut stream = lines.join("\n");
        if ends_with_line_feed && !lines.is_empty() {
            stream.push('\n');
        }
        let mut whole: Vec<&str> = stream.split('\n').collect();
        if whole.last() == Some(&"") {
            whole.pop();
        }
        let expected: Vec<(u64, Vec<u8>)> = (first..)
            .zip(&whole)
            .map(|(number, line)| (number, line.strip_suffix('\r').unwrap_or(line)))
            .filter(|(number, line)| *number > done && !line.is_empty())
            .map(|(number, line)| (number, line.as_bytes().to_vec()))
            .collect();
        let mut feed = LineFeed::new(LineFormat::Text, EntryCodec::Items, first, done);
        let taken = fed(&mut feed, stream.as_bytes(), &lengths);
        let (items, bad, last) = seen(&taken);
        prop_assert_eq!(items, expected);
        prop_assert!(bad.is_empty());
        prop_assert_eq!(last, (first + whole.len() as u64 - 1).max(done).max(first - 1));
        prop_assert!(taken.iter().rev().skip(1).all(|lines| !lines.is_last));
        prop_assert!(taken.last().unwrap().is_last);
    }

    #[test]
    fn hostile_json_lines_never_panic(stream: Vec<u8>) {
        let mut feed = LineFeed::new(LineFormat::Json, EntryCodec::Items, 1, 0);
        seen(&fed(&mut feed, &stream, &[3]));
    }
}

#[test]
fn a_json_line_is_a_string_or_an_integer() {
    let stream = b"\"a\\nb\"\n 17 \n-9\n18446744073709551615\n1.5\nnull\n[\"a\"]\n\"a\" x\nhello\n\n\"\"\n\"\\ud800\"\n{}\ntrue";
    let mut feed = LineFeed::new(LineFormat::Json, EntryCodec::Items, 1, 0);
    let (items, bad, last) = seen(&fed(&mut feed, stream, &[5]));
    let items: Vec<_> = items
        .iter()
        .map(|(line, item)| (*line, &item[..]))
        .collect();
    let expected: [(u64, &[u8]); 5] = [
        (1, b"a\nb"),
        (2, b"17"),
        (3, b"-9"),
        (4, b"18446744073709551615"),
        (11, b""),
    ];
    assert_eq!(items, expected);
    let [json, item] = [BadLine::NotJson, BadLine::NotAnItem];
    let expected = [
        (5, item),
        (6, item),
        (7, item),
        (8, json),
        (9, json),
        (12, json),
        (13, item),
        (14, item),
    ];
    assert_eq!((bad, last), (expected.to_vec(), 14));
}

#[test]
fn a_line_that_is_too_long_is_left_out_and_never_held() {
    for format in [LineFormat::Text, LineFormat::Json] {
        let mut feed = LineFeed::new(format, EntryCodec::Items, 1, 0);
        let piece = vec![b'x'; 100_000];
        for _ in 0..50 {
            assert!(!feed.push(&mut piece.as_slice()));
            assert!(feed.partial.len() <= MAX_JSON_LINE_BYTES);
        }
        assert!(!feed.push(&mut &b"x\n7\r\n"[..]));
        feed.end();
        let (items, bad, last) = seen(&[feed.take()]);
        assert_eq!(items, [(2, b"7".to_vec())]);
        assert_eq!((bad, last), (vec![(1, BadLine::TooLong)], 2));
    }
    let longest = "x".repeat(MAX_ITEM_BYTES);
    let stream = format!("{longest}\r\n{longest}x\n");
    let mut feed = LineFeed::new(LineFormat::Text, EntryCodec::Items, 1, 0);
    let (items, bad, _) = seen(&fed(&mut feed, stream.as_bytes(), &[1000]));
    assert_eq!((items.len(), bad), (1, vec![(2, BadLine::TooLong)]));
    let stream = format!("\"{longest}\"\n\"{longest}x\"\n");
    let mut feed = LineFeed::new(LineFormat::Json, EntryCodec::Items, 1, 0);
    let (items, bad, _) = seen(&fed(&mut feed, stream.as_bytes(), &[1000]));
    assert_eq!((items.len(), bad), (1, vec![(2, BadLine::TooLong)]));
}

#[test]
fn an_entry_may_have_the_longest_item_and_its_parts_stay_together() {
    let longest = "é".repeat(MAX_ITEM_BYTES / 2);
    let escaped = "\\u00e9".repeat(MAX_ITEM_BYTES / 2);
    let entry = BadLine::NotAnEntry;
    for (format, stream, bad) in [
        (
            LineFormat::Text,
            format!("{longest}\t127\r\n{longest}x\t1\nx\t-1\nx\t1 \nx\t\nx\t4294967296\n"),
            vec![
                (2, BadLine::TooLong),
                (3, entry),
                (4, entry),
                (5, entry),
                (6, entry),
            ],
        ),
        (
            LineFormat::Json,
            format!(
                "{{\"value\": 127, \"item\": \"{escaped}\"}}\n{{\"item\": \"{longest}x\", \"value\": 1}}\n\
                 {{\"item\": 1, \"value\": \"1\"}}\n{{\"item\": 1, \"value\": 1, \"more\": 1}}\n"
            ),
            vec![(2, BadLine::TooLong), (3, entry), (4, entry)],
        ),
    ] {
        let mut feed = LineFeed::new(format, EntryCodec::Values(7), 1, 0);
        let taken = fed(&mut feed, stream.as_bytes(), &[7_000, 1]);
        let values: Vec<u32> = taken.iter().flat_map(|it| it.values.clone()).collect();
        let (items, found, _) = seen(&taken);
        assert_eq!(found, bad);
        assert_eq!(
            (items, values),
            (vec![(1, longest.clone().into_bytes())], vec![127])
        );
    }
}

#[test]
fn a_commit_is_due_after_many_items_bytes_or_lines() {
    let longest = "y".repeat(60_000) + "\n";
    for (stream, most) in [
        ("x\n".repeat(20_000), MAX_ITEMS_AT_ONCE as u32),
        (longest.repeat(40), 18),
        ("\n".repeat(140_000), BATCH_LINES),
    ] {
        let mut feed = LineFeed::new(LineFormat::Text, EntryCodec::Items, 1, 0);
        let taken = fed(&mut feed, stream.as_bytes(), &[7_000]);
        let counts: Vec<u32> = taken.iter().map(|lines| lines.count).collect();
        assert_eq!(counts[..2], [most, most]);
        let lines = stream.lines().count();
        assert_eq!(counts.iter().sum::<u32>() as usize, lines);
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line_of_a_list() {
    let longest = "x".repeat(MAX_ITEM_BYTES);
    let stream = format!("\u{feff}{longest}\r\n\u{feff}b\n");
    let second = "\u{feff}b".as_bytes();
    for length in [1_000, 1_000_000] {
        let mut feed = LineFeed::new(LineFormat::Text, EntryCodec::Items, 1, 0);
        let (items, bad, _) = seen(&fed(&mut feed, stream.as_bytes(), &[length]));
        let expected = [(1, longest.as_bytes().to_vec()), (2, second.to_vec())];
        assert_eq!(items, expected);
        assert!(bad.is_empty());
    }
    // Who takes a list up begins with any line of it.
    let mut feed = LineFeed::new(LineFormat::Text, EntryCodec::Items, 2, 0);
    let (items, ..) = seen(&fed(&mut feed, second, &[1]));
    assert_eq!(items, [(2, second.to_vec())]);
    let mut feed = LineFeed::new(LineFormat::Json, EntryCodec::Items, 1, 0);
    let (items, ..) = seen(&fed(&mut feed, "\u{feff}\"a\"".as_bytes(), &[1]));
    assert_eq!(items, [(1, b"a".to_vec())]);
}
