//! What pods believe of each other: who may write to the brokers' bucket, or stands where
//! a pod stood, learns no API key and is no pod.

use crate::broker::Brokers;
use crate::founded::shop;
use crate::operator::{api_key, cuckood, flags, found, founding, new_epoch};
use crate::program::{Client, Pod, refused, status_by};
use async_nats::jetstream::{self, kv::Entry, kv::Store};
use cuckood::access::cluster_key::ClusterKey;
use cuckood::server::Links;
use reqwest::Certificate;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LANES: u32 = 4;
const FILTERS: usize = 24;

/// Asks a pod what pods ask of each other, with a key.
pub(crate) struct AsPod(Links, tokio::runtime::Runtime);

impl AsPod {
    pub(crate) fn new(brokers: &Brokers, key: &ClusterKey, authority: Option<&str>) -> AsPod {
        cuckood::client::remote::choose_cryptography();
        let keys = key.derive("shop", &founding(brokers), "pods").unwrap();
        let authority = authority.map(|file| {
            let pem = fs::read(file).unwrap();
            vec![Certificate::from_pem(&pem).unwrap()]
        });
        let runtime = tokio::runtime::Runtime::new().unwrap();
        AsPod(Links::new("http://127.0.0.1:1", keys, authority), runtime)
    }

    /// The status of the answer, and its text; or why there is no connection.
    pub(crate) fn post(
        &self,
        address: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<(u16, String), String> {
        let client = self.0.to(address).unwrap();
        let mut request = client.post(format!("{address}{path}")).body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.1.block_on(async {
            let answer = request.send().await.map_err(|it| format!("{it:?}"))?;
            let status = answer.status().as_u16();
            Ok((status, answer.text().await.map_err(|it| it.to_string())?))
        })
    }
}

/// Two pods that ask for API keys, and one of those.
struct Cluster {
    brokers: Brokers,
    folder: TempDir,
    pods: Vec<Pod>,
    key: String,
    client: Client,
}

impl Cluster {
    fn start(key_file: &str, more: &[&str]) -> Option<Cluster> {
        let brokers = shop(LANES)?;
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("cluster.key"), key_file).unwrap();
        let key = api_key(&folder.path().join("keys.json"), "one", &["--scope=admin"]);
        let mut cluster = Cluster {
            client: Client::with_key(&key),
            brokers,
            folder,
            pods: Vec::new(),
            key,
        };
        let flags = cluster.flags();
        let flags = flags.iter().map(String::as_str);
        let flags: Vec<&str> = flags.chain(more.iter().copied()).collect();
        cluster.pods = vec![
            Pod::start_with(&cluster.brokers, &flags),
            Pod::start_with(&cluster.brokers, &flags),
        ];
        for pod in &mut cluster.pods {
            pod.ready(&cluster.client);
        }
        let started = Instant::now();
        while (0..2).any(|it| cluster.led_by(it).len() != LANES as usize / 2) {
            assert!(started.elapsed() < Duration::from_secs(60), "not spread");
            std::thread::sleep(Duration::from_millis(100));
        }
        for filter in 0..FILTERS {
            let url = format!("{}/filters/f{filter}", cluster.pods[0].address);
            let made = cluster.client.send("PUT", &url, &[], Some(&json!({})));
            assert_eq!(made.unwrap().status, 201);
        }
        Some(cluster)
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn flags(&self) -> Vec<String> {
        vec![
            format!("--keys-file={}", self.file("keys.json")),
            format!("--cluster-key-file={}", self.file("cluster.key")),
        ]
    }

    fn status(&self) -> Value {
        let key = format!("--cluster-key-file={}", self.file("cluster.key"));
        status_by(&self.brokers, &[&key])
    }

    fn led_by(&self, pod: usize) -> Vec<usize> {
        let status = self.status();
        let lanes = status["lanes"].as_array().unwrap().iter().enumerate();
        let leads = |lane: &Value| lane["leader"] == *self.pods[pod].address;
        lanes
            .filter(|(_, lane)| leads(lane))
            .map(|(lane, _)| lane)
            .collect()
    }

    /// A filter whose lane a pod leads.
    fn filter_of(&self, pod: usize) -> String {
        let led = self.led_by(pod);
        let names = (0..FILTERS).map(|it| format!("f{it}"));
        let mut names = names.filter(|name| {
            let url = format!("{}/filters/{name}/items", self.pods[pod].address);
            let added = self
                .client
                .send("POST", &url, &[], Some(&json!({"items": ["x"]})));
            let position = added.unwrap().position.unwrap();
            led.contains(&position.split('.').nth(1).unwrap().parse().unwrap())
        });
        names.next().unwrap()
    }

    fn add(&self, pod: usize, filter: &str, item: &str) -> (u16, Value) {
        let url = format!("{}/filters/{filter}/items", self.pods[pod].address);
        let added = self
            .client
            .send("POST", &url, &[], Some(&json!({"items": [item]})));
        let added = added.unwrap();
        (added.status, added.body)
    }
}

/// The brokers' bucket, for somebody who is no pod.
struct Bucket(Store, tokio::runtime::Runtime);

fn bucket(brokers: &Brokers) -> Bucket {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = runtime.block_on(async {
        let client = async_nats::connect(&brokers.addresses[0]).await;
        let context = jetstream::new(client.unwrap());
        context.get_key_value("cuckood_shop").await.unwrap()
    });
    Bucket(store, runtime)
}

impl Bucket {
    fn entry(&self, key: &str) -> Option<Entry> {
        self.1.block_on(self.0.entry(key)).unwrap()
    }

    fn revision(&self, key: &str) -> u64 {
        self.entry(key).unwrap().revision
    }

    fn put(&self, key: &str, value: &[u8]) {
        let value = value.to_vec().into();
        self.1.block_on(self.0.put(key, value)).unwrap();
    }
}

/// Who listens, and notes all that comes.
struct Thief {
    address: String,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Thief {
    fn at(address: &str) -> Thief {
        let started = Instant::now();
        let listener = loop {
            match TcpListener::bind(address) {
                Ok(listener) => break listener,
                Err(error) if started.elapsed() > Duration::from_secs(5) => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let heard = Arc::new(Mutex::default());
        let thief = Thief {
            address: format!("http://{}", listener.local_addr().unwrap()),
            heard: Arc::clone(&heard),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, heard) = (stream.unwrap(), Arc::clone(&heard));
                std::thread::spawn(move || {
                    let mut bytes = [0; 1 << 10];
                    while let Ok(count @ 1..) = stream.read(&mut bytes) {
                        heard.lock().unwrap().extend_from_slice(&bytes[..count]);
                        // As friendly as a pod, without its key.
                        let answer =
                            "HTTP/1.1 204 No Content\r\ncuckood-link: answer 00 00\r\n\r\n";
                        if stream.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        thief
    }

    fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard.lock().unwrap()).into_owned()
    }
}

#[test]
fn who_writes_to_the_bucket_learns_no_key_and_misleads_nobody_for_long() {
    let Some(mut cluster) = cluster() else { return };
    let thief = Thief::at("127.0.0.1:0");
    let filter = cluster.filter_of(1);
    let (own, other) = (cluster.led_by(1)[0], cluster.led_by(0)[0]);
    let bucket = bucket(&cluster.brokers);
    let within = format!("1.{}", hex::encode(founding(&cluster.brokers)));
    let read = |key: &str| bucket.entry(key).unwrap().value;
    let holder = json!({ "writer": "00", "address": thief.address });
    let sealed = |said: &Value, seal: &Value| {
        let sealed = json!({ "behind": 1, "seal": seal, "said": said });
        sealed.to_string().into_bytes()
    };
    let lease = read(&format!("lease.{within}.{own}"));
    let of_another: Value =
        serde_json::from_slice(&read(&format!("lease.{within}.{other}"))).unwrap();
    let forged = [
        holder.to_string().into_bytes(),
        sealed(&holder, &json!("")),
        sealed(&holder, &json!("00".repeat(32))),
        sealed(&holder, &of_another["seal"]),
        // That of another lane.
        of_another.to_string().into_bytes(),
        b"\"".to_vec(),
    ];
    let mut item = 0;
    for value in forged {
        bucket.put(&format!("lease.{within}.{own}"), &value);
        let since = Instant::now();
        let mut refused = 0;
        loop {
            item += 1;
            let (status, body) = cluster.add(0, &filter, &item.to_string());
            if status == 200 {
                break;
            }
            refused += 1;
            // Nothing was done, or it was: both are said.
            assert_eq!(status, 503, "{body}");
            assert!(since.elapsed() < Duration::from_secs(20), "{body}");
        }
        println!(
            "changes go on after {:?}, {refused} refused",
            since.elapsed()
        );
    }
    // Later, what was true once is not true again: the lane is not that pod's any more,
    // or is as of a newer lease.
    let pod = format!("pod.{within}.{}", hex::encode(&cluster.pods[1].address));
    let announced = read(&pod);
    // It was counted meanwhile, and is over.
    let since = Instant::now();
    let is_counted = |pod: &Pod| unsealed(&cluster.client, pod) > 0;
    while !cluster.pods.iter().any(is_counted) {
        assert!(since.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(100));
    }
    for pod in &mut cluster.pods {
        pod.ready(&cluster.client);
    }
    std::thread::sleep(Duration::from_secs(11));
    bucket.put(&format!("lease.{within}.{own}"), &lease);
    bucket.put(&format!("lease.{within}.{}", LANES - 1), &lease);
    let nowhere = hex::encode("http://127.0.0.1:9");
    bucket.put(&format!("pod.{within}.{nowhere}"), &announced);
    let since = Instant::now();
    while cluster.add(0, &filter, "again").0 != 200 {
        assert!(since.elapsed() < Duration::from_secs(20));
    }
    let pods = cluster.status()["pods"].as_array().unwrap().len();
    assert_eq!(pods, 2);
    assert_eq!(thief.heard(), "", "nobody even connects there");
    let said = cluster.pods[0].log() + &cluster.pods[1].log();
    assert!(
        said.contains("that no pod with this cluster key has written"),
        "{said}"
    );
}

#[test]
fn who_stands_where_a_pod_stood_is_told_no_key() {
    let Some(mut cluster) = cluster() else { return };
    let filter = cluster.filter_of(1);
    assert_eq!(cluster.add(0, &filter, "x").0, 200);
    cluster.pods[1].kill();
    let address = cluster.pods[1]
        .address
        .trim_start_matches("http://")
        .to_owned();
    let thief = Thief::at(&address);
    // Its lease lives on for a while, and changes go there.
    let since = Instant::now();
    let mut refused = 0;
    loop {
        let (status, answer) = cluster.add(0, &filter, "y");
        if status == 200 {
            break;
        }
        refused += 1;
        // Nothing was sent, so nothing is indeterminate.
        assert_eq!(answer["code"], "not_leading", "{answer}");
        assert!(since.elapsed() < Duration::from_secs(30));
    }
    let heard = thief.heard();
    assert!(
        refused > 0 && heard.contains("cuckood-link: hello "),
        "{heard}"
    );
    assert!(!heard.to_lowercase().contains("bearer"), "{heard}");
    for secret in [&cluster.key, &key_of("k")] {
        assert!(!heard.contains(secret.as_str()));
    }
    let said = cluster.pods[0].log();
    assert!(
        said.contains("it does not know the key of the cluster"),
        "{said}"
    );
}

/// A change that comes byte by byte, if at all.
fn begin_slow(address: &str, key: &str, change: &str, media_type: &str) -> TcpStream {
    let host = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!(
        "{change} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\ncontent-type: {media_type}\r\ncontent-length: 100\r\n\r\n{{\"items\": ["
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn slow_bodies_of_one_key_do_not_cut_pods_off_from_each_other() {
    let Some(mut cluster) = cluster() else { return };
    let mut first = cluster.flags();
    first.push("--max-connections-per-address=1000".to_owned());
    let slow = api_key(
        &cluster.folder.path().join("keys.json"),
        "slow",
        &["--scope=write"],
    );
    // Another pod, to whom callers come by many addresses.
    let flags: Vec<&str> = first.iter().map(String::as_str).collect();
    let mut open = Pod::start_with(&cluster.brokers, &flags);
    open.ready(&cluster.client);
    let filters: Vec<String> = (0..2).map(|it| cluster.filter_of(it)).collect();
    let begun: Vec<TcpStream> = (0..300)
        .map(|it| {
            let change = format!("POST /filters/{}/items", filters[it % 2]);
            begin_slow(&open.address, &slow, &change, "application/json")
        })
        .collect();
    let in_flight = |pod: &Pod| metric(&cluster.client, pod, "cuckood_http_in_flight");
    let since = Instant::now();
    while in_flight(&open) < 100 {
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "they don't begin"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_millis(500));
    // Bodies are read before they are forwarded: there is the question for this figure, and
    // what pods ask of each other.
    for leads in &cluster.pods {
        let count = in_flight(leads);
        assert!(count < 10, "{count} went on");
    }
    cluster.pods.push(open);
    for item in 0..50 {
        let since = Instant::now();
        loop {
            let (status, answer) = cluster.add(2, &filters[item % 2], &item.to_string());
            if status == 200 {
                break;
            }
            // A lane may be on its way to the pod that has just come.
            assert_eq!(answer["code"], "not_leading", "{answer}");
            assert!(since.elapsed() < Duration::from_secs(20), "{answer}");
        }
    }
    drop(begun);
}

#[test]
fn restores_for_which_a_pod_has_no_place_do_not_go_on_to_another() {
    const AT_ONCE: usize = 24;
    let Some(cluster) = cluster() else { return };
    let [asked, leads] = &cluster.pods[..] else {
        unreachable!("there are two")
    };
    let change = format!("PUT /filters/{}/dump?replace=true", cluster.filter_of(1));
    let begin = |_| {
        begin_slow(
            &asked.address,
            &cluster.key,
            &change,
            "application/octet-stream",
        )
    };
    let begun: Vec<TcpStream> = (0..AT_ONCE).map(begin).collect();
    let is_refused = |mut stream: &TcpStream| {
        let mut answer = [0; 4096];
        stream.set_nonblocking(true).unwrap();
        let answered = stream.read(&mut answer).unwrap_or(0);
        let text = String::from_utf8_lossy(&answer[..answered]).into_owned();
        assert!(
            answered == 0 || text.contains("streams of this kind"),
            "{text}"
        );
        answered > 0
    };
    let (since, mut refused) = (Instant::now(), 0);
    while refused == 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "none is refused");
        std::thread::sleep(Duration::from_millis(100));
        refused = begun.iter().filter(|it| is_refused(it)).count();
    }
    let metrics = cluster.client.text(&format!("{}/metrics", leads.address));
    let mut answered = metrics
        .lines()
        .filter(|it| it.starts_with("cuckood_http_requests_total") && it.contains("{key}/dump"));
    assert_eq!(answered.next(), None, "they went on");
    drop(begun);
}

/// Pods that lead take four connections from an address. What another pod passes on
/// comes over as many as it has changes at once, all from one address.
#[test]
fn what_pods_pass_on_takes_no_places_of_callers() {
    const AT_ONCE: usize = 24;
    let few = ["--max-connections-per-address=4"];
    let Some(mut cluster) = Cluster::start(&key_of("k"), &few) else {
        return;
    };
    let flags = cluster.flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut open = Pod::start_with(&cluster.brokers, &flags);
    open.ready(&cluster.client);
    let filters: Vec<String> = (0..2).map(|it| cluster.filter_of(it)).collect();
    cluster.pods.push(open);
    let cluster = &cluster;
    // Those of the first round connect, and a lane may be on its way to the new pod.
    let refused = |round: usize| -> usize {
        std::thread::scope(|scope| {
            let adders: Vec<_> = (0..AT_ONCE)
                .map(|it| {
                    let filter = &filters[it % 2];
                    scope.spawn(move || {
                        let items = (0..10).map(|n| format!("{round} {it} {n}"));
                        items
                            .filter(|item| cluster.add(2, filter, item).0 != 200)
                            .count()
                    })
                })
                .collect();
            adders.into_iter().map(|it| it.join().unwrap()).sum()
        })
    };
    let since = Instant::now();
    while refused(0) > 0 {
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "never all at once"
        );
    }
    assert_eq!(refused(1), 0);
}

/// Two pods with a key of their own.
fn cluster() -> Option<Cluster> {
    Cluster::start(&key_of("k"), &[])
}

/// The key of a pod's cluster, as its file has it.
fn key_of(letter: &str) -> String {
    letter.repeat(40)
}

/// How much a pod found that nobody with its key has written.
fn unsealed(client: &Client, pod: &Pod) -> u64 {
    metric(client, pod, "cuckood_unsealed_entries_total")
}

/// A metric without labels.
fn metric(client: &Client, pod: &Pod, name: &str) -> u64 {
    let metrics = client.text(&format!("{}/metrics", pod.address));
    let mut lines = metrics.lines();
    let value = lines.find_map(|it| it.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap().parse().unwrap()
}

#[test]
fn a_first_key_is_introduced_and_a_key_replaced_while_changes_go_on() {
    let Some(mut cluster) = Cluster::start("founding", &[]) else {
        return;
    };
    let file = cluster.file("cluster.key");
    // Of all lanes, most likely: whoever leads one, the other pod reaches it.
    let filters: Vec<String> = (0..6).map(|it| format!("f{it}")).collect();
    let (first, second) = (key_of("a"), key_of("b"));
    for lines in [
        format!("founding\n{first}"),
        format!("{first}\nfounding"),
        format!("{first}\n{second}"),
        format!("{second}\n{first}"),
        second.clone(),
    ] {
        fs::write(&file, &lines).unwrap();
        for pod in 0..2 {
            assert_eq!(cluster.pods[pod].terminate(), Some(0));
            cluster.pods[pod].start_again();
            let client = cluster.client.clone();
            cluster.pods[pod].ready(&client);
            for filter in &filters {
                let since = Instant::now();
                for by in 0..2 {
                    while cluster.add(by, filter, "x").0 != 200 {
                        assert!(since.elapsed() < Duration::from_secs(20));
                    }
                }
            }
        }
        // No alarm is false.
        for pod in &cluster.pods {
            assert_eq!(unsealed(&cluster.client, pod), 0, "{lines}: {}", pod.log());
        }
    }
    for pod in &cluster.pods {
        let said = pod.log();
        for words in [
            "that no pod with this cluster key has written",
            "other_key",
            "it refuses the key",
        ] {
            assert!(!said.contains(words), "{said}");
        }
    }
}

/// A pod that has the key of a file.
fn pod_with(brokers: &Brokers, file: &str) -> Pod {
    Pod::start_with(brokers, &[&format!("--cluster-key-file={file}")])
}

/// Waits until a pod says that it has another key, and is not ready.
fn takes_no_part(client: &Client, pod: &Pod) {
    pod.says(client, "other_key: ");
    let said = client.send("GET", &format!("{}/readyz", pod.address), &[], None);
    let said = said.unwrap();
    assert_eq!(
        (said.status, &said.body["code"]),
        (503, &json!("pod_not_ready"))
    );
    let filters = client.send("GET", &format!("{}/filters", pod.address), &[], None);
    assert_eq!(filters.unwrap().body["detail"], said.body["detail"]);
    pod.logged(
        "is sealed with another cluster key, so this pod takes no part",
        0,
    );
    let (started, before) = (Instant::now(), unsealed(client, pod));
    while unsealed(client, pod) == before {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "it is not counted"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_pod_with_another_key_writes_over_nothing_keeps_nobody_out_and_goes_on_with_the_right_one() {
    let Some(brokers) = shop(1) else { return };
    let folder = TempDir::new().unwrap();
    let file = |name: &str, letter: &str| {
        let path = folder.path().join(name);
        fs::write(&path, key_of(letter)).unwrap();
        path.display().to_string()
    };
    let (right, wrong) = (file("right", "r"), file("wrong", "w"));
    let client = Client::new();
    let mut pod = pod_with(&brokers, &right);
    pod.ready(&client);
    let url = format!("{}/filters/f", pod.address);
    let made = client.send("PUT", &url, &[], Some(&json!({})));
    assert_eq!(made.unwrap().status, 201);
    assert_eq!(pod.terminate(), Some(0));
    let bucket = bucket(&brokers);
    let key = format!("kept.1.{}", hex::encode(founding(&brokers)));
    let kept = bucket.revision(&key);

    // Nobody is there, and what it finds it leaves as it is.
    let mut other = pod_with(&brokers, &wrong);
    takes_no_part(&client, &other);
    for (path, status) in [("/filters/f", 503), ("/livez", 200)] {
        let asked = client.send("GET", &format!("{}{path}", other.address), &[], None);
        assert_eq!(asked.unwrap().status, status, "{path}");
    }
    assert_eq!(bucket.revision(&key), kept);
    assert_eq!(status_by(&brokers, &[])["lanes"][0]["leader"], Value::Null);

    // The right one goes on beside it.
    pod.start_again();
    pod.ready(&client);
    assert_eq!(client.send("GET", &url, &[], None).unwrap().status, 200);
    let items = format!("{url}/items");
    let add = |item: &str| {
        let body = json!({ "items": [item] });
        client
            .send("POST", &items, &[], Some(&body))
            .unwrap()
            .status
    };
    assert_eq!(add("x"), 200);
    takes_no_part(&client, &other);
    let mut status = cuckood();
    let status = status.args(["cluster", "status"]).args(flags(&brokers));
    let status = status.output().unwrap();
    let said = String::from_utf8(status.stderr).unwrap();
    assert!(said.contains("they are left out"), "{said}");
    // What it lacks is no answer that a program may take for one.
    assert_eq!(
        (status.status.code(), status.stdout.is_empty()),
        (Some(1), false)
    );

    // What somebody writes over it is put right by who knows it, and said.
    let alarms = unsealed(&client, &pod);
    assert_eq!(alarms, 0);
    let (readyz, since) = (format!("{}/readyz", pod.address), Instant::now());
    while !client.text(&readyz).contains("other_key: ") {
        assert!(since.elapsed() < Duration::from_secs(20), "it is not said");
        bucket.put(&key, b"garbage");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(unsealed(&client, &pod) > 0);
    pod.ready(&client);
    assert_eq!(add("y"), 200);
    // With the right key the other one goes on by itself.
    file("wrong", "r");
    other.ready(&client);
    assert_eq!(client.send("GET", &url, &[], None).unwrap().status, 200);
}

#[test]
fn a_cluster_whose_key_is_lost_goes_on_in_a_new_epoch() {
    let Some(brokers) = shop(1) else { return };
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, key_of("l")).unwrap();
    let client = Client::new();
    let mut pod = pod_with(&brokers, &file.display().to_string());
    pod.ready(&client);
    let url = format!("{}/filters/f", pod.address);
    let made = client.send("PUT", &url, &[], Some(&json!({})));
    assert_eq!(made.unwrap().status, 201);
    assert_eq!(pod.terminate(), Some(0));
    fs::write(&file, key_of("n")).unwrap();
    pod.start_again();
    takes_no_part(&client, &pod);
    assert_eq!(pod.terminate(), Some(0), "it ends when it is told to");

    let from = format!("--from-data-dir={}", pod.data_dir().display());
    let key = format!("--cluster-key-file={}", file.display());
    let said = refused(&new_epoch(&brokers, &[&from, &key]));
    assert!(said.contains("kept under another cluster key"), "{said}");
    let begun = new_epoch(&brokers, &[&from, &key, "--give-up-changes"]);
    assert!(begun.status.success(), "{begun:?}");
    pod.start_again();
    pod.ready(&client);
    assert_eq!(client.send("GET", &url, &[], None).unwrap().status, 200);
    assert_eq!(unsealed(&client, &pod), 0);
}

#[test]
fn what_pods_with_another_key_left_behind_keeps_no_pod_out_and_is_no_alarm() {
    let Some(brokers) = shop(1) else { return };
    let bucket = bucket(&brokers);
    let within = format!("1.{}", hex::encode(founding(&brokers)));
    let sealed = |said: Value| {
        let sealed = json!({ "behind": 1, "seal": "00".repeat(32), "said": said });
        sealed.to_string().into_bytes()
    };
    let mut pod = Pod::at_a_free_address("http", &brokers);
    let holder = json!({ "writer": "00", "address": "http://127.0.0.1:1" });
    bucket.put(&format!("lease.{within}.0"), &sealed(holder));
    for address in [&pod.address, "http://127.0.0.1:1"] {
        let key = format!("pod.{within}.{}", hex::encode(address));
        bucket.put(&key, &sealed(json!({ "address": address })));
    }
    let client = Client::new();
    let started = Instant::now();
    pod.start_again();
    // All is well from its first word on.
    let first = loop {
        let said = client.send("GET", &format!("{}/readyz", pod.address), &[], None);
        if said.is_some_and(|it| it.status == 200) {
            break client.text(&format!("{}/readyz", pod.address));
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{}", pod.log());
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(!first.contains("other_key"), "{first}");
    pod.ready(&client);
    println!("ready after {:?}", started.elapsed());
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(client.text(&format!("{}/readyz", pod.address)), "ok\n");
    assert_eq!(unsealed(&client, &pod), 0);
}

#[test]
fn a_pod_of_a_cluster_that_was_founded_anew_is_named_and_is_no_pod_with_another_key() {
    let Some(brokers) = shop(1) else { return };
    let client = Client::new();
    let mut old = Pod::start(&brokers);
    old.ready(&client);
    let url = format!("{}/filters/f", old.address);
    let made = client.send("PUT", &url, &[], Some(&json!({})));
    assert_eq!(made.unwrap().status, 201);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(&brokers.addresses[0]).await;
        let context = jetstream::new(client.unwrap());
        context.delete_stream("CUCKOOD_shop_1").await.unwrap();
    });
    found(&brokers, 1);
    let mut new = Pod::start(&brokers);
    let words = format!("other_founding: a server at {:?} belongs to", old.address);
    new.says(&client, &words);
    new.logged("belongs to another founding of a cluster", 0);
    assert_eq!(unsealed(&client, &new), 0);
    let said = client.text(&format!("{}/readyz", new.address));
    assert!(
        said.starts_with("ok\n") && !said.contains("other_key"),
        "{said}"
    );
    old.kill();
    new.ready(&client);
}
