use super::*;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::BTreeMap;

type Pages = BTreeMap<(u32, u32), Vec<u8>>;

fn written(description: &[u8], pages: &Pages) -> (Vec<u8>, Digest) {
    let mut writer = DumpWriter::new(description);
    let mut bytes = Vec::new();
    for (&(sub, page), image) in pages {
        writer.page(DumpedPage { sub, page }, image);
        bytes.extend(writer.take());
    }
    let (rest, digest, length) = writer.finish();
    bytes.extend(rest);
    assert_eq!(length, bytes.len() as u64);
    (bytes, digest)
}

fn read(bytes: &[u8]) -> Result<(Vec<u8>, Pages, Digest), DumpError> {
    let mut reader = DumpReader::open(bytes)?;
    let mut pages = Pages::new();
    while let Some((at, image)) = reader.next_page()? {
        pages.insert((at.sub, at.page), image.to_vec());
    }
    Ok((
        reader.description().to_vec(),
        pages,
        reader.digest().unwrap(),
    ))
}

fn some_pages() -> Pages {
    (0..40)
        .map(|n| ((n / 30, n % 30), vec![n as u8 + 1; 100 * n as usize + 1]))
        .collect()
}

#[test]
fn the_bytes_are_pinned() {
    let pages = [
        ((0, 3), vec![1, 0]),
        ((1, 0), vec![0, 2]),
        ((1, 1), vec![0]),
    ]
    .into();
    let (bytes, digest) = written(b"about", &pages);
    let hex = hex::encode(&bytes);
    let expected = [
        "4355434b44554d5004",
        "010500000061626f7574",
        "021b000000000000000300000001000000010100000000000000020000000002",
    ];
    let mut rest = hex.as_str();
    for (index, part) in expected.into_iter().enumerate() {
        rest = rest.strip_prefix(part).unwrap_or_else(|| panic!("{rest}"));
        if index > 0 {
            rest = &rest[8..];
        }
    }
    let end = format!("0320000000{digest}");
    assert_eq!(rest.len(), end.len() + 8);
    assert!(rest.starts_with(&end));
}

#[test]
fn every_altered_byte_and_every_cut_is_noticed() {
    let (bytes, _) = written(b"description", &some_pages());
    assert!(bytes.len() > FULL_BLOCK_BYTES);
    // Every byte of the small blocks, and many of the large ones.
    let places = (0..bytes.len()).filter(|at| *at < 300 || at % 97 == 0 || *at + 300 > bytes.len());
    for at in places {
        let mut altered = bytes.clone();
        altered[at] ^= 1 << (at % 8);
        assert!(read(&altered).is_err(), "byte {at}");
        assert!(read(&bytes[..at]).is_err(), "cut at {at}");
    }
    let longer = [&bytes[..], b"x"].concat();
    assert!(read(&longer).is_err());
    let twice = [&bytes[..], &bytes[..]].concat();
    assert!(read(&twice).is_err());
}

#[test]
fn another_version_is_named() {
    let (mut bytes, _) = written(b"", &Pages::new());
    bytes[8] = 5;
    assert!(matches!(read(&bytes), Err(DumpError::Newer { found: 5 })));
    bytes[8] = 1;
    assert!(matches!(read(&bytes), Err(DumpError::Older { found: 1 })));
}

/// A dump put together by hand, with right checksums and a right digest.
fn forged(blocks: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut writer = DumpWriter::new(b"");
    for (kind, payload) in blocks {
        writer.block(*kind, payload);
    }
    writer.finish().0
}

fn entry(sub: u32, page: u32, image: &[u8]) -> Vec<u8> {
    let length = image.len() as u32;
    [
        &sub.to_le_bytes()[..],
        &page.to_le_bytes(),
        &length.to_le_bytes(),
        image,
    ]
    .concat()
}

#[test]
fn what_a_writer_would_not_write_is_refused_whatever_its_sums_say() {
    let full = entry(0, 0, &[1; FULL_BLOCK_BYTES]);
    assert!(read(&forged(&[(PAGES, full.clone())])).is_ok());
    let two = [full, entry(0, 1, &[1])].concat();
    let cut = entry(0, 0, &[1, 1]);
    for (what, blocks) in [
        ("an empty block", vec![(PAGES, vec![])]),
        ("a second description", vec![(DESCRIPTION, vec![])]),
        ("an unknown kind", vec![(9, vec![])]),
        ("an empty page", vec![(PAGES, entry(0, 0, &[]))]),
        ("a zero at the end", vec![(PAGES, entry(0, 0, &[1, 0]))]),
        (
            "pages out of order",
            vec![(PAGES, [entry(0, 1, &[1]), entry(0, 0, &[1])].concat())],
        ),
        (
            "a page twice",
            vec![(PAGES, [entry(1, 1, &[1]), entry(1, 1, &[1])].concat())],
        ),
        (
            "short blocks",
            vec![(PAGES, entry(0, 0, &[1])), (PAGES, entry(0, 1, &[1]))],
        ),
        ("a block too full", vec![(PAGES, two)]),
        ("a cut page", vec![(PAGES, cut[..13].to_vec())]),
        ("a cut head", vec![(PAGES, cut[..7].to_vec())]),
    ] {
        assert!(read(&forged(&blocks)).is_err(), "{what}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_and_written_again_the_same(
        description in proptest::collection::vec(any::<u8>(), 0..100),
        pages in proptest::collection::btree_map(
            (0u32..4, any::<u32>()),
            proptest::collection::vec(0u8..3, 0..5000),
            0..60,
        ),
    ) {
        let (bytes, digest) = written(&description, &pages);
        let (description_read, pages_read, digest_read) = read(&bytes).unwrap();
        prop_assert_eq!(&description_read, &description);
        prop_assert_eq!(digest_read, digest);
        let mut trimmed = pages;
        for image in trimmed.values_mut() {
            while image.last() == Some(&0) {
                image.pop();
            }
        }
        trimmed.retain(|_, image| !image.is_empty());
        prop_assert_eq!(&pages_read, &trimmed);
        prop_assert_eq!(written(&description_read, &pages_read).0, bytes);
    }

    #[test]
    fn nonsense_never_panics(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        at: Index,
        value: u8,
    ) {
        let mut start = [&MAGIC[..], &[DUMP_VERSION]].concat();
        start.extend(&bytes);
        let _ = read(&start);
        let (mut dump, _) = written(b"d", &some_pages());
        let at = at.index(dump.len());
        dump[at] = value;
        let _ = read(&dump);
    }
}
