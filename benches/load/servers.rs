//! The servers that are driven, each a process of its own.

use crate::wire::{Form, post};
use cuckood::client::remote::choose_cryptography;
use reqwest::blocking::Client;
use std::error::Error;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time for a server to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// In which Linux counts processor time, on every machine that we know of.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process that ends with the process that started it.
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where it speaks the Redis protocol, if it does.
    pub(crate) redis: SocketAddr,
    client: Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// The real server, on a directory of its own.
    pub(crate) fn cuckood(folder: &Path, flags: &[&str]) -> Result<Server, Box<dyn Error>> {
        Server::start(folder, free()?, flags)
    }

    /// A pod of a cluster, on a directory of its own; it may have no leader yet.
    pub(crate) fn pod(folder: &Path, cluster: &[String]) -> Result<Server, Box<dyn Error>> {
        let address = free()?;
        let advertised = format!("--advertise=http://{address}");
        let mut flags: Vec<&str> = cluster.iter().map(String::as_str).collect();
        flags.push(&advertised);
        Server::start(folder, address, &flags)
    }

    fn start(folder: &Path, address: SocketAddr, flags: &[&str]) -> Result<Server, Box<dyn Error>> {
        let redis = free()?;
        std::fs::create_dir_all(folder)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_cuckood"));
        let child = command
            .arg("serve")
            .args(["--listen", &address.to_string()])
            .args(["--redis-listen", &redis.to_string()])
            .arg("--data-dir")
            .arg(folder.join("data"))
            .args(flags)
            // Connections wait while other variants have their turns.
            .args(["--idle-timeout-seconds", "600"])
            .env("CUCKOOD_LOG_LEVEL", "error")
            .spawn()?;
        let server = Server {
            child,
            address,
            redis,
            client: client()?,
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            match server.client.get(server.url("/readyz")).send() {
                Ok(answer) if answer.status().is_success() => return Ok(server),
                _ if Instant::now() > deadline => return Err("cuckood does not start".into()),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// This program, as the bare handler.
    pub(crate) fn bare() -> Result<Server, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("bare")
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = child
            .stdout
            .take()
            .ok_or("the bare handler has no output")?;
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().parse()?;
        Ok(Server {
            child,
            address,
            redis: address,
            client: client()?,
        })
    }

    /// Processor time that it has taken so far, in seconds.
    pub(crate) fn processor_seconds(&self) -> Result<f64, Box<dyn Error>> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // Behind the name, which may hold anything: user time is the twelfth.
        let (_, rest) = stat.rsplit_once(')').ok_or("what /proc says has no name")?;
        let ticks = rest.split_whitespace().skip(11).take(2);
        let ticks: Result<Vec<f64>, _> = ticks.map(str::parse).collect();
        Ok(ticks?.iter().sum::<f64>() / TICKS_PER_SECOND)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What it answers to a question about itself.
    pub(crate) fn about(&self, path: &str) -> Result<String, Box<dyn Error>> {
        let answer = self.client.get(self.url(path)).send()?;
        Ok(answer.error_for_status()?.text()?)
    }

    /// Makes a filter.
    pub(crate) fn create(
        &self,
        key: &str,
        fields: &serde_json::Value,
    ) -> Result<(), Box<dyn Error>> {
        let url = self.url(&format!("/filters/{key}"));
        self.client
            .put(url)
            .json(fields)
            .send()?
            .error_for_status()?;
        Ok(())
    }

    /// Adds items, many at once.
    pub(crate) fn fill(
        &self,
        key: &str,
        mut items: impl Iterator<Item = String>,
    ) -> Result<(), Box<dyn Error>> {
        const BATCH: usize = 50_000;
        loop {
            let mut body = String::new();
            for item in items.by_ref().take(BATCH) {
                body.push_str(&item);
                body.push('\n');
            }
            if body.is_empty() {
                return Ok(());
            }
            let url = self.url(&format!("/filters/{key}/items"));
            let request = self.client.post(url).header("content-type", "text/plain");
            let answer = request.body(body).send()?.error_for_status()?.text()?;
            if answer.contains("full") {
                return Err("the filter is full".into());
            }
        }
    }

    /// How many of these items the filter says it has.
    pub(crate) fn found(
        &self,
        key: &str,
        items: impl Iterator<Item = String>,
    ) -> Result<usize, Box<dyn Error>> {
        let url = self.url(&format!("/filters/{key}/exists"));
        let body: Vec<String> = items.collect();
        let request = self.client.post(url).header("content-type", "text/plain");
        let answer = request.body(body.join("\n")).send()?.error_for_status()?;
        Ok(answer.text()?.matches("true").count())
    }

    /// One sample of `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> Result<f64, Box<dyn Error>> {
        let text = self.about("/metrics")?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.ok_or_else(|| format!("no metric {name}"))?.parse()?)
    }
}

/// An address at which nobody listens.
fn free() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

fn client() -> Result<Client, reqwest::Error> {
    choose_cryptography();
    Client::builder().timeout(PATIENCE).no_proxy().build()
}

/// Requests of `size` items each, made from the numbers of a generator.
pub(crate) fn batches(
    path: &str,
    form: Form,
    count: usize,
    size: usize,
    mut item: impl FnMut() -> String,
) -> Vec<Vec<u8>> {
    (0..count)
        .map(|_| post(path, form, (0..size).map(|_| item())))
        .collect()
}
