//! Files that may change while the server runs. Their metadata is compared once
//! a second, and they are read again when it differs. Polling also notices a
//! link that points elsewhere, which is how Kubernetes replaces Secrets, and
//! needs no support of the file system.
//!
//! A file that can't be used is reported once and tried again. Until it can be
//! used, its last good content stays in use.

use crate::metrics::Metrics;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// How often the metadata of the files is compared.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The failure that is reported when reading the files panics.
const PANICKED: &str = "reading them ended in a panic, which the log shows";

/// What tells one state of a file from another.
#[derive(PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Files that belong together.
pub struct FileWatcher {
    what: &'static str,
    files: Vec<PathBuf>,
    stamps: Vec<Option<Stamp>>,
    metrics: Arc<Metrics>,
    failure: Option<String>,
}

impl FileWatcher {
    /// Notes the state of the files. Call it before they are read for the first
    /// time, so that no change is missed. `what` names them in logs and metrics.
    pub fn new(what: &'static str, files: Vec<PathBuf>, metrics: Arc<Metrics>) -> FileWatcher {
        let stamps = stamps(&files);
        FileWatcher {
            what,
            files,
            stamps,
            metrics,
            failure: None,
        }
    }

    /// Compares the files for ever, and calls `read` when they have changed.
    pub async fn follow<E: std::error::Error>(
        mut self,
        read: impl Fn() -> Result<(), E> + Clone + Send + 'static,
    ) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let read = read.clone();
            // Files may be on a disk that is slow.
            let looked = tokio::task::spawn_blocking(move || {
                self.look(read);
                self
            });
            match looked.await {
                Ok(watch) => self = watch,
                // The server stops.
                Err(_) => return,
            }
        }
    }

    fn look<E: std::error::Error>(&mut self, read: impl Fn() -> Result<(), E>) {
        let stamps = stamps(&self.files);
        if stamps == self.stamps && self.failure.is_none() {
            return;
        }
        self.stamps = stamps;
        match catch_unwind(AssertUnwindSafe(read)) {
            Ok(Ok(())) => {
                tracing::info!(what = self.what, "files changed and were read again");
                self.count("ok");
                self.set_failing(0);
                self.failure = None;
            }
            Ok(Err(error)) => self.fail(error.to_string()),
            Err(_) => self.fail(PANICKED.to_owned()),
        }
    }

    /// Reports a failure once, however often it is tried again.
    fn fail(&mut self, failure: String) {
        self.set_failing(1);
        if self.failure.as_ref() != Some(&failure) {
            tracing::error!(
                what = self.what,
                failure,
                "files changed and can't be used; what was read before stays in use"
            );
            self.count("failed");
        }
        self.failure = Some(failure);
    }

    fn set_failing(&self, failing: i64) {
        let gauge = self.metrics.reload_failing.with_label_values(&[self.what]);
        gauge.set(failing);
    }

    fn count(&self, outcome: &str) {
        let labels = [self.what, outcome];
        self.metrics.reloads.with_label_values(&labels).inc();
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files
        .iter()
        .map(|file| {
            // Of what a link leads to.
            let metadata = std::fs::metadata(file).ok()?;
            Some(Stamp {
                device: metadata.dev(),
                inode: metadata.ino(),
                bytes: metadata.len(),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                changed: (metadata.ctime(), metadata.ctime_nsec()),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Files {
        folder: tempfile::TempDir,
        metrics: Arc<Metrics>,
    }

    impl Files {
        fn new() -> Files {
            Files {
                folder: tempfile::tempdir().unwrap(),
                metrics: Arc::new(Metrics::new().unwrap()),
            }
        }

        fn watch(&self, file: &Path) -> FileWatcher {
            let files = vec![file.to_owned()];
            FileWatcher::new("keys", files, Arc::clone(&self.metrics))
        }

        fn counts(&self) -> (u64, u64, i64) {
            let count = |outcome| {
                self.metrics
                    .reloads
                    .with_label_values(&["keys", outcome])
                    .get()
            };
            let failing = self.metrics.reload_failing.with_label_values(&["keys"]);
            (count("ok"), count("failed"), failing.get())
        }
    }

    fn good() -> Result<(), std::io::Error> {
        Ok(())
    }

    #[test]
    fn what_did_not_change_is_not_read() {
        let files = Files::new();
        let file = files.folder.path().join("a");
        fs::write(&file, "1").unwrap();
        let mut watch = files.watch(&file);
        let reads = Cell::new(0);
        let read = || {
            reads.set(reads.get() + 1);
            good()
        };
        watch.look(read);
        assert_eq!(reads.get(), 0);
        fs::write(&file, "22").unwrap();
        watch.look(read);
        watch.look(read);
        assert_eq!(reads.get(), 1);
        assert_eq!(files.counts(), (1, 0, 0));
    }

    #[test]
    fn a_link_that_is_bent_is_a_change() {
        let files = Files::new();
        let path = |name: &str| files.folder.path().join(name);
        for version in ["one", "two"] {
            fs::create_dir(path(version)).unwrap();
            fs::write(path(version).join("keys"), version).unwrap();
        }
        // As Kubernetes lays out a Secret: a link to a link to a directory.
        symlink("one", path("..data")).unwrap();
        symlink("..data/keys", path("keys")).unwrap();
        let mut watch = files.watch(&path("keys"));
        symlink("two", path("..tmp")).unwrap();
        fs::rename(path("..tmp"), path("..data")).unwrap();
        watch.look(good);
        assert_eq!(files.counts(), (1, 0, 0));
    }

    #[test]
    fn a_failure_is_told_once_and_tried_again_until_it_is_over() {
        let files = Files::new();
        let file = files.folder.path().join("a");
        fs::write(&file, "1").unwrap();
        let mut watch = files.watch(&file);
        fs::write(&file, "22").unwrap();
        for _ in 0..3 {
            watch.look(|| Err(std::io::Error::other("half a file")));
        }
        assert_eq!(files.counts(), (0, 1, 1));
        watch.look(good);
        assert_eq!(files.counts(), (1, 1, 0));
        watch.look(|| -> Result<(), std::io::Error> { panic!("nothing changed") });
    }

    #[tokio::test]
    async fn a_panic_is_a_failure_like_others_and_the_files_are_looked_at_again() {
        let files = Files::new();
        let file = files.folder.path().join("a");
        fs::write(&file, "1").unwrap();
        let watch = files.watch(&file);
        fs::write(&file, "22").unwrap();
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let following =
            tokio::spawn(
                watch.follow(move || match counted.fetch_add(1, Ordering::SeqCst) {
                    0 => panic!("on purpose"),
                    _ => good(),
                }),
            );
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        let mut seen = Vec::new();
        while files.counts().0 == 0 && std::time::Instant::now() < deadline {
            seen.push(files.counts());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        following.abort();
        assert!(seen.contains(&(0, 1, 1)), "{seen:?}");
        assert_eq!(files.counts(), (1, 1, 0));
        assert_eq!(reads.load(Ordering::SeqCst), 2);
    }
}
