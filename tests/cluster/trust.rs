//! What pods believe of each other: who may write to the brokers' bucket, or stands where
//! a pod stood, learns no API key and is no pod.

use crate::broker::Brokers;
use crate::nats_server;
use crate::operator::{api_key, found, founding};
use crate::program::{Client, Pod, status_by};
use async_nats::jetstream;
use cuckood::access::cluster_key::ClusterKey;
use cuckood::http::Links;
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
    fn start() -> Cluster {
        let brokers = Brokers::start(1, "always");
        found(&brokers, LANES);
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("cluster.key"), "k".repeat(40)).unwrap();
        let key = api_key(&folder.path().join("keys.json"), "one", &["--scope=admin"]);
        let mut cluster = Cluster {
            client: Client::with_key(&key),
            brokers,
            folder,
            pods: Vec::new(),
            key,
        };
        let flags = cluster.flags();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
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
        cluster
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
    if !nats_server::is_there() {
        return;
    }
    let cluster = Cluster::start();
    let thief = Thief::at("127.0.0.1:0");
    let filter = cluster.filter_of(1);
    let (own, other) = (cluster.led_by(1)[0], cluster.led_by(0)[0]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bucket = runtime.block_on(async {
        let client = async_nats::connect(&cluster.brokers.addresses[0]).await;
        let context = jetstream::new(client.unwrap());
        context.get_key_value("cuckood_shop").await.unwrap()
    });
    let put = |key: &str, value: Vec<u8>| {
        runtime.block_on(bucket.put(key, value.into())).unwrap();
    };
    let read = |key: &str| runtime.block_on(bucket.get(key)).unwrap();
    let holder = json!({ "writer": "00", "address": thief.address });
    let sealed = |said: &Value, seal: &Value| {
        let sealed = json!({ "behind": 1, "seal": seal, "said": said });
        sealed.to_string().into_bytes()
    };
    let lease = read(&format!("lease.1.{own}")).unwrap();
    let of_another: Value =
        serde_json::from_slice(&read(&format!("lease.1.{other}")).unwrap()).unwrap();
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
        put(&format!("lease.1.{own}"), value);
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
    let pod = format!("pod.1.{}", hex::encode(&cluster.pods[1].address));
    let announced = read(&pod).unwrap();
    std::thread::sleep(Duration::from_secs(11));
    put(&format!("lease.1.{own}"), lease.to_vec());
    put(&format!("lease.1.{}", LANES - 1), lease.to_vec());
    put(
        &format!("pod.1.{}", hex::encode("http://127.0.0.1:9")),
        announced.to_vec(),
    );
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
    if !nats_server::is_there() {
        return;
    }
    let mut cluster = Cluster::start();
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
    while cluster.add(0, &filter, "y").0 != 200 {
        refused += 1;
        assert!(since.elapsed() < Duration::from_secs(30));
    }
    let heard = thief.heard();
    assert!(
        refused > 0 && heard.contains("cuckood-link: hello "),
        "{heard}"
    );
    assert!(!heard.to_lowercase().contains("bearer"), "{heard}");
    for secret in [&cluster.key, &"k".repeat(40)] {
        assert!(!heard.contains(secret.as_str()));
    }
    // Nothing was sent, so nothing was in doubt.
    let said = cluster.pods[0].log();
    assert!(
        said.contains("it does not know the key of the cluster"),
        "{said}"
    );
}

/// A change that comes byte by byte, if at all.
fn begin_slow_change(address: &str, key: &str, filter: &str) -> TcpStream {
    let host = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!(
        "POST /filters/{filter}/items HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"items\": ["
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn slow_bodies_of_one_key_do_not_cut_pods_off_from_each_other() {
    if !nats_server::is_there() {
        return;
    }
    let mut cluster = Cluster::start();
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
        .map(|it| begin_slow_change(&open.address, &slow, &filters[it % 2]))
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    cluster.pods.push(open);
    for item in 0..50 {
        let added = cluster.add(2, &filters[item % 2], &item.to_string());
        assert_eq!(added.0, 200, "{}", added.1);
    }
    drop(begun);
}

#[test]
fn a_key_is_replaced_while_changes_go_on() {
    if !nats_server::is_there() {
        return;
    }
    let (old, new) = ("o".repeat(40), "n".repeat(40));
    let mut cluster = Cluster::start();
    let file = cluster.file("cluster.key");
    fs::write(&file, &old).unwrap();
    for pod in &mut cluster.pods {
        assert_eq!(pod.terminate(), Some(0));
    }
    for pod in &mut cluster.pods {
        pod.start_again();
    }
    for pod in &mut cluster.pods {
        pod.ready(&cluster.client);
    }
    // What was sealed before there was a key was refused until now.
    let before: Vec<usize> = cluster.pods.iter().map(|it| it.log().len()).collect();
    // Of all lanes, most likely: whoever leads one, the other pod reaches it.
    let filters: Vec<String> = (0..6).map(|it| format!("f{it}")).collect();
    for lines in [
        format!("{old}\n{new}"),
        format!("{new}\n{old}"),
        new.clone(),
    ] {
        fs::write(&file, lines).unwrap();
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
    }
    for (pod, before) in cluster.pods.iter().zip(before) {
        let said = pod.log().split_off(before);
        assert!(
            !said.contains("that no pod with this cluster key has written"),
            "{said}"
        );
        assert!(!said.contains("it refuses the key"), "{said}");
    }
}
