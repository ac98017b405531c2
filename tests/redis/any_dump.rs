//! Dumps of any filter: loaded in any parts it answers the same; torn, reordered or
//! changed it is refused.

use crate::dumps::{classic, load_part};
use crate::server::Server;
use crate::wire::{Client, command};
use proptest::prelude::*;
use std::cell::Cell;

/// A part: its iterator and its bytes.
type Part = (i64, Vec<u8>);

/// A filter, and how its dump is cut and what is wrong with it at last.
#[derive(Clone, Debug)]
struct Case {
    slots: u64,
    bucket_size: u64,
    expansion: u64,
    /// Items, some of them again and again; the others are deleted again.
    items: Vec<(u16, bool)>,
    cuts: Vec<prop::sample::Index>,
    fault: Fault,
    place: prop::sample::Index,
}

/// What may be wrong, and a list of it.
macro_rules! faults {
    ($($fault:ident)*) => {
        #[derive(Clone, Copy, Debug)]
        enum Fault {
            $($fault,)*
        }

        const FAULTS: &[Fault] = &[$(Fault::$fault,)*];
    };
}

faults! {
    PartMissing
    PartsSwapped
    CutOff
    TooLong
    MoreItems
    FewerItems
    MoreBuckets
    MoreSubFilters
    NoBuckets
    SlotEmptied
    SlotFilled
}

fn cases() -> impl Strategy<Value = Case> {
    let fault = prop::sample::select(FAULTS);
    // Few numbers, so that many items are there several times.
    let items = prop::collection::vec((0..1500u16, prop::bool::weighted(0.9)), 1..1200);
    (
        (4..2000u64, 1..6u64, 0..4u64),
        items,
        prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        (fault, any::<prop::sample::Index>()),
    )
        .prop_map(
            |((slots, bucket_size, expansion), items, cuts, (fault, place))| Case {
                slots: slots.max(2 * bucket_size),
                bucket_size,
                expansion,
                items,
                cuts,
                fault,
                place,
            },
        )
}

fn item(number: u16) -> String {
    format!("i{number}")
}

fn make(client: &mut Client, case: &Case) {
    client.expect("FLUSHALL", "+OK\\r\\n");
    client.expect(
        &format!(
            "CF.RESERVE k {} BUCKETSIZE {} EXPANSION {}",
            case.slots, case.bucket_size, case.expansion
        ),
        "+OK\\r\\n",
    );
    let of = |verb, number: u16| command(&[verb, "k", &item(number)]);
    let mut bytes = Vec::new();
    for &(number, _) in &case.items {
        bytes.extend(of("CF.ADD", number));
    }
    let deleted = case.items.iter().filter(|(_, stays)| !stays);
    for &(number, _) in deleted.clone() {
        bytes.extend(of("CF.DEL", number));
    }
    client.send(&bytes);
    // A filter that does not grow may be full.
    (0..case.items.len() + deleted.count()).for_each(|_| drop(client.reply()));
}

/// How often it has each number, absent ones included.
fn answers(client: &mut Client, key: &str) -> Vec<Vec<u8>> {
    let ask = |number| command(&["CF.COUNT", key, &item(number)]);
    client.send(&(0..2000).flat_map(ask).collect::<Vec<u8>>());
    (0..2000).map(|_| client.reply()).collect()
}

/// The header and all slots; `None`: copies have no slot.
fn dump(client: &mut Client) -> Option<(Vec<u8>, Vec<u8>)> {
    let refused = client.tell("CF.SCANDUMP k 0");
    if refused.contains("copies have no slot") {
        return None;
    }
    let mut parts = crate::dumps::dump(client, "k").into_iter();
    let (_, header) = parts.next()?;
    Some((header, parts.flat_map(|(_, bytes)| bytes).collect()))
}

/// The slots in parts that are cut anywhere, behind the header.
fn cut(header: &[u8], slots: &[u8], cuts: &[prop::sample::Index]) -> Vec<Part> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| 1 + cut.index(slots.len())).collect();
    ends.push(slots.len());
    ends.sort_unstable();
    ends.dedup();
    let mut parts = vec![(1, header.to_vec())];
    let mut from = 0;
    for end in ends {
        parts.push((1 + end as i64, slots[from..end].to_vec()));
        from = end;
    }
    parts
}

/// Parts of which no filter may become. `None`: this dump can't have the fault.
fn spoiled(case: &Case, header: &[u8], slots: &[u8]) -> Option<Vec<Part>> {
    let mut parts = cut(header, slots, &case.cuts);
    let of_slots = parts.len() - 1;
    let at = 1 + case.place.index(of_slots);
    let with_number = |at: usize, change: fn(u64) -> u64| {
        let mut header = header.to_vec();
        let number = u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
        header[at..at + 8].copy_from_slice(&change(number).to_le_bytes());
        header
    };
    let with_slot = |is_wanted: fn(u8) -> bool, value: u8| {
        let mut slots = slots.to_vec();
        let from = case.place.index(slots.len());
        let mut places = (from..slots.len()).chain(0..from);
        let place = places.find(|&place| is_wanted(slots[place]))?;
        slots[place] = value;
        Some(cut(header, &slots, &case.cuts))
    };
    match case.fault {
        Fault::PartMissing => drop(parts.remove(at)),
        Fault::PartsSwapped if of_slots > 1 => parts.swap(at, 1 + at % of_slots),
        Fault::CutOff => {
            let (end, bytes) = parts.last_mut()?;
            (*end, _) = (*end - 1, bytes.pop());
        }
        Fault::TooLong => {
            let (end, bytes) = parts.last_mut()?;
            *end += 1;
            bytes.push(0);
        }
        Fault::MoreItems => parts[0].1 = with_number(0, |it| it + 1),
        Fault::FewerItems => parts[0].1 = with_number(0, |it| if it > 1 { it - 1 } else { it + 1 }),
        Fault::MoreBuckets => parts[0].1 = with_number(8, |it| 2 * it),
        Fault::MoreSubFilters => parts[0].1 = with_number(24, |it| it + 1),
        Fault::NoBuckets => parts[0].1 = with_number(8, |_| 0),
        Fault::SlotEmptied => parts = with_slot(|slot| slot != 0, 0)?,
        Fault::SlotFilled => parts = with_slot(|slot| slot == 0, 1)?,
        Fault::PartsSwapped => return None,
    }
    Some(parts)
}

/// Whether it could be dumped.
fn check(server: &Server, case: &Case) -> bool {
    let mut client = server.connect();
    make(&mut client, case);
    let before = answers(&mut client, "k");
    let Some((header, slots)) = dump(&mut client) else {
        return false;
    };
    if let Some(parts) = spoiled(case, &header, &slots) {
        for (iterator, bytes) in &parts {
            let _ = load_part(&mut client, "copy", *iterator, bytes);
        }
        client.expect("EXISTS copy", ":0\\r\\n");
        client.expect("DBSIZE", ":1\\r\\n");
    }
    // Whatever came before, it begins again; and it bears a part that came already.
    let parts = cut(&header, &slots, &case.cuts);
    let stale = case.place.index(parts.len());
    for (at, (iterator, bytes)) in parts.iter().enumerate() {
        if at == stale && at > 1 {
            let (iterator, bytes) = &parts[at - 1];
            let again = load_part(&mut client, "copy", *iterator, bytes);
            assert_eq!(again, b"-Couldn't load chunk!\r\n");
        }
        assert_eq!(load_part(&mut client, "copy", *iterator, bytes), b"+OK\r\n");
    }
    assert_eq!(answers(&mut client, "copy"), before);
    assert_eq!(answers(&mut client, "k"), before);
    true
}

#[test]
fn any_filter_comes_back_whole_or_not_at_all() {
    let server = classic();
    let dumped = Cell::new(0);
    let mut config = ProptestConfig::with_cases(80);
    config.failure_persistence = None;
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let ran = runner.run(&cases(), |case| {
        dumped.set(dumped.get() + usize::from(check(&server, &case)));
        Ok(())
    });
    ran.unwrap();
    assert!(dumped.get() > 40, "{}", dumped.get());
}
