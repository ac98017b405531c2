//! The program as pods of a cluster: processes of `cuckood serve`, that can be
//! killed and started again.

use crate::broker::Brokers;
use crate::operator::{cuckood, flags};
use crate::ports::free_port;
use serde_json::{Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a start, or a failover, may take here.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn status(brokers: &Brokers) -> Value {
    status_by(brokers, &[])
}

/// The same, asked with more flags.
pub(crate) fn status_by(brokers: &Brokers, more: &[&str]) -> Value {
    let status = cuckood()
        .args(["cluster", "status", "--json"])
        .args(flags(brokers))
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&status.stderr).into_owned();
    assert!(status.status.success(), "{said}");
    serde_json::from_slice(&status.stdout).unwrap()
}

/// A pod's process, its directory, and where it is reached.
pub(crate) struct Pod {
    process: Option<Child>,
    directory: TempDir,
    pub(crate) address: String,
    flags: Vec<String>,
    /// What is loaded into its process before all else.
    preloaded: Option<PathBuf>,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) position: Option<String>,
    pub(crate) retry_after: bool,
    pub(crate) body: Value,
}

impl Pod {
    pub(crate) fn start(brokers: &Brokers) -> Pod {
        Pod::start_with(brokers, &[])
    }

    /// So many, which are ready.
    pub(crate) fn several(count: usize, brokers: &Brokers, client: &Client) -> Vec<Pod> {
        let mut pods: Vec<Pod> = (0..count).map(|_| Pod::start(brokers)).collect();
        pods.iter_mut().for_each(|it| it.ready(client));
        pods
    }

    /// One with some flags more.
    pub(crate) fn start_with(brokers: &Brokers, flags: &[&str]) -> Pod {
        Pod::start_at(brokers, "http", flags)
    }

    /// The same, at an address of this scheme.
    pub(crate) fn start_at(brokers: &Brokers, scheme: &str, flags: &[&str]) -> Pod {
        let mut pod = Pod::at_a_free_address(scheme, brokers);
        pod.also(flags);
        pod.start_again();
        pod
    }

    pub(crate) fn at_a_free_address(scheme: &str, brokers: &Brokers) -> Pod {
        Pod::named(&format!("{scheme}://127.0.0.1:{}", free_port()), brokers)
    }

    /// One that begins with the data of this directory.
    pub(crate) fn start_from(brokers: &Brokers, data_dir: &Path) -> Pod {
        let mut pod = Pod::at_a_free_address("http", brokers);
        std::fs::rename(data_dir, pod.data_dir()).unwrap();
        pod.start_again();
        pod
    }

    /// Has some flags more when it starts again.
    pub(crate) fn also(&mut self, flags: &[&str]) {
        self.flags.extend(flags.iter().map(|&it| it.to_owned()));
    }

    /// Has a library in its process when it starts again.
    pub(crate) fn preload(&mut self, library: Option<PathBuf>) {
        self.preloaded = library;
    }

    /// One that does not run.
    pub(crate) fn named(address: &str, brokers: &Brokers) -> Pod {
        Pod {
            process: None,
            directory: TempDir::new().unwrap(),
            flags: flags(brokers),
            preloaded: None,
            address: address.to_owned(),
        }
    }

    /// The command that starts it, with some of its flags in place of the usual ones.
    pub(crate) fn command(&self, data_dir: &Path, instead: &[&str]) -> Command {
        let mut usual = self.flags.clone();
        usual.extend([
            "--cache-bytes=192MiB".to_owned(),
            "--log-format=json".to_owned(),
            format!("--listen={}", self.address.split("//").last().unwrap()),
            format!("--advertise={}", self.address),
            format!("--data-dir={}", data_dir.display()),
        ]);
        let name = |flag: &str| flag.split('=').next().unwrap().to_owned();
        usual.retain(|flag| !instead.iter().any(|it| name(it) == name(flag)));
        let mut command = cuckood();
        command.arg("serve").args(usual).args(instead);
        if let Some(library) = &self.preloaded {
            command.env("LD_PRELOAD", library);
        }
        command
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn start_again(&mut self) {
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.directory.path().join("log"))
            .unwrap();
        let process = self
            .command(&self.data_dir(), &[])
            .stdin(Stdio::null())
            .stderr(log.try_clone().unwrap())
            .stdout(log)
            .spawn();
        self.process = Some(process.unwrap());
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.as_ref().unwrap().id().to_string();
        let sent = Command::new("kill").args([name, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Loses all that it had; it does not run.
    pub(crate) fn wipe(&self) {
        assert!(self.process.is_none());
        std::fs::remove_dir_all(self.data_dir()).unwrap();
    }

    /// Waits until its log has a line with these words, which it had not at this
    /// length.
    #[track_caller]
    pub(crate) fn logged(&self, words: &str, after: usize) {
        let started = Instant::now();
        while !self.log().get(after..).is_some_and(|it| it.contains(words)) {
            assert!(started.elapsed() < PATIENCE, "{words}: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// As an init system does; returns its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        let mut process = self.process.take().unwrap();
        let id = process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(sent.unwrap().success());
        process.wait().unwrap().code()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// Waits until it has ended by itself; returns what it said last.
    pub(crate) fn refused_to_start(&mut self) -> String {
        let process = self.process.take().unwrap();
        let output = process.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", self.log());
        self.log().lines().last().unwrap_or_default().to_owned()
    }

    /// Waits until its `/readyz` says so, with or without being ready.
    pub(crate) fn says(&self, client: &Client, words: &str) {
        let started = Instant::now();
        loop {
            let said = client.0.get(format!("{}/readyz", self.address)).send();
            let said = said.and_then(|it| it.text()).unwrap_or_default();
            if said.contains(words) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{said}: {}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until it is ready and each lane has a leader that it knows.
    pub(crate) fn ready(&mut self, client: &Client) {
        let started = Instant::now();
        loop {
            let said = client.0.get(format!("{}/readyz", self.address)).send();
            if said.is_ok_and(|it| it.text().is_ok_and(|it| it == "ok\n")) {
                return;
            }
            let ended = self.process.as_mut().and_then(|it| it.try_wait().unwrap());
            assert!(
                ended.is_none() && started.elapsed() < PATIENCE,
                "{ended:?}: {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks again as long as no pod leads the lane: on a busy machine a lease may end at any
/// time.
pub(crate) fn until_led(ask: impl Fn() -> Answer) -> Answer {
    let started = Instant::now();
    loop {
        let answer = ask();
        if answer.body["code"] != "not_leading" {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "{}", answer.body);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What asks pods.
#[derive(Clone)]
pub(crate) struct Client(reqwest::blocking::Client);

impl Client {
    pub(crate) fn new() -> Client {
        Client::with(|builder| builder)
    }

    /// One who believes an authority and has an API key.
    pub(crate) fn of(authority: &str, key: &str) -> Client {
        let pem = std::fs::read(authority).unwrap();
        let known = reqwest::Certificate::from_pem(&pem).unwrap();
        let mut headers = reqwest::header::HeaderMap::new();
        let key = format!("Bearer {key}").parse().unwrap();
        headers.insert("authorization", key);
        Client::with(|builder| builder.tls_certs_only([known]).default_headers(headers))
    }

    /// One who has an API key.
    pub(crate) fn with_key(key: &str) -> Client {
        let mut headers = reqwest::header::HeaderMap::new();
        headers.insert("authorization", format!("Bearer {key}").parse().unwrap());
        Client::with(|builder| builder.default_headers(headers))
    }

    fn with(
        more: impl FnOnce(reqwest::blocking::ClientBuilder) -> reqwest::blocking::ClientBuilder,
    ) -> Client {
        cuckood::client::remote::choose_cryptography();
        let client = reqwest::blocking::Client::builder()
            .timeout(Duration::from_secs(15))
            .no_proxy();
        Client(more(client).build().unwrap())
    }

    /// Sends a request; `None`: there was no answer.
    pub(crate) fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Option<Answer> {
        let mut request = self.0.request(method.parse().unwrap(), url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().ok()?;
        let position = answer.headers().get("cuckood-position");
        Some(Answer {
            status: answer.status().as_u16(),
            position: position.map(|it| it.to_str().unwrap().to_owned()),
            retry_after: answer.headers().contains_key("retry-after"),
            body: answer.json().unwrap_or(Value::Null),
        })
    }

    /// Sends a change with a key to one pod after the other until one answers it.
    /// Returns its position.
    pub(crate) fn insist(
        &self,
        addresses: &[String],
        first: usize,
        key: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> String {
        let started = Instant::now();
        for address in addresses.iter().cycle().skip(first) {
            let url = format!("{address}{path}");
            let answer = self.send(method, &url, &[("idempotency-key", key)], Some(body));
            match answer {
                Some(answer) if answer.status < 300 => return answer.position.unwrap(),
                Some(answer) => {
                    let may_be_repeated = [409, 500, 503].contains(&answer.status);
                    assert!(may_be_repeated, "{}: {}", answer.status, answer.body);
                    assert!(answer.status != 503 || answer.retry_after);
                }
                None => {}
            }
            assert!(started.elapsed() < PATIENCE, "{path}");
            std::thread::sleep(Duration::from_millis(20));
        }
        unreachable!()
    }

    /// The description of a filter on one pod, as of a position, without what each
    /// pod does for itself.
    pub(crate) fn filter(&self, address: &str, filter: &str, position: &str) -> Value {
        let url = format!("{address}/filters/{filter}");
        let headers = [("cuckood-min-position", position)];
        let answer = self.send("GET", &url, &headers, None).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        let mut described = answer.body;
        for own in ["disk_bytes", "memory_bytes"] {
            described.as_object_mut().unwrap().remove(own).unwrap();
        }
        described
    }

    /// A dump, and what tells the state from others.
    pub(crate) fn dump(&self, url: &str) -> (String, Vec<u8>) {
        let answer = self.0.get(url).send().unwrap();
        let tag = answer.headers().get("etag").unwrap();
        let tag = tag.to_str().unwrap().to_owned();
        (tag, answer.bytes().unwrap().to_vec())
    }

    pub(crate) fn bytes(&self, url: &str) -> Vec<u8> {
        self.0.get(url).send().unwrap().bytes().unwrap().to_vec()
    }

    pub(crate) fn text(&self, url: &str) -> String {
        self.0.get(url).send().unwrap().text().unwrap()
    }

    /// Imports so many lines, which come bit by bit and whose number is not said
    /// before.
    pub(crate) fn import(&self, url: &str, lines: u64) -> Answer {
        let text: String = (0..lines).map(|line| format!("line-{line}\n")).collect();
        let body = reqwest::blocking::Body::new(std::io::Cursor::new(text));
        let request = self.0.post(url).header("content-type", "text/plain");
        let answer = request.body(body).send().unwrap();
        let position = answer.headers().get("cuckood-position");
        Answer {
            status: answer.status().as_u16(),
            position: position.map(|it| it.to_str().unwrap().to_owned()),
            retry_after: false,
            body: answer.json().unwrap(),
        }
    }

    /// Sends bytes until a pod leads the lane.
    pub(crate) fn put_bytes(&self, url: &str, bytes: &[u8]) -> Answer {
        until_led(|| {
            let request = self.0.put(url).body(bytes.to_vec());
            let answer = request
                .header("content-type", "application/octet-stream")
                .send();
            let answer = answer.unwrap();
            let position = answer.headers().get("cuckood-position");
            Answer {
                status: answer.status().as_u16(),
                position: position.map(|it| it.to_str().unwrap().to_owned()),
                retry_after: false,
                body: answer.json().unwrap(),
            }
        })
    }

    /// Whether all of these items are in a filter, for one pod.
    pub(crate) fn has_all(&self, address: &str, filter: &str, items: &[String]) -> bool {
        let url = format!("{address}/filters/{filter}/exists");
        let asked = self.send("POST", &url, &[], Some(&json!({ "items": items })));
        let found = asked.unwrap();
        assert_eq!(found.status, 200, "{}", found.body);
        let found = found.body["results"].as_array().unwrap().clone();
        found.len() == items.len() && found.iter().all(|it| it == true)
    }
}

/// Exit code 1 and one line on stderr; returns it.
#[track_caller]
pub(crate) fn refused(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    said
}
