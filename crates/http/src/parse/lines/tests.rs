use super::*;
use crate::engine::EntryValues;

#[test]
fn lines_end_in_lf_or_crlf_and_blank_ones_are_remembered() {
    let lines = |text: &'static [u8]| {
        let batch = text_batch(
            &Bytes::from_static(text),
            BatchKind::Question,
            LineOptions {
                encoding: Encoding::Plain,
                ..LineOptions::default()
            },
            4,
        )
        .unwrap();
        let items: Vec<Vec<u8>> = batch.items.iter().map(<[u8]>::to_vec).collect();
        (items, batch.blanks)
    };
    assert_eq!(lines(b""), (vec![], vec![]));
    assert_eq!(lines(b"\n"), (vec![], vec![0]));
    assert_eq!(lines(b"a"), (vec![b"a".to_vec()], vec![]));
    assert_eq!(
        lines(b"a\r\n\r\nb\n"),
        (vec![b"a".to_vec(), b"b".to_vec()], vec![1])
    );
    assert_eq!(lines(b"\n\na\xff\n"), (vec![b"a\xff".to_vec()], vec![0, 1]));
    // A byte order mark is no part of the first line.
    assert_eq!(lines(b"\xef\xbb\xbf"), (vec![], vec![]));
    assert_eq!(
        lines("\u{feff}a\n\u{feff}b".as_bytes()),
        (vec![b"a".to_vec(), "\u{feff}b".as_bytes().to_vec()], vec![])
    );
    assert!(
        text_batch(
            &Bytes::from_static(b"\n\n\n\n\n"),
            BatchKind::Question,
            LineOptions {
                encoding: Encoding::Plain,
                ..LineOptions::default()
            },
            4
        )
        .is_err()
    );
}

#[test]
fn a_refused_line_is_named_by_its_number() {
    let error = text_batch(
        &Bytes::from_static(b"\nAP8=\n\n!\nAP8\n?\n"),
        BatchKind::Question,
        LineOptions {
            encoding: Encoding::Base64,
            ..LineOptions::default()
        },
        9,
    );
    let said = error.unwrap_err().to_string();
    assert!(
        said.starts_with("line 4 is not base64, ") && said.contains("; line 6 is "),
        "{said}"
    );
}

#[test]
fn the_value_of_an_entry_stands_behind_the_last_tab() {
    let entries = |text: &'static [u8], encoding| {
        let text = Bytes::from_static(text);
        text_batch(
            &text,
            BatchKind::AddValues,
            LineOptions {
                encoding,
                ..LineOptions::default()
            },
            9,
        )
    };
    let batch = entries(b"ada\t17\n\na\tb\t0\r\n\t4095", Encoding::Plain).unwrap();
    let items: Vec<&[u8]> = batch.items.iter().collect();
    assert_eq!(items, [&b"ada"[..], b"a\tb", b""]);
    let Some(EntryValues::Values(values)) = batch.entries().map(|it| it.values) else {
        panic!("no values");
    };
    assert_eq!(values[..], [17, 0, 4095]);
    assert_eq!(batch.blanks, [1]);

    let batch = entries(b"AAH/\t5", Encoding::Base64).unwrap();
    assert_eq!(batch.items.get(0), Some(&b"\x00\x01\xff"[..]));

    for bad in [
        "ada",
        "ada 17",
        "ada\t",
        "ada\t-1",
        "ada\t1.0",
        "ada\t+1",
        "ada\t99999999999",
    ] {
        let error = entries(bad.as_bytes(), Encoding::Plain).unwrap_err();
        assert!(
            error.to_string().starts_with("line 1 is "),
            "{bad}: {error}"
        );
    }
}

#[test]
fn rows_stand_behind_as_many_tabs_as_columns_are_named() {
    let read = |text: &'static [u8], kind| {
        let options = LineOptions {
            columns: vec!["plan".to_owned(), "tag".to_owned()],
            ..LineOptions::default()
        };
        text_batch(&Bytes::from_static(text), kind, options, 9)
    };
    let batch = read(b"ada\tpro\tDE\n\na\tb\t\tAT", BatchKind::AddValues).unwrap();
    let items: Vec<&[u8]> = batch.items.iter().collect();
    assert_eq!(items, [&b"ada"[..], b"a\tb"]);
    assert_eq!((batch.labels(), &batch.blanks), (4, &vec![1]));
    let batch = read(b"ada\tfree\tDE\tpro\tAT", BatchKind::ReplaceValues).unwrap();
    assert_eq!(batch.items.get(0), Some(&b"ada"[..]));
    assert_eq!(batch.labels(), 4);
    for (text, kind) in [
        (&b"ada\tpro"[..], BatchKind::AddValues),
        (b"ada\tpro\tDE\tAT", BatchKind::ReplaceValues),
    ] {
        let error = read(text, kind).unwrap_err().to_string();
        assert!(error.starts_with("line 1 is with too few TABs"), "{error}");
    }
}
