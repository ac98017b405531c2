//! What a pod does not start with: one line, exit code 1, and its data as they were.

use crate::broker::Brokers;
use crate::founded::broker;
use crate::operator::{begin, cuckood, found};
use crate::program::{Client, Pod, refused};
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use async_nats::jetstream::{self, Context};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const LANES: u32 = 2;
const STREAM: &str = "CUCKOOD_shop_1";
const BUCKET: &str = "KV_cuckood_shop";

/// How often something is tried that brokers which have just started may not know yet.
const TRIES: u32 = 150;

/// Every file of a directory, with what is in it.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => drop(all.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    all
}

/// What an operator, or somebody who should not, does to the brokers.
/// What somebody else does at the brokers.
pub(crate) struct Tool {
    runtime: Runtime,
    context: Context,
}

impl Tool {
    pub(crate) fn of(brokers: &Brokers) -> Tool {
        let runtime = Runtime::new().unwrap();
        let addresses = brokers.addresses.clone();
        let context = runtime.block_on(async {
            let client = async_nats::connect(addresses).await.unwrap();
            jetstream::new(client)
        });
        Tool { runtime, context }
    }

    fn change_stream(&self, stream: &str, change: impl FnOnce(&mut Config)) {
        self.runtime.block_on(async {
            let found = self.context.get_stream(stream).await.unwrap();
            let mut config = found.cached_info().config.clone();
            change(&mut config);
            self.context.update_stream(config).await.unwrap();
        });
    }

    fn publish(&self, subject: &str, value: &str) {
        let (subject, value) = (subject.to_owned(), value.to_owned());
        self.runtime.block_on(async {
            let sent = self.context.publish(subject, value.into()).await.unwrap();
            sent.await.unwrap();
        });
    }

    pub(crate) fn purge(&self, stream: &str, subject: &str) {
        self.runtime.block_on(async {
            let found = self.context.get_stream(stream).await.unwrap();
            found.purge().filter(subject).await.unwrap();
        });
    }
}

/// A pod with a filter, which does not run.
struct Stopped {
    pod: Pod,
    asking: Client,
}

impl Stopped {
    fn new(brokers: &Brokers) -> Stopped {
        found(brokers, LANES);
        let asking = Client::new();
        let mut pod = Pod::start(brokers);
        pod.ready(&asking);
        let url = format!("{}/filters/seen", pod.address);
        let made = asking.send("PUT", &url, &[], Some(&json!({ "capacity": 100 })));
        assert_eq!(made.unwrap().status, 201);
        assert_eq!(pod.terminate(), Some(0), "{}", pod.log());
        Stopped { pod, asking }
    }

    /// One line with these words, and nothing of the data is another.
    #[track_caller]
    fn refuses(&self, instead: &[&str], words: &str) {
        let before = files(&self.pod.data_dir());
        let said = self.try_to_start(instead);
        assert!(said.contains(words), "{words}: {said}");
        assert!(files(&self.pod.data_dir()) == before, "{said}");
    }

    #[track_caller]
    fn try_to_start(&self, instead: &[&str]) -> String {
        let started = self.pod.command(&self.pod.data_dir(), instead).output();
        refused(&started.unwrap())
    }

    /// All that the data are, as `cuckood check` says.
    fn checked(&self) -> String {
        let checked = cuckood()
            .args(["check", "--data-dir"])
            .arg(self.pod.data_dir())
            .output()
            .unwrap();
        assert!(checked.status.success(), "{checked:?}");
        String::from_utf8(checked.stdout).unwrap()
    }

    /// It has what it had.
    fn starts(&mut self) {
        self.pod.start_again();
        self.pod.ready(&self.asking);
        let url = format!("{}/filters/seen", self.pod.address);
        let found = self.asking.send("GET", &url, &[], None).unwrap();
        assert_eq!(found.status, 200, "{}", found.body);
    }
}

#[test]
fn brokers_that_can_not_be_used_leave_a_pods_data_as_they_are() {
    let Some(mut brokers) = broker() else { return };
    let mut stopped = Stopped::new(&brokers);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        format!("--log-credentials={}", path.display())
    };
    let missing = format!("--log-credentials={}/none", folder.path().display());
    let empty = file("empty", "\n");
    stopped.refuses(
        &["--log=nats://127.0.0.1:1"],
        "no broker of nats://127.0.0.1:1",
    );
    stopped.refuses(&[&missing], "--log-credentials");
    stopped.refuses(&[&empty], "--log-credentials");
    stopped.refuses(&["--log-monitor=http://127.0.0.1:1"], "could not be seen");
    stopped.refuses(&["--cluster=other"], "there is no stream CUCKOOD_other_1");
    stopped.refuses(&["--lanes=3"], "founded with 2 lanes");
    for (from, to, words) in [
        (
            "sync_interval: always",
            "sync_interval: \"2m\"",
            "does not force what it acknowledges",
        ),
        (
            "server_name",
            "max_payload: 65536\nserver_name",
            "takes messages of up to 65536 bytes",
        ),
        (
            "server_name",
            "authorization { user: a, password: hush }\nserver_name",
            "authorization violation",
        ),
    ] {
        brokers.all[0].configure(from, to);
        stopped.refuses(&[], words);
        brokers.all[0].configure(to, from);
    }
    stopped.starts();
}

#[test]
fn what_somebody_did_to_the_brokers_is_said_and_leaves_a_pods_data_as_they_are() {
    let Some(brokers) = broker() else { return };
    let mut stopped = Stopped::new(&brokers);
    let tool = Tool::of(&brokers);

    const KEY: &str = "$KV.cuckood_shop.epoch";
    for (value, words) in [
        (
            "nonsense",
            "key epoch of bucket cuckood_shop is not readable",
        ),
        ("", "key epoch of bucket cuckood_shop is not readable"),
        (
            "{\"epoch\":1,\"began\":[{\"before\":[1,\"xx\"],\"first\":[1,\"xx\"]}]}",
            "is not readable",
        ),
        ("{\"epoch\":0,\"began\":[]}", "is not readable"),
        ("{\"epoch\":2,\"began\":[]}", "is not readable"),
    ] {
        tool.publish(KEY, value);
        stopped.refuses(&[], words);
    }
    tool.purge("KV_cuckood_shop", KEY);

    // Its settings, and what it says of itself.
    tool.change_stream(STREAM, |it| it.max_age = Duration::from_secs(3600));
    stopped.refuses(&[], "has max_age 3600s, it needs 0ns");
    tool.change_stream(STREAM, |it| it.max_age = Duration::ZERO);
    let set = |key: &str, value: &str| {
        let mut before = String::new();
        tool.change_stream(STREAM, |it| {
            let set = it.metadata.insert(key.to_owned(), value.to_owned());
            before = set.unwrap();
        });
        before
    };
    for (key, value, words) in [
        ("cuckood_founding", "nobody", "cuckood_founding"),
        ("cuckood_epoch", "7", "has metadata cuckood_epoch 7"),
        ("cuckood_lanes", "none", "has metadata cuckood_lanes"),
    ] {
        let before = set(key, value);
        stopped.refuses(&[], words);
        set(key, &before);
    }
    // These are seen once the data are open, which are the same all the same.
    let checked = stopped.checked();
    for (key, value, words) in [
        (
            "cuckood_lanes",
            "3",
            "the data directory has 2 lanes, and the cluster 3",
        ),
        (
            "cuckood_founding",
            "00112233445566778899aabbccddeeff",
            "the data directory is of another cluster",
        ),
    ] {
        let before = set(key, value);
        let said = stopped.try_to_start(&[]);
        assert!(said.contains(words), "{words}: {said}");
        assert_eq!(stopped.checked(), checked);
        set(key, &before);
    }

    // What pods tell each other is lost.
    let deleted = tool.context.delete_stream("KV_cuckood_shop");
    tool.runtime.block_on(deleted).unwrap();
    stopped.refuses(&[], "there is no bucket cuckood_shop");
    tool.change_stream(STREAM, |it| it.sealed = true);
    stopped.refuses(&[], "stream CUCKOOD_shop_1 is sealed");
    let from = format!("--from-data-dir={}", stopped.pod.data_dir().display());
    begin(&brokers, &from);
    stopped.starts();
}

#[test]
fn settings_that_somebody_changes_are_told_while_a_pod_runs_and_refused_at_its_start() {
    let Some(brokers) = broker() else { return };
    let mut stopped = Stopped::new(&brokers);
    let tool = Tool::of(&brokers);
    stopped.pod.start_again();
    stopped.pod.ready(&stopped.asking);
    let metrics = format!("{}/metrics", stopped.pod.address);
    let shows = |value: u8| {
        let line = format!("\ncuckood_commit_log_misconfigured {value}\n");
        let started = Instant::now();
        while !stopped.asking.text(&metrics).contains(&line) {
            assert!(started.elapsed() < Duration::from_secs(40), "{line}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    shows(0);
    // What is acknowledged would be forgotten; and which epoch is current.
    tool.change_stream(STREAM, |it| it.discard = DiscardPolicy::Old);
    tool.change_stream(BUCKET, |it| it.max_age = Duration::from_secs(3600));
    shows(1);
    let said = format!("stream {STREAM} has discard Old, it needs New");
    assert!(stopped.pod.log().contains(&said), "{}", stopped.pod.log());
    tool.change_stream(STREAM, |it| it.discard = DiscardPolicy::New);
    let said = format!("stream {BUCKET} has max_age 3600s, it needs 0ns");
    stopped.pod.logged(&said, 0);
    assert_eq!(stopped.pod.terminate(), Some(0), "{}", stopped.pod.log());
    stopped.refuses(&[], &said);
    tool.change_stream(BUCKET, |it| it.max_age = Duration::ZERO);
    tool.change_stream(BUCKET, |it| it.max_messages_per_subject = 2);
    stopped.refuses(&[], &format!("stream {BUCKET} has max_msgs_per_subject 2"));
    tool.change_stream(BUCKET, |it| it.max_messages_per_subject = 1);
    stopped.pod.start_again();
    stopped.pod.ready(&stopped.asking);
    let line = "\ncuckood_commit_log_misconfigured 0\n";
    assert!(stopped.asking.text(&metrics).contains(line));
}

#[test]
fn two_pods_of_one_identity_are_refused_and_the_first_goes_on() {
    let Some(brokers) = broker() else { return };
    let mut stopped = Stopped::new(&brokers);
    // A copy of its directory, at its address.
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("data");
    crate::broker::copy_all(&stopped.pod.data_dir(), &copy);
    let before = files(&copy);
    stopped.starts();
    let anywhere = "--listen=127.0.0.1:0";
    let said = stopped.pod.command(&copy, &[anywhere]).output();
    let said = refused(&said.unwrap());
    assert!(
        said.contains("another pod of the cluster runs at"),
        "{said}"
    );
    assert!(files(&copy) == before, "{said}");
    // Its directory, at another address.
    let flags = [anywhere, "--advertise=http://127.0.0.1:1"];
    let said = stopped.try_to_start(&flags);
    assert!(said.contains("in use by another process"), "{said}");
    let url = format!("{}/filters/seen/items", stopped.pod.address);
    let added = stopped
        .asking
        .send("POST", &url, &[], Some(&json!({ "items": ["a"] })));
    assert_eq!(added.unwrap().status, 200);
    // A copy of a directory is a pod of its own, if it has an address of its own.
    let mut other = Pod::start_from(&brokers, &copy);
    other.ready(&stopped.asking);
    assert!(
        stopped
            .asking
            .has_all(&other.address, "seen", &["a".to_owned()])
    );
}

#[test]
fn a_record_of_somebody_else_stops_its_lane_and_nothing_else() {
    let Some(brokers) = broker() else { return };
    let mut stopped = Stopped::new(&brokers);
    stopped.starts();
    let tool = Tool::of(&brokers);
    for lane in 0..LANES {
        tool.publish(&format!("cuckood.shop.1.{lane}"), "nothing of cuckood's");
    }
    let Stopped { pod, asking } = &mut stopped;
    let url = format!("{}/filters/seen", pod.address);
    // Its leader sees it as soon as it writes there itself.
    let body = json!({ "items": ["a"] });
    let is_stopped = (0..TRIES).any(|_| {
        let answer = asking.send("POST", &format!("{url}/items"), &[], Some(&body));
        let answer = answer.unwrap();
        assert_eq!(answer.status, 503, "{}", answer.body);
        std::thread::sleep(Duration::from_millis(100));
        answer.body["code"] == "lane_stopped"
    });
    let log = pod.log();
    assert!(is_stopped, "{log}");
    assert!(log.contains("of the log can't be read"), "{log}");
    assert!(!log.contains("panicked"), "{log}");
    pod.says(asking, "lanes have stopped");
    assert_eq!(asking.send("GET", &url, &[], None).unwrap().status, 200);
    assert_eq!(pod.terminate(), Some(0), "{}", pod.log());
}
