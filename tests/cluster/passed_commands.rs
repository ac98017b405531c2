//! Commands of the Redis protocol on their way to the pods that lead: their order,
//! what they see, how often pods are asked, and what is said where they can't be done.

use crate::broker::Brokers;
use crate::commands::{Connection, OK, int, is_error, start, words};
use crate::founded::shop;
use crate::operator::api_key;
use crate::program::{Client, Pod, status};
use crate::trust::AsPod;
use cuckood::access::cluster_key::ClusterKey;
use redis::Value;
use std::time::{Duration, Instant};

const LANES: usize = 4;

/// Filters, so that each lane has some.
const FILTERS: usize = 24;

/// Two pods, of which each leads half of the lanes.
struct Cluster {
    brokers: Brokers,
    pods: Vec<(Pod, u16)>,
    /// The lanes of the filters.
    lanes: Vec<usize>,
    /// The pods that lead the lanes.
    leaders: Vec<usize>,
}

impl Cluster {
    /// Pods with these flags, called by who has the API key, if there is one.
    fn start(flags: [&[&str]; 2], key: Option<&str>) -> Option<Cluster> {
        let brokers = shop(LANES as u32)?;
        let asking = Client::new();
        let mut pods: Vec<(Pod, u16)> = flags.iter().map(|it| start(&brokers, it)).collect();
        for (pod, _) in &mut pods {
            pod.ready(&asking);
        }
        let started = Instant::now();
        let leaders = loop {
            let status = status(&brokers);
            let lanes = status["lanes"].as_array().unwrap().iter();
            let leads = |lane: &serde_json::Value| {
                pods.iter()
                    .position(|(pod, _)| lane["leader"] == *pod.address)
            };
            let leaders: Option<Vec<usize>> = lanes.map(leads).collect();
            match leaders {
                Some(leaders) if leaders.iter().sum::<usize>() == LANES / 2 => break leaders,
                _ => assert!(started.elapsed() < Duration::from_secs(60), "{status}"),
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        for (pod, _) in &mut pods {
            pod.ready(&asking);
        }
        let mut cluster = Cluster {
            brokers,
            pods,
            lanes: Vec::new(),
            leaders,
        };
        for filter in 0..FILTERS {
            let mut connection = cluster.connect(0, key);
            let made = connection.ask(&format!("CF.RESERVE f{filter} 100000"));
            assert_eq!(made, OK);
            let (lane, _) = position(&mut connection);
            cluster.lanes.push(lane);
        }
        Some(cluster)
    }

    fn connect(&self, pod: usize, key: Option<&str>) -> Connection {
        let mut connection = Connection::open(self.pods[pod].1);
        if let Some(key) = key {
            assert_eq!(connection.ask(&format!("AUTH {key}")), OK);
        }
        connection
    }

    /// The filters whose lanes a pod leads.
    fn led_by(&self, pod: usize) -> Vec<String> {
        let filters = (0..FILTERS).filter(|&it| self.leaders[self.lanes[it]] == pod);
        let filters: Vec<String> = filters.map(|it| format!("f{it}")).collect();
        assert!(filters.len() > 3, "{:?} {:?}", self.lanes, self.leaders);
        filters
    }

    /// How often other pods have passed commands on to one.
    fn passed_to(&self, pod: usize) -> u64 {
        let metrics = Client::new().text(&format!("{}/metrics", self.pods[pod].0.address));
        let counted = metrics.lines().filter(|it| {
            it.starts_with("cuckood_http_requests_total") && it.contains("/internal/commands")
        });
        counted
            .map(|it| it.split(' ').next_back().unwrap().parse::<u64>().unwrap())
            .sum()
    }
}

/// Pods without flags or keys.
fn cluster() -> Option<Cluster> {
    Cluster::start([&[], &[]], None)
}

/// The lane, and its record, of what a connection has changed, if that is one.
fn position(connection: &mut Connection) -> (usize, u64) {
    let Value::BulkString(position) = connection.ask("CLIENT POSITION") else {
        panic!("there is no position");
    };
    let position = String::from_utf8(position).unwrap();
    let numbers: Vec<u64> = position.split('.').map(|it| it.parse().unwrap()).collect();
    (numbers[1] as usize, numbers[2])
}

/// Records of the log from one item to another one, both added to this filter, and what is
/// done between the two.
fn records_of(
    connection: &mut Connection,
    filter: &str,
    between: impl FnOnce(&mut Connection),
) -> u64 {
    connection.ask(&format!("CF.ADD {filter} before"));
    let (_, before) = position(connection);
    between(connection);
    connection.ask(&format!("CF.ADD {filter} after"));
    let (_, after) = position(connection);
    after - before
}

fn may_be_sent_again(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == "TRYAGAIN")
}

fn pipeline(connection: &mut Connection, commands: &[String]) -> Vec<Value> {
    let commands: Vec<_> = commands.iter().map(|it| words(it)).collect();
    connection.pipeline(&commands)
}

#[test]
fn a_question_does_not_see_a_change_that_stands_behind_it() {
    let Some(cluster) = cluster() else { return };
    let mut connection = cluster.connect(0, None);
    let filter = &cluster.led_by(1)[0];
    for item in 0..20 {
        // It takes a while, and asks for the item at its end.
        let absent: Vec<String> = (0..9_000).map(|it| format!("{item}-{it}")).collect();
        let question = format!("CF.MEXISTS {filter} {} {item}", absent.join(" "));
        let commands = [
            question,
            format!("CF.ADD {filter} {item}"),
            format!("CF.EXISTS {filter} {item}"),
        ];
        let replies = pipeline(&mut connection, &commands);
        let Value::Array(found) = &replies[0] else {
            panic!("{replies:?}");
        };
        assert_eq!(found.last(), Some(&int(0)), "item {item}");
        assert_eq!(replies[1..], [int(1), int(1)]);
    }
}

#[test]
fn a_transaction_on_another_pod_sees_what_its_connection_did() {
    let Some(cluster) = cluster() else { return };
    let mut connection = cluster.connect(0, None);
    let (own, other) = (&cluster.led_by(0)[0], &cluster.led_by(1)[0]);
    let mut done = 0;
    for item in 0..300 {
        if connection.ask(&format!("CF.ADD {own} {item}")) != int(1) {
            continue;
        }
        let commands = [
            "MULTI".to_owned(),
            format!("CF.ADD {other} {item}"),
            format!("CF.EXISTS {own} {item}"),
            "EXEC".to_owned(),
        ];
        let replies = pipeline(&mut connection, &commands);
        // On a busy machine a pod may lose a lease.
        if let Value::Array(replies) = &replies[3] {
            assert_eq!(replies[1], int(1), "{item}: {replies:?}");
            done += 1;
        }
    }
    assert!(done > 100, "{done}");
}

#[test]
fn a_lane_is_asked_once_for_strong_questions_that_come_together() {
    let Some(cluster) = cluster() else { return };
    for leader in 0..2 {
        let filter = &cluster.led_by(leader)[0];
        let mut connection = cluster.connect(0, None);
        assert_eq!(connection.ask("CLIENT CONSISTENCY strong"), OK);
        let count = format!("CF.COUNT {filter} x");
        let ttl = format!("TTL {filter}");
        let commands: Vec<String> = [count, ttl].into_iter().cycle().take(100).collect();
        let records = records_of(&mut connection, filter, |connection| {
            for replies in pipeline(connection, &commands).chunks(2) {
                assert_eq!(replies, [int(0), int(-1)]);
            }
        });
        // The item, and what made sure that nothing is missed.
        assert!((2..6).contains(&records), "{records} records");
    }
}

#[test]
fn a_lane_is_asked_once_for_many_filters_that_are_not_there() {
    let Some(cluster) = cluster() else { return };
    for leader in 0..2 {
        let filter = &cluster.led_by(leader)[0];
        let none: Vec<String> = (0..2000).map(|it| format!("none{it}")).collect();
        let records = records_of(&mut cluster.connect(0, None), filter, |_| {
            // Another one, whose position is not of one lane then.
            let deleted = format!("DEL {}", none.join(" "));
            assert_eq!(cluster.connect(0, None).ask(&deleted), int(0));
        });
        // The item, and for each thousand names what made sure in each lane that nothing is
        // missed.
        let most = 4 + 2 * LANES as u64;
        assert!((2..most).contains(&records), "{records} records");
    }
}

#[test]
fn a_pod_is_asked_once_for_many_filters() {
    let Some(cluster) = Cluster::start([&["--redis-allow-flush"], &[]], None) else {
        return;
    };
    let mut connection = cluster.connect(0, None);
    let all: Vec<String> = (0..FILTERS).map(|it| format!("f{it}")).collect();
    let before = cluster.passed_to(1);
    let expire: Vec<String> = all.iter().map(|it| format!("EXPIRE {it} 1000")).collect();
    let replies = pipeline(&mut connection, &expire);
    assert!(replies.iter().all(|it| *it == int(1)), "{replies:?}");
    assert_eq!(cluster.passed_to(1) - before, 1);
    let half = all[..FILTERS / 2].join(" ");
    let deleted = connection.ask(&format!("DEL {half}"));
    assert_eq!(deleted, int(FILTERS as i64 / 2));
    assert_eq!(cluster.passed_to(1) - before, 2);
    assert_eq!(connection.ask("FLUSHALL"), OK);
    assert_eq!(cluster.passed_to(1) - before, 3);
    assert_eq!(connection.ask("DBSIZE"), int(0));
}

#[test]
fn all_is_flushed_that_the_connection_has_just_made() {
    let Some(cluster) = Cluster::start([&["--redis-allow-flush"], &[]], None) else {
        return;
    };
    let mut connection = cluster.connect(0, None);
    // This pod may not have heard of all of them when the last reply comes.
    for round in 0..20 {
        let made: Vec<String> = (0..FILTERS)
            .map(|it| format!("CF.RESERVE made{round}-{it} 100"))
            .collect();
        let replies = pipeline(&mut connection, &made);
        assert!(replies.iter().all(|it| *it == OK), "{replies:?}");
        assert_eq!(connection.ask("FLUSHALL"), OK);
        assert_eq!(connection.ask("DBSIZE"), int(0), "round {round}");
    }
}

#[test]
fn commands_wait_together_for_lanes_that_nobody_leads() {
    let Some(mut cluster) = cluster() else { return };
    cluster.brokers.all.iter_mut().for_each(|it| it.kill());
    let all: Vec<String> = (0..FILTERS).map(|it| format!("f{it}")).collect();
    let persist: Vec<String> = all.iter().map(|it| format!("PERSIST {it}")).collect();
    let nobody_leads = |reply: &Value| is_error(reply, "no pod that can be reached leads");
    // No lease is left.
    let asking = Client::new();
    for (pod, (process, _)) in cluster.pods.iter().enumerate() {
        let started = Instant::now();
        loop {
            let url = format!("{}/cluster", process.address);
            let known = asking.send("GET", &url, &[], None).unwrap().body;
            let is_led = |lane: &usize| !known["lanes"][*lane]["leader"].is_null();
            let own = (0..LANES).filter(|&it| cluster.leaders[it] == pod);
            if !own.collect::<Vec<_>>().iter().any(is_led) {
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{known}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let mut connection = cluster.connect(0, None);
    for command in [persist, vec![format!("DEL {}", all.join(" "))]] {
        let started = Instant::now();
        let replies = pipeline(&mut connection, &command);
        assert!(replies.iter().all(nobody_leads), "{replies:?}");
        let waited = started.elapsed();
        println!("{} commands waited {waited:?}", command.len());
        // Each pod waits 2 s, of which the other one does not know.
        assert!(waited < Duration::from_secs(8), "{waited:?}");
    }
    let asked = connection.ask("CF.EXISTS f0 x");
    assert_eq!(asked, int(0));
}

#[test]
fn a_command_may_be_as_large_on_another_pod() {
    let flags: &[&str] = &["--max-body-bytes=256KiB"];
    let Some(cluster) = Cluster::start([flags, flags], None) else {
        return;
    };
    let mut connection = cluster.connect(0, None);
    assert_eq!(connection.ask("CLIENT CONSISTENCY strong"), OK);
    let filter = &cluster.led_by(1)[0];
    let items: Vec<String> = (0..48_000).map(|it| format!("{it:05}")).collect();
    let question = format!("CF.MEXISTS {filter} {}", items.join(" "));
    match connection.ask(&question) {
        Value::Array(found) => assert_eq!(found.len(), items.len()),
        refused => panic!("{refused:?}"),
    }
    // A transaction, too.
    let commands = [
        "MULTI".to_owned(),
        format!("CF.ADD {filter} x"),
        question,
        "EXEC".to_owned(),
    ];
    let replies = pipeline(&mut connection, &commands);
    let Some(Value::Array(done)) = replies.last() else {
        panic!("{:?}", replies.last());
    };
    assert_eq!(done[0], int(1));
}

#[test]
fn what_another_pod_has_no_room_for_may_be_sent_again() {
    let small: &[&str] = &["--max-body-bytes=1MiB", "--max-buffered-bytes=1MiB"];
    let Some(cluster) = Cluster::start([&[], small], None) else {
        return;
    };
    let mut connection = cluster.connect(0, None);
    let filter = &cluster.led_by(1)[0];
    let items: Vec<String> = (0..20_000).map(|it| format!("{it:0100}")).collect();
    let refused = connection.ask(&format!("CF.INSERT {filter} ITEMS {}", items.join(" ")));
    assert!(may_be_sent_again(&refused), "{refused:?}");
    let was_done = connection.ask(&format!("CF.EXISTS {filter} {}", items[0]));
    assert_eq!(was_done, int(0));
}

#[test]
fn a_transaction_that_is_passed_on_is_counted_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    let keys: Vec<String> = ["a", "b"]
        .iter()
        .map(|it| api_key(&file, it, &["--scope=admin"]))
        .collect();
    let keys_file = format!("--keys-file={}", file.display());
    let flags = [keys_file.as_str(), "--rate-limit=100"];
    let Some(cluster) = Cluster::start([&flags, &flags], Some(&keys[0])) else {
        return;
    };
    let filter = &cluster.led_by(1)[0];
    let mut connection = cluster.connect(0, Some(&keys[1]));
    // The other pod has counted as much as may be.
    let mut there = cluster.connect(1, Some(&keys[1]));
    let ask = vec![format!("CF.EXISTS {filter} x"); 3_000];
    let mut commands = vec!["MULTI".to_owned()];
    commands.extend((0..60).map(|it| format!("CF.ADD {filter} {it}")));
    commands.push("EXEC".to_owned());
    let asked = pipeline(&mut there, &ask);
    assert!(may_be_sent_again(asked.last().unwrap()));
    let replies = pipeline(&mut connection, &commands);
    assert_eq!(replies.last(), Some(&Value::Array(vec![int(1); 60])));
}

#[test]
fn commands_are_passed_on_a_second_time_and_no_third() {
    let Some(cluster) = cluster() else { return };
    let as_pod = AsPod::new(&cluster.brokers, &ClusterKey::of_founding(), None);
    let (filter, leader) = (&cluster.led_by(1)[0], &cluster.pods[1].0.address);
    // As if the first pod had led the lane a moment ago.
    let send = |passed_on_by: &[&str], commands: &[&str]| {
        let passed_on_by = passed_on_by.iter();
        let headers: Vec<_> = passed_on_by
            .map(|it| ("cuckood-forwarded-by", *it))
            .collect();
        let mut bytes = String::new();
        for command in commands {
            let words = command.split(' ');
            bytes += &format!("*{}\r\n", words.clone().count());
            words.for_each(|it| bytes += &format!("${}\r\n{it}\r\n", it.len()));
        }
        let address = &cluster.pods[0].0.address;
        let answer = as_pod.post(address, "/internal/commands", &headers, bytes);
        let (status, replies) = answer.unwrap();
        assert_eq!(status, 200, "{replies}");
        replies
    };
    let add = format!("CF.ADD {filter} x");
    let exists = format!("CF.EXISTS {filter} x");
    let replies = send(&["http://third"], &[&add, &exists]);
    assert_eq!(replies, ":1\r\n:1\r\n");
    let replies = send(&["http://third"], &["MULTI", &add, &exists, "EXEC"]);
    assert_eq!(replies, "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:1\r\n");
    // Not back, and not for ever.
    for passed_on_by in [&[leader.as_str()][..], &["http://third", "http://fourth"]] {
        let replies = send(passed_on_by, &[&add]);
        assert!(replies.starts_with("-TRYAGAIN"), "{replies}");
    }
    let counted = cluster
        .connect(1, None)
        .ask(&format!("CF.COUNT {filter} x"));
    assert_eq!(counted, int(2));
}
