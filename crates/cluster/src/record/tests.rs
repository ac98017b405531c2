use super::*;
use proptest::prelude::*;

const LANE: LaneIdentity = LaneIdentity {
    founding: [7; 16],
    epoch: 3,
    lane: 5,
};

fn record(commit: Vec<u8>) -> Record {
    Record {
        level: 1,
        epoch: 3,
        lane: 5,
        previous: Position {
            sequence: 9,
            history: HistoryHash::from_bytes([2; 16]),
        },
        writer: Writer([4; 16]),
        number: 6,
        stamp_ms: 1_700_000_000_000,
        commit: commit.into(),
    }
}

#[test]
fn the_bytes_of_a_record_are_these() {
    let bytes = record(b"abc".to_vec()).encode().unwrap();
    let expected = "01".to_owned()
        + &hex::encode(crc32c::crc32c(&bytes[5..]).to_be_bytes())
        + "0001"
        + "0000000000000003"
        + "00000005"
        + "0000000000000009"
        + &"02".repeat(16)
        + &"04".repeat(16)
        + "0000000000000006"
        + "0000018bcfe56800"
        + "616263";
    assert_eq!(hex::encode(&bytes), expected);
    assert_eq!(bytes.len(), HEADER_BYTES + 3);
}

#[test]
fn the_largest_record_is_read_and_no_larger_one_is_written() {
    let largest = record(vec![1; MAX_COMMIT_BYTES]);
    let bytes = largest.encode().unwrap();
    assert_eq!(bytes.len(), MAX_RECORD_BYTES);
    assert_eq!(Record::decode(&bytes), Ok(largest));
    assert_eq!(record(vec![1; MAX_COMMIT_BYTES + 1]).encode(), None);
    let longer = [bytes.as_ref(), &[0]].concat().into();
    assert_eq!(Record::decode(&longer), Err(unreadable("it is too long")));
}

#[test]
fn a_newer_version_is_told_from_damage() {
    let mut bytes = record(Vec::new()).encode().unwrap().to_vec();
    bytes[0] = 2;
    let newer = Record::decode(&bytes.clone().into()).unwrap_err();
    assert_eq!(newer, RecordError::Newer { found: 2 });
    bytes[0] = 0;
    let none = Record::decode(&bytes.into()).unwrap_err();
    assert_eq!(none, unreadable("its version is 0"));
}

#[test]
fn every_lane_of_every_cluster_has_an_origin_of_its_own() {
    let others = [
        LaneIdentity { lane: 6, ..LANE },
        LaneIdentity {
            founding: [8; 16],
            ..LANE
        },
    ];
    for other in others {
        assert_ne!(other.origin(), LANE.origin(), "{other:?}");
    }
    // A later epoch goes on where the one before ended.
    let later = LaneIdentity { epoch: 4, ..LANE };
    assert_eq!(later.origin(), LANE.origin());
    // Stored positions hold it: it never changes.
    assert_eq!(
        format!("{:?}", LANE.origin().history),
        "ee676ac6dd5cfaec7ada10696a6832b3"
    );
}

proptest! {
    #[test]
    fn every_record_comes_back(
        (level, epoch, lane, sequence) in any::<(u16, u64, u32, u64)>(),
        (history, writer, number, stamp_ms) in any::<([u8; 16], [u8; 16], u64, u64)>(),
        commit in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let record = Record {
            level,
            epoch,
            lane,
            previous: Position { sequence, history: HistoryHash::from_bytes(history) },
            writer: Writer(writer),
            number,
            stamp_ms,
            commit: commit.into(),
        };
        prop_assert_eq!(Record::decode(&record.encode().unwrap()), Ok(record));
    }

    #[test]
    fn a_record_that_was_cut_or_changed_is_refused(
        commit in prop::collection::vec(any::<u8>(), 0..40),
        at: prop::sample::Index,
        flip in 1u8..,
    ) {
        let bytes = record(commit).encode().unwrap();
        let at = at.index(bytes.len());
        prop_assert!(Record::decode(&bytes.slice(..at)).is_err());
        let mut changed = bytes.to_vec();
        changed[at] ^= flip;
        prop_assert!(Record::decode(&changed.into()).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = Record::decode(&bytes.into());
    }
}
