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

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line_and_utf_16_is_refused() {
    let list = "\u{feff}a\n\u{feff}b\n";
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(list.as_bytes()).unwrap();
    for bytes in [list.as_bytes(), &gzip.finish().unwrap()] {
        let chunks = chunks_of(bytes);
        assert_eq!(
            (chunks[0].lines, &chunks[0].bytes[..]),
            (2, "a\n\u{feff}b\n".as_bytes())
        );
    }
    assert_eq!(chunks_of("\u{feff}".as_bytes())[0].bytes, b"\n");
    for mark in [b"\xff\xfe", b"\xfe\xff"] {
        let error = read(&mark[..], |_| true).unwrap_err().to_string();
        assert!(error.contains("is UTF-16: convert it to UTF-8"), "{error}");
    }
}
