//! A small disk that fills up.
//!
//! It is a tmpfs in a mount namespace of its own, which needs root, or user
//! namespaces.

use crate::ports::free_port;
use crate::required::missing;
use crate::server::{Server, serve_command};
use cuckood::store::disk::DiskSpace;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A disk that only processes see which are started in its namespace.
pub(crate) struct SmallDisk {
    holder: Child,
    directory: TempDir,
}

impl SmallDisk {
    /// One of so many bytes; `None`: there can't be one here, and none is required.
    pub(crate) fn new(bytes: u64) -> Option<SmallDisk> {
        let mounted = SmallDisk::mount(bytes);
        let say = |reason| {
            missing(
                "tmpfs",
                format!("no disk of our own can be mounted: {reason}"),
            )
        };
        mounted.map_err(say).ok()
    }

    fn mount(bytes: u64) -> Result<SmallDisk, String> {
        let directory = tempfile::tempdir().unwrap();
        let mount = format!(
            "mount -t tmpfs -o size={bytes} tmpfs '{}' && echo mounted && exec sleep 3600",
            directory.path().display()
        );
        let holder = Command::new("unshare")
            .args(["--mount", "sh", "-c", &mount])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut holder = holder.map_err(|error| format!("unshare: {error}"))?;
        let mut said = [0; 8];
        if holder.stdout.take().unwrap().read_exact(&mut said).is_err() {
            let outcome = holder.wait_with_output().unwrap();
            return Err(String::from_utf8_lossy(&outcome.stderr).into_owned());
        }
        Ok(SmallDisk { holder, directory })
    }

    /// The same command, where the disk is.
    pub(crate) fn within(&self, command: &Command) -> Command {
        let mut within = Command::new("nsenter");
        within
            .arg("--target")
            .arg(self.holder.id().to_string())
            .arg("--mount")
            .arg("--")
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => within.env(name, value),
                None => within.env_remove(name),
            };
        }
        within
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn serve(&self, flags: &[&str]) -> Server {
        let port = free_port();
        Server::run(port, self.start(port, flags)).ready()
    }

    /// The command line of a server on it.
    pub(crate) fn start(&self, port: u16, flags: &[&str]) -> Command {
        self.within(&serve_command(port, &self.data_dir(), flags))
    }

    /// A file on the disk, as it is seen from outside.
    fn seen(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        let inside = self.directory.path().strip_prefix("/").unwrap();
        root.join(inside).join(name)
    }

    /// Writes to a file until no more than that is free; returns how much.
    pub(crate) fn fill(&self, left_free: u64) -> u64 {
        let ballast = self.seen("ballast");
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(ballast)
            .unwrap();
        let mut written = 0;
        for piece_bytes in [1 << 20, 4096] {
            let piece = vec![1; piece_bytes];
            while self.free_bytes() > left_free && file.write_all(&piece).is_ok() {
                written += piece_bytes as u64;
            }
        }
        written
    }

    fn free_bytes(&self) -> u64 {
        DiskSpace::of(&self.seen("")).unwrap().free_bytes
    }

    pub(crate) fn make_room(&self) {
        std::fs::remove_file(self.seen("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The disk goes with the last process of its namespace.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
