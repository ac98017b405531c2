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
    let files = Arc::new(files);
    let reads = Arc::new(AtomicUsize::new(0));
    let again = (Arc::clone(&reads), Arc::clone(&files));
    let following = tokio::spawn(watch.follow(move || {
        let (reads, files) = &again;
        if reads.fetch_add(1, Ordering::SeqCst) == 0 {
            panic!("on purpose");
        }
        // A backtrace takes long: nobody else may see what is told in between.
        assert_eq!(files.counts(), (0, 1, 1));
        good()
    }));
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while files.counts() != (1, 1, 0) && std::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    following.abort();
    assert_eq!(files.counts(), (1, 1, 0));
    assert_eq!(reads.load(Ordering::SeqCst), 2);
}
