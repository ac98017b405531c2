//! The real binary as a process, and a client that talks to it.

use crate::ports::free_port;
use crate::words;
use cuckood::client::remote::choose_cryptography;
use reqwest::StatusCode;
use reqwest::blocking::{Client, RequestBuilder, Response};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for a server to be ready, to stop, or to refuse to start.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Dropping it kills it.
pub(crate) struct Server {
    child: Child,
    port: u16,
    client: Client,
    log: TempDir,
}

/// Sends, and notes what no log may hold of it.
pub(crate) trait Sent {
    /// As `send`.
    fn sent(self) -> reqwest::Result<Response>;
}

impl Sent for RequestBuilder {
    fn sent(self) -> reqwest::Result<Response> {
        let (client, request) = self.build_split();
        let request = request?;
        let body = request.body().and_then(|body| body.as_bytes());
        words::remember_request(request.url(), request.headers(), body);
        client.execute(request)
    }
}

/// A line without what the audit log may say: which filter.
pub(crate) fn without_audited_filter(line: &str) -> String {
    if let Ok(serde_json::Value::Object(mut fields)) = serde_json::from_str(line) {
        if fields.get("target").is_some_and(|target| target == "audit") {
            fields.remove("filter");
        }
        return serde_json::Value::Object(fields).to_string();
    }
    match line.split_once(" filter=\"") {
        Some((before, after)) if before.contains(" audit: ") => {
            let (_, behind) = after.split_once('"').unwrap();
            format!("{before}{behind}")
        }
        _ => line.to_owned(),
    }
}

impl Server {
    /// Starts a server on a free port and waits until it is ready.
    pub(crate) fn start(data_dir: &Path, flags: &[&str]) -> Server {
        Server::start_on(free_port(), data_dir, flags)
    }

    /// Starts a server on the given port and waits until it is ready.
    pub(crate) fn start_on(port: u16, data_dir: &Path, flags: &[&str]) -> Server {
        Server::spawn(port, data_dir, flags).ready()
    }

    /// Waits until it is ready.
    pub(crate) fn ready(self) -> Server {
        let mut server = self;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = server.child.try_wait().unwrap() {
                panic!(
                    "the server ended ({status}) instead of serving:\n{}",
                    server.log()
                );
            }
            let ready = server.client.get(server.url("/readyz")).sent();
            if ready.is_ok_and(|answer| answer.status() == StatusCode::OK) {
                return server;
            }
            assert!(
                Instant::now() < deadline,
                "the server is not ready after {PATIENCE:?}:\n{}",
                server.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts a server and does not wait for anything.
    pub(crate) fn spawn(port: u16, data_dir: &Path, flags: &[&str]) -> Server {
        Server::run(port, serve_command(port, data_dir, flags))
    }

    /// Runs a command line that serves on the port.
    pub(crate) fn run(port: u16, mut command: Command) -> Server {
        let log = tempfile::tempdir().unwrap();
        let file = File::create(log.path().join("log")).unwrap();
        let child = command
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Server {
            child,
            port,
            client: client_with(None),
            log,
        }
    }

    /// Asks with an API key from now on.
    pub(crate) fn with_key(mut self, key: &str) -> Server {
        self.client = client_with(Some(key));
        self
    }

    /// Fails if a line holds what a client of the tests sent.
    fn assert_log_is_silent(&self) {
        for line in self.log().lines() {
            let line = without_audited_filter(line);
            match serde_json::from_str(&line) {
                Ok(serde_json::Value::Object(fields)) => {
                    for (name, value) in fields {
                        words::look_through(&name, &value.to_string());
                    }
                }
                // What people are shown, and what a panic says.
                _ => words::look_through("line", &line),
            }
        }
        words::assert_none_was_logged();
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Bytes that the server has printed so far.
    pub(crate) fn logged(&self) -> u64 {
        std::fs::metadata(self.log.path().join("log"))
            .unwrap()
            .len()
    }

    /// All of it.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log.path().join("log")).unwrap()
    }

    /// Asks for a JSON answer, which must come with status 200.
    pub(crate) fn get_json(&self, path: &str) -> serde_json::Value {
        let answer = self.client.get(self.url(path)).sent().unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "GET {path}");
        answer.json().unwrap()
    }

    /// Asks for a text, which must come with status 200.
    pub(crate) fn get_text(&self, path: &str) -> String {
        let answer = self.client.get(self.url(path)).sent().unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "GET {path}");
        answer.text().unwrap()
    }

    /// Creates a filter that is not there yet.
    pub(crate) fn create_filter(&self, key: &str, parameters: &serde_json::Value) {
        let answer = self
            .client
            .put(self.url(&format!("/filters/{key}")))
            .json(parameters)
            .sent()
            .unwrap();
        assert_eq!(
            answer.status(),
            StatusCode::CREATED,
            "PUT {key}: {:?}",
            answer.text()
        );
    }

    /// Items that the filter says it has.
    pub(crate) fn items(&self, key: &str) -> u64 {
        self.get_json(&format!("/filters/{key}"))["items"]
            .as_u64()
            .unwrap()
    }

    /// Posts one item a line and returns one result a line; `None` if no
    /// answer came, so that nobody knows whether it took place.
    pub(crate) fn post_lines(&self, path: &str, items: &[String]) -> Option<Vec<String>> {
        let answer = try_post_lines(&self.client, &self.url(path), items);
        if let Err(error) = &answer {
            let log = self.log();
            let last = log.lines().rev().take(20).collect::<Vec<_>>();
            println!("POST {path}: {error:?}; the last lines of the log, newest first: {last:#?}");
        }
        answer.ok()
    }

    /// Value of a metric without labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get_text("/metrics");
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
            .unwrap_or_else(|| panic!("there is no metric {name}"))
            .parse()
            .unwrap()
    }

    /// MiB that the kernel says it has: `VmRSS` now, `VmHWM` at most.
    pub(crate) fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.unwrap().trim_matches(|c: char| !c.is_ascii_digit());
        kib.parse::<u64>().unwrap() / 1024
    }

    /// Does something, and returns what it gave, with the MiB of memory before and
    /// the most meanwhile.
    pub(crate) fn peak<T>(&self, work: impl FnOnce() -> T) -> (T, u64, u64) {
        // Has the kernel count the most from now on (`man 5 proc`).
        let counter = format!("/proc/{}/clear_refs", self.child.id());
        std::fs::write(counter, "5").unwrap();
        let before = self.memory("VmRSS");
        let outcome = work();
        (outcome, before, self.memory("VmHWM"))
    }

    /// Nanoseconds that its threads have run, and that they waited for a processor.
    pub(crate) fn scheduled(&self) -> [u64; 2] {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let mut sums = [0; 2];
        for thread in threads {
            // A thread may have ended meanwhile.
            let file = thread.unwrap().path().join("schedstat");
            let times = std::fs::read_to_string(file).unwrap_or_default();
            for (sum, time) in sums.iter_mut().zip(times.split_whitespace()) {
                *sum += time.parse::<u64>().unwrap();
            }
        }
        sums
    }

    /// Bytes that it has had the kernel write to disks, without those of files that were
    /// removed before they came there.
    pub(crate) fn written(&self) -> u64 {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id())).unwrap();
        let bytes = |name| -> u64 {
            let value = io.lines().find_map(|line| line.strip_prefix(name));
            value.unwrap().trim_start_matches(": ").parse().unwrap()
        };
        bytes("write_bytes").saturating_sub(bytes("cancelled_write_bytes"))
    }

    /// File descriptors that it has.
    pub(crate) fn descriptors(&self) -> u64 {
        let folder = format!("/proc/{}/fd", self.child.id());
        std::fs::read_dir(folder).unwrap().count() as u64
    }

    /// Ends it as `kill -9` does: without a word, wherever it is.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// As [`kill`](Self::kill), for those who only borrowed it.
    pub(crate) fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal such as `TERM` and goes on.
    pub(crate) fn signal(&self, name: &str) {
        // The shell's own `kill`: a bare system need not have another one.
        let status = Command::new("sh")
            .args(["-c", &format!("kill -{name} {}", self.child.id())])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits until it has ended; returns how, and what it printed.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let status = wait_for(&mut self.child).unwrap_or_else(|| {
            panic!(
                "the server is still there after {PATIENCE:?}:\n{}",
                self.log()
            )
        });
        (status, self.log())
    }

    /// Asks it to stop and sees that it ends well.
    pub(crate) fn stop(self) {
        self.signal("TERM");
        let (status, log) = self.wait();
        assert!(status.success(), "{status}:\n{log}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            self.assert_log_is_silent();
        }
    }
}

/// A client with an API key, or without.
pub(crate) fn client_with(key: Option<&str>) -> Client {
    choose_cryptography();
    let bearer = key.map(|key| {
        let value = HeaderValue::try_from(format!("Bearer {key}")).unwrap();
        (AUTHORIZATION, value)
    });
    Client::builder()
        .default_headers(HeaderMap::from_iter(bearer))
        .timeout(PATIENCE)
        .no_proxy()
        .build()
        .unwrap()
}

/// Tries again what is refused for a moment: a machine that stands still for seconds
/// looks like a disk that hangs.
#[track_caller]
pub(crate) fn retried<T>(mut what: impl FnMut() -> Result<T, String>) -> T {
    let started = Instant::now();
    loop {
        match what() {
            Ok(done) => return done,
            Err(refusal) => {
                assert!(started.elapsed() < PATIENCE, "{refusal}");
                println!("asked again: {refusal}");
                std::thread::sleep(Duration::from_millis(500));
            }
        }
    }
}

/// Posts an item, again if it is to be sent again.
#[track_caller]
pub(crate) fn insist(client: &Client, url: &str, item: &str) {
    retried(|| {
        let asked = client.post(url).header("content-type", "text/plain");
        let asked = asked.header("prefer", "wait=20").body(item.to_owned());
        let answer = asked.sent().unwrap();
        let status = answer.status();
        let is_over_soon = status == 503 && answer.headers().contains_key("retry-after");
        let said = answer.text().unwrap();
        assert!(status == 200 || is_over_soon, "{url}: {status} {said}");
        (!is_over_soon).then_some(()).ok_or(said)
    });
}

/// Posts one item a line; see [`Server::post_lines`].
pub(crate) fn post_lines(client: &Client, url: &str, items: &[String]) -> Option<Vec<String>> {
    try_post_lines(client, url, items).ok()
}

fn try_post_lines(client: &Client, url: &str, items: &[String]) -> reqwest::Result<Vec<String>> {
    let request = client
        .post(url)
        .header("content-type", "text/plain")
        .header("accept", "text/plain");
    let answer = request.body(items.join("\n")).sent()?;
    let status = answer.status();
    let text = answer.text()?;
    assert_eq!(status, StatusCode::OK, "POST {url}: {text}");
    let results: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(results.len(), items.len(), "POST {url} answers each item");
    Ok(results)
}

/// Starts a server that is expected to refuse, and returns what it said.
pub(crate) fn refused_start(command: &mut Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    if wait_for(&mut child).is_none() {
        child.kill().unwrap();
        panic!("it serves, but was expected to refuse: {command:?}");
    }
    child.wait_with_output().unwrap()
}

/// The command line of a server on loopback.
pub(crate) fn serve_command(port: u16, data_dir: &Path, flags: &[&str]) -> Command {
    let mut command = cuckood();
    command
        .arg("serve")
        .arg("--listen")
        .arg(format!("127.0.0.1:{port}"))
        .arg("--data-dir")
        .arg(data_dir)
        .args(flags);
    command
}

/// The binary, deaf to whatever the tests' own environment says to servers.
pub(crate) fn cuckood() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuckood"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CUCKOOD_") {
            command.env_remove(name);
        }
    }
    command
}

/// Makes a key; what is printed on the standard output is the key alone.
pub(crate) fn add_key(file: &Path, name: &str, more: &[&str]) -> String {
    let mut command = cuckood();
    command.args(["keys", "add", name]).args(more);
    let output = command.arg("--keys-file").arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.starts_with("cuckood_") && printed.lines().count() == 1);
    printed.trim().to_owned()
}

fn wait_for(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}
