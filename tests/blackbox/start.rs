//! A server that can't serve says why in one line and ends with exit code 1,
//! or 2 where the command line itself is wrong.

use crate::ports::free_port;
use crate::server::{Server, cuckood, refused_start, serve_command};
use rocksdb::{DB, Options};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

/// Sees that the server refused with this code and told why in one line that
/// holds these words; returns the line.
fn assert_refused(refused: &Output, code: i32, words: &[&str]) -> String {
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(code), "{said}");
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| words.iter().all(|word| line.contains(word)))
        .collect();
    assert_eq!(
        lines.len(),
        1,
        "one line with {words:?} is expected in:\n{said}"
    );
    assert!(!said.contains("panicked"), "{said}");
    lines[0].to_owned()
}

fn refuses_data_dir(data_dir: &Path, words: &[&str]) -> String {
    let refused = refused_start(&mut serve_command(free_port(), data_dir, &[]));
    let path = data_dir.display().to_string();
    assert_refused(&refused, 1, &[&[path.as_str()], words].concat())
}

#[test]
fn a_data_directory_in_use_refuses_a_second_server() {
    let data = tempfile::tempdir().unwrap();
    let first = Server::start(data.path(), &[]);
    refuses_data_dir(data.path(), &["in use by another process"]);
    assert_eq!(first.get_json("/filters")["filters"], serde_json::json!([]));
    first.stop();
    Server::start(data.path(), &[]).stop();
}

#[test]
fn a_data_directory_that_is_a_file_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("data");
    std::fs::write(&file, "someone's file").unwrap();
    refuses_data_dir(&file, &["can't be used", "it is a file"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "someone's file");
}

#[test]
fn a_data_directory_that_can_not_be_created_is_refused() {
    // Not even root may create anything there.
    refuses_data_dir(Path::new("/proc/cuckood"), &["can't be used"]);
}

/// The value of `data_format`, put together as `docs/format.md` says.
fn data_version(version: u32) -> Vec<u8> {
    let (value_version, kind, key) = (1, 7, b"data_format");
    let payload = version.to_le_bytes();
    let key_length = (key.len() as u64).to_le_bytes();
    let checksum = [&[value_version, kind][..], &key_length, key, &payload]
        .iter()
        .fold(0, |checksum, part| crc32c::crc32c_append(checksum, part));
    [
        &[value_version, kind][..],
        &checksum.to_le_bytes(),
        &payload,
    ]
    .concat()
}

#[test]
fn data_of_a_newer_program_is_refused_and_left_alone() {
    let data = tempfile::tempdir().unwrap();
    Server::start(data.path(), &[]).stop();
    let open = || {
        let columns = DB::list_cf(&Options::default(), data.path()).unwrap();
        DB::open_cf(&Options::default(), data.path(), columns).unwrap()
    };
    let database = open();
    let stored = database.get("data_format").unwrap().unwrap();
    let version = u32::from_le_bytes(*stored.last_chunk().unwrap());
    assert_eq!(stored, data_version(version));
    let newer = data_version(version + 1);
    database.put("data_format", &newer).unwrap();
    drop(database);

    let refused = refused_start(&mut serve_command(free_port(), data.path(), &[]));
    assert_refused(
        &refused,
        1,
        &[&format!("version {}", version + 1), "newer cuckood"],
    );
    assert_eq!(open().get("data_format").unwrap().unwrap(), newer);
}

#[test]
fn data_that_lost_acknowledged_changes_are_refused_until_the_loss_is_accepted() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    server.create_filter("f", &serde_json::json!({"capacity": 10_000}));
    for batch in 0..20 {
        let names: Vec<String> = (0..50).map(|item| format!("{batch} {item}")).collect();
        server.post_lines("/filters/f/items", &names).unwrap();
    }
    // What is forced is noted within a second.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    server.kill();
    let logs = std::fs::read_dir(data.path()).unwrap();
    let logs = logs.map(|entry| entry.unwrap().path());
    let log = logs
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&log, &bytes).unwrap();

    let words = ["lost changes", "cuckood check", "--accept-lost-changes"];
    refuses_data_dir(data.path(), &words);
    assert_eq!(std::fs::read(&log).unwrap(), bytes);
    let check = cuckood()
        .args(["check", "--data-dir"])
        .arg(data.path())
        .output()
        .unwrap();
    assert_refused(&check, 1, &["checksum mismatch"]);

    let server = Server::start(data.path(), &["--accept-lost-changes"]);
    assert!((1..1000).contains(&server.items("f")));
    assert!(server.log().contains("the loss is accepted"));
    server.stop();
    Server::start(data.path(), &[]).stop();
}

#[test]
fn a_listen_address_that_is_taken_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let refused = refused_start(&mut serve_command(port, data.path(), &[]));
    assert_refused(&refused, 1, &[&format!("127.0.0.1:{port}")]);
}

#[test]
fn an_address_beyond_loopback_is_refused_unless_anonymous_access_is_allowed() {
    let data = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0", "[::]", "192.0.2.1"] {
        let listen = format!("{address}:{}", free_port());
        let refused = refused_start(
            cuckood()
                .args(["serve", "--listen", &listen, "--data-dir"])
                .arg(data.path()),
        );
        assert_refused(&refused, 1, &["--allow-anonymous", address]);
    }
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
}

#[test]
fn all_bad_settings_are_refused_at_once() {
    let data = tempfile::tempdir().unwrap();
    let flags = ["--default-bucket-size=0", "--default-max-iterations=0"];
    let refused = refused_start(&mut serve_command(free_port(), data.path(), &flags));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(matches!(refused.status.code(), Some(1 | 2)), "{said}");
    assert!(
        said.contains("bucket-size") && said.contains("max-iterations"),
        "{said}"
    );
}

#[test]
fn an_unknown_flag_is_a_usage_error() {
    let refused = refused_start(cuckood().args(["serve", "--fast"]));
    assert_refused(&refused, 2, &["--fast", "unexpected argument"]);
}

#[test]
fn a_value_that_is_none_is_refused_with_what_is_allowed() {
    for flag in ["--lanes", "--max-filters", "--max-queued-items"] {
        let refused = refused_start(cuckood().args(["serve", flag, "-1"]));
        assert_refused(&refused, 2, &[flag, "'-1'", "whole number"]);
    }
    let refused = refused_start(cuckood().args(["serve", "--listen", "8080"]));
    assert_refused(&refused, 2, &["--listen", "127.0.0.1:8080"]);
}

#[test]
fn settings_come_from_the_environment_too() {
    let data = tempfile::tempdir().unwrap();
    let refused = refused_start(
        cuckood()
            .arg("serve")
            .env("CUCKOOD_LISTEN", "0.0.0.0:1")
            .env("CUCKOOD_DATA_DIR", data.path()),
    );
    assert_refused(&refused, 1, &["--allow-anonymous"]);
}

#[test]
fn the_health_check_tells_a_running_server_from_none() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &[]);
    let listen = format!("127.0.0.1:{}", server.port());
    let check = |listen: &str| {
        let mut command: Command = cuckood();
        command.args(["healthcheck", "--listen", listen]);
        command.output().unwrap().status.success()
    };
    assert!(check(&listen));
    server.stop();
    assert!(!check(&listen));
}
