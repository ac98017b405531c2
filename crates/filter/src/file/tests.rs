use super::fuzz_targets::with_counters;
use super::{FileError, FileView, FileWriter, Header, Sums};
use crate::chain::address::PageAddress;
use crate::chain::counters::CounterKey;
use crate::chain::meta::{Chain, Lineage};
use crate::chain::params::{Attributes, Codes, Defaults, FilterParams, FilterRequest, LayoutKind};
use crate::chain::plan::{AddMode, AddResult};
use crate::chain::read;
use crate::cuckoo::bucket::SlotWidth;
use crate::cuckoo::hash::{HashId, HashKey};
use crate::resident::ResidentFilter;
use std::ops::Range;

/// A filter without an item.
pub(super) fn filter(request: FilterRequest) -> ResidentFilter {
    let params = FilterParams::resolve(&request, &Defaults::default()).unwrap();
    let key = HashKey(*b"0123456789abcdef");
    let chain = Chain::new(params, key, 1_600_000_000_000).unwrap();
    ResidentFilter::new(chain.with_lineage(Lineage(*b"a lineage of its"), START_MS))
}

/// Filters of all layouts and widths, small, with copies of one item.
pub(super) fn shapes() -> Vec<(String, FilterRequest)> {
    let of = |name: &str, request| (name.to_owned(), request);
    let mut shapes: Vec<(String, FilterRequest)> = SlotWidth::PAGED
        .iter()
        .map(|width| {
            let bits = u64::from(width.bits());
            let request = FilterRequest {
                capacity: Some(2_000),
                fingerprint_bits: Some(bits),
                ..FilterRequest::default()
            };
            (format!("slots of {bits} bits"), request)
        })
        .collect();
    for bucket_size in [1, 3, 4] {
        let request = FilterRequest {
            layout: Some(LayoutKind::Classic),
            capacity: Some(3_000),
            bucket_size: Some(bucket_size),
            ..FilterRequest::default()
        };
        shapes.push((format!("buckets of {bucket_size}"), request));
    }
    let paged = FilterRequest {
        capacity: Some(2_000),
        ..FilterRequest::default()
    };
    shapes.push(of(
        "values",
        FilterRequest {
            value_bits: Some(4),
            ..paged.clone()
        },
    ));
    let attributes = vec![
        (
            "shop".to_owned(),
            Codes::Exact(vec!["a".to_owned(), "b".to_owned()]),
        ),
        ("till".to_owned(), Codes::Hashed(3)),
    ];
    shapes.push(of(
        "rows",
        FilterRequest {
            attributes: Attributes::new(attributes).ok(),
            ..paged.clone()
        },
    ));
    shapes.push(of(
        "a window",
        FilterRequest {
            window_seconds: Some(3_600),
            ..paged
        },
    ));
    shapes
}

fn pages_of(filter: &ResidentFilter) -> impl Iterator<Item = PageAddress> {
    (0..)
        .zip(filter.chain().sub_filters())
        .flat_map(|(sub, it)| (0..it.layout.pages()).map(move |page| PageAddress { sub, page }))
}

/// The bytes of its file.
pub(super) fn file_of(filter: &ResidentFilter) -> Vec<u8> {
    written(filter, Header::of(filter.chain()).unwrap())
}

fn written(filter: &ResidentFilter, header: Header) -> Vec<u8> {
    let mut file = Vec::new();
    let put = |bytes: &[u8]| {
        file.extend_from_slice(bytes);
        Ok::<(), FileError>(())
    };
    let mut writer = FileWriter::new(header, put).unwrap();
    for page in pages_of(filter) {
        let image: Vec<u8> = filter.page(page).map_or_else(Vec::new, |whole| {
            whole.words.iter().flat_map(|it| it.to_le_bytes()).collect()
        });
        writer.page(page, &image, filter.counters(page)).unwrap();
    }
    writer.end_pages().unwrap();
    for page in pages_of(filter) {
        if let Some(counters) = filter.counters(page) {
            writer.counters(page, counters).unwrap();
        }
    }
    writer.finish().unwrap();
    file
}

/// Items and what was done with them, as of a moment.
const START_MS: u64 = 1_700_000_000_000;

/// Adds items, every tenth of them several times; where they have values, with some;
/// where they expire, a second after each other.
pub(super) fn add(filter: &mut ResidentFilter, items: Range<u32>) {
    let (has_values, chain) = (
        filter.chain().params().value_bits() > 0,
        filter.chain().clone(),
    );
    filter.at_once(|planner| {
        for n in items {
            let hash = chain.hash(&n.to_le_bytes());
            planner.at(START_MS + u64::from(n) * 1_000);
            for copy in 0..if n % 10 == 0 { 9 } else { 1 } {
                let added = match has_values {
                    true => planner.add_value(hash, (n * 7 + copy) % 16, AddMode::Always),
                    false => planner.add(hash, AddMode::Always),
                };
                assert!(!matches!(added.unwrap(), AddResult::Full(_)));
            }
        }
    });
}

/// Takes them out again, as far as they can be.
fn delete(filter: &mut ResidentFilter, items: Range<u32>) {
    let chain = filter.chain().clone();
    filter.at_once(|planner| {
        for n in items.clone() {
            let hash = chain.hash(&n.to_le_bytes());
            while chain.params().window().is_none() && planner.delete(hash).unwrap() {}
        }
        if chain.params().window().is_some() {
            planner.at(START_MS + u64::from(items.end) * 1_000 + 3_000_000);
            planner.sweep(0, u32::MAX).unwrap();
        }
    });
}

/// Filters of all shapes: fresh, grown within a level, shrunk.
fn filters() -> Vec<(String, ResidentFilter)> {
    let mut filters = Vec::new();
    for (name, request) in shapes() {
        for (state, items, deleted) in [
            ("empty", 0, 0),
            ("fresh", 1_500, 0),
            ("grown", 9_000, 0),
            ("shrunk", 9_000, 8_000),
        ] {
            let mut filter = filter(request.clone());
            add(&mut filter, 0..items);
            delete(&mut filter, 0..deleted);
            filters.push((format!("{name}, {state}"), filter));
        }
    }
    filters
}

/// What a filter says of an item: whether it is there, in the window and lately, how
/// often, and its values.
type Answers = (bool, bool, u64, Vec<u32>);

fn told(filter: &mut ResidentFilter, items: Range<u32>, now_ms: u64) -> Vec<Answers> {
    let chain = filter.chain().clone();
    let mut told = Vec::new();
    filter.at_once(|planner| {
        for n in items {
            let hash = chain.hash(&n.to_le_bytes());
            let mut exists = |within| {
                planner
                    .exists(hash, chain.oldest_epoch(now_ms, within))
                    .unwrap()
            };
            let (always, lately) = (exists(None), exists(Some(600)));
            let count = match chain.params().window() {
                Some(_) => always.into(),
                None => planner.count(hash).unwrap(),
            };
            let values = match chain.params().value_bits() {
                0 => Vec::new(),
                _ => planner
                    .values(hash)
                    .unwrap()
                    .iter()
                    .map(|it| it.value)
                    .collect(),
            };
            told.push((always, lately, count, values));
        }
    });
    told
}

fn asked(view: &FileView<&[u8]>, item: u32, now_ms: u64) -> Result<Answers, FileError> {
    let item = &item.to_le_bytes();
    let (always, lately) = (view.since(now_ms, None), view.since(now_ms, Some(600)));
    let values = view.values(item)?;
    Ok((
        view.exists(item, always)?,
        view.exists(item, lately)?,
        view.count(item, always)?,
        values.iter().map(|it| it.value).collect(),
    ))
}

#[test]
fn a_file_answers_as_its_filter_does_false_positives_included() {
    for (name, mut filter) in filters() {
        let file = file_of(&filter);
        let view = FileView::open(&file[..]).unwrap();
        let items = 0..15_000;
        let mut wrong = 0;
        let moments = [1_500_000, 9_000_000, 11_000_000];
        let moments = match view.header().window {
            Some(_) => &moments[..],
            None => &moments[..1],
        };
        for now_ms in moments.iter().map(|it| START_MS + it) {
            let told = told(&mut filter, items.clone(), now_ms);
            for (item, told) in items.clone().zip(&told) {
                wrong += u32::from(item >= 9_000 && told.0);
                assert_eq!(
                    asked(&view, item, now_ms).as_ref(),
                    Ok(told),
                    "{name}: {item}"
                );
            }
            let bytes: Vec<_> = items.clone().map(u32::to_le_bytes).collect();
            let mut found = Vec::new();
            let all = bytes.iter().map(|it| it.as_slice());
            view.exists_all(all, view.since(now_ms, None), &mut found)
                .unwrap();
            assert!(found.iter().eq(told.iter().map(|it| &it.0)), "{name}");
        }
        println!("{name}: {} bytes, {wrong} wrong yes", file.len());
        view.verify().unwrap();
        let counters = |page| view.counters(page, CounterKey::ALL).unwrap();
        for (sub, it) in (0..).zip(filter.chain().sub_filters()) {
            for page in (0..it.layout.pages()).map(|page| PageAddress { sub, page }) {
                let held = filter.counters(page).cloned().unwrap_or_default();
                assert!(counters(page).iter().eq(held.iter()), "{name}: {page:?}");
            }
        }
    }
}

#[test]
fn a_damaged_file_is_refused_where_it_is_damaged_and_answers_no_other_way() {
    let mut random = 0x5eed_u64;
    let mut below = |end: usize| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) as usize % end
    };
    for (name, mut filter) in filters() {
        let whole = file_of(&filter);
        let (items, now_ms) = (0..300, START_MS + 1_000_000);
        let told = told(&mut filter, items.clone(), now_ms);
        let parts = Header::decode(&whole).unwrap().parts;
        let ends = [
            0,
            1,
            256,
            parts.pages_at,
            parts.sums_at,
            parts.bytes - 48,
            parts.bytes - 1,
        ];
        let ends = ends.map(|it| it as usize).into_iter();
        for end in ends.chain((0..20).map(|_| below(whole.len()))) {
            assert!(FileView::open(&whole[..end]).is_err(), "{name}: {end}");
        }
        let longer = [&whole[..], &[0]].concat();
        assert!(FileView::open(&longer[..]).is_err(), "{name}");
        for _ in 0..40 {
            let mut file = whole.clone();
            let at = below(file.len());
            file[at] ^= 1 << below(8);
            let Ok(view) = FileView::open(&file[..]) else {
                continue;
            };
            let digest_at = parts.bytes - 40;
            let damage = match (at as u64) < digest_at {
                true => FileError::Block((at as u64 - parts.pages_at) / 4096),
                false => FileError::Digest,
            };
            assert_eq!(view.verify(), Err(damage), "{name}: {at}");
            for (item, told) in items.clone().zip(&told) {
                match asked(&view, item, now_ms) {
                    Ok(answers) => assert_eq!(answers, *told, "{name}: {at}, {item}"),
                    Err(error) => assert_eq!(error, damage, "{name}: {at}, {item}"),
                }
            }
        }
    }
}

#[test]
fn a_damaged_block_refuses_the_questions_that_need_it_and_no_others() {
    let (_, request) = shapes().remove(1);
    let mut filter = filter(request);
    add(&mut filter, 0..9_000);
    let mut file = file_of(&filter);
    let parts = Header::decode(&file).unwrap().parts;
    file[parts.pages_at as usize + 3 * 4096] ^= 1;
    let view = FileView::open(&file[..]).unwrap();
    let (mut refused, mut pages) = (0, 0);
    for item in 0..9_000u32 {
        let hash = filter.chain().hash(&item.to_le_bytes());
        let lies_there = read::candidate_pages(filter.chain(), hash).any(|it| it.page == 3);
        let answer = view.exists(&item.to_le_bytes(), None);
        pages += u32::from(lies_there);
        refused += u32::from(answer.is_err());
        match answer {
            Ok(found) => assert!(found),
            Err(error) => assert!(lies_there && error == FileError::Block(3), "{error}"),
        }
    }
    // Some of those whose other page has them are found there.
    assert!(
        refused > pages / 2 && refused <= pages,
        "{refused} of {pages}"
    );
}

#[test]
fn a_file_without_its_key_answers_who_has_it() {
    let (_, request) = shapes().remove(1);
    let mut filter = filter(request);
    add(&mut filter, 0..100);
    let key = match filter.chain().hash_id() {
        HashId::SipHash13(key) => key,
        HashId::Murmur64A => panic!("it has a key"),
    };
    let header = Header::of(filter.chain()).unwrap();
    let file = written(&filter, header.without_key());
    let held = file.windows(16).any(|it| it == key.0);
    assert!(!held, "the key is in the file");
    let view = FileView::open(&file[..]).unwrap();
    view.verify().unwrap();
    let item = &7u32.to_le_bytes();
    assert!(matches!(view.exists(item, None), Err(FileError::Key(_))));
    let mut found = Vec::new();
    let all = view.exists_all([&item[..]], None, &mut found);
    assert!(matches!(all, Err(FileError::Key(_))));
    let view = view.with_key(key).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(view.exists(item, None), Ok(true));
    assert!(view.with_key(HashKey([1; 16])).is_err());
}

/// A file whose checksums are right, whatever its blocks hold, refuses or answers, and
/// does neither beyond its bytes, nor for ever.
#[test]
fn hostile_blocks_with_right_checksums_are_borne() {
    let mut random = 0x5eed_u64;
    let mut next = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        random >> 32
    };
    for (_, filter) in filters() {
        let header = with_counters(filter.chain(), 20_000);
        for _ in 0..4 {
            let mut file = header.encode();
            let mut sums = Sums::new(&file, header.parts.blocks());
            let zeros = next() % 4;
            let body: Vec<u8> = (header.parts.pages_at..header.parts.sums_at)
                .map(|_| if next() % 4 < zeros { 0 } else { next() as u8 })
                .collect();
            sums.update(&body);
            file.extend_from_slice(&body);
            file.extend_from_slice(&sums.finish().0);
            let view = FileView::open(&file[..]).unwrap();
            view.verify().unwrap();
            for item in 0..2_000 {
                let _ = asked(&view, item, START_MS + next());
            }
            for (sub, (layout, _)) in (0..).zip(&header.parts.subs) {
                for page in 0..layout.pages() {
                    let _ = view.counters(PageAddress { sub, page }, CounterKey::ALL);
                }
            }
        }
    }
}

#[test]
fn a_header_is_read_as_it_was_written_and_no_other_is() {
    for (name, request) in shapes() {
        let mut filter = filter(request);
        add(&mut filter, 0..9_000);
        let header = with_counters(filter.chain(), 5);
        let mut bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header.clone()), "{name}");
        let told = Chain::from_portable(&header.description, u64::MAX).unwrap();
        assert_eq!(told.portable(), filter.chain().portable(), "{name}");
        for byte in 0..bytes.len() {
            if (300..bytes.len() - 8).contains(&byte) && byte % 97 != 0 {
                continue;
            }
            bytes[byte] ^= 1 << (byte % 8);
            let error = Header::decode(&bytes).expect_err(&name);
            match byte {
                0..8 => assert_eq!(error, FileError::Foreign),
                8..10 => assert!(matches!(error, FileError::Version { .. }), "{error}"),
                _ => assert!(matches!(error, FileError::Header(_)), "{error}"),
            }
            // With the checksum of what stands there nothing is left that says so but
            // what follows from other fields.
            super::header::seal(&mut bytes);
            let read = Header::decode(&bytes);
            let follows = [16..64, 72..88, 165..167, 188..192, 208..216, 240..256];
            let may_be = !follows.iter().any(|it| it.contains(&byte));
            match read {
                Ok(read) => {
                    assert!(may_be, "{name}: byte {byte}");
                    assert_eq!(read.encode(), bytes, "{name}: byte {byte}");
                }
                Err(FileError::Features { .. }) => assert!((160..164).contains(&byte)),
                Err(_) => {}
            }
            bytes[byte] ^= 1 << (byte % 8);
            super::header::seal(&mut bytes);
        }
        for end in [0, 8, 255, 256, bytes.len() - 1] {
            assert!(Header::decode(&bytes[..end]).is_err(), "{name}: {end}");
        }
    }
}

#[test]
fn the_end_of_a_file_is_of_its_bytes_and_equal_filters_have_equal_digests() {
    use sha2::{Digest as _, Sha256};
    for (name, request) in shapes() {
        let mut filter = filter(request);
        add(&mut filter, 0..9_000);
        let file = file_of(&filter);
        let header = Header::decode(&file).unwrap();
        let parts = &header.parts;
        assert_eq!(file.len() as u64, parts.bytes, "{name}");
        let (pages_at, sums_at) = (parts.pages_at as usize, parts.sums_at as usize);
        let sums: Vec<u8> = file[pages_at..sums_at]
            .chunks(4096)
            .flat_map(|block| crc32fast::hash(block).to_le_bytes())
            .collect();
        let end = sums_at + sums.len();
        assert_eq!(file[sums_at..end], sums, "{name}");
        let sum = [crc32fast::hash(&sums).to_le_bytes(), [0; 4]].concat();
        assert_eq!(file[end..end + 8], sum, "{name}");
        let mut masked = file[..end + 8].to_vec();
        for place in [12..16, 120..128, 216..248] {
            masked[place].fill(0);
        }
        assert_eq!(file[end + 8..end + 40], *Sha256::digest(masked), "{name}");
        assert_eq!(file[end + 40..], *b"CUCKEND1", "{name}");
    }
}
