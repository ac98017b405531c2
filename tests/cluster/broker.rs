//! Real brokers: processes of `nats-server` on loopback, each with a directory
//! of its own, that can be killed and started again.

use crate::nats_server;
use crate::operator::PATIENCE;
use crate::ports::free_port;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// One broker.
pub(crate) struct Broker {
    directory: PathBuf,
    process: Option<Child>,
    /// Where it is monitored.
    monitor: u16,
}

/// Brokers that belong together.
pub(crate) struct Brokers {
    pub(crate) all: Vec<Broker>,
    /// Where clients connect.
    pub(crate) addresses: Vec<String>,
    /// Where they are monitored.
    pub(crate) monitors: Vec<String>,
    _directory: TempDir,
}

impl Brokers {
    /// Starts so many, which force to their disks as `sync` says.
    pub(crate) fn start(count: usize, sync: &str) -> Brokers {
        Brokers::start_with(count, &format!("jetstream {{ sync_interval: {sync} }}"))
    }

    /// Starts so many with a setting; without one of `jetstream` they force to
    /// their disks always.
    pub(crate) fn start_with(count: usize, setting: &str) -> Brokers {
        Brokers::start_in(TempDir::new().unwrap(), count, setting)
    }

    /// The same, which store what they have in a directory.
    pub(crate) fn start_in(directory: TempDir, count: usize, setting: &str) -> Brokers {
        let jetstream = "jetstream { sync_interval: ";
        let (sync, setting) = match setting.strip_prefix(jetstream) {
            Some(sync) => (sync.trim_end_matches(" }"), ""),
            None => ("always", setting),
        };
        let ports: Vec<u16> = (0..3 * count).map(|_| free_port()).collect();
        let routes: Vec<String> = ports
            .chunks(3)
            .map(|ports| format!("nats-route://127.0.0.1:{}", ports[2]))
            .collect();
        let start = |(number, ports): (usize, &[u16])| {
            let [port, monitor, route] = ports else {
                unreachable!()
            };
            let home = directory.path().join(number.to_string());
            fs::create_dir(&home).unwrap();
            let mut config = format!(
                "listen: 127.0.0.1:{port}\nhttp: 127.0.0.1:{monitor}\nserver_name: broker-{number}\n\
                 jetstream {{ store_dir: {home:?}, sync_interval: {sync}, max_file_store: 16GB }}\n{setting}\n"
            );
            if count > 1 {
                config += &format!(
                    "cluster {{ name: test, listen: 127.0.0.1:{route}, routes: {routes:?} }}\n"
                );
            }
            fs::write(home.join("nats.conf"), config).unwrap();
            let mut broker = Broker {
                directory: home,
                process: None,
                monitor: *monitor,
            };
            broker.start();
            broker
        };
        let at = |scheme: &str, which: usize| {
            let port = ports.chunks(3).map(|ports| ports[which]);
            port.map(|port| format!("{scheme}://127.0.0.1:{port}"))
                .collect()
        };
        Brokers {
            addresses: at("nats", 0),
            monitors: at("http", 1),
            all: ports.chunks(3).enumerate().map(start).collect(),
            _directory: directory,
        }
    }
}

impl Broker {
    pub(crate) fn start(&mut self) {
        let log = fs::File::create(self.directory.join("log")).unwrap();
        let process = Command::new(nats_server::program())
            .arg("--config")
            .arg(self.directory.join("nats.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
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

    /// Starts it again with another setting; it serves when this returns.
    pub(crate) fn configure(&mut self, from: &str, to: &str) {
        let path = self.directory.join("nats.conf");
        let config = fs::read_to_string(&path).unwrap();
        assert!(config.contains(from), "{config}");
        fs::write(&path, config.replace(from, to)).unwrap();
        self.kill();
        self.start();
        let healthz = format!("http://127.0.0.1:{}/healthz", self.monitor);
        let started = Instant::now();
        while !reqwest::blocking::get(&healthz).is_ok_and(|it| it.status().is_success()) {
            assert!(started.elapsed() < PATIENCE, "{healthz}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it has stored, as it is now; it does not run.
    pub(crate) fn copy_of_store(&self) -> TempDir {
        assert!(self.process.is_none());
        let copy = TempDir::new().unwrap();
        copy_all(&self.directory.join("jetstream"), copy.path());
        copy
    }

    /// Has lost its disk; it does not run.
    pub(crate) fn lose(&self) {
        assert!(self.process.is_none());
        let store = self.directory.join("jetstream");
        fs::remove_dir_all(store).unwrap();
    }

    /// Has again what it had stored then; it does not run.
    pub(crate) fn restore(&self, copy: &TempDir) {
        assert!(self.process.is_none());
        let store = self.directory.join("jetstream");
        fs::remove_dir_all(&store).unwrap();
        copy_all(copy.path(), &store);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_all(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}
