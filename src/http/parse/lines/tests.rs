use super::*;
use crate::chain::params::LayoutKind;

#[test]
fn lines_end_in_lf_or_crlf_and_blank_ones_are_remembered() {
    let lines = |text: &'static [u8]| {
        let batch = text_batch(
            &Bytes::from_static(text),
            BatchKind::Question,
            Encoding::Plain,
            AddOptions::default(),
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
    assert!(
        text_batch(
            &Bytes::from_static(b"\n\n\n\n\n"),
            BatchKind::Question,
            Encoding::Plain,
            AddOptions::default(),
            4
        )
        .is_err()
    );
}

#[test]
fn a_refused_line_is_named_by_its_number() {
    let error = text_batch(
        &Bytes::from_static(b"\nAP8=\n\n!\n"),
        BatchKind::Question,
        Encoding::Base64,
        AddOptions::default(),
        9,
    );
    assert!(error.unwrap_err().to_string().starts_with("line 4 "));
}

#[test]
fn the_value_of_an_entry_stands_behind_the_last_tab() {
    let entries = |text: &'static [u8], encoding| {
        let text = Bytes::from_static(text);
        text_batch(
            &text,
            BatchKind::AddValues,
            encoding,
            AddOptions::default(),
            9,
        )
    };
    let batch = entries(b"ada\t17\n\na\tb\t0\r\n\t4095", Encoding::Plain).unwrap();
    let items: Vec<&[u8]> = batch.items.iter().collect();
    assert_eq!(items, [&b"ada"[..], b"a\tb", b""]);
    assert_eq!(batch.values.as_deref(), Some(&[17, 0, 4095][..]));
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
fn options_of_lines_stand_in_the_query() {
    let uri = Uri::from_static(
        "/?only_if_absent=true&create=true&capacity=10&layout=classic&encoding=base64",
    );
    let (encoding, options) = line_options(BatchKind::Add, &uri).unwrap();
    assert_eq!(encoding, Encoding::Base64);
    assert_eq!(options.mode, AddMode::OnlyIfAbsent);
    let create = options.create.unwrap();
    assert_eq!(create.params.capacity, Some(10));
    assert_eq!(create.params.layout, Some(LayoutKind::Classic));

    for uri in [
        "/?capacity=10",
        "/?create=1",
        "/?create=true&capacity=x",
        "/?create=true&capacity=",
        "/?items=a",
    ] {
        assert!(
            line_options(BatchKind::Add, &Uri::from_static(uri)).is_err(),
            "{uri}"
        );
    }
    let create = Uri::from_static("/?create=true");
    assert!(line_options(BatchKind::Question, &create).is_err());
}
