//! The stream is what it must be, and does what a commit log promises.

use crate::broker::Brokers;
use crate::founded::founded;
use crate::nats_server;
use crate::support::Cluster;
use async_nats::jetstream::response::Response;
use bytes::Bytes;
use cuckood::cluster::jetstream::{JetStreamError, check_sync, found, open};
use cuckood::cluster::{Answer, Append, CommitLog, Found, MessageId, Writer};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(2);

const STREAM: &str = "CUCKOOD_shop_1";

/// Asks the broker.
fn ask(cluster: &Cluster, subject: &str, body: Value) -> Value {
    let tool = cluster.stream_tool();
    let answer = tool.request(subject.to_owned(), &body);
    match cluster.runtime.block_on(answer).unwrap() {
        Response::Ok(answer) => answer,
        Response::Err { error } => panic!("{error}"),
    }
}

/// What reads the stream, as the broker calls it.
fn readers(cluster: &Cluster) -> Vec<String> {
    let names = ask(cluster, &format!("CONSUMER.NAMES.{STREAM}"), json!({}));
    serde_json::from_value(names["consumers"].clone()).unwrap()
}

/// The numbers of the records behind one of lane 0, as soon as some come: an error says
/// that they are asked for anew.
fn read_on(log: &dyn CommitLog, after: u64) -> Vec<u64> {
    let started = Instant::now();
    loop {
        let records = log.read(0, after, WAIT).unwrap_or_default();
        if !records.is_empty() {
            return records.iter().map(|it| it.sequence).collect();
        }
        assert!(started.elapsed() < Duration::from_secs(30));
    }
}

fn append(number: u64, expected: u64) -> Append {
    Append {
        id: MessageId {
            writer: Writer([1; 16]),
            lane: 0,
            number,
        },
        expected,
        bytes: Bytes::from(format!("record {number}")),
    }
}

fn stored(sequence: u64) -> Answer {
    Answer::Stored {
        sequence,
        is_duplicate: false,
    }
}

#[test]
fn a_log_appends_behind_the_fence_alone_and_hands_over_every_record_in_order() {
    let Some(cluster) = founded() else { return };
    let log = cluster.log();
    assert_eq!(log.newest(0).unwrap(), 0);
    assert_eq!(log.read(0, 0, Duration::from_millis(50)).unwrap(), []);
    assert_eq!(log.append(0, &append(1, 0)), stored(1));
    assert_eq!(log.append(1, &append(2, 0)), stored(2));
    assert_eq!(log.append(0, &append(3, 0)), Answer::Refused);
    assert_eq!(log.append(0, &append(3, 1)), stored(3));
    let read = |after| {
        let records = log.read(0, after, WAIT).unwrap();
        let numbers = records.iter().map(|it| it.sequence);
        numbers.collect::<Vec<_>>()
    };
    // Two readings, at most: the second record may come a moment later.
    let mut all = read(0);
    while all.last() != Some(&3) {
        all.extend(read(*all.last().unwrap()));
    }
    assert_eq!(all, [1, 3]);
    assert_eq!(log.append(0, &append(4, 3)), stored(4));
    assert_eq!(read(3), [4]);
    assert_eq!(log.newest(0).unwrap(), 4);
    assert_eq!(log.look(0, 3), Found::Record(append(3, 1).bytes));
    // A record of another lane is none of this one.
    assert_eq!(log.look(0, 2), Found::Absent { newest: 4 });
    assert_eq!(log.look(0, 9), Found::Absent { newest: 4 });
    assert!(log.read(2, 0, WAIT).is_err());
}

#[test]
fn records_that_stop_to_come_without_a_word_are_asked_for_anew() {
    let Some(cluster) = founded() else { return };
    let log = cluster.log();
    assert_eq!(log.append(0, &append(1, 0)), stored(1));
    assert_eq!(log.read(0, 0, WAIT).unwrap().len(), 1);
    // The broker goes on to say that it is there, and hands over nothing.
    let reader = readers(&cluster).remove(0);
    let until = json!({ "pause_until": "2100-01-01T00:00:00Z" });
    ask(
        &cluster,
        &format!("CONSUMER.PAUSE.{STREAM}.{reader}"),
        until,
    );
    assert_eq!(log.append(0, &append(2, 1)), stored(2));
    assert_eq!(read_on(&*log, 1), [2]);
}

#[test]
fn a_reader_that_the_broker_forgot_before_its_first_record_does_not_read_the_whole_log() {
    let Some(cluster) = founded() else { return };
    // More than a broker hands over unasked.
    const OLD: u64 = 1000;
    let log = cluster.log();
    for number in 1..=OLD {
        assert_eq!(log.append(0, &append(number, number - 1)), stored(number));
    }
    assert_eq!(log.read(0, OLD, Duration::from_millis(50)).unwrap(), []);
    // Another one takes its place without a word, and begins with the first record.
    let reader = readers(&cluster).remove(0);
    ask(
        &cluster,
        &format!("CONSUMER.DELETE.{STREAM}.{reader}"),
        json!({}),
    );
    assert_eq!(log.append(0, &append(OLD + 1, OLD)), stored(OLD + 1));
    assert_eq!(read_on(&*log, OLD), [OLD + 1]);
    let delivered = readers(&cluster).into_iter().map(|reader| {
        let found = ask(
            &cluster,
            &format!("CONSUMER.INFO.{STREAM}.{reader}"),
            json!({}),
        );
        let delivered = |name: &str| found["delivered"][name].as_u64().unwrap();
        (delivered("stream_seq"), delivered("consumer_seq"))
    });
    let delivered: Vec<_> = delivered.collect();
    assert!(delivered.contains(&(OLD + 1, 1)), "{delivered:?}");
}

#[test]
fn a_reader_that_is_far_behind_has_few_bytes_sent_to_it_at_once() {
    let Some(cluster) = founded() else { return };
    const RECORDS: u64 = 32;
    // As large as a record may be.
    const BYTES: usize = 900 << 10;
    let log = cluster.log();
    for number in 1..=RECORDS {
        let append = Append {
            bytes: Bytes::from(vec![number as u8; BYTES]),
            ..append(number, number - 1)
        };
        assert_eq!(log.append(0, &append), stored(number));
    }
    let mut read = log.read(0, 0, WAIT).unwrap();
    // What was asked for comes, whether it is taken or not.
    std::thread::sleep(Duration::from_secs(1));
    let reader = readers(&cluster).remove(0);
    let info = format!("CONSUMER.INFO.{STREAM}.{reader}");
    let sent = ask(&cluster, &info, json!({}))["delivered"]["consumer_seq"].as_u64();
    let sent = sent.unwrap();
    println!("{sent} records of 900 KiB were sent, {} taken", read.len());
    // As much as is asked for at once, and half as much again; and what was taken.
    assert!((1..=3).contains(&sent), "{sent} records");
    // All of them come, each once.
    let started = Instant::now();
    while read.len() < RECORDS as usize {
        let after = read.last().unwrap().sequence;
        read.extend(log.read(0, after, WAIT).unwrap_or_default());
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "{}",
            read.len()
        );
    }
    for (number, record) in (1..).zip(&read) {
        assert_eq!(record.sequence, number);
        assert!(record.bytes.len() == BYTES && record.bytes[0] == number as u8);
    }
}

#[test]
fn a_second_attempt_is_told_the_number_of_the_first_or_refused_and_stores_nothing() {
    if !nats_server::is_there() {
        return;
    }
    // One broker alone looks at the fence first, several at the id.
    let duplicate = Answer::Stored {
        sequence: 1,
        is_duplicate: true,
    };
    for (brokers, answer) in [(1, Answer::Refused), (3, duplicate)] {
        let cluster = Cluster::found(brokers);
        let log = cluster.log();
        assert_eq!(log.append(0, &append(1, 0)), stored(1));
        assert_eq!(log.append(0, &append(1, 0)), answer);
        assert_eq!(log.newest(0).unwrap(), 1);
    }
}

#[test]
fn trimming_leaves_a_lanes_newest_record_whatever_is_asked_for() {
    let Some(cluster) = founded() else { return };
    let log = cluster.log();
    for number in 1..=4 {
        assert_eq!(log.append(0, &append(number, number - 1)), stored(number));
    }
    assert_eq!(log.append(1, &append(5, 0)), stored(5));
    log.trim(0, 3).unwrap();
    assert_eq!(log.look(0, 2), Found::Absent { newest: 4 });
    assert_eq!(log.look(0, 3), Found::Record(append(3, 0).bytes));
    log.trim(0, 1000).unwrap();
    assert_eq!(log.newest(0).unwrap(), 4);
    assert_eq!(log.append(0, &append(6, 0)), Answer::Refused);
    assert_eq!(log.append(0, &append(6, 4)), stored(6));
    // A lane without records has nothing to trim, and others are left alone.
    assert_eq!(log.newest(1).unwrap(), 5);
}

#[test]
fn a_cluster_is_founded_once_and_a_stream_that_was_changed_is_refused() {
    let Some(cluster) = founded() else { return };
    let connection = cluster.connection().unwrap();
    let again = cluster
        .runtime
        .block_on(found(&connection, &cluster.founding));
    assert!(
        matches!(again, Err(JetStreamError::Founded { .. })),
        "{again:?}"
    );
    let name = &cluster.founding.cluster;
    let open_epoch = |epoch| cluster.runtime.block_on(open(&connection, name, epoch));
    let unknown = open_epoch(2);
    assert!(
        matches!(unknown, Err(JetStreamError::NoStream { .. })),
        "{unknown:?}"
    );
    let context = cluster.stream_tool();
    let changed = cluster.runtime.block_on(async {
        let stream = cluster.founding.stream();
        let mut config = context
            .get_stream(stream)
            .await
            .unwrap()
            .cached_info()
            .config
            .clone();
        config.max_age = Duration::from_secs(3600);
        context.update_stream(config).await
    });
    changed.unwrap();
    let refused = open_epoch(1).unwrap_err().to_string();
    assert!(
        refused.contains("has max_age 3600s, it needs 0ns"),
        "{refused}"
    );
}

#[test]
fn a_broker_that_does_not_force_to_its_disk_or_was_not_seen_is_named() {
    let Some(mut cluster) = founded() else { return };
    let stream = cluster.founding.stream();
    let check = |cluster: &Cluster, monitors: &[String]| {
        let connection = cluster.connection().unwrap();
        cluster
            .runtime
            .block_on(check_sync(&connection, &stream, monitors))
    };
    check(&cluster, &cluster.brokers.monitors).unwrap();
    let unseen = check(&cluster, &[]).unwrap_err().to_string();
    assert!(
        unseen.contains("whether broker broker-0 forces"),
        "{unseen}"
    );
    let wrong = check(&cluster, &["http://127.0.0.1:1".to_owned()]);
    assert!(
        matches!(wrong, Err(JetStreamError::SyncUnseen { .. })),
        "{wrong:?}"
    );
    cluster.brokers = Brokers::start(1, "2m");
    cluster.found_again();
    let lax = check(&cluster, &cluster.brokers.monitors).unwrap_err();
    assert!(matches!(lax, JetStreamError::NotSynced { .. }), "{lax}");
}

#[test]
fn brokers_that_are_not_there_are_named() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let brokers = cuckood::cluster::jetstream::Brokers {
        servers: vec!["nats://127.0.0.1:1".to_owned()],
        ..Default::default()
    };
    let error = runtime
        .block_on(cuckood::cluster::jetstream::connect(&brokers))
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("no broker of nats://127.0.0.1:1 can be used"),
        "{text}"
    );
}
