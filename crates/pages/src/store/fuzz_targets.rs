//! Fuzz targets for the readers of stored values; the
//! fuzzer calls them through the program's list, and a test replays what it found.

use super::commit_bytes;
use super::format::{self, ENVELOPE_BYTES, Kind, MAX_IMAGE_BYTES};
use super::redo::{self, CounterWrite, RedoBuilder, RedoReader, RedoWrite, SlotWrite, WholeWrite};
use super::values::{Expiry, LanePosition, ScrubPosition, SideRecord};
use crate::page::{FilterId, Ordinal, PageId, PageIndex, Sequence};
use serde::Serialize;
use serde::de::DeserializeOwned;

const PAGE: PageId = PageId {
    filter: FilterId(7),
    ordinal: Ordinal(1),
    page: PageIndex(9),
};

/// The payload of a stored page.
fn page(bytes: &[u8]) {
    let mut scratch = Vec::new();
    let Ok(image) = format::decode_page(bytes, &mut scratch) else {
        return;
    };
    assert!(image.len() <= MAX_IMAGE_BYTES);
    let used = image.iter().rposition(|&byte| byte != 0);
    let trimmed = image.get(..used.map_or(0, |last| last + 1));
    let again = format::encode_page(image);
    assert!(again.len() <= image.len() + 1);
    let mut scratch = Vec::new();
    assert_eq!(format::decode_page(&again, &mut scratch).ok(), trimmed);
}

/// A commit as other stores are given it.
fn commit(bytes: &[u8]) {
    if let Ok(commit) = commit_bytes::decode(bytes, Sequence(1)) {
        let again = commit_bytes::encode(&commit);
        assert!(again.len() <= bytes.len());
        assert_eq!(commit_bytes::decode(&again, Sequence(1)).ok(), Some(commit));
    }
}

/// A redo record.
fn redo(bytes: &[u8]) {
    if redo::check(bytes).is_err() {
        return;
    }
    let writes: Vec<RedoWrite<'_>> = RedoReader::new(bytes).flatten().collect();
    assert!(writes.len() <= bytes.len());
    let again = rebuilt(&writes);
    let read: Vec<RedoWrite<'_>> = RedoReader::new(&again).flatten().collect();
    assert!(said(&read).eq(said(&writes)));
}

/// Entries with their images unpacked: an image may be packed worse than it
/// could be.
fn said<'a>(writes: &'a [RedoWrite<'a>]) -> impl Iterator<Item = (RedoWrite<'a>, Vec<u8>)> {
    writes.iter().map(|write| match write {
        RedoWrite::Whole(whole) => {
            let mut scratch = Vec::new();
            let image = whole.image(&mut scratch).unwrap_or_default();
            let used = image.iter().rposition(|&byte| byte != 0);
            let used = image.get(..used.map_or(0, |last| last + 1));
            let used = used.unwrap_or_default().to_vec();
            (RedoWrite::Dropped(whole.page), used)
        }
        other => (*other, Vec::new()),
    })
}

/// Writes a record that says so: a section for each run of entries that one
/// page of one section can hold.
fn rebuilt(writes: &[RedoWrite<'_>]) -> Vec<u8> {
    let mut record = RedoBuilder::default();
    let runs = writes.chunk_by(|a, b| match (place(a), place(b)) {
        (Some((page, width, number)), Some((next_page, next_width, next))) => {
            (page, width) == (next_page, next_width) && number < next
        }
        _ => false,
    });
    for run in runs {
        match run.first() {
            Some(RedoWrite::Slot(SlotWrite {
                page, slot_bits, ..
            })) => {
                let section = record.filter(page.filter, *slot_bits);
                section.page(page.ordinal, page.page);
            }
            Some(RedoWrite::Counter(CounterWrite { page, .. })) => {
                let section = record.counters(page.filter);
                section.page(page.ordinal, page.page);
            }
            Some(RedoWrite::Whole(WholeWrite { page, .. })) => {
                record.wholes(page.filter);
            }
            Some(RedoWrite::Dropped(page)) => {
                record.dropped(page.filter);
            }
            None => {}
        }
        for write in run {
            match write {
                RedoWrite::Slot(write) => record.slot(write.slot, write.value),
                RedoWrite::Counter(write) => record.counter(write.key, write.value),
                RedoWrite::Whole(write) => {
                    let mut scratch = Vec::new();
                    let image = write.image(&mut scratch).unwrap_or_default();
                    record.whole(write.page.ordinal, write.page.page, image)
                }
                RedoWrite::Dropped(page) => record.dropped_page(page.ordinal, page.page),
            };
        }
    }
    record.finish()
}

/// Page, width (0: counters) and number of an entry that is one of several.
fn place(write: &RedoWrite<'_>) -> Option<(PageId, u8, u64)> {
    match write {
        RedoWrite::Slot(write) => Some((write.page, write.slot_bits, u64::from(write.slot))),
        RedoWrite::Counter(write) => Some((write.page, 0, write.key)),
        RedoWrite::Whole(_) | RedoWrite::Dropped(_) => None,
    }
}

/// A key and a value of any kind: the first byte says which, the second how
/// long the key is. As they are, and in an envelope whose checksum is right.
fn values(bytes: &[u8]) {
    let Some((&[choice, length], rest)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let (key, payload) = rest.split_at(rest.len().min(usize::from(length)));
    let kind = KINDS.get(usize::from(choice) % KINDS.len());
    let Some(&kind) = kind else { return };
    value(kind, key, payload);
    let sealed = format::seal(kind, key, payload);
    value(kind, key, &sealed);
    // One bit is enough to be noticed.
    for at in [0, ENVELOPE_BYTES - 1, sealed.len() - 1] {
        let mut damaged = sealed.clone();
        if let Some(byte) = damaged.get_mut(at) {
            *byte ^= 1 << (choice % 8);
        }
        assert!(format::open(kind, key, &damaged).is_err());
    }
}

const KINDS: [Kind; 15] = [
    Kind::Page,
    Kind::Redo,
    Kind::FilterNumber,
    Kind::FilterName,
    Kind::FilterMeta,
    Kind::Reclaim,
    Kind::DataVersion,
    Kind::NextSerial,
    Kind::FilterExpiry,
    Kind::Due,
    Kind::SideRecord,
    Kind::FilterOwner,
    Kind::ScrubPosition,
    Kind::LanePosition,
    Kind::LanePast,
];

/// A value as it would be written, once it was read.
fn again<T: Serialize + DeserializeOwned>(kind: Kind, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let read: Result<T, _> = format::open_value(kind, key, value);
    read.ok().map(|it| format::seal_value(kind, key, &it))
}

/// Reads a value; what is read would be written as it was, if not shorter.
fn value(kind: Kind, key: &[u8], value: &[u8]) {
    let written = match kind {
        Kind::Page => {
            let mut scratch = Vec::new();
            let Ok(image) = format::open_page(PAGE, value, &mut scratch) else {
                return;
            };
            assert!(image.len() <= MAX_IMAGE_BYTES);
            return;
        }
        Kind::Redo | Kind::FilterMeta => {
            let payload = format::open(kind, key, value);
            payload.ok().map(|it| format::seal(kind, key, it))
        }
        Kind::FilterNumber => again::<FilterId>(kind, key, value),
        Kind::NextSerial => again::<u64>(kind, key, value),
        Kind::FilterName | Kind::FilterOwner => again::<String>(kind, key, value),
        Kind::FilterExpiry => again::<Expiry>(kind, key, value),
        Kind::LanePosition => again::<LanePosition>(kind, key, value),
        Kind::LanePast => again::<[u8; 16]>(kind, key, value),
        Kind::ScrubPosition => again::<ScrubPosition>(kind, key, value),
        Kind::Reclaim => match format::read_reclaim(key, value) {
            Ok(entry) => {
                assert_eq!(format::reclaim_key(entry.pages), key);
                let payload: &[u8] = if entry.is_staged {
                    &[format::STAGED]
                } else {
                    &[]
                };
                Some(format::seal(kind, key, payload))
            }
            Err(_) => None,
        },
        Kind::Due => match format::read_due(key, value) {
            Ok(due) => {
                assert_eq!(format::due_key(&due), key);
                return;
            }
            Err(_) => return,
        },
        Kind::SideRecord => {
            if let Some(named) = format::read_side_record_key(key) {
                assert_eq!(format::side_record_key(&named), key);
            }
            again::<SideRecord>(kind, key, value)
        }
        Kind::DataVersion => {
            let checked = format::check_data_version(value).ok();
            checked.map(|()| format::seal_data_version(format::DATA_VERSION))
        }
    };
    let Some(written) = written else {
        return;
    };
    assert!(written.len() < value.len() || written.get(2..) == value.get(2..));
}

/// What fuzzing begins with.
#[cfg(test)]
fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let mut record = RedoBuilder::default();
    record.filter(FilterId(7), 16);
    record
        .page(Ordinal(0), PageIndex(3))
        .slot(5, 0xabcd)
        .slot(900, 1);
    record.page(Ordinal(2), PageIndex(0)).slot(0, 7);
    record.counters(FilterId(7));
    record
        .page(Ordinal(0), PageIndex(3))
        .counter(5 << 32 | 17, 1_000_000);
    record.filter(FilterId(8), 8);
    record.page(Ordinal(0), PageIndex(0)).slot(1, 255);
    record.filter(FilterId(9), 21);
    record.page(Ordinal(0), PageIndex(0)).slot(1, 0x12_3456);
    record.wholes(FilterId(9));
    record.whole(Ordinal(0), PageIndex(5), &[7; 40]).whole(
        Ordinal(0),
        PageIndex(9),
        &[0, 0, 0, 0, 0, 0, 0, 0, 1],
    );
    record.dropped(FilterId(9));
    record.dropped_page(Ordinal(0), PageIndex(10));
    let mut image = vec![0; 5000];
    for at in [3, 700, 4095, 4999] {
        image[at] = 9;
    }
    use super::{Commit, Expiry, FilterChange};
    let commit = Commit {
        redo: vec![0xaa, 0xbb],
        filters: vec![
            FilterChange::Remove {
                id: FilterId(300),
                name: "a".to_owned(),
            },
            FilterChange::Expire {
                id: FilterId(1),
                before: None,
                after: Some(Expiry {
                    at_ms: 5,
                    ttl_seconds: 6,
                }),
            },
            FilterChange::Stage {
                id: FilterId(4),
                pages: [(
                    PageId {
                        filter: FilterId(4),
                        ordinal: Ordinal(0),
                        page: PageIndex(2),
                    },
                    image.clone(),
                )]
                .into(),
            },
            FilterChange::GiveUp { id: FilterId(4) },
        ],
        ..Commit::default()
    };
    let mut seeds = vec![
        (
            "commit",
            "changes".to_owned(),
            commit_bytes::encode(&commit),
        ),
        ("redo", "sections".to_owned(), record.finish()),
        ("page", "packed".to_owned(), format::encode_page(&image)),
        ("page", "dense".to_owned(), format::encode_page(&[7; 300])),
    ];
    for (choice, kind) in KINDS.into_iter().enumerate() {
        let (key, payload): (Vec<u8>, Vec<u8>) = match kind {
            Kind::Page => (format::page_key(PAGE).to_vec(), vec![0, 1, 2, 3]),
            Kind::Redo => (
                format::log_key(Sequence(7)).to_vec(),
                vec![7, 8, 1, 0, 0, 9],
            ),
            Kind::FilterNumber => (b"coupons".to_vec(), vec![7]),
            Kind::FilterName => (
                format::filter_name_key(FilterId(7)).to_vec(),
                b"\x07coupons".to_vec(),
            ),
            Kind::FilterMeta => (format::filter_meta_key(FilterId(7)).to_vec(), vec![2; 81]),
            Kind::FilterOwner => (
                format::filter_owner_key(FilterId(7)).to_vec(),
                b"\x04team".to_vec(),
            ),
            Kind::FilterExpiry => (format::filter_expiry_key(FilterId(7)).to_vec(), vec![1; 2]),
            Kind::Reclaim => (vec![7; 12], Vec::new()),
            Kind::DataVersion => (
                b"data_format".to_vec(),
                format::DATA_VERSION.to_le_bytes().to_vec(),
            ),
            Kind::NextSerial => (b"next_filter_id".to_vec(), vec![9]),
            Kind::LanePosition => (format::lane_position_key(7), vec![7; 36]),
            Kind::LanePast => (format::lane_past_key(7, 9), vec![7; 16]),
            Kind::ScrubPosition => (b"scrub_position".to_vec(), vec![7; 3]),
            Kind::Due => (
                [&[0, 0, 0, 0, 0, 0, 1, 2, 1][..], &[7; 8]].concat(),
                Vec::new(),
            ),
            Kind::SideRecord => (
                [&[1][..], &[7; 32]].concat(),
                b"\x09\x01\x04team\x06answer".to_vec(),
            ),
        };
        let mut seed = vec![choice as u8, key.len() as u8];
        seed.extend(key);
        seed.extend(payload);
        seeds.push(("values", format!("{kind:?}").to_lowercase(), seed));
    }
    seeds
}

/// Reads any bytes; panics if an assertion about them does not hold.
pub type Target = fn(&[u8]);

/// All of them, by the names of their directories in `fuzz/seeds`.
pub const TARGETS: &[(&str, Target)] = &[
    ("page", page),
    ("commit", commit),
    ("redo", redo),
    ("values", values),
];

#[cfg(test)]
#[path = "../../../../fuzz/replay.rs"]
mod replay;
