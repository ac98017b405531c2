//! The same over the Redis protocol, in pipelines and transactions.

use crate::checker::{Done, Operation};
use crate::clients::{FILTERS, ITEMS, Seen};
use crate::random::Random;
use redis::Connection;
use std::time::Instant;

/// Commands of one pipeline, at most.
const MOST: u64 = 6;

const VERBS: [&str; 5] = ["CF.ADD", "CF.ADDNX", "CF.DEL", "CF.EXISTS", "CF.COUNT"];

/// A connection to the server's second door.
pub(crate) fn connect(port: u16) -> Connection {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
    client.get_connection().unwrap()
}

/// Some commands at once. Their answers come together, so all of them are under way
/// until then.
pub(crate) fn work(
    random: &mut Random,
    connection: &mut Connection,
    started: &Instant,
    seen: &mut Seen,
) {
    let filter = random.below(FILTERS.len() as u64) as usize;
    let mut pipe = redis::pipe();
    if random.below(4) == 0 {
        pipe.atomic();
    }
    let among = if random.below(2) == 0 {
        ITEMS
    } else {
        ITEMS / 4
    };
    let asked: Vec<(&str, u64)> = (0..1 + random.below(MOST))
        .map(|_| {
            let verb = VERBS[random.below(VERBS.len() as u64) as usize];
            (verb, random.below(among))
        })
        .collect();
    for (verb, item) in &asked {
        pipe.cmd(verb)
            .arg(FILTERS[filter])
            .arg(format!("item {item}"));
    }
    let called = started.elapsed().as_nanos() as u64;
    let results: Vec<u64> = pipe.query(connection).unwrap();
    let answered = started.elapsed().as_nanos() as u64;
    assert_eq!(results.len(), asked.len());
    for ((verb, item), result) in asked.into_iter().zip(results) {
        let done = match (verb, result) {
            ("CF.ADD", 1) => Done::Added,
            ("CF.ADDNX", 1) => Done::AddedAsAbsent,
            ("CF.ADDNX", 0) => Done::LeftAsPresent,
            ("CF.DEL", 1) => Done::Deleted,
            ("CF.DEL", 0) => Done::NoneToDelete,
            ("CF.EXISTS", 1) => Done::Found,
            ("CF.EXISTS", 0) => Done::Absent,
            ("CF.COUNT", copies) => Done::Counted(copies),
            other => panic!("{other:?}"),
        };
        let operation = Operation {
            done,
            called,
            answered,
        };
        seen.push((filter, item, operation));
    }
}
