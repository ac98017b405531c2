//! The program itself: what it prints, how it ends.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn cuckood() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuckood"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CUCKOOD_")) {
        command.env_remove(name);
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    cuckood().args(arguments).output().unwrap()
}

/// Exit code 1, nothing but so many lines on stderr; returns them.
#[track_caller]
fn failed(output: &Output, lines: usize) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.trim_end().lines().count(), lines, "{said}");
    said
}

/// A server that is killed when the test ends.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    fn start(data_dir: &Path) -> Running {
        let child = cuckood()
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--log-format",
                "json",
                "--data-dir",
            ])
            .arg(data_dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut running = Running {
            child,
            address: String::new(),
        };
        let mut lines = BufReader::new(running.child.stdout.take().unwrap()).lines();
        while running.address.is_empty() {
            let line = lines.next().expect("it ended before it served").unwrap();
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            if line["message"] == "serving" {
                running.address = line["address"].as_str().unwrap().to_owned();
            }
        }
        // Somebody has to read on, or the log breaks the pipe.
        std::thread::spawn(|| lines.for_each(drop));
        running
    }

    /// Asks it to stop as an init system does, and waits.
    fn terminate(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_printed_document_is_the_committed_one() {
    let printed = run(&["openapi"]);
    assert!(printed.status.success());
    assert_eq!(printed.stdout, include_bytes!("../../openapi/openapi.json"));
}

#[test]
fn bad_settings_end_the_start_all_at_once() {
    let output = cuckood()
        .env("CUCKOOD_KEY_FILE", "keys.json")
        .args(["serve", "--listen=0.0.0.0:0", "--max-buffered-bytes=1KiB"])
        .output()
        .unwrap();
    // The variable that is not read may be why.
    let logged = String::from_utf8_lossy(&output.stdout);
    assert!(logged.contains("CUCKOOD_KEYS_FILE"), "{logged}");
    let said = failed(&output, 2);
    assert!(
        said.contains("--allow-anonymous") && said.contains("--max-buffered-bytes"),
        "{said}"
    );
}

#[test]
fn an_unusable_data_directory_ends_the_start_with_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "no directory").unwrap();
    for path in [file.clone(), file.join("below")] {
        let output = cuckood()
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&path)
            .output()
            .unwrap();
        assert!(failed(&output, 1).contains("can't be used"));
    }
    failed(&run(&["check", "--data-dir", "/nowhere/at/all"]), 1);
}

#[test]
fn a_data_directory_in_use_ends_the_start_with_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start(directory.path());
    let second = cuckood()
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(directory.path())
        .output()
        .unwrap();
    assert!(failed(&second, 1).contains("in use"));
    let taken = cuckood()
        .args(["serve", "--listen", &running.address, "--data-dir"])
        .arg(directory.path().join("other"))
        .output()
        .unwrap();
    assert!(failed(&taken, 1).contains("can't be listened on"));

    assert!(
        run(&["healthcheck", "--listen", &running.address])
            .status
            .success()
    );
    let address = running.address.clone();
    assert_eq!(running.terminate(), Some(0));
    assert_eq!(
        run(&["healthcheck", "--listen", &address]).status.code(),
        Some(1)
    );

    let checked = cuckood()
        .args(["check", "--data-dir"])
        .arg(directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8(checked.stdout).unwrap();
    assert!(
        checked.status.success() && said.contains("0 filters"),
        "{said}"
    );
}
