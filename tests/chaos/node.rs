//! A process on a host, with a disk of its own.

use crate::disk::Cut;
use crate::hosts::Host;
use crate::mount::Mounted;
use crate::random::Random;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a process may take to stop.
const STOPS_WITHIN: Duration = Duration::from_secs(60);

/// Where a process keeps what it has.
pub(crate) enum Storage {
    /// On a disk that forgets what was not forced to it, and fills up.
    Forgetful(Mounted),
    Directory(TempDir),
}

impl Storage {
    /// A directory where there is no such disk.
    pub(crate) fn forgetful(mounted: std::io::Result<Mounted>) -> Storage {
        match mounted {
            Ok(mounted) => Storage::Forgetful(mounted),
            Err(error) => {
                crate::required::missing("fuse", error);
                Storage::Directory(TempDir::new().unwrap())
            }
        }
    }
}

/// A process that is started again and again.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) host: Host,
    process: Option<Child>,
    is_paused: bool,
    /// How often it was started.
    pub(crate) lives: u64,
    storage: Storage,
    logs: PathBuf,
    _logs: Option<TempDir>,
}

impl Node {
    /// One that does not run. Its logs are in `CUCKOOD_CHAOS_LOGS`, and stay there.
    pub(crate) fn new(name: String, host: Host, storage: Storage) -> Node {
        let (logs, temporary) = match std::env::var_os("CUCKOOD_CHAOS_LOGS") {
            Some(kept) => (Path::new(&kept).join(&name), None),
            None => {
                let temporary = TempDir::new().unwrap();
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        fs::create_dir_all(&logs).unwrap();
        Node {
            name,
            host,
            process: None,
            is_paused: false,
            lives: 0,
            storage,
            logs,
            _logs: temporary,
        }
    }

    /// Where it keeps what it has.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.disk().join("data")
    }

    fn disk(&self) -> &Path {
        match &self.storage {
            Storage::Forgetful(mounted) => mounted.path(),
            Storage::Directory(directory) => directory.path(),
        }
    }

    /// A file that is on no disk that fails.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.logs.join(name)
    }

    pub(crate) fn can_forget(&self) -> bool {
        matches!(self.storage, Storage::Forgetful(_))
    }

    /// Starts it, if it does not run.
    pub(crate) fn start(&mut self, mut command: Command) {
        if self.process.is_some() {
            return;
        }
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.beside("log"))
            .unwrap();
        let process = command
            .stdin(Stdio::null())
            .stderr(log.try_clone().unwrap())
            .stdout(log)
            .spawn();
        self.process = Some(process.unwrap());
        self.lives += 1;
    }

    /// Whether it has ended by itself, and how.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.process.as_mut()?.try_wait().unwrap()?;
        Some(format!("{} ended: {status}\n{}", self.name, self.log(40)))
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
        self.is_paused = false;
    }

    fn signal(&self, signal: &str) {
        if let Some(process) = &self.process {
            let id = process.id().to_string();
            let sent = Command::new("kill").args([signal, &id]).status();
            assert!(sent.unwrap().success());
        }
    }

    /// As an init system does. Returns how long it took.
    pub(crate) fn terminate(&mut self) -> Duration {
        self.signal("-TERM");
        let started = Instant::now();
        if let Some(mut process) = self.process.take() {
            while process.try_wait().unwrap().is_none() {
                let is_late = started.elapsed() > STOPS_WITHIN;
                assert!(!is_late, "{} does not stop\n{}", self.name, self.log(40));
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        started.elapsed()
    }

    /// It does nothing from now on.
    pub(crate) fn pause(&mut self) {
        self.signal("-STOP");
        self.is_paused = true;
    }

    /// It goes on, as if no time had passed.
    pub(crate) fn resume(&mut self) {
        if std::mem::take(&mut self.is_paused) {
            self.signal("-CONT");
        }
    }

    /// The power goes: what was not forced to the disk may be lost.
    pub(crate) fn lose_power(&mut self, random: &mut Random) {
        self.kill();
        if let Storage::Forgetful(mounted) = &self.storage {
            let cut = match random.below(2) {
                0 => Cut::Nothing,
                _ => Cut::Some,
            };
            mounted.cut(cut, random);
        }
    }

    /// Its disk has no room, or has room again.
    pub(crate) fn set_full(&self, is_full: bool) {
        if let Storage::Forgetful(mounted) = &self.storage {
            mounted.set_full(is_full);
        }
    }

    /// All it had is lost.
    pub(crate) fn wipe(&mut self) {
        self.kill();
        fs::remove_dir_all(self.data_dir()).unwrap();
    }

    /// The last lines of its log.
    pub(crate) fn log(&self, lines: usize) -> String {
        let log = fs::read_to_string(self.beside("log")).unwrap_or_default();
        let all: Vec<&str> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
