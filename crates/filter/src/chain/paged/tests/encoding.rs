use super::*;
use crate::chain::meta::MetaError;
use proptest::prelude::*;

/// Bytes before the counters.
const HEAD: usize = 42;

const CODE: SlotCode = SlotCode::of(SlotWidth::Bits12);

fn decode(bytes: &[u8]) -> Result<Table, MetaError> {
    Table::decode(bytes, &Paged::new(1, CODE).unwrap(), None)
}

/// A filter that grew from one page, and shrank a little.
fn grown() -> Table {
    let mut filter = filter(1, CODE);
    fill(&mut filter, 0, 4_930);
    for item in 0..1_000 {
        assert!(filter.delete(hash(item)));
    }
    filter.table().clone()
}

/// The description with eight bytes changed to a number.
fn with(table: &Table, at: usize, number: u64) -> Vec<u8> {
    let mut bytes = table.encode();
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    bytes
}

#[test]
fn a_description_reads_back_as_written() {
    let empty = table(1, CODE);
    let mut expected = vec![1, 0, 0, 0, 0, 0, 0, 0, 0];
    expected.extend([0; 24]);
    expected.extend([0xff; 8]);
    expected.extend([0; 9]);
    assert_eq!(empty.encode(), expected);
    for table in [empty, grown()] {
        assert_eq!(decode(&table.encode()), Ok(table));
    }
}

#[test]
fn descriptions_of_what_cannot_be_are_refused() {
    let table = grown();
    let bytes = table.encode();
    assert_eq!((bytes[4], table.layout.pointer()), (1, 1));
    assert!(table.keys > 0);
    let mut deep = bytes.clone();
    deep[4] = 11;
    let mut beyond = bytes.clone();
    beyond[5] = 2;
    let mut none = bytes.clone();
    none[0] = 0;
    let mut other = bytes.clone();
    other[0] = 2;
    let mut too_many = bytes.clone();
    too_many[41] = 3;
    too_many.splice(HEAD..HEAD + 16, [[1, 0, 0, 0, 0, 0, 0, 0]; 3].concat());
    assert_eq!(bytes[41], 2);
    for (bytes, reason) in [
        (deep, "pages that can't be"),
        (beyond, "pages that can't be"),
        (none, "pages that can't be"),
        (other, "pages that can't be"),
        (bytes[..20].to_vec(), "it ends too early"),
        (
            bytes[..bytes.len() - 1].to_vec(),
            "wrong number of counters",
        ),
        (with(&table, HEAD + 8, 0), "a counter that is not needed"),
        (too_many, "entries that know more than can be"),
        (with(&table, HEAD, u64::MAX), "more entries than slots"),
        (with(&table, HEAD, 7), "not as many items as entries"),
        (with(&table, 9, 1 << 40), "not as many items as entries"),
        (with(&table, 17, u64::MAX), "not as many items as entries"),
        (with(&table, 25, 1), "copied entries that can't be"),
        (with(&table, 33, 1 << 40), "a merge that can't be"),
        (with(&table, HEAD + 16, 0), "counters that can't be"),
        (
            with(&table, HEAD + 16, table.counted + 1),
            "counters that can't be",
        ),
    ] {
        assert_eq!(decode(&bytes), Err(MetaError::Corrupt(reason)), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn other_bytes_are_refused_or_read_as_they_are(
        at in 0usize..66, byte: u8, length in 0usize..70,
    ) {
        let mut bytes = grown().encode();
        if let Some(changed) = bytes.get_mut(at) {
            *changed = byte;
        }
        bytes.truncate(length);
        if let Ok(table) = decode(&bytes) {
            prop_assert_eq!(table.encode(), bytes);
        }
    }
}
