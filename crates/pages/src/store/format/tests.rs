use super::*;
use crate::page::{Ordinal, PageIndex};
use crate::store::error::StoreError;
use crate::store::values::{Due, Expiry, Garbage, LanePosition, ScrubPosition, SideRecord};
use proptest::collection::vec;
use proptest::prelude::*;

fn page(filter: u64, ordinal: u32, page: u32) -> PageId {
    PageId {
        filter: FilterId(filter),
        ordinal: Ordinal(ordinal),
        page: PageIndex(page),
    }
}

fn trimmed(page: &[u8]) -> &[u8] {
    let used = page
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    &page[..used]
}

fn sparse_or_dense_page() -> impl Strategy<Value = Vec<u8>> {
    let rare = prop_oneof![20 => Just(0u8), 1 => any::<u8>()];
    prop_oneof![vec(any::<u8>(), 0..=4096), vec(rare, 0..=4096)]
}

proptest! {
    #[test]
    fn a_page_comes_back_without_the_zeros_at_its_end(image in sparse_or_dense_page()) {
        let id = page(1, 2, 3);
        let value = seal_page(id, &image).unwrap();
        prop_assert!(value.len() <= ENVELOPE_BYTES + 1 + trimmed(&image).len());
        let mut scratch = Vec::new();
        prop_assert_eq!(open_page(id, &value, &mut scratch).unwrap(), trimmed(&image));
    }

    #[test]
    fn hostile_page_payloads_never_panic_and_never_exceed_a_page(payload: Vec<u8>) {
        let mut scratch = Vec::new();
        if let Ok(image) = decode_page(&payload, &mut scratch) {
            prop_assert!(image.len() <= MAX_IMAGE_BYTES);
        }
        let mut packed = vec![PACKED];
        packed.extend_from_slice(&payload);
        if let Ok(image) = decode_page(&packed, &mut scratch) {
            prop_assert!(image.len() <= MAX_IMAGE_BYTES);
        }
    }

    #[test]
    fn any_damaged_byte_is_noticed(
        image in sparse_or_dense_page(), at: prop::sample::Index, flip in 1u8..,
    ) {
        let id = page(7, 0, 9);
        let mut value = seal_page(id, &image).unwrap();
        let at = at.index(value.len());
        value[at] ^= flip;
        let error = open_page(id, &value, &mut Vec::new()).unwrap_err();
        let corrupt = matches!(error, StoreError::Corrupt { .. });
        prop_assert!(corrupt, "{}", error);
        prop_assert!(error.to_string().contains("filter 7 sub-filter 0 page 9"));
    }

    #[test]
    fn keys_sort_like_page_ids(a: (u64, u32, u32), b: (u64, u32, u32)) {
        let (a, b) = (page(a.0, a.1, a.2), page(b.0, b.1, b.2));
        prop_assert_eq!(page_key(a).cmp(&page_key(b)), a.cmp(&b));
    }
}

#[test]
fn the_bytes_are_pinned() {
    assert_eq!(
        page_key(page(1, 2, 3)),
        [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]
    );
    assert_eq!(log_key(Sequence(258)), [0, 0, 0, 0, 0, 0, 1, 2]);
    assert_eq!(filter_name_key(FilterId(5)), [0, 0, 0, 0, 0, 0, 0, 5, 0]);
    assert_eq!(filter_meta_key(FilterId(5)), [0, 0, 0, 0, 0, 0, 0, 5, 1]);
    assert_eq!(
        reclaim_key(Garbage::Filter(FilterId(9))),
        [0, 0, 0, 0, 0, 0, 0, 9]
    );
    assert_eq!(
        reclaim_key(Garbage::SubFilter(FilterId(9), Ordinal(1))),
        [0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1]
    );
    let dense = seal_page(page(1, 2, 3), &[1, 2, 3, 0, 0]).unwrap();
    assert_eq!(dense[..2], [1, 1]);
    assert_eq!(dense[ENVELOPE_BYTES..], [DENSE, 1, 2, 3]);
    let packed = seal_page(page(1, 2, 3), &[0, 0, 0, 0, 0, 8]).unwrap();
    assert_eq!(packed[ENVELOPE_BYTES..], [PACKED, 5, 8]);
    let number = seal_value(Kind::FilterNumber, b"seen", &FilterId(7));
    assert_eq!(number[..2], [1, 3]);
    assert_eq!(number[ENVELOPE_BYTES..], [7]);
    assert_eq!(filter_expiry_key(FilterId(5)), [0, 0, 0, 0, 0, 0, 0, 5, 2]);
    assert_eq!(filter_owner_key(FilterId(5)), [0, 0, 0, 0, 0, 0, 0, 5, 3]);
    let expiry = Expiry {
        at_ms: 258,
        ttl_seconds: 3,
    };
    let sealed = seal_value(Kind::FilterExpiry, &filter_expiry_key(FilterId(5)), &expiry);
    assert_eq!(sealed[..2], [1, 9]);
    assert_eq!(sealed[ENVELOPE_BYTES..], [0x82, 2, 3]);
    let due = Due::Filter {
        at_ms: 258,
        id: FilterId(5),
    };
    let key = [0, 0, 0, 0, 0, 0, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 5];
    assert_eq!(due_key(&due), key);
    assert_eq!(seal(Kind::Due, &key, &[])[..2], [1, 10]);
    let position = ScrubPosition {
        filter: FilterId(258),
        ordinal: Ordinal(3),
        faults: 4,
    };
    let sealed = seal_value(Kind::ScrubPosition, SCRUB_POSITION_KEY, &position);
    assert_eq!(sealed[..2], [1, 13]);
    assert_eq!(sealed[ENVELOPE_BYTES..], [0x82, 2, 3, 4]);
    let key = lane_position_key(258);
    assert_eq!(key, b"lane_position/\x00\x00\x01\x02");
    let sealed = seal_value(
        Kind::LanePosition,
        &key,
        &LanePosition {
            founding: [9; 16],
            epoch: 258,
            sequence: 3,
            history: [8; 16],
            stamp_ms: 4,
            last_serial: 5,
        },
    );
    assert_eq!(sealed[..2], [1, 14]);
    let payload = [&[9; 16][..], &[0x82, 2, 3], &[8; 16], &[4, 5]];
    assert_eq!(sealed[ENVELOPE_BYTES..], payload.concat());
    let key = lane_past_key(258, 3);
    assert_eq!(
        key,
        b"lane_past/\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x03"
    );
    let sealed = seal(Kind::LanePast, &key, &[8; 16]);
    assert_eq!(sealed[..2], [1, 15]);
    assert_eq!(sealed[ENVELOPE_BYTES..], [8; 16]);
    let retry = SideRecordKey::Retry([7; 32]);
    let key = side_record_key(&retry);
    assert_eq!((key[0], &key[1..]), (1, &[7; 32][..]));
    let record = SideRecord {
        ends_at_ms: 258,
        owner: None,
        payload: vec![9],
    };
    let sealed = seal_value(Kind::SideRecord, &key, &record);
    assert_eq!(sealed[..2], [1, 11]);
    assert_eq!(sealed[ENVELOPE_BYTES..], [0x82, 2, 0, 1, 9]);
    assert_eq!(
        open_value::<SideRecord>(Kind::SideRecord, &key, &sealed).unwrap(),
        record
    );
    let owned = SideRecord {
        owner: Some("team".into()),
        ..record
    };
    let sealed = seal_value(Kind::SideRecord, &key, &owned);
    assert_eq!(sealed[ENVELOPE_BYTES..], *b"\x82\x02\x01\x04team\x01\x09");
    assert_eq!(
        open_value::<SideRecord>(Kind::SideRecord, &key, &sealed).unwrap(),
        owned
    );
    let due = due_key(&Due::SideRecord {
        at_ms: 258,
        key: retry,
    });
    assert_eq!(due[..10], [0, 0, 0, 0, 0, 0, 1, 2, 2, 1]);
    assert_eq!(due[9..], key);
    let import = SideRecordKey::Import {
        filter: FilterId(5),
        import: "a".to_owned(),
    };
    let key = side_record_key(&import);
    assert_eq!(key, [2, 0, 0, 0, 0, 0, 0, 0, 5, b'a']);
    assert_eq!(read_side_record_key(&key), Some(import));
}

#[test]
fn an_empty_page_is_a_valid_image() {
    let id = page(1, 0, 0);
    for image in [&[0u8; MAX_IMAGE_BYTES] as &[u8], &[]] {
        let value = seal_page(id, image).unwrap();
        assert_eq!(value.len(), ENVELOPE_BYTES + 1);
        assert_eq!(open_page(id, &value, &mut Vec::new()).unwrap(), [0u8; 0]);
    }
}

#[test]
fn a_page_that_is_too_large_is_not_written() {
    let error = seal_page(page(1, 0, 4), &[1; MAX_IMAGE_BYTES + 1]).unwrap_err();
    assert!(
        error.to_string().contains("filter 1 sub-filter 0 page 4"),
        "{error}"
    );
}

#[test]
fn a_value_under_another_key_is_corrupt() {
    let value = seal_page(page(1, 0, 0), &[1]).unwrap();
    let error = open_page(page(1, 0, 1), &value, &mut Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "filter 1 sub-filter 0 page 1 is corrupt: its checksum does not match"
    );
}

#[test]
fn a_value_of_a_newer_version_says_so() {
    let key = log_key(Sequence(4));
    let value = seal_as(VALUE_VERSION + 1, Kind::Redo, &key, b"later");
    let error = open_redo(Sequence(4), &value).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::NewerFormat {
                found: 2,
                supported: 1,
                ..
            }
        ),
        "{error}"
    );
    let oldest = seal_as(0, Kind::Redo, &key, b"never written");
    assert!(matches!(
        open_redo(Sequence(4), &oldest),
        Err(StoreError::Corrupt { .. })
    ));
}

#[test]
fn a_value_of_another_kind_is_corrupt() {
    let value = seal_as(VALUE_VERSION, Kind::Page, &log_key(Sequence(4)), b"page");
    assert!(matches!(
        open_redo(Sequence(4), &value),
        Err(StoreError::Corrupt { .. })
    ));
}

#[test]
fn a_range_holds_its_own_pages_and_no_others() {
    let all = pages_of(Garbage::Filter(FilterId(u64::MAX)));
    let largest = page_key(page(u64::MAX, u32::MAX, u32::MAX)).to_vec();
    assert!(all.from <= largest && largest < all.to);
    let one = pages_of(Garbage::SubFilter(FilterId(3), Ordinal(1)));
    let holds = |id| {
        let key = page_key(id).to_vec();
        one.from <= key && key < one.to
    };
    assert!(holds(page(3, 1, 0)) && holds(page(3, 1, u32::MAX)));
    assert!(!holds(page(3, 0, u32::MAX)) && !holds(page(3, 2, 0)) && !holds(page(4, 1, 0)));
}
